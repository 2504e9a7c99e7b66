"""The V1 runner of autoregressive stages."""

from __future__ import annotations

from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner


class GPUARModelRunner(OmniGPUModelRunner):
    """Samples tokens, and attaches hidden states and multimodal outputs per request."""
