"""vLLM's scheduler, which also says which finished requests' KV blocks another stage wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from vllm_omni.core.sched.output import OmniNewRequestData, OmniSchedulerOutput

KV_TRANSFER_ARG = "omni_kv_transfer"
"""The entry of `SamplingParams.extra_args` by which a request asks that its KV blocks be kept for another stage."""


if TYPE_CHECKING:
    from vllm.v1.core.sched.scheduler import Scheduler as Upstream
else:
    Upstream = object


class OmniSchedulerMixin(Upstream):
    """Over a vLLM scheduler: typed payloads on new requests, and KV blocks of finished ones."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kv_wanted: dict[str, dict[str, Any]] = {}

    def _free_request(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        extra = getattr(request.sampling_params, "extra_args", None) or {}
        if extra.get(KV_TRANSFER_ARG):
            blocks = self.kv_cache_manager.get_block_ids(request.request_id)[0]
            self._kv_wanted[request.request_id] = {
                "block_ids": list(blocks),
                "num_tokens": request.num_computed_tokens,
            }
        return super()._free_request(request, *args, **kwargs)

    def schedule(self, *args: Any, **kwargs: Any) -> OmniSchedulerOutput:
        output = super().schedule(*args, **kwargs)
        output.scheduled_new_reqs = [
            OmniNewRequestData.from_base(request, self.requests.get(request.req_id))
            for request in output.scheduled_new_reqs
        ]
        wanted, self._kv_wanted = self._kv_wanted, {}
        return OmniSchedulerOutput.from_base(output, finished_requests_needing_kv_transfer=wanted)


class OmniScheduler(OmniSchedulerMixin, Scheduler):
    """The synchronous one."""


class OmniAsyncScheduler(OmniSchedulerMixin, AsyncScheduler):
    """The asynchronous one."""
