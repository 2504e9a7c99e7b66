"""A step as V1 and V2 both can tell it: one row per request, its phase, and how outputs are split by request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

PROMPT_LEN, NUM_COMPUTED, IS_PREFILL = "_omni_prompt_len", "_omni_num_computed_tokens", "_omni_is_prefill"


class Row(NamedTuple):
    """The span of one request in the flat tokens of a step.

    `start` and `end` are token offsets in the step, `computed` is the position of the first token in the request,
    `prompt_len` the length of the stage's prompt in tokens. `replayed` leading tokens were prepared before: their KV
    was lost in a preemption, and they are computed again from the same inputs.
    """

    req_id: str
    start: int
    end: int
    computed: int
    prompt_len: int
    replayed: int = 0

    @property
    def is_prefill(self) -> bool:
        """The phase contract's definition; a span of one token says nothing about the phase."""
        return self.computed < self.prompt_len

    @property
    def is_decode_step(self) -> bool:
        """Whether the row may be decoded in a batch and is eligible for MTP."""
        return self.end - self.start == 1 and self.computed >= self.prompt_len

    def fresh(self) -> Row:
        """The part that the model has not prepared yet; it may be empty."""
        if not self.replayed:
            return self
        n = self.replayed
        return self._replace(start=self.start + n, computed=self.computed + n, replayed=0)


class SplitError(ValueError):
    """An output that cannot be split by request; the message names its key."""


def build_rows(
    req_ids: Sequence[str],
    spans: Iterable[int],
    computed: Iterable[int],
    prompt_lens: Iterable[int],
    lost: Iterable[int],
) -> list[Row]:
    """Rows in batch order; `lost` is the number of leading tokens of each whose KV a preemption took."""
    rows, start = [], 0
    for req_id, span, done, prompt_len, seen in zip(req_ids, spans, computed, prompt_lens, lost, strict=True):
        end = start + span
        rows.append(Row(req_id, start, end, done, prompt_len, min(span, seen - done) if seen > done else 0))
        start = end
    return rows


def set_phase(info: dict[str, Any], row: Row) -> None:
    """Write the three keys of the phase contract over whatever the payload holds under their names."""
    info[PROMPT_LEN] = row.prompt_len
    info[NUM_COMPUTED] = row.computed
    info[IS_PREFILL] = row.computed < row.prompt_len


def split_by_request(
    value: Any, rows: Sequence[Row], num_tokens: int, key: str = "", *, own: bool = False
) -> list[Any]:
    """One part of `value` per row, in order.

    A tensor with a row per token (`num_tokens`, padding included, or the tokens of the rows) is cut at the rows' new
    tokens; one with a row per request, and a list with an entry per request, are taken apart; a tensor without
    dimensions or with one row, and any plain value, belong to every request. Anything else is ambiguous: SplitError.
    With `own`, no part shares storage with `value`, nor with the part of another row that it was cut from.
    """
    n = len(rows)
    if isinstance(value, torch.Tensor):
        size = value.shape[0] if value.dim() else None
        if size == num_tokens or (n and size == rows[-1].end):
            return _cut(value, rows, own)
        if size == n:
            return list(torch.split_copy(value, 1) if own else value.split(1))
        if size is None or size == 1:
            return [value.clone() if own else value] * n
        raise SplitError(
            f"output {key or 'tensor'!r}: {size} rows are neither one per token ({rows[-1].end if n else 0}) nor one "
            f"per request ({n})"
        )
    if isinstance(value, dict):
        parts: list[dict[str, Any]] = [{} for _ in rows]
        for name, item in value.items():
            for part, piece in zip(
                parts, split_by_request(item, rows, num_tokens, f"{key}.{name}".lstrip("."), own=own), strict=True
            ):
                if piece is not None:
                    part[name] = piece
        return parts
    if isinstance(value, list | tuple):
        if len(value) != n:
            raise SplitError(f"output {key or 'list'!r}: {len(value)} entries for {n} requests")
        if not own:
            return list(value)
        return [item.clone() if isinstance(item, torch.Tensor) else map_tensors(item, torch.clone) for item in value]
    return [value] * n


def _cut(value: torch.Tensor, rows: Sequence[Row], own: bool) -> list[torch.Tensor]:
    """The rows' new tokens."""
    end = rows[-1].end
    if own and not any(row.replayed for row in rows):
        whole = value if value.shape[0] == end else value[:end]
        return list(torch.split_with_sizes_copy(whole, [row.end - row.start for row in rows]))
    parts = [value[row.start + row.replayed : row.end] for row in rows]
    return [part.clone() for part in parts] if own else parts


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """`value` with `function` applied to each tensor in dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: map_tensors(item, function) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_tensors(item, function) for item in value]
    return value


def flatten(payload: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts as one, names joined with dots."""
    flat: dict[str, Any] = {}
    for key, value in payload.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
