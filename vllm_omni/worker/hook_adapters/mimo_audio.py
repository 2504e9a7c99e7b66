"""MiMo-Audio: its `preprocess` needs the request's id and its multimodal features."""

from __future__ import annotations

from typing import Any

from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry
from vllm_omni.worker.request_store import RequestState


@ModelAdapterRegistry.register("MiMoAudioForConditionalGeneration")
class MiMoAudioAdapter(DefaultModelRunnerAdapter):
    """Hands the model a copy of the payload with `req_id` and, if the payload has none, `mm_features`."""

    def enrich_request_info(
        self, runner: AdapterHost, req_id: str, req_state: RequestState, req_infos: dict[str, Any]
    ) -> dict[str, Any]:
        enriched = dict(req_infos)
        if req_state.mm_features and not enriched.get("mm_features"):
            enriched["mm_features"] = req_state.mm_features
        enriched["req_id"] = req_id
        return enriched
