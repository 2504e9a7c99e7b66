"""What a run leaves behind, per request: exact fingerprints of calls and outputs, and what really happened."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from typing import Any

import torch

CALLS: defaultdict[str, list[Any]] = defaultdict(list)
SEEN: Counter[str] = Counter()
RUNNING = [False]


def reset() -> None:
    """Forget the previous scenario."""
    CALLS.clear(), SEEN.clear()
    RUNNING[0] = False


def fingerprint(value: Any) -> Any:
    """An exact JSON image: tensors as dtype, shape and a digest of their bytes, the rest readable."""
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous()
        raw = data.reshape(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b""
        return f"{str(data.dtype).removeprefix('torch.')}{list(data.shape)}:{hashlib.sha1(raw).hexdigest()[:12]}"
    if isinstance(value, dict):
        return {str(key): fingerprint(item) for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, list | tuple):
        return [fingerprint(item) for item in value]
    if isinstance(value, float):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | str) else f"<{type(value).__name__}>"


def record(req_id: str, method: str, *details: Any) -> None:
    """Note a call of a model method for a request; nothing is noted of a call that cannot tell which."""
    if RUNNING[0] and req_id:
        SEEN[method] += 1
        CALLS[req_id].append([method, *fingerprint(details)])


def see(what: str, count: int = 1) -> None:
    """Note that something happened."""
    if RUNNING[0] and count:
        SEEN[what] += count
