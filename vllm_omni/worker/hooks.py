"""What omni does in a step, once for V1 and V2: the hooks of RFC-005 and their implementation.

Three words are kept apart. A hook is a point of a step at which omni acts (RFC-005). A model method is a method of the
model's own that the runner calls there. An adapter method belongs to an adapter (RFC-003), which acts there too.

A runner says where in its step each hook is called, and gives the rows. Nothing here knows which runner it is.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from vllm_omni.worker import binding
from vllm_omni.worker.adapter_host import RunnerHost
from vllm_omni.worker.hook_adapters import ModelAdapterRegistry
from vllm_omni.worker.hook_adapters.base import overriding
from vllm_omni.worker.model_errors import naming
from vllm_omni.worker.model_traits import ModelTraits
from vllm_omni.worker.model_wrap import wrap_model
from vllm_omni.worker.stage import Stage
from vllm_omni.worker.step_inputs import StepInputs
from vllm_omni.worker.step_outputs import StepOutputs


class OmniModelRunnerHooks(Protocol):
    """The points of a step at which omni acts (RFC-005), in their order."""

    def on_new_requests(self, scheduler_output: Any) -> None:
        """Decode and store the payloads of new requests."""

    def prepare_prefill_embeds(self, input_ids: torch.Tensor, embeds: torch.Tensor | None) -> torch.Tensor | None:
        """The embeddings for the forward, prompt embeddings laid over those of prefill tokens."""
        ...

    def build_extra_kwargs(self) -> dict[str, Any]:
        """Keyword arguments which the model's forward gets beside vLLM's."""
        ...

    def process_model_output(self, hidden_states: torch.Tensor) -> None:
        """After the forward."""

    def get_model_runner_output(self, base_output: Any, hidden_states: torch.Tensor) -> Any:
        """vLLM's output with omni's fields."""


class OmniHooks(OmniModelRunnerHooks):
    """The implementation: the requests' life here, the rest of a step in `inputs` and `outputs`."""

    def __init__(self, stage: Stage) -> None:
        model = stage.model
        self.traits = ModelTraits.of(model)
        self.adapters = ModelAdapterRegistry.get_adapters(model, stage.adapter_names)
        self.host = RunnerHost(stage, self.traits, self.adapters)
        self.store = self.host.store
        for adapter in self.adapters:
            adapter.on_model_loaded(self.host, model)
        self.inputs = StepInputs(self.host, self.adapters)
        self.outputs = StepOutputs(self.host, self.adapters)
        self._initializing = overriding(self.adapters, "init_request_positions")
        self.needs_rows = bool(self.adapters) or self.traits.takes_kwargs or self.outputs.attaches
        """Whether anything of a step depends on its rows."""
        self.feeds_model = self.traits.has_preprocess
        """Whether the model may be fed something else: by its `preprocess`, or with prompt embeddings."""
        self._refuse_what_goes_wrong()
        if self.adapters or stage.generation:
            wrap_model(self.inputs, self.outputs)

    def _refuse_what_goes_wrong(self) -> None:
        """Say at start-up what would give wrong results without a word."""
        stage = self.host.stage
        name = type(stage.model).__name__
        parallel = getattr(stage.vllm_config, "parallel_config", None)
        if self.host.mtp_batch is not None and getattr(parallel, "pipeline_parallel_size", 1) > 1:
            raise ValueError(
                f"{name} has a talker MTP, whose feedback cannot cross pipeline ranks: set pipeline_parallel_size to 1"
            )
        speculates = getattr(stage.vllm_config, "speculative_config", None) is not None
        if stage.v2 and speculates and (self.traits.has_preprocess or self.outputs.attaches):
            raise ValueError(
                f"{name} has preprocess or outputs per token, which V2 does not support with speculative decoding: set "
                "VLLM_USE_V2_MODEL_RUNNER=0"
            )

    # -- requests ----------------------------------------------------------------------------------------------------

    def begin_step(self, scheduler_output: Any) -> None:
        """Before anything of the step: finished requests go, and nothing of the last step is left."""
        self.host.begin_step(scheduler_output)
        finished = scheduler_output.finished_req_ids
        preempted = getattr(scheduler_output, "preempted_req_ids", None) or ()
        resumed = scheduler_output.scheduled_cached_reqs.resumed_req_ids
        if finished or preempted or resumed:
            self.store.begin_step(finished, preempted, resumed)
        if finished and self.traits.on_requests_finished is not None:
            with naming(self.host.stage.model, "on_requests_finished", sorted(finished)):
                self.traits.on_requests_finished(finished)

    def on_new_requests(self, scheduler_output: Any) -> None:
        for request in scheduler_output.scheduled_new_reqs:
            state, kind = self.store.add(request.req_id)
            if kind == "resumed":
                continue
            try:
                payload = binding.request_payload(request)
            except ValueError as error:
                raise ValueError(f"request {request.req_id}: {error}") from error
            state.sampling_params = request.sampling_params
            state.mm_features = request.mm_features
            if payload.prompt_embeds is not None:
                state.prompt_embeds = payload.prompt_embeds
                self.needs_rows = self.feeds_model = True
            info = payload.info
            if kind == "updated":
                info = {**info, "meta": {**info.get("meta", {}), "num_processed_tokens": 0, "resumable": True}}
            self._update_info(request.req_id, info)
        for req_id, update in binding.cached_payloads(scheduler_output.scheduled_cached_reqs).items():
            self._update_info(req_id, update)

    def _update_info(self, req_id: str, info: dict[str, Any]) -> None:
        if self.traits.replaces_infos and info:
            self.store.replace(req_id, info)
        else:
            self.store.merge(req_id, info)

    # -- positions ---------------------------------------------------------------------------------------------------

    def init_request_positions(self, req_id: str) -> None:
        """Right before vLLM asks the model for a request's rotary positions."""
        for adapter in self._initializing:
            adapter.init_request_positions(self.host, self.store[req_id])

    # -- the forward -------------------------------------------------------------------------------------------------

    def prepare_prefill_embeds(self, input_ids: torch.Tensor, embeds: torch.Tensor | None) -> torch.Tensor | None:
        return self.inputs.prepare_prefill_embeds(input_ids, embeds)

    def build_extra_kwargs(self) -> dict[str, Any]:
        return self.inputs.build_extra_kwargs()

    def process_model_output(self, hidden_states: torch.Tensor) -> None:
        self.outputs.process_model_output(hidden_states)

    def get_model_runner_output(self, base_output: Any, hidden_states: torch.Tensor) -> Any:
        return self.outputs.get_model_runner_output(base_output, hidden_states)

    def capture_graphs(self) -> None:
        """Have adapters capture graphs of their own, inside the runner's capture."""
        for adapter in overriding(self.adapters, "capture"):
            adapter.capture(self.host)
