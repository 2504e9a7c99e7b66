"""What a runner says of its stage when the model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from vllm_omni.worker.kv_transfer import KVTransferManager


@dataclass(frozen=True)
class Stage:
    """A model in its runner; nothing of it changes afterwards.

    `embeds_buffer` is the runner's persistent `[max tokens, hidden]` buffer; `vllm_embeds` says that vLLM fills it
    itself in every step (multimodal inputs, prompt embeddings). A `generation` stage samples nothing: its whole output
    is multimodal. `v2` is the V2 runner; `has_xdrope` says that this vLLM computes XD-RoPE positions.
    """

    model: Any
    vllm_config: Any
    device: torch.device
    dtype: torch.dtype
    embeds_buffer: torch.Tensor
    max_num_reqs: int
    generation: bool = False
    v2: bool = False
    vllm_embeds: bool = False
    has_xdrope: bool = False
    kv_transfer: KVTransferManager | None = None

    @property
    def adapter_names(self) -> list[str] | None:
        """Adapters that the stage's configuration names (`additional_config: {omni_adapters: [...]}`)."""
        additional = getattr(self.vllm_config, "additional_config", None)
        return additional.get("omni_adapters") if isinstance(additional, dict) else None
