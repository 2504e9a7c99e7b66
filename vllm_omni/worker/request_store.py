"""What the runner keeps of each request: its payload, and the inputs that the model has made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

import torch

KEPT_STEPS = 64
"""Steps whose decode rows stay together before each request gets its own part."""


class InputRecord:
    """The embeddings and token ids that were fed at each position, so that a preempted request can be fed the same.

    They cannot be made again: an embedding that MTP made depends on a hidden state of the step before.
    """

    def __init__(self, log: InputLog) -> None:
        self._log = log
        self._blocks: list[tuple[int, torch.Tensor, torch.Tensor]] = []

    def add_span(self, position: int, embeds: torch.Tensor, ids: torch.Tensor) -> None:
        """Keep `[n, hidden]` embeddings and `[n]` ids, which nobody else writes to, fed from `position` on."""
        self._blocks.append((position, embeds, ids))

    def read(self, start: int, end: int) -> list[tuple[int, int, torch.Tensor, torch.Tensor]]:
        """What is known of positions `start` to `end`: parts `(start, end, embeds, ids)` in order of position."""
        self._log.hand_out()
        self._blocks.sort(key=lambda block: block[0])
        parts = []
        for first, embeds, ids in self._blocks:
            a, b = max(start, first), min(end, first + ids.shape[0])
            if a < b:
                parts.append((a, b, embeds[a - first : b - first], ids[a - first : b - first]))
        return parts


FedStep = tuple[list[InputRecord], list[int], torch.Tensor, torch.Tensor]
"""A step's decode rows: their records and positions, and the embeddings and ids that were fed."""


class InputLog:
    """What was fed in the decode rows of the last steps, all requests together, and not yet in their own records."""

    def __init__(self) -> None:
        self._steps: list[FedStep] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, records: list[InputRecord], positions: list[int], embeds: torch.Tensor, ids: torch.Tensor) -> None:
        """A step's `[n, hidden]` embeddings and `[n]` ids; row `i` was fed to `records[i]` at `positions[i]`."""
        self._steps.append((records, positions, embeds, ids))
        if len(self._steps) >= KEPT_STEPS:
            self.hand_out()

    def hand_out(self) -> None:
        """Give each request's record its rows, in tensors of their own on the CPU."""
        steps, self._steps = self._steps, []
        for run in _runs(steps):
            records, positions, *_ = run[0]
            embeds = torch.stack([step[2] for step in run], 1).to("cpu")
            ids = torch.stack([step[3] for step in run], 1).to("cpu")
            for index, (record, position) in enumerate(zip(records, positions, strict=True)):
                record.add_span(position, embeds[index].clone(), ids[index].clone())


def _runs(steps: list[FedStep]) -> Iterator[list[FedStep]]:
    """Consecutive steps with the same requests in the same order, each one position further."""
    run: list[FedStep] = []
    for step in steps:
        if run and not (step[0] == run[-1][0] and step[1] == [position + 1 for position in run[-1][1]]):
            yield run
            run = []
        run.append(step)
    if run:
        yield run


class RequestState:
    """One request. `info` is the payload that the model's methods read and write; `prepared` counts the leading tokens
    whose inputs the model has made, `lost` those whose KV a preemption took; `positions` are rotary positions
    `[dims, tokens]` that were computed beforehand, and the offset of those on the line after them.
    """

    __slots__ = (
        "info",
        "inputs",
        "lost",
        "mm_features",
        "positions",
        "prepared",
        "prompt_embeds",
        "req_id",
        "sampling_params",
    )

    def __init__(self, req_id: str, log: InputLog) -> None:
        self.req_id = req_id
        self.info: dict[str, Any] = {}
        self.inputs = InputRecord(log)
        self.prepared = 0
        self.lost = 0
        self.prompt_embeds: torch.Tensor | None = None
        self.mm_features: list[Any] = []
        self.sampling_params: Any = None
        self.positions: tuple[torch.Tensor, int] | None = None

    def extra_arg(self, name: str) -> Any:
        """An entry of the request's `SamplingParams.extra_args`, or None."""
        extra = getattr(self.sampling_params, "extra_args", None)
        return extra.get(name) if isinstance(extra, dict) else None


class RequestStore(dict[str, RequestState]):
    """The states of all live requests, by request id.

    `(group, name)` entries of payloads among `resident` stay where they are instead of moving to the CPU.
    """

    def __init__(self, resident: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__()
        self.fed = InputLog()
        self._preempted: set[str] = set()
        self._resident: dict[str, set[str]] = {}
        for group, name in resident:
            self._resident.setdefault(group, set()).add(name)

    def is_resident(self, key: Any) -> bool:
        """Whether an entry stays on the device."""
        return isinstance(key, tuple) and key[1] in self._resident.get(key[0], ())

    def begin_step(self, finished: Collection[str], preempted: Collection[str], resumed: Collection[str]) -> None:
        """Drop finished requests; remember preempted ones, which V2 sends again as if they were new."""
        for req_id in finished:
            self.pop(req_id, None)
        if finished and not self:
            self.fed = InputLog()
        if self._preempted:
            self._preempted.difference_update(finished, resumed)
        for req_id in preempted:
            if (state := self.get(req_id)) is not None:
                state.lost = state.prepared
                self._preempted.add(req_id)

    def add(self, req_id: str) -> tuple[RequestState, Literal["new", "resumed", "updated"]]:
        """The state of a request that the scheduler calls new, and what it is: `new`, `resumed` or `updated`.

        A resumed request keeps what it has: its payload was sent before. An updated one (streaming input) gets more.
        """
        state = self.get(req_id)
        if state is None:
            state = self[req_id] = RequestState(req_id, self.fed)
            return state, "new"
        if req_id in self._preempted:
            self._preempted.discard(req_id)
            return state, "resumed"
        return state, "updated"

    def merge(self, req_id: str, update: dict[str, Any] | None) -> None:
        """Merge an update by key, nested dicts by their own keys; tensors are detached and moved to the CPU.

        An update for a request that is gone is dropped.
        """
        state = self.get(req_id)
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
                    if not isinstance(item, torch.Tensor | list):
                        inner[name] = item
                    elif name in resident and isinstance(item, torch.Tensor):
                        inner[name] = item.detach().clone()
                    else:
                        inner[name] = _to_host(item)
            else:
                info[key] = _to_host(value)

    def replace(self, req_id: str, payload: dict[str, Any]) -> None:
        """Put `payload` in place of the request's info; of the old `meta`, progress of a streaming input is kept."""
        state = self.get(req_id)
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


def _to_host(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_cpu and value.is_contiguous() and not value.requires_grad:
            return value
        return value.detach().to("cpu").contiguous()
    if isinstance(value, list):
        return [_to_host(item) for item in value]
    return value
