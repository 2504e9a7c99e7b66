"""V1 runners for Intel XPUs, over vLLM's. Checked against the sources, never run here."""

from __future__ import annotations

from typing import ClassVar

from vllm.v1.worker.xpu_model_runner import XPUModelRunner

from vllm_omni.worker.gpu_model_runner import OmniModelRunnerMixin


class XPUARModelRunner(OmniModelRunnerMixin, XPUModelRunner):
    """Autoregressive stages."""


class XPUGenerationModelRunner(OmniModelRunnerMixin, XPUModelRunner):
    """Generation stages."""

    generation: ClassVar[bool] = True
