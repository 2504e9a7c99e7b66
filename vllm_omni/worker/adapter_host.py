"""What adapters see of a runner and of the step at hand, the same on V1, V2 and every platform."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch

from vllm_omni.worker.hook_adapters.base import ModelRunnerAdapter, overriding
from vllm_omni.worker.hook_adapters.mtp_batch import MtpBatch
from vllm_omni.worker.model_traits import ModelTraits
from vllm_omni.worker.request_store import RequestStore
from vllm_omni.worker.stage import Stage
from vllm_omni.worker.step import Row, build_rows, set_phase

logger = logging.getLogger("vllm_omni.worker")

_warned: set[str] = set()


class RunnerHost:
    """The one `AdapterHost`. It holds what is known of a step; the modules that act in the step read it here."""

    def __init__(self, stage: Stage, traits: ModelTraits, adapters: Sequence[ModelRunnerAdapter]) -> None:
        self.stage, self.traits = stage, traits
        self.store = RequestStore(traits.resident_keys)
        self.rows: list[Row] = []
        self.positions: torch.Tensor | None = None
        self.mtp_batch: MtpBatch | None = None
        self.scheduler_output: Any = None
        self.drafts: dict[str, list[int]] = {}
        """The draft tokens of the step, by request."""
        self.is_dummy_step = False
        self._enriching = overriding(adapters, "enrich_request_info")
        self._fixing = overriding(adapters, "fixup_decode_positions")
        self._context: Any = None
        self._fresh_context: dict[str, Any] = {}

    # -- the step ----------------------------------------------------------------------------------------------------

    def begin_step(self, scheduler_output: Any) -> None:
        """Nothing of the last step is left."""
        self.scheduler_output = scheduler_output
        self.rows = []
        self.is_dummy_step = False
        self.drafts = getattr(scheduler_output, "scheduled_spec_decode_tokens", None) or {}

    def begin_dummy_step(self) -> None:
        """A step without requests: a warm-up, or one that other ranks wait for."""
        self.rows = []
        self.is_dummy_step = True

    def end_step(self) -> None:
        """The rows go: a dummy run may follow."""
        self.rows = []

    def set_rows(
        self, req_ids: Sequence[str], spans: Iterable[int], computed: Iterable[int], prompt_lens: Iterable[int]
    ) -> None:
        """The step's requests in batch order: token spans, tokens computed before the step, prompt lengths."""
        store = self.store
        self.rows = build_rows(req_ids, spans, computed, prompt_lens, [store[req_id].lost for req_id in req_ids])

    @property
    def fixes_positions(self) -> bool:
        """Whether some adapter changes rotary positions."""
        return bool(self._fixing)

    def fixup_decode_positions(self, positions: torch.Tensor) -> None:
        """Right after vLLM computed the step's rotary positions `[dims, tokens]`: adapters change them in place."""
        self.positions = positions
        for adapter in self._fixing:
            adapter.fixup_decode_positions(self, self.scheduler_output)
        self.positions = None

    # -- for adapters ------------------------------------------------------------------------------------------------

    def gather_mtp(self, width: int) -> MtpBatch:
        """See `AdapterHost`."""
        self.mtp_batch = MtpBatch(width)
        return self.mtp_batch

    def request_info(self, row: Row) -> dict[str, Any]:
        """The row's payload as the model's methods get it; the phase keys are written last."""
        state = self.store[row.req_id]
        info = state.info
        for adapter in self._enriching:
            info = adapter.enrich_request_info(self, row.req_id, state, info)
        sampling = state.sampling_params
        info["request_id"] = row.req_id
        info["_omni_max_tokens"] = getattr(sampling, "max_tokens", None)
        info["_omni_seed"] = getattr(sampling, "seed", None)
        set_phase(info, row)
        return info

    def forward_context(self, num_tokens: int, graph: bool = False) -> AbstractContextManager[Any]:
        """vLLM's forward context for a call beside the main forward."""
        create, override, descriptor, full = _forward_context_parts()
        config = self.stage.vllm_config
        if graph:
            batch = descriptor(num_tokens=num_tokens)
            return override(create(None, config, cudagraph_runtime_mode=full, batch_descriptor=batch))
        if self._context is None:
            self._context = create(None, config)
            self._fresh_context = dict(vars(self._context))
        vars(self._context).update(self._fresh_context)  # layers may count their calls in it
        return override(self._context)

    def wrap_in_graphs(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """The function in the platform's graph wrapper, and the batch sizes of its graphs; none without full graphs."""
        config = self.stage.vllm_config
        compilation = getattr(config, "compilation_config", None)
        mode = getattr(compilation, "cudagraph_mode", None)
        sizes = tuple(getattr(compilation, "cudagraph_capture_sizes", None) or ())
        if not sizes or mode is None or not mode.has_full_cudagraphs():
            return function, ()
        from vllm.config import CUDAGraphMode
        from vllm.platforms import current_platform
        from vllm.utils.import_utils import resolve_obj_by_qualname

        wrapper = resolve_obj_by_qualname(current_platform.get_static_graph_wrapper_cls())
        return wrapper(function, config, runtime_mode=CUDAGraphMode.FULL), sizes

    def warn_once(self, message: str) -> None:
        """Log a warning, once per process."""
        if message not in _warned:
            _warned.add(message)
            logger.warning(message)


@cache
def _forward_context_parts() -> tuple[Any, Callable[[Any], AbstractContextManager[Any]], Any, Any]:
    from vllm.config import CUDAGraphMode
    from vllm.forward_context import BatchDescriptor, create_forward_context, override_forward_context

    return create_forward_context, override_forward_context, BatchDescriptor, CUDAGraphMode.FULL
