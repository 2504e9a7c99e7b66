"""Exact comparison of what two trees did in a scenario."""

from __future__ import annotations

from typing import Any

QUANTITIES = ("tokens", "codes", "outputs", "hidden", "state", "hooks", "schedule", "logs")
"""Sampled tokens; MTP codes; every field of each step's output; hidden states; the per-request payload store; the
calls of the model's hooks with their arguments; what was scheduled, in batch order; warnings and errors logged."""


def first_difference(before: Any, after: Any, path: str = "") -> str | None:
    """Where two JSON values part, as `path: before != after`; None if they don't."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in before or key not in after:
                return f"{path}.{key}: only {'before' if key in before else 'after'}"
            if found := first_difference(before[key], after[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(before, list) and isinstance(after, list):
        for i, (left, right) in enumerate(zip(before, after, strict=False)):
            if found := first_difference(left, right, f"{path}[{i}]"):
                return found
        return None if len(before) == len(after) else f"{path}: {len(before)} entries != {len(after)}"
    return None if type(before) is type(after) and before == after else f"{path}: {before!r} != {after!r}"


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """Each quantity that differs, with the first place; or `error`, where one tree fails and the other doesn't."""
    if "error" in before or "error" in after:
        ends = before.get("error", "ran"), after.get("error", "ran")
        return {} if ends[0] == ends[1] else {"error": " != ".join(ends)}
    found = {name: first_difference(before[name], after[name], name) for name in QUANTITIES}
    return {name: where for name, where in found.items() if where}
