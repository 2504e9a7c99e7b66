"""What the runner keeps of each request: its payload, and the inputs that the model has made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch

COMPACT_AFTER = 64
"""Decode rows that share their step's snapshot before they are copied out of it."""


class InputRecord:
    """The embeddings and token ids that were fed at each position, so that a preempted request can be fed the same.

    They cannot be made again: an embedding that MTP made depends on a hidden state of the step before.
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[int, torch.Tensor, torch.Tensor]] = []
        self._pending: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        self._pending_start = 0

    def add_span(self, position: int, embeds: torch.Tensor, ids: torch.Tensor) -> None:
        """Keep `[n, hidden]` embeddings and `[n]` ids, which nobody else writes to, fed from `position` on."""
        self._compact()
        self._blocks.append((position, embeds, ids))

    def add_row(self, position: int, embeds: torch.Tensor, ids: torch.Tensor, index: int) -> None:
        """Keep one row of a step's snapshot; rows of consecutive positions are copied together later."""
        pending = self._pending
        if len(pending) >= COMPACT_AFTER or (pending and position != self._pending_start + len(pending)):
            self._compact()
        if not self._pending:
            self._pending_start = position
        self._pending.append((embeds, ids, index))

    def read(self, start: int, end: int) -> list[tuple[int, int, torch.Tensor, torch.Tensor]]:
        """What is known of positions `start` to `end`: parts `(start, end, embeds, ids)` in order of position."""
        self._compact()
        parts = []
        for first, embeds, ids in self._blocks:
            a, b = max(start, first), min(end, first + ids.shape[0])
            if a < b:
                parts.append((a, b, embeds[a - first : b - first], ids[a - first : b - first]))
        return parts

    def _compact(self) -> None:
        if not self._pending:
            return
        embeds = torch.stack([snapshot[index] for snapshot, _, index in self._pending])
        ids = torch.stack([snapshot[index] for _, snapshot, index in self._pending])
        self._blocks.append((self._pending_start, embeds.to("cpu"), ids.to("cpu")))
        self._pending = []


class RequestState:
    """One request. `info` is the payload that the model's hooks read and write; `prepared` counts the leading tokens
    whose inputs the model has made, `lost` those whose KV a preemption took; `positions` are rotary positions
    `[dims, tokens]` that were computed beforehand.
    """

    __slots__ = (
        "info",
        "inputs",
        "lost",
        "mm_features",
        "positions",
        "prepared",
        "prompt_embeds",
        "prompt_token_ids",
        "req_id",
        "sampling_params",
    )

    def __init__(self, req_id: str) -> None:
        self.req_id = req_id
        self.info: dict[str, Any] = {}
        self.inputs = InputRecord()
        self.prepared = 0
        self.lost = 0
        self.prompt_embeds: torch.Tensor | None = None
        self.prompt_token_ids: list[int] | None = None
        self.mm_features: list[Any] = []
        self.sampling_params: Any = None
        self.positions: torch.Tensor | None = None

    def extra_arg(self, name: str) -> Any:
        """An entry of the request's `SamplingParams.extra_args`, or None."""
        extra = getattr(self.sampling_params, "extra_args", None)
        return extra.get(name) if isinstance(extra, dict) else None


class RequestStore:
    """The states of all live requests, by request id."""

    def __init__(self) -> None:
        self._states: dict[str, RequestState] = {}
        self._preempted: set[str] = set()
        self._resident: dict[str, set[str]] = {}
        self.has_prompt_embeds = False
        """Whether any request so far came with prompt embeddings."""

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, req_id: object) -> bool:
        return req_id in self._states

    def __getitem__(self, req_id: str) -> RequestState:
        return self._states[req_id]

    def get(self, req_id: str) -> RequestState | None:
        """The request's state, or None."""
        return self._states.get(req_id)

    def keep_on_device(self, keys: Iterable[tuple[str, str]]) -> None:
        """From now on, `(group, name)` entries among `keys` stay where they are instead of moving to the CPU."""
        self._resident = {}
        for group, name in keys:
            self._resident.setdefault(group, set()).add(name)

    def is_resident(self, key: Any) -> bool:
        """Whether an entry stays on the device."""
        return isinstance(key, tuple) and key[1] in self._resident.get(key[0], ())

    def begin_step(self, finished: Collection[str], preempted: Collection[str], resumed: Collection[str]) -> None:
        """Drop finished requests; remember preempted ones, which V2 sends again as if they were new."""
        for req_id in finished:
            self._states.pop(req_id, None)
        if self._preempted:
            self._preempted.difference_update(finished, resumed)
        for req_id in preempted:
            if (state := self._states.get(req_id)) is not None:
                state.lost = state.prepared
                self._preempted.add(req_id)

    def add(self, req_id: str) -> tuple[RequestState, str]:
        """The state of a request that the scheduler calls new, and what it is: `new`, `resumed` or `updated`.

        A resumed request keeps what it has: its payload was sent before. An updated one (streaming input) gets more.
        """
        state = self._states.get(req_id)
        if state is None:
            state = self._states[req_id] = RequestState(req_id)
            return state, "new"
        if req_id in self._preempted:
            self._preempted.discard(req_id)
            return state, "resumed"
        return state, "updated"

    def merge(self, req_id: str, update: dict[str, Any] | None) -> None:
        """Merge an update by key, nested dicts by their own keys; tensors are detached and moved to the CPU.

        An update for a request that is gone is dropped.
        """
        state = self._states.get(req_id)
        if state is not None and update:
            self.merge_into(state.info, update)

    def merge_into(self, info: dict[str, Any], update: dict[str, Any]) -> None:
        """The same, for a state's `info`."""
        for key, value in update.items():
            if isinstance(value, dict):
                inner = info.get(key)
                if not isinstance(inner, dict):
                    inner = info[key] = {}
                resident = self._resident.get(key, ())
                for name, item in value.items():
                    inner[name] = item.detach().clone() if _stays(item, name, resident) else _to_host(item)
            else:
                info[key] = _to_host(value)

    def replace(self, req_id: str, payload: dict[str, Any]) -> None:
        """Put `payload` in place of the request's info; of the old `meta`, progress of a streaming input is kept."""
        state = self._states.get(req_id)
        if state is None:
            return
        old = state.info.get("meta")
        info = dict(payload)
        meta = dict(info["meta"]) if isinstance(info.get("meta"), dict) else {}
        if isinstance(old, dict):
            for key in ("num_processed_tokens", "resumable"):
                if key in old:
                    meta.setdefault(key, old[key])
        if meta or "meta" in info:
            info["meta"] = meta
        state.info = info


def _stays(item: Any, name: str, resident: Collection[str]) -> bool:
    return name in resident and isinstance(item, torch.Tensor)


def _to_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu").contiguous()
    if isinstance(value, list):
        return [_to_host(item) for item in value]
    return value
