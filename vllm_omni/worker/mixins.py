"""What every omni worker does: have vLLM build its runner, and make it the omni one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm_omni.worker.adopt import adopt
from vllm_omni.worker.kv_transfer import KVTransferManager

if TYPE_CHECKING:
    from vllm.v1.worker.worker_base import WorkerBase as Upstream
else:
    Upstream = object


class OmniWorkerMixin(Upstream):
    """Over a vLLM worker. `use_v2_model_runner`, which vLLM sets per engine, decides between the two runners."""

    def runner_class(self, v2: bool) -> type[Any]:
        """The runner class for V1 or V2, which each worker names; imported when it is wanted, since V2 needs Triton."""
        raise NotImplementedError

    kv_transfer: KVTransferManager | None = None
    """What takes the KV blocks of finished requests; a deployment's worker sets its own."""

    def init_device(self) -> None:
        super().init_device()
        runner = adopt(self.model_runner, self.runner_class(bool(getattr(self, "use_v2_model_runner", False))))
        runner.kv_transfer = self.kv_transfer
