"""The outputs of a step: the model's output taken apart, postprocessed, split by request, and put on the runner's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vllm_omni.worker import binding
from vllm_omni.worker.adapter_host import RunnerHost
from vllm_omni.worker.graph_outputs import GraphOutputs
from vllm_omni.worker.hook_adapters.base import DefaultModelRunnerAdapter, ModelRunnerAdapter, overriding
from vllm_omni.worker.host_copy import FinishedCopy, HostCopy, copy_to_host
from vllm_omni.worker.model_errors import method_error, naming
from vllm_omni.worker.step import SplitError, split_by_request

FORWARD_INPUTS = ("input_ids", "positions", "intermediate_tensors", "inputs_embeds")
"""The arguments of a forward that are vLLM's; `make_omni_output` gets the others."""


class StepOutputs:
    """`attaches` says whether multimodal outputs leave the stage."""

    def __init__(self, host: RunnerHost, adapters: Sequence[ModelRunnerAdapter]) -> None:
        self.host = host
        self.graphs = GraphOutputs()
        self.multimodal: Any = None
        """What the model put out beside hidden states in this step."""
        self._extracting = overriding(adapters, "extract_outputs") or [DefaultModelRunnerAdapter()]
        self._postprocessing = overriding(adapters, "postprocess")
        stage, traits = host.stage, host.traits
        output_type = getattr(stage.vllm_config.model_config, "engine_output_type", None)
        self.attaches = traits.has_outputs or stage.generation if output_type is None else output_type != "text"
        self._includes_hidden = traits.includes_hidden and not stage.generation
        self._on_host = stage.device.type == "cpu"
        self._copy_stream: Any = None
        self._kv_extracted: list[str] | None = None
        self._forward_ran = False

    def extract_kv(self, scheduler_output: Any, kv_caches: list[torch.Tensor]) -> None:
        """Have the KV blocks of finished requests read; call it before the runner frees or writes any."""
        wanted = getattr(scheduler_output, "finished_requests_needing_kv_transfer", None)
        self._kv_extracted = None
        transfer = self.host.stage.kv_transfer
        if wanted and transfer is not None:
            done = [req_id for req_id, what in wanted.items() if transfer.extract(req_id, what, kv_caches)]
            self._kv_extracted = done or None

    # -- the forward -------------------------------------------------------------------------------------------------

    def begin_forward(self) -> None:
        """Right before the forward: a graph that is replayed runs none of our code, which shows here."""
        self.multimodal = None
        self._forward_ran = False

    def split_output(self, output: Any, kwargs: dict[str, Any]) -> Any:
        """The hidden states of a forward with these arguments; its multimodal part is kept for the end of the step."""
        self._forward_ran = True
        host = self.host
        stage, make = host.stage, host.traits.make_omni_output
        if make is not None and host.rows and not stage.generation and not isinstance(output, binding.OmniOutput):
            extra = {name: value for name, value in kwargs.items() if name not in FORWARD_INPUTS}
            with naming(stage.model, "make_omni_output", self._req_ids()):
                output = make(output, **extra)
        if hasattr(output, "tensors"):
            return output  # intermediate tensors, for the next rank of a pipeline
        if stage.generation:
            self.multimodal = output.multimodal_outputs if isinstance(output, binding.OmniOutput) else output
            return stage.embeds_buffer[: kwargs["positions"].shape[-1]]
        hidden, multimodal = output, None
        if not isinstance(output, torch.Tensor):
            for adapter in self._extracting:
                hidden, multimodal = adapter.extract_outputs(host, output)
                if multimodal:
                    break
        if not isinstance(hidden, torch.Tensor):
            reason = f"hidden states are a {type(hidden).__name__}"
            raise method_error(stage.model, "forward", self._req_ids(), reason)
        self.multimodal = multimodal
        self.graphs.keep(hidden, multimodal)
        return hidden

    # -- after the forward -------------------------------------------------------------------------------------------

    def process_model_output(self, hidden_states: torch.Tensor) -> None:
        """Have the model postprocess `[tokens, hidden]` states, and note how far each request has come."""
        host = self.host
        if not self._forward_ran:
            self.multimodal = self.graphs.replayed(hidden_states.shape[0])
        if self._postprocessing:
            with torch.inference_mode():
                for adapter in self._postprocessing:
                    adapter.postprocess(host, hidden_states, self.multimodal, host.scheduler_output)
        for row in host.rows:
            state = host.store[row.req_id]
            end = row.computed + row.end - row.start
            if host.drafts:
                end -= len(host.drafts.get(row.req_id, ()))  # they may be rejected
            if end > state.prepared:
                state.prepared = end

    def finish_idle_step(self, output: Any) -> Any:
        """The output of a step without tokens; vLLM's is shared, so what omni adds goes into a copy."""
        if self._kv_extracted is None or not hasattr(output, "req_ids"):
            return output
        return binding.runner_output(output, **binding.output_fields(None, self._kv_extracted))

    def get_model_runner_output(self, base_output: Any, hidden_states: torch.Tensor) -> Any:
        """`base_output`, or one that waits for vLLM's asynchronous output and for copies that run beside it."""
        host = self.host
        payloads = None
        if host.rows:
            if self.attaches:
                with torch.inference_mode():
                    payloads = self._payloads(hidden_states)
            host.end_step()
        if payloads is None and self._kv_extracted is None:
            return base_output
        generation = host.stage.generation
        if hasattr(base_output, "get_output"):
            from vllm_omni.worker.async_output import OmniAsyncOutput

            copy = None if payloads is None else self._start_copy(payloads)
            return OmniAsyncOutput(base_output, copy, self._kv_extracted, generation)
        if payloads is not None and not self._on_host:
            payloads = copy_to_host(payloads)
        fields = binding.output_fields(payloads, self._kv_extracted, generation)
        return binding.runner_output(base_output, **fields)

    def _payloads(self, hidden_states: torch.Tensor) -> list[dict[str, Any]]:
        """One flat dict of tensors per row, empty for a row without new tokens; on the host they are copies already."""
        rows, outputs = self.host.rows, self.multimodal
        if outputs is not None and not isinstance(outputs, dict):
            if isinstance(outputs, torch.Tensor) and outputs.dim() and outputs.shape[0] == len(rows):
                outputs = list(outputs.unbind())
            outputs = {"model_outputs": outputs}
        try:
            outputs = binding.flatten_outputs(outputs or {})
            if self._includes_hidden:
                outputs["hidden"] = hidden_states
            payloads = split_by_request(outputs, rows, hidden_states.shape[0], own=self._on_host)
        except SplitError as error:
            raise method_error(self.host.stage.model, "forward", self._req_ids(), error) from error
        for i, row in enumerate(rows):
            if row.replayed and row.start + row.replayed == row.end:
                payloads[i] = {}
        return payloads

    def _start_copy(self, payloads: list[dict[str, Any]]) -> FinishedCopy | HostCopy:
        if self._on_host:
            return FinishedCopy(payloads)
        module = torch.get_device_module(self.host.stage.device)
        if self._copy_stream is None:
            self._copy_stream = module.Stream()
        return HostCopy(payloads, module, self._copy_stream)

    def _req_ids(self) -> list[str]:
        return [row.req_id for row in self.host.rows]
