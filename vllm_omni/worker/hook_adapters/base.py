"""The adapter protocol of RFC-003, and what an adapter may use of a runner: both are said here alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import torch

    from vllm_omni.worker.hook_adapters.mtp_batch import MtpBatch
    from vllm_omni.worker.model_traits import ModelTraits
    from vllm_omni.worker.request_store import RequestState, RequestStore
    from vllm_omni.worker.stage import Stage
    from vllm_omni.worker.step import Row


class AdapterHost(Protocol):
    """What a runner shows to adapters; V1, V2 and every platform give the same. An adapter sets none of it."""

    @property
    def stage(self) -> Stage:
        """The model's configuration, device and buffers."""

    @property
    def traits(self) -> ModelTraits:
        """What the model says of itself."""

    @property
    def store(self) -> RequestStore:
        """The live requests and their payloads."""

    @property
    def rows(self) -> list[Row]:
        """The step's rows, in batch order."""

    @property
    def positions(self) -> torch.Tensor | None:
        """Rotary positions `[dims, tokens]` of the step while they are fixed up; they may be written."""

    @property
    def mtp_batch(self) -> MtpBatch | None:
        """Where decode rows go when an adapter runs MTP for them, else None."""

    def gather_mtp(self, width: int) -> MtpBatch:
        """From now on have decode rows gathered for MTP, with embeddings of this width; the batch of each step."""

    def request_info(self, row: Row) -> dict[str, Any]:
        """The row's payload, enriched, with the phase keys of this step."""

    def forward_context(self, num_tokens: int, graph: bool = False) -> AbstractContextManager[Any]:
        """vLLM's forward context for a model call beside the main one; `graph`: one that has a graph."""

    def wrap_in_graphs(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], tuple[int, ...]]:
        """A function in the platform's graph wrapper, and the batch sizes of its graphs; none without full graphs."""

    def warn_once(self, message: str) -> None:
        """Log one line, once per process."""


class ModelRunnerAdapter(Protocol):
    """Behaviour that only some models have: adapter methods, each with what it does if it is not overridden.

    Adapters of one model run in registration order: `preprocess` each on the last one's ids and embeddings, extra
    keyword arguments merged; `extract_outputs` until one returns multimodal outputs; `enrich_request_info` each on the
    last one's result; the others simply one after another.
    """

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        """Once, when the model is loaded: allocate buffers."""
        return

    def capture(self, runner: AdapterHost) -> None:
        """Inside the runner's capture of graphs: capture those of its own."""
        return

    def init_request_positions(self, runner: AdapterHost, req_state: RequestState) -> None:
        """Before a request's rotary positions are computed."""
        return

    def fixup_decode_positions(self, runner: AdapterHost, scheduler_output: Any) -> None:
        """After the step's rotary positions are computed, before they are used."""
        return

    def preprocess(
        self,
        runner: AdapterHost,
        input_ids: torch.Tensor,
        inputs_embeds: torch.Tensor,
        scheduler_output: Any,
        num_scheduled_tokens_np: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Before the forward: token ids, embeddings, and extra keyword arguments of it."""
        return input_ids, inputs_embeds, {}

    def postprocess(
        self, runner: AdapterHost, hidden_states: torch.Tensor, multimodal_outputs: Any, scheduler_output: Any
    ) -> None:
        """After the forward."""
        return

    def extract_outputs(self, runner: AdapterHost, hidden_states: Any) -> tuple[Any, Any]:
        """The model's output as hidden states and multimodal outputs."""
        return (hidden_states[0] if isinstance(hidden_states, list | tuple) else hidden_states), {}

    def enrich_request_info(
        self, runner: AdapterHost, req_id: str, req_state: RequestState, req_infos: dict[str, Any]
    ) -> dict[str, Any]:
        """A request's payload before a model method sees it."""
        return req_infos


class DefaultModelRunnerAdapter(ModelRunnerAdapter):
    """Does nothing; adapters derive from it and override what they need."""

    requires: ClassVar[tuple[str, ...]] = ()
    """Attributes of a model, one of which must be true for the adapter to apply by capability."""


Adapter = TypeVar("Adapter", bound=ModelRunnerAdapter)


def overriding(adapters: Sequence[Adapter], method: str) -> list[Adapter]:
    """The adapters that override an adapter method; what does nothing costs nothing."""
    default = getattr(ModelRunnerAdapter, method)
    return [adapter for adapter in adapters if getattr(type(adapter), method) is not default]
