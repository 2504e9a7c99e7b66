"""The GPU worker of generation stages."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu_worker import Worker

from vllm_omni.worker.mixins import OmniWorkerMixin


class GPUGenerationWorker(OmniWorkerMixin, Worker):
    """Runs `GPUGenerationModelRunner` or, where vLLM chooses V2, `GPUGenerationModelRunnerV2`."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.worker.gpu_generation_model_runner_v2 import GPUGenerationModelRunnerV2

            return GPUGenerationModelRunnerV2
        from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner

        return GPUGenerationModelRunner
