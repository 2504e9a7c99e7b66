"""The GPU worker of autoregressive stages."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.gpu_worker import Worker

from vllm_omni.worker.mixins import OmniWorkerMixin


class GPUARWorker(OmniWorkerMixin, Worker):
    """Runs `GPUARModelRunner` or, where vLLM chooses V2, `GPUARModelRunnerV2`."""

    def runner_class(self, v2: bool) -> type[Any]:
        if v2:
            from vllm_omni.worker.gpu_ar_model_runner_v2 import GPUARModelRunnerV2

            return GPUARModelRunnerV2
        from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner

        return GPUARModelRunner
