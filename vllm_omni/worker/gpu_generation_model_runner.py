"""The V1 runner of generation stages."""

from __future__ import annotations

from typing import ClassVar

from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner


class GPUGenerationModelRunner(OmniGPUModelRunner):
    """One forward per request; its output is multimodal, and the token that vLLM samples means nothing."""

    generation: ClassVar[bool] = True
