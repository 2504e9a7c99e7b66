"""vLLM's V1 CPU runner with the omni hooks, for development and tests."""

from __future__ import annotations

from typing import ClassVar

from vllm.v1.worker.cpu_model_runner import CPUModelRunner

from vllm_omni.worker.gpu_model_runner import OmniModelRunnerMixin


class CPUARModelRunner(OmniModelRunnerMixin, CPUModelRunner):
    """Autoregressive stages."""


class CPUGenerationModelRunner(OmniModelRunnerMixin, CPUModelRunner):
    """Generation stages."""

    generation: ClassVar[bool] = True
