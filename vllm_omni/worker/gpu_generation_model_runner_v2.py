"""The V2 runner of generation stages."""

from __future__ import annotations

from typing import ClassVar

from vllm_omni.worker.gpu_model_runner_v2 import OmniGPUModelRunnerV2


class GPUGenerationModelRunnerV2(OmniGPUModelRunnerV2):
    """One forward per request; its output is multimodal, and the token that vLLM samples means nothing."""

    generation: ClassVar[bool] = True
