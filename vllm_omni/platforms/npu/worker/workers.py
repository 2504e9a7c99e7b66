"""Workers for Ascend NPUs, over vllm-ascend's."""

from __future__ import annotations

from typing import Any

from vllm_ascend.worker.worker import NPUWorker

from vllm_omni.worker.mixins import OmniWorkerMixin


class NPUARWorker(OmniWorkerMixin, NPUWorker):
    """Autoregressive stages."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.platforms.npu.worker.runners_v2 import NPUARModelRunnerV2

            return NPUARModelRunnerV2
        from vllm_omni.platforms.npu.worker.runners import NPUARModelRunner

        return NPUARModelRunner


class NPUGenerationWorker(OmniWorkerMixin, NPUWorker):
    """Generation stages."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.platforms.npu.worker.runners_v2 import NPUGenerationModelRunnerV2

            return NPUGenerationModelRunnerV2
        from vllm_omni.platforms.npu.worker.runners import NPUGenerationModelRunner

        return NPUGenerationModelRunner
