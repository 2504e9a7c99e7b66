"""The V2 runner of autoregressive stages."""

from __future__ import annotations

from vllm_omni.worker.gpu_model_runner_v2 import OmniGPUModelRunnerV2


class GPUARModelRunnerV2(OmniGPUModelRunnerV2):
    """Samples tokens, and attaches hidden states and multimodal outputs per request."""
