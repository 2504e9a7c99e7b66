"""V2 runners for Intel XPUs, over vLLM's. Checked against the sources, never run here."""

from __future__ import annotations

from typing import ClassVar

from vllm.v1.worker.xpu_model_runner import XPUModelRunnerV2

from vllm_omni.worker.gpu_model_runner_v2 import OmniModelRunnerV2Mixin


class XPUARModelRunnerV2(OmniModelRunnerV2Mixin, XPUModelRunnerV2):
    """Autoregressive stages."""


class XPUGenerationModelRunnerV2(OmniModelRunnerV2Mixin, XPUModelRunnerV2):
    """Generation stages."""

    generation: ClassVar[bool] = True
