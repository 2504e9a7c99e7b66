"""vLLM's V2 CPU runner with the omni hooks; it needs Triton, whose interpreter serves."""

from __future__ import annotations

from typing import ClassVar

from vllm.v1.worker.cpu.model_runner import CPUModelRunner

from vllm_omni.worker.gpu_model_runner_v2 import OmniModelRunnerV2Mixin


class CPUARModelRunnerV2(OmniModelRunnerV2Mixin, CPUModelRunner):
    """Autoregressive stages."""


class CPUGenerationModelRunnerV2(OmniModelRunnerV2Mixin, CPUModelRunner):
    """Generation stages."""

    generation: ClassVar[bool] = True
