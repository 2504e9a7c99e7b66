"""What omni does in a step, once for V1 and V2: the hooks of RFC-005 and their implementation.

A runner says where in its step each hook is called, and gives the rows. Nothing here knows which runner it is.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import torch

from vllm_omni.worker import binding
from vllm_omni.worker.hook_adapters import DefaultModelRunnerAdapter, ModelAdapterRegistry
from vllm_omni.worker.hook_adapters.base import MtpBatch, hook_error, naming
from vllm_omni.worker.host_copy import FinishedCopy, HostCopy, copy_to_host
from vllm_omni.worker.kv_transfer import KVTransferManager
from vllm_omni.worker.request_store import RequestStore
from vllm_omni.worker.step import Row, SplitError, build_rows, set_phase, split_by_request

logger = logging.getLogger("vllm_omni.worker")

NARROW_VOCABULARY = 8
"""Width of the zero logits of a generation stage; its sampler picks a token that nobody reads."""
FORWARD_INPUTS = ("input_ids", "positions", "intermediate_tensors", "inputs_embeds")
DISPATCHED = ("init_request_positions", "fixup_decode_positions", "preprocess", "postprocess", "enrich_request_info")
_warned: set[str] = set()


class OmniModelRunnerHooks(Protocol):
    """The points of a step at which omni acts (RFC-005)."""

    def on_new_requests(self, scheduler_output: Any) -> None:
        """Decode and store the payloads of new requests."""

    def prepare_prefill_embeds(self, num_scheduled_tokens_np: Any = None) -> None:
        """Lay prompt embeddings over the embeddings of prefill tokens."""

    def build_extra_kwargs(self) -> dict[str, Any]:
        """Keyword arguments which the model's forward gets beside vLLM's."""

    def process_model_output(self, hidden_states: Any, mm_outputs: Any = None, scheduler_output: Any = None) -> None:
        """After the forward."""

    def get_model_runner_output(self, base_output: Any) -> Any:
        """vLLM's output with omni's fields."""


class OmniHooks:
    """The implementation, which is also the `AdapterHost` of its adapters.

    `embeds_buffer` is the runner's persistent `[max tokens, hidden]` buffer. A `generation` stage samples nothing: its
    whole output is multimodal.
    """

    def __init__(
        self,
        model: Any,
        vllm_config: Any,
        device: torch.device,
        dtype: torch.dtype,
        embeds_buffer: torch.Tensor,
        max_num_reqs: int,
        *,
        generation: bool = False,
        v2: bool = False,
        has_xdrope: bool = False,
        kv_transfer: KVTransferManager | None = None,
    ) -> None:
        self.model, self.vllm_config, self.device, self.dtype = model, vllm_config, device, dtype
        self.embeds_buffer, self.max_num_reqs = embeds_buffer, max_num_reqs
        self.generation, self.v2, self.has_xdrope, self.kv_transfer = generation, v2, has_xdrope, kv_transfer
        self.store = RequestStore()
        self.store.keep_on_device(getattr(model, "gpu_resident_buffer_keys", None) or ())
        self.rows: list[Row] = []
        self.positions: torch.Tensor | None = None
        self.mtp_batch: MtpBatch | None = None
        self.scheduler_output: Any = None
        self.multimodal_outputs: Any = None
        self.kv_extracted: list[str] | None = None
        self.captured: dict[int, Any] = {}
        self.is_dummy_step = False
        self.vllm_embeds = False
        """Whether vLLM fills `embeds_buffer` itself before the hooks see it (multimodal inputs, prompt embeddings)."""
        self._forward_ran = False
        self._on_host = device.type == "cpu"
        self._make_output = getattr(model, "make_omni_output", None)
        self._drafts: dict[str, list[int]] = {}
        self._copy_stream: Any = None
        self._context: Any = None
        compilation = getattr(vllm_config, "compilation_config", None)
        self.mtp_capacity = max(max_num_reqs, getattr(compilation, "max_cudagraph_capture_size", None) or 0)

        config = vllm_config.model_config
        self.has_preprocess = bool(getattr(model, "has_preprocess", False))
        self.replaces_infos = bool(getattr(model, "replace_runtime_additional_information", False))
        self.takes_kwargs = _takes_kwargs(model.forward)
        self.wants_eligibility = bool(getattr(model, "requires_request_sample_eligibility", False))
        self.wants_request_ids = bool(getattr(model, "requires_request_ids", False))
        self.wants_query_start = bool(getattr(model, "supports_omni_query_start_loc", False))
        self.wants_sampling_args = bool(getattr(config, "has_sampling_extra_args", False))
        output_type = getattr(config, "engine_output_type", None)
        has_outputs = bool(getattr(model, "have_multimodal_outputs", False)) or generation
        self.attaches = has_outputs if output_type is None else output_type != "text"
        self.includes_hidden = not generation and bool(getattr(model, "omni_pooler_payload_include_hidden", True))

        self.adapters = ModelAdapterRegistry.get_adapters(model, _named_adapters(vllm_config))
        for adapter in self.adapters:
            adapter.on_model_loaded(self, model)
        self._calls = {name: _overriding(self.adapters, name) for name in DISPATCHED}
        self._extract = _overriding(self.adapters, "extract_outputs")
        self.needs_rows = bool(self.adapters) or self.takes_kwargs or self.attaches
        self._refuse_what_goes_wrong()
        self._wrap(model)

    def _refuse_what_goes_wrong(self) -> None:
        """Say at start-up what would give wrong results without a word."""
        name = type(self.model).__name__
        parallel = getattr(self.vllm_config, "parallel_config", None)
        if self.mtp_batch is not None and getattr(parallel, "pipeline_parallel_size", 1) > 1:
            raise ValueError(
                f"{name} has a talker MTP, whose feedback cannot cross pipeline ranks: set pipeline_parallel_size to 1"
            )
        speculates = getattr(self.vllm_config, "speculative_config", None) is not None
        if self.v2 and speculates and (self.has_preprocess or self.attaches):
            raise ValueError(
                f"{name} has hooks or outputs per token, which V2 does not support with speculative decoding: set "
                "VLLM_USE_V2_MODEL_RUNNER=0"
            )

    # -- AdapterHost -------------------------------------------------------------------------------------------------

    def request_info(self, row: Row) -> dict[str, Any]:
        """The row's payload as the model's hooks get it; the phase keys are written last."""
        state = self.store[row.req_id]
        info = state.info
        for enrich in self._calls["enrich_request_info"]:
            info = enrich(self, row.req_id, state, info)
        sampling = state.sampling_params
        info["request_id"] = row.req_id
        info["_omni_max_tokens"] = getattr(sampling, "max_tokens", None)
        info["_omni_seed"] = getattr(sampling, "seed", None)
        set_phase(info, row)
        return info

    def forward_context(self, num_tokens: int, graph: bool = False) -> AbstractContextManager[Any]:
        """vLLM's forward context for a call beside the main forward."""
        create, override, descriptor, full = _forward_context_parts()
        if not graph:
            if self._context is None:
                self._context = create(None, self.vllm_config)
                self._fresh_context = dict(vars(self._context))
            vars(self._context).update(self._fresh_context)  # layers may count their calls in it
            return override(self._context)
        batch = descriptor(num_tokens=num_tokens)
        return override(create(None, self.vllm_config, cudagraph_runtime_mode=full, batch_descriptor=batch))

    def wrap_talker(self, talker: Callable[..., Any], model: Any) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """The talker in the platform's graph wrapper, and the batch sizes of its graphs; none without full graphs."""
        safe = getattr(model, "talker_mtp_graph_safe", None)
        if safe is None:
            safe = getattr(model, "talker", None) is not None
        compilation = getattr(self.vllm_config, "compilation_config", None)
        mode = getattr(compilation, "cudagraph_mode", None)
        sizes = tuple(getattr(compilation, "cudagraph_capture_sizes", None) or ())
        if not safe or not sizes or mode is None or not mode.has_full_cudagraphs():
            return talker, ()
        from vllm.config import CUDAGraphMode
        from vllm.platforms import current_platform
        from vllm.utils.import_utils import resolve_obj_by_qualname

        wrapper = resolve_obj_by_qualname(current_platform.get_static_graph_wrapper_cls())
        return wrapper(talker, self.vllm_config, runtime_mode=CUDAGraphMode.FULL), sizes

    def warn_once(self, message: str) -> None:
        """Log a warning, once per process."""
        if message not in _warned:
            _warned.add(message)
            logger.warning(message)

    # -- requests ----------------------------------------------------------------------------------------------------

    def begin_step(self, scheduler_output: Any) -> None:
        """Before anything of the step: finished requests go, and nothing of the last step is left."""
        self.scheduler_output = scheduler_output
        self.rows = []
        self.multimodal_outputs = None
        self._drafts = getattr(scheduler_output, "scheduled_spec_decode_tokens", None) or {}
        finished = scheduler_output.finished_req_ids
        cached = scheduler_output.scheduled_cached_reqs
        self.store.begin_step(
            finished, getattr(scheduler_output, "preempted_req_ids", None) or (), cached.resumed_req_ids
        )
        if finished and callable(hook := getattr(self.model, "on_requests_finished", None)):
            with naming(self.model, "on_requests_finished", sorted(finished)):
                hook(finished)

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
            state.prompt_token_ids = request.prompt_token_ids
            if payload.prompt_embeds is not None:
                state.prompt_embeds = payload.prompt_embeds
                self.store.has_prompt_embeds = True
            info = payload.info
            if kind == "updated":
                info = {**info, "meta": {**info.get("meta", {}), "num_processed_tokens": 0, "resumable": True}}
            self._update_info(request.req_id, info)
        for req_id, update in binding.cached_payloads(scheduler_output.scheduled_cached_reqs).items():
            self._update_info(req_id, update)

    def _update_info(self, req_id: str, info: dict[str, Any]) -> None:
        if self.replaces_infos and info:
            self.store.replace(req_id, info)
        else:
            self.store.merge(req_id, info)

    def extract_kv(self, scheduler_output: Any, kv_caches: list[torch.Tensor]) -> None:
        """Have the KV blocks of finished requests read; call it before the runner frees or writes any."""
        wanted = getattr(scheduler_output, "finished_requests_needing_kv_transfer", None)
        self.kv_extracted = None
        if wanted and self.kv_transfer is not None:
            done = [req_id for req_id, what in wanted.items() if self.kv_transfer.extract(req_id, what, kv_caches)]
            self.kv_extracted = done or None

    # -- positions ---------------------------------------------------------------------------------------------------

    def init_request_positions(self, req_id: str) -> None:
        """Right before vLLM asks the model for a request's rotary positions."""
        for init in self._calls["init_request_positions"]:
            init(self, self.store[req_id])

    def fixup_decode_positions(self, positions: torch.Tensor) -> None:
        """Right after vLLM computed the step's rotary positions `[dims, tokens]`, in place."""
        self.positions = positions
        for fixup in self._calls["fixup_decode_positions"]:
            fixup(self, self.scheduler_output)
        self.positions = None

    @property
    def feeds_model(self) -> bool:
        """Whether the hooks may change what the model is fed: by its `preprocess`, or with prompt embeddings."""
        return self.has_preprocess or self.store.has_prompt_embeds

    @property
    def fixes_positions(self) -> bool:
        """Whether some adapter changes rotary positions."""
        return bool(self._calls["fixup_decode_positions"])

    # -- before the forward ------------------------------------------------------------------------------------------

    def set_rows(
        self, req_ids: Sequence[str], spans: Iterable[int], computed: Iterable[int], prompt_lens: Iterable[int]
    ) -> None:
        """The step's requests in batch order: token spans, tokens computed before the step, prompt lengths."""
        states = self.store
        self.rows = build_rows(req_ids, spans, computed, prompt_lens, [states[r].lost for r in req_ids])

    def prepare_prefill_embeds(self, num_scheduled_tokens_np: Any = None) -> None:
        for row in self.rows:
            if row.computed >= row.prompt_len:
                continue
            embeds = self.store[row.req_id].prompt_embeds
            if embeds is not None:
                n = min(row.end - row.start, row.prompt_len - row.computed)
                part = embeds[row.computed : row.computed + n]
                if part.shape != (n, self.embeds_buffer.shape[1]):
                    raise ValueError(
                        f"request {row.req_id}: prompt embeddings of shape {list(embeds.shape)} for a prompt of "
                        f"{row.prompt_len} tokens and a hidden size of {self.embeds_buffer.shape[1]}"
                    )
                self.embeds_buffer[row.start : row.start + n].copy_(part)

    def has_prompt_embeds(self) -> bool:
        """Whether prompt embeddings are laid over a row of this step."""
        return any(row.is_prefill and self.store[row.req_id].prompt_embeds is not None for row in self.rows)

    def prepare_inputs(
        self, input_ids: torch.Tensor, embeds: torch.Tensor | None, num_scheduled_tokens_np: Any = None
    ) -> tuple[torch.Tensor | None, dict[str, Any]]:
        """Embeddings for the forward, and extra keyword arguments.

        `embeds` are vLLM's own, which lie in the persistent buffer, or None where the model embeds its tokens.
        """
        rows = self.rows
        if not rows:
            return embeds, {}
        if not self.has_preprocess:
            if not self.has_prompt_embeds():
                return embeds, {}
            if embeds is None:
                n = rows[-1].end
                self.embeds_buffer[:n].copy_(self.model.embed_input_ids(input_ids[:n]))
                embeds = self.embeds_buffer[: input_ids.shape[0]]
            self.prepare_prefill_embeds(num_scheduled_tokens_np)
            return embeds, {}
        embeds = self.embeds_buffer[: input_ids.shape[0]]
        self.prepare_prefill_embeds(num_scheduled_tokens_np)
        if self.mtp_batch is not None:
            self.mtp_batch.clear()
        extra: dict[str, Any] = {}
        ids, result = input_ids, embeds
        for preprocess in self._calls["preprocess"]:
            ids, result, kwargs = preprocess(self, ids, result, self.scheduler_output, num_scheduled_tokens_np)
            extra.update(kwargs)
        if result is not embeds:
            embeds.copy_(result)
        if ids is not input_ids:
            input_ids.copy_(ids)
        self._record_inputs(input_ids, embeds)
        return embeds, extra

    def _record_inputs(self, ids: torch.Tensor, embeds: torch.Tensor) -> None:
        """Remember what is fed, for the case of a preemption: one snapshot for all decode rows."""
        single: list[Row] = []
        for row in self.rows:
            start = row.start + row.replayed
            if row.end - start == 1:
                single.append(row)
            elif row.end > start:
                inputs = self.store[row.req_id].inputs
                inputs.add_span(
                    row.computed + row.replayed, embeds[start : row.end].clone(), ids[start : row.end].clone()
                )
        if not single:
            return
        first, n = single[0].end - 1, len(single)
        if single[-1].end - 1 - first == n - 1:
            fed_embeds, fed_ids = embeds[first : first + n].clone(), ids[first : first + n].clone()
        else:
            offsets = torch.tensor([row.end - 1 for row in single]).to(ids.device, non_blocking=True)
            fed_embeds, fed_ids = embeds.index_select(0, offsets), ids.index_select(0, offsets)
        records = [self.store[row.req_id].inputs for row in single]
        self.store.fed.add(records, [row.computed + row.end - row.start - 1 for row in single], fed_embeds, fed_ids)

    def build_extra_kwargs(self) -> dict[str, Any]:
        rows = self.rows
        if not self.takes_kwargs or not rows:
            return {}
        states = [self.store[row.req_id] for row in rows]
        infos = []
        for row, state in zip(rows, states, strict=True):
            info = state.info
            if info:
                fed = (
                    state.prepared + 1
                    if row.replayed and row.start + row.replayed == row.end
                    else (row.computed + row.end - row.start)
                )
                if self._drafts:
                    fed -= len(self._drafts.get(row.req_id, ()))
                info["generated_len"] = max(0, fed - row.prompt_len)
                infos.append(info)
            else:
                infos.append({})
        kwargs: dict[str, Any] = {
            "model_intermediate_buffer": infos,
            "runtime_additional_information": infos,
            "request_token_spans": [(row.start, row.end) for row in rows],
        }
        if self.generation:
            kwargs["seq_token_counts"] = [row.end - row.start for row in rows]
        if self.wants_request_ids:
            kwargs["request_ids"] = [row.req_id for row in rows]
        if self.wants_query_start:
            starts = [row.start for row in rows] + [rows[-1].end]
            kwargs["omni_query_start_loc"] = torch.tensor(starts, dtype=torch.int32).to(self.device, non_blocking=True)
        if self.wants_eligibility:
            kwargs["request_sample_eligible"] = [
                row.computed + row.end - row.start >= max(row.prompt_len, state.prepared)
                for row, state in zip(rows, states, strict=True)
            ]
        if self.wants_sampling_args:
            kwargs["sampling_extra_args"] = [
                getattr(state.sampling_params, "extra_args", None) or {} for state in states
            ]
        return kwargs

    # -- the forward -------------------------------------------------------------------------------------------------

    def _wrap(self, model: Any) -> None:
        """Give the model's forward plain hidden states to return; vLLM's runners expect a tensor."""
        if not (self.adapters or self.generation):
            return
        inner = model.forward

        def forward(*args: Any, **kwargs: Any) -> Any:
            ids = kwargs.get("input_ids")
            if self.has_preprocess and ids is not None and kwargs.get("inputs_embeds") is None:
                kwargs["inputs_embeds"] = self.embeds_buffer[: ids.shape[0]]  # dummy runs and captures
            if self.generation and not self.rows:
                kwargs.update(self._dummy_kwargs(kwargs))
            self._forward_ran = True
            return self.split_output(inner(*args, **kwargs), kwargs)

        model.forward = forward
        if self.generation:
            model.compute_logits = lambda hidden, *args, **kwargs: hidden.new_zeros(hidden.shape[0], NARROW_VOCABULARY)

    def _dummy_kwargs(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        if self.takes_kwargs and (positions := kwargs.get("positions")) is not None:
            extra["seq_token_counts"] = [positions.shape[-1]]
            if callable(hook := getattr(self.model, "get_dummy_runtime_additional_information", None)):
                extra["runtime_additional_information"] = extra["model_intermediate_buffer"] = hook(1)
        return extra

    def split_output(self, output: Any, kwargs: dict[str, Any]) -> Any:
        """The hidden states of a model's output; its multimodal part is kept for the end of the step."""
        make = self._make_output
        if make is not None and self.rows and not self.generation and not isinstance(output, binding.OmniOutput):
            extra = {name: value for name, value in kwargs.items() if name not in FORWARD_INPUTS}
            with naming(self.model, "make_omni_output", [row.req_id for row in self.rows]):
                output = make(output, **extra)
        if hasattr(output, "tensors"):
            return output  # intermediate tensors, for the next rank of a pipeline
        if self.generation:
            self.multimodal_outputs = output.multimodal_outputs if isinstance(output, binding.OmniOutput) else output
            return self.embeds_buffer[: kwargs["positions"].shape[-1]]
        hidden, multimodal = output, None
        if not isinstance(output, torch.Tensor):
            for extract in self._extract or (DefaultModelRunnerAdapter().extract_outputs,):
                hidden, multimodal = extract(self, output)
                if multimodal:
                    break
        if not isinstance(hidden, torch.Tensor):
            raise hook_error(
                self.model, "forward", [row.req_id for row in self.rows], f"hidden states are a {type(hidden).__name__}"
            )
        self.multimodal_outputs = multimodal
        if _is_capturing(hidden.device):
            self.captured[hidden.shape[0]] = multimodal  # static: a replay writes them again
        return hidden

    # -- after the forward -------------------------------------------------------------------------------------------

    def begin_forward(self) -> None:
        """Right before the forward: a graph that is replayed runs none of our code, which shows here."""
        self._forward_ran = False

    def process_model_output(self, hidden_states: Any, mm_outputs: Any = None, scheduler_output: Any = None) -> None:
        if not self._forward_ran and hidden_states.shape[0] in self.captured:
            self.multimodal_outputs = self.captured[hidden_states.shape[0]]
        outputs = self.multimodal_outputs if mm_outputs is None else mm_outputs
        if self._calls["postprocess"]:
            with torch.inference_mode():
                for postprocess in self._calls["postprocess"]:
                    postprocess(self, hidden_states, outputs, self.scheduler_output)
        for row in self.rows:
            state = self.store[row.req_id]
            end = row.computed + row.end - row.start
            if self._drafts:
                end -= len(self._drafts.get(row.req_id, ()))  # they may be rejected
            if end > state.prepared:
                state.prepared = end

    def finish_idle_step(self, output: Any) -> Any:
        """The output of a step without tokens; vLLM's is shared, so what omni adds goes into a copy."""
        if self.kv_extracted is None or not hasattr(output, "req_ids"):
            return output
        return binding.runner_output(output, **binding.output_fields(None, self.kv_extracted))

    def get_model_runner_output(self, base_output: Any, hidden_states: torch.Tensor | None = None) -> Any:
        """`base_output`, or one that waits for vLLM's asynchronous output and for copies that run beside it."""
        payloads = None
        if self.attaches and self.rows:
            with torch.inference_mode():
                payloads = self._payloads(hidden_states)
        self.rows = []  # a dummy run may follow
        if payloads is None and self.kv_extracted is None:
            return base_output
        if hasattr(base_output, "get_output"):
            from vllm_omni.worker.async_output import OmniAsyncOutput

            copy = None if payloads is None else self._start_copy(payloads)
            return OmniAsyncOutput(base_output, copy, self.kv_extracted, self.generation)
        if payloads is not None and not self._on_host:
            payloads = copy_to_host(payloads)
        fields = binding.output_fields(payloads, self.kv_extracted, self.generation)
        return binding.runner_output(base_output, **fields)

    def _payloads(self, hidden_states: torch.Tensor | None) -> list[dict[str, Any]]:
        """One flat dict of tensors per row, empty for a row without new tokens; on the host they are copies already."""
        rows, outputs = self.rows, self.multimodal_outputs
        if outputs is not None and not isinstance(outputs, dict):
            if isinstance(outputs, torch.Tensor) and outputs.dim() and outputs.shape[0] == len(rows):
                outputs = list(outputs.unbind())
            outputs = {"model_outputs": outputs}
        num_tokens = rows[-1].end if hidden_states is None else hidden_states.shape[0]
        try:
            outputs = binding.flatten_outputs(outputs or {})
            if self.includes_hidden and hidden_states is not None:
                outputs["hidden"] = hidden_states
            payloads = split_by_request(outputs, rows, num_tokens, own=self._on_host)
        except SplitError as error:
            raise hook_error(self.model, "forward", [row.req_id for row in rows], error) from error
        for i, row in enumerate(rows):
            if row.replayed and row.start + row.replayed == row.end:
                payloads[i] = {}
        return payloads

    def _start_copy(self, payloads: list[dict[str, Any]]) -> FinishedCopy | HostCopy:
        if self._on_host:
            return FinishedCopy(payloads)
        module = torch.get_device_module(self.device)
        if self._copy_stream is None:
            self._copy_stream = module.Stream()
        return HostCopy(payloads, module, self._copy_stream)

    def capture_graphs(self) -> None:
        """Have adapters capture graphs of their own, inside the runner's capture."""
        for adapter in self.adapters:
            if callable(capture := getattr(adapter, "capture", None)):
                capture(self)


@cache
def _forward_context_parts() -> tuple[Any, Any, Any, Any]:
    from vllm.config import CUDAGraphMode
    from vllm.forward_context import BatchDescriptor, create_forward_context, override_forward_context

    return create_forward_context, override_forward_context, BatchDescriptor, CUDAGraphMode.FULL


def _takes_kwargs(forward: Callable[..., Any]) -> bool:
    parameters = inspect.signature(forward).parameters
    return "runtime_additional_information" in parameters or any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def _is_capturing(device: torch.device) -> bool:
    """Whether the current stream of the device is being captured into a graph."""
    if device.type == "cpu":
        return False
    capturing = getattr(torch.get_device_module(device), "is_current_stream_capturing", None)
    return capturing is not None and capturing()


def _overriding(adapters: list[DefaultModelRunnerAdapter], method: str) -> list[Callable[..., Any]]:
    """The bound methods of the adapters that override one; what does nothing costs nothing."""
    default = getattr(DefaultModelRunnerAdapter, method)
    return [getattr(adapter, method) for adapter in adapters if getattr(type(adapter), method) is not default]


def _named_adapters(vllm_config: Any) -> list[str] | None:
    """Adapters that a stage's configuration names (`additional_config: {omni_adapters: [...]}`)."""
    additional = getattr(vllm_config, "additional_config", None)
    return additional.get("omni_adapters") if isinstance(additional, dict) else None
