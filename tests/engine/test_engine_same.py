"""V1 and V2 do exactly the same: tokens, codes, outputs, hidden states, model calls; and nothing is left behind."""

from __future__ import annotations

import pytest
from engine_scenarios import BY_NAME, HAS_XDROPE, SCENARIOS

COMPARED = ("tokens", "outputs", "hidden", "hooks", "rounds", "logs", "kv")


def first_difference(left, right, path=""):
    """Where two JSON values part, or None."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key not in left or key not in right:
                return f"{path}.{key}: in {'V1' if key in left else 'V2'} alone"
            if found := first_difference(left[key], right[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(left, list) and isinstance(right, list):
        for i, (one, other) in enumerate(zip(left, right, strict=False)):
            if found := first_difference(one, other, f"{path}[{i}]"):
                return found
        return None if len(left) == len(right) else f"{path}: {len(left)} entries and {len(right)}"
    return None if left == right else f"{path}: {left!r} and {right!r}"


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_what_the_scenario_is_about_happened(runs, runner, name):
    result = runs[runner][name]
    assert "error" not in result, result["error"]
    assert [what for what in BY_NAME[name].requires if not result["seen"].get(what)] == []
    kind = "CPUGenerationModelRunner" if BY_NAME[name].generation else "CPUARModelRunner"
    assert result["runner"][0] == kind + ("V2" if runner == "v2" else "")


@pytest.mark.parametrize("name", BY_NAME)
def test_v1_and_v2_do_the_same(runs, name):
    v1, v2 = runs["v1"][name], runs["v2"][name]
    compared = ("after", "left") if BY_NAME[name].fault else COMPARED  # which rows a failing step reached is no matter
    assert [found for what in compared if (found := first_difference(v1.get(what), v2.get(what), what))] == []


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_the_store_is_empty_when_all_requests_are_done(runs, runner):
    assert {name: result["left"] for name, result in runs[runner].items() if result["left"]} == {}


@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_nothing_is_logged_but_the_missing_xd_rope(runs, runner):
    logged = {name: result["logs"] for name, result in runs[runner].items() if result["logs"]}
    if HAS_XDROPE:
        assert logged == {}
        return
    assert list(logged) == ["xdrope"]
    (line,) = logged["xdrope"]
    assert "TinyXDRope asks for XD-RoPE, which this vLLM does not have" in line


def test_scenarios_have_names_of_their_own():
    assert len(BY_NAME) == len(SCENARIOS)
