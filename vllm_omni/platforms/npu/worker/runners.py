"""V1 runners for Ascend NPUs, over vllm-ascend's. Checked against the sources, never run here."""

from __future__ import annotations

from typing import ClassVar

from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

from vllm_omni.worker.gpu_model_runner import OmniModelRunnerMixin


class NPUARModelRunner(OmniModelRunnerMixin, NPUModelRunner):
    """Autoregressive stages."""


class NPUGenerationModelRunner(OmniModelRunnerMixin, NPUModelRunner):
    """Generation stages."""

    generation: ClassVar[bool] = True
