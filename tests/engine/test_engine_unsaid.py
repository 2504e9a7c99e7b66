"""An engine that is not told which runner to use: V2, or V1 with a logged reason where V2 lacks what is asked for."""

from __future__ import annotations

import pytest
from engine_process import run_engine
from engine_scenarios import UNSAID
from test_engine_same import first_difference


@pytest.fixture(scope="session")
def unsaid(tmp_path_factory):
    """What happened, and what the process logged."""
    folder = tmp_path_factory.mktemp("unsaid")
    results = run_engine("unsaid", folder, [scenario.name for scenario in UNSAID])
    return results, (folder / "unsaid.log").read_text()


@pytest.mark.parametrize("scenario", UNSAID, ids=lambda scenario: scenario.name)
def test_what_the_scenario_is_about_happened(unsaid, scenario):
    result = unsaid[0][scenario.name]
    assert "error" not in result, result["error"]
    assert [what for what in scenario.requires if not result["seen"].get(what)] == []
    assert result["left"] == 0 and result["logs"] == []


def test_nothing_of_ours_forces_v1(unsaid, runs):
    result = unsaid[0]["unsaid"]
    assert result["runner"][0] == "CPUARModelRunnerV2"
    compared = ("tokens", "outputs", "hidden", "hooks")
    assert [d for what in compared if (d := first_difference(result[what], runs["v2"]["talker"][what], what))] == []


def test_what_v2_lacks_is_named_in_the_log_and_runs_on_v1(unsaid, runs):
    results, log = unsaid
    assert results["unsaid-guessing"]["runner"][0] == results["unsaid-drafted"]["runner"][0] == "CPUARModelRunner"
    reason = "Model Runner V2 does not yet support speculative method 'custom_class'; using the V1 model runner instead"
    assert reason in log
    assert results["unsaid-guessing"]["tokens"] == runs["v1"]["plain"]["tokens"]


def test_a_decode_span_of_several_tokens_is_decode_and_gets_no_mtp(unsaid):
    drafted, undrafted = unsaid[0]["unsaid-drafted"], unsaid[0]["unsaid-undrafted"]
    assert drafted["tokens"] == undrafted["tokens"]
    calls = [rest[:4] for calls in drafted["hooks"].values() for method, *rest in calls if method == "preprocess"]
    assert all(is_prefill == (computed < prompt_len) for computed, prompt_len, is_prefill, _ in calls)
    assert {span for *_, is_prefill, span in calls if not is_prefill} == {1, 3}
    assert drafted["seen"]["mtp rows"] == sum(not is_prefill and span == 1 for *_, is_prefill, span in calls)
