"""The runner-agnostic modules with fakes in place of vLLM. They need torch and msgspec, and never import vLLM."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import HIDDEN, config

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))
OWN = {"parallel_config", "speculative_config", "compilation_config"}
"""Options of `make_hooks` that go into the configuration."""
HAVE_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore = (
    [] if HAVE_TORCH else [f"test_{name}.py" for name in ("step", "request_store", "hooks", "adapters", "host_copy")]
)
if not HAVE_TORCH and os.environ.get("OMNI_REQUIRE_ENGINE"):
    raise pytest.UsageError(f"{sys.executable} has no torch")


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
        model_config |= {name: options.pop(name) for name in OWN & options.keys()}
        buffer = torch.zeros(32, HIDDEN)
        return Hooks(model, config(**model_config), torch.device("cpu"), torch.float32, buffer, 8, **options)

    return build
