"""Stand-ins for what vLLM's scheduler and configuration say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

HIDDEN = 4


def new_request(req_id: str = "a", prompt: int = 5, info: Any = None, **fields: Any) -> SimpleNamespace:
    """What the scheduler sends of a new request."""
    defaults = {"mm_features": [], "sampling_params": None, "additional_information": info}
    return SimpleNamespace(req_id=req_id, prompt_token_ids=list(range(prompt)), **{**defaults, **fields})


def scheduler_output(
    new: Any = (), finished: Any = (), preempted: Any = (), resumed: Any = (), cached: Any = None, drafts: Any = None
) -> Any:
    """A scheduler's output, as far as the hooks read it."""
    return SimpleNamespace(
        scheduled_new_reqs=list(new),
        finished_req_ids=set(finished),
        preempted_req_ids=set(preempted),
        scheduled_spec_decode_tokens=drafts or {},
        scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set(resumed), additional_information=cached),
    )


def config(
    parallel_config: Any = None, speculative_config: Any = None, compilation_config: Any = None, **model_config: Any
) -> SimpleNamespace:
    """The parts of a VllmConfig that the hooks read."""
    return SimpleNamespace(
        model_config=SimpleNamespace(hf_text_config=SimpleNamespace(hidden_size=HIDDEN), **model_config),
        compilation_config=compilation_config,
        additional_config=None,
        parallel_config=parallel_config,
        speculative_config=speculative_config,
    )
