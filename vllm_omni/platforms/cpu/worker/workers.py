"""CPU workers, for development and tests."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from vllm_omni.worker.mixins import OmniWorkerMixin


class CPUARWorker(OmniWorkerMixin, CPUWorker):
    """Autoregressive stages."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.platforms.cpu.worker.runners_v2 import CPUARModelRunnerV2

            return CPUARModelRunnerV2
        from vllm_omni.platforms.cpu.worker.runners import CPUARModelRunner

        return CPUARModelRunner


class CPUGenerationWorker(OmniWorkerMixin, CPUWorker):
    """Generation stages."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.platforms.cpu.worker.runners_v2 import CPUGenerationModelRunnerV2

            return CPUGenerationModelRunnerV2
        from vllm_omni.platforms.cpu.worker.runners import CPUGenerationModelRunner

        return CPUGenerationModelRunner
