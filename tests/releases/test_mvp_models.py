"""Which models a V2 port of P0 and P1 serves: what decision 0012 says is what the census computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.release
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def served():
    spec = importlib.util.spec_from_file_location("mvp_models", DOCS / "mvp_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.served("vllm-omni==0.30.0")


def test_decision_0012_has_the_figures_of_the_census(served):
    counts = [len(names) for names in served]
    assert counts == [55, 19, 6]
    text = " ".join((DOCS / "decisions" / "0012-v2-runner.md").read_text(encoding="utf-8").split())
    assert f"Of the {sum(counts)} model classes" in text and f"it serves {counts[0]}:" in text
    assert f"{counts[1]} need the preprocess" in text and f"and {counts[2]} the talker MTP" in text


def test_a_model_is_served_by_p0_and_p1_only_if_no_stage_of_it_has_a_hook(served):
    assert "Qwen3OmniMoeThinkerForConditionalGeneration" in served.by_p0_and_p1
    assert "GlmImageForConditionalGeneration" in served.by_p0_and_p1
    assert "Qwen2_5OmniForConditionalGeneration" in served.by_methods_too
    assert "Qwen3OmniMoeForConditionalGeneration" in served.by_mtp_too
