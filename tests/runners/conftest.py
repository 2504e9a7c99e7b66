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
"""Options of `make_hooks` that go into the configuration; the others are fields of the stage."""
HAVE_TORCH = importlib.util.find_spec("torch") is not None
NEED_TORCH = ("step", "request_store", "hooks", "adapters", "host_copy", "model_traits")
collect_ignore = [] if HAVE_TORCH else [f"test_{name}.py" for name in NEED_TORCH]
if importlib.util.find_spec("mypy") is None:
    collect_ignore.append("test_types.py")  # the environments of real vLLM; the tool's has it
if not HAVE_TORCH and os.environ.get("OMNI_REQUIRE_ENGINE"):
    raise pytest.UsageError(f"{sys.executable} has no torch")


@pytest.fixture
def make_hooks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Builds hooks over a fake model, without vLLM's forward context."""
    import contextlib

    import torch

    from vllm_omni.worker.adapter_host import RunnerHost
    from vllm_omni.worker.hooks import OmniHooks
    from vllm_omni.worker.stage import Stage

    monkeypatch.setattr(RunnerHost, "forward_context", lambda *args, **kwargs: contextlib.nullcontext())

    def build(model: Any, **options: Any) -> OmniHooks:
        model_config = options.pop("model_config", {})
        model_config |= {name: options.pop(name) for name in OWN & options.keys()}
        given = {"device": torch.device("cpu"), "embeds_buffer": torch.zeros(32, HIDDEN)} | options
        return OmniHooks(Stage(model, config(**model_config), dtype=torch.float32, max_num_reqs=8, **given))

    return build
