"""V2 runners for Ascend NPUs, over vllm-ascend's. Checked against the sources, never run here."""

from __future__ import annotations

from typing import ClassVar

from vllm_ascend.worker.v2.model_runner import NPUModelRunner

from vllm_omni.worker.gpu_model_runner_v2 import OmniModelRunnerV2Mixin


class NPUARModelRunnerV2(OmniModelRunnerV2Mixin, NPUModelRunner):
    """Autoregressive stages."""


class NPUGenerationModelRunnerV2(OmniModelRunnerV2Mixin, NPUModelRunner):
    """Generation stages."""

    generation: ClassVar[bool] = True
