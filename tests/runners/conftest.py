"""The runner-agnostic modules with fakes in place of vLLM. They need torch and msgspec, and never import vLLM."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))
HAVE_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore = (
    [] if HAVE_TORCH else [f"test_{name}.py" for name in ("step", "request_store", "hooks", "adapters", "host_copy")]
)
if not HAVE_TORCH and os.environ.get("OMNI_REQUIRE_ENGINE"):
    raise pytest.UsageError(f"{sys.executable} has no torch")

HIDDEN = 4


def new_request(req_id: str = "a", prompt: int = 5, info: Any = None, **fields: Any) -> SimpleNamespace:
    """What the scheduler sends of a new request."""
    defaults = {"mm_features": [], "sampling_params": None, "additional_information": info}
    return SimpleNamespace(req_id=req_id, prompt_token_ids=list(range(prompt)), **{**defaults, **fields})


def scheduler_output(
    new: Any = (), finished: Any = (), preempted: Any = (), resumed: Any = (), cached: Any = None
) -> Any:
    """A scheduler's output, as far as the hooks read it."""
    return SimpleNamespace(
        scheduled_new_reqs=list(new),
        finished_req_ids=set(finished),
        preempted_req_ids=set(preempted),
        scheduled_cached_reqs=SimpleNamespace(resumed_req_ids=set(resumed), additional_information=cached),
    )


def config(**model_config: Any) -> SimpleNamespace:
    """The parts of a VllmConfig that the hooks read."""
    return SimpleNamespace(
        model_config=SimpleNamespace(hf_text_config=SimpleNamespace(hidden_size=HIDDEN), **model_config),
        compilation_config=None,
        additional_config=None,
    )


@pytest.fixture
def make_hooks() -> Callable[..., Any]:
    """Builds hooks over a fake model."""
    import contextlib

    import torch

    from vllm_omni.worker.hooks import OmniHooks

    class Hooks(OmniHooks):
        """Without vLLM's forward context."""

        def forward_context(self, num_tokens: int, graph: bool = False) -> Any:
            return contextlib.nullcontext()

    def build(model: Any, **options: Any) -> OmniHooks:
        model_config = options.pop("model_config", {})
        buffer = torch.zeros(32, HIDDEN)
        return Hooks(model, config(**model_config), torch.device("cpu"), torch.float32, buffer, 8, **options)

    return build
