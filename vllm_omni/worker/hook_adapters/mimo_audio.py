"""MiMo-Audio: its preprocess hook needs the request's id and its multimodal features."""

from __future__ import annotations

from typing import Any

from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry
from vllm_omni.worker.request_store import RequestState


@ModelAdapterRegistry.register("MiMoAudioForConditionalGeneration")
class MiMoAudioAdapter(DefaultModelRunnerAdapter):
    """Hands the hook a copy of the payload with `req_id` and, if the payload has none, `mm_features`."""

    def enrich_request_info(
        self, runner: AdapterHost, req_id: str, req_state: RequestState | None, req_infos: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        if req_state is None:
            return req_infos
        enriched = dict(req_infos or {})
        if req_state.mm_features and not enriched.get("mm_features"):
            enriched["mm_features"] = req_state.mm_features
        enriched["req_id"] = req_id
        return enriched
