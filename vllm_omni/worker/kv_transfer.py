"""KV blocks of finished requests, for a stage that goes on from them."""

from __future__ import annotations

from typing import Any, Protocol

import torch


class KVTransferManager(Protocol):
    """Takes the KV blocks of finished requests, before their blocks can be used again."""

    def extract(self, req_id: str, request: dict[str, Any], kv_caches: list[torch.Tensor]) -> bool:
        """Take `request["block_ids"]` out of each layer's cache; whether that was done."""


class InMemoryKVTransfer:
    """Keeps the blocks in this process: `taken[req_id]` has one tensor per layer, blocks in order."""

    def __init__(self) -> None:
        self.taken: dict[str, list[torch.Tensor]] = {}

    def extract(self, req_id: str, request: dict[str, Any], kv_caches: list[torch.Tensor]) -> bool:
        blocks = torch.as_tensor(request["block_ids"], dtype=torch.long)
        self.taken[req_id] = [_blocks_first(cache)[blocks.to(cache.device)].to("cpu", copy=True) for cache in kv_caches]
        return True


def _blocks_first(cache: torch.Tensor) -> torch.Tensor:
    """The cache with the dimension of blocks in front: some backends put keys and values before it."""
    return cache.transpose(0, 1) if cache.dim() == 5 and cache.shape[0] == 2 else cache
