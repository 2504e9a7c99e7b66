"""Workers for Intel XPUs, over vLLM's."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.xpu_worker import XPUWorker

from vllm_omni.worker.mixins import OmniWorkerMixin


class XPUARWorker(OmniWorkerMixin, XPUWorker):
    """Autoregressive stages."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.platforms.xpu.worker.runners_v2 import XPUARModelRunnerV2

            return XPUARModelRunnerV2
        from vllm_omni.platforms.xpu.worker.runners import XPUARModelRunner

        return XPUARModelRunner


class XPUGenerationWorker(OmniWorkerMixin, XPUWorker):
    """Generation stages."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.platforms.xpu.worker.runners_v2 import XPUGenerationModelRunnerV2

            return XPUGenerationModelRunnerV2
        from vllm_omni.platforms.xpu.worker.runners import XPUGenerationModelRunner

        return XPUGenerationModelRunner
