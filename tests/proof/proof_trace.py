"""What a run leaves behind: exact fingerprints of every hook call and output, and counters of what really happened."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import torch

CALLS: list[list[Any]] = []
SEEN: Counter[str] = Counter()
PHASE = ["load"]


def reset() -> None:
    """Forget the previous scenario."""
    CALLS.clear()
    SEEN.clear()
    PHASE[0] = "load"


def fingerprint(value: Any) -> Any:
    """An exact JSON image of a value: tensors as dtype, shape and a digest of their bytes, the rest readable."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous()
        raw = data.reshape(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b""
        return f"{str(data.dtype).removeprefix('torch.')}{list(data.shape)}:{hashlib.sha1(raw).hexdigest()[:12]}"
    if isinstance(value, np.ndarray):
        return f"np.{fingerprint(torch.from_numpy(np.ascontiguousarray(value)))}"
    if isinstance(value, np.generic):
        return f"{type(value).__name__}:{value}"
    if isinstance(value, torch.Generator):
        return f"generator:{fingerprint(value.get_state())}"
    if isinstance(value, dict):
        return {str(key): fingerprint(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fingerprint(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(item) for item in value)
    return f"<{type(value).__name__}>"


def record(hook: str, **arguments: Any) -> None:
    """Note a call of a model's hook with the fingerprints of its arguments."""
    SEEN[hook] += 1
    CALLS.append([PHASE[0], hook, {name: fingerprint(value) for name, value in arguments.items()}])
