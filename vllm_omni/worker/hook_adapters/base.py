"""The adapter protocol of RFC-003, what an adapter may use of a runner, and the adapter that does nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    import torch

    from vllm_omni.worker.request_store import RequestState, RequestStore
    from vllm_omni.worker.step import Row


class ModelHookError(RuntimeError):
    """A hook of a model that raised or returned what the runner cannot use."""


@contextmanager
def naming(model: Any, hook: str, requests: Any) -> Iterator[None]:
    """Turn whatever goes wrong inside into a ModelHookError that names the model, the hook and the requests."""
    try:
        yield
    except ModelHookError:
        raise
    except Exception as error:
        raise hook_error(model, hook, requests, error) from error


def hook_error(model: Any, hook: str, requests: Any, error: object) -> ModelHookError:
    """One line that names the model, the hook and the requests."""
    names = requests if isinstance(requests, str) else ", ".join(requests)
    kind = f"{type(error).__name__}: " if isinstance(error, Exception) else ""
    return ModelHookError(f"{type(model).__name__}.{hook} failed for {names}: {kind}{error}")


class MtpBatch:
    """The decode rows of a step that MTP runs for, gathered while the rows are prepared."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[Row] = []
        self.ids: list[torch.Tensor] = []
        self.embeds: list[torch.Tensor] = []
        self.last_hidden: list[torch.Tensor] = []
        self.text_step: list[torch.Tensor] = []

    def add(self, rows: list[Row], ids: Any, embeds: Any, last_hidden: Any, text_step: Any) -> None:
        """Add `n` rows with `[n]` ids and three `[n, width]` tensors; the shapes may have extra ones."""
        n = len(rows)
        shape = (n, self.width)
        self.ids.append(ids if ids.shape == (n,) else ids.reshape(n))
        self.embeds.append(embeds if embeds.shape == shape else embeds.reshape(shape))
        self.last_hidden.append(last_hidden if last_hidden.shape == shape else last_hidden.reshape(shape))
        self.text_step.append(text_step if text_step.shape == shape else text_step.reshape(shape))
        self.rows.extend(rows)

    def clear(self) -> None:
        """Forget the step."""
        for part in (self.rows, self.ids, self.embeds, self.last_hidden, self.text_step):
            part.clear()


class AdapterHost(Protocol):
    """What a runner shows to adapters; V1, V2 and every platform give the same."""

    model: Any
    vllm_config: Any
    device: torch.device
    dtype: torch.dtype
    max_num_reqs: int
    store: RequestStore
    rows: list[Row]
    """The step's rows, in batch order."""
    positions: torch.Tensor | None
    """Rotary positions `[dims, tokens]` of the step, where the model has more than one row of them; writable."""
    mtp_batch: MtpBatch | None
    """Where decode rows go when the model has a runner-managed MTP, else None."""
    position_kwargs: dict[str, Any] | None
    """Keyword arguments for the model's position method, for the request that is being added."""

    def request_info(self, row: Row) -> dict[str, Any]:
        """The row's payload, enriched, with the phase keys of this step."""

    def forward_context(self, num_tokens: int) -> AbstractContextManager[Any]:
        """vLLM's forward context for a model call beside the main one."""

    def warn_once(self, message: str) -> None:
        """Log one line, once per process."""


class ModelRunnerAdapter(Protocol):
    """Extension point for behaviour that only some models have.

    Adapters of one model run in registration order: `preprocess` each on the last one's ids and embeddings, extra
    keyword arguments merged; `extract_outputs` until one returns multimodal outputs; `enrich_request_info` each on the
    last one's result; the others simply one after another.
    """

    def on_model_loaded(self, runner: Any, model: Any) -> None:
        """Once, when the model is loaded: allocate buffers."""

    def init_request_positions(self, runner: Any, req_state: Any) -> None:
        """Before a request's rotary positions are computed."""

    def fixup_decode_positions(self, runner: Any, scheduler_output: Any) -> None:
        """After the step's rotary positions are computed, before they are used."""

    def preprocess(
        self,
        runner: Any,
        input_ids: torch.Tensor,
        inputs_embeds: torch.Tensor | None,
        scheduler_output: Any,
        num_scheduled_tokens_np: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor | None, dict[str, Any]]:
        """Before the forward: token ids, embeddings, and extra keyword arguments of it."""

    def postprocess(
        self, runner: Any, hidden_states: torch.Tensor, multimodal_outputs: Any, scheduler_output: Any
    ) -> None:
        """After the forward."""

    def extract_outputs(self, runner: Any, hidden_states: Any) -> tuple[Any, Any]:
        """The model's output as hidden states and multimodal outputs."""

    def enrich_request_info(
        self, runner: Any, req_id: str, req_state: RequestState | None, req_infos: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """A request's payload before a hook of the model sees it."""


class DefaultModelRunnerAdapter:
    """Does nothing; adapters derive from it and override what they need."""

    requires: ClassVar[tuple[str, ...]] = ()
    """Attributes of a model, one of which must be true for the adapter to apply by capability."""

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        pass

    def init_request_positions(self, runner: AdapterHost, req_state: RequestState) -> None:
        pass

    def fixup_decode_positions(self, runner: AdapterHost, scheduler_output: Any) -> None:
        pass

    def preprocess(
        self,
        runner: AdapterHost,
        input_ids: torch.Tensor,
        inputs_embeds: torch.Tensor | None,
        scheduler_output: Any,
        num_scheduled_tokens_np: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor | None, dict[str, Any]]:
        return input_ids, inputs_embeds, {}

    def postprocess(
        self, runner: AdapterHost, hidden_states: torch.Tensor, multimodal_outputs: Any, scheduler_output: Any
    ) -> None:
        pass

    def extract_outputs(self, runner: AdapterHost, hidden_states: Any) -> tuple[Any, Any]:
        return (hidden_states[0] if isinstance(hidden_states, list | tuple) else hidden_states), {}

    def enrich_request_info(
        self, runner: AdapterHost, req_id: str, req_state: RequestState | None, req_infos: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        return req_infos
