"""Phases one by one, in groups or all at once end in the same tree; a second run changes nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_tree import FILES, RUNNERS

from omni_migrate.errors import InputError
from omni_migrate.extract import run
from omni_migrate.request import ExtractRequest

PHASES = (1, 2, 3, 4, 5, 6, 7)


def contents(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def all_at_once(tmp_path_factory):
    source, output = tmp_path_factory.mktemp("mini"), tmp_path_factory.mktemp("all") / "out"
    for path, text in FILES.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_text(text)
    report = run(ExtractRequest(str(source), source, output=output))
    return source, output, report


def extracted(source, output, **options):
    run(ExtractRequest(str(source), source, output=output, **options))
    return output


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.sampled_from(PHASES[1:])))
def test_phases_in_any_groups_end_in_the_same_tree(all_at_once, tmp_path_factory, cuts):
    source, whole, _ = all_at_once
    folder = tmp_path_factory.mktemp("groups")
    for first, last in pairwise([1, *sorted(cuts), 8]):
        source = extracted(source, folder / str(first), phases=tuple(range(first, last)))
    assert contents(source) == contents(whole)


def test_phases_one_by_one_end_in_the_same_tree(all_at_once, tmp_path):
    source, whole, _ = all_at_once
    for number in PHASES:
        source = extracted(source, tmp_path / str(number), phases=(number,))
    assert contents(source) == contents(whole)


def test_second_run_changes_nothing(all_at_once, tmp_path):
    _, whole, _ = all_at_once
    report = run(ExtractRequest(str(whole), tmp_path, dry_run=True))
    assert [file.path for file in report.files if file.action != "unchanged"] == []


@pytest.mark.parametrize("number", PHASES)
def test_a_second_run_of_a_phase_changes_nothing(all_at_once, tmp_path, number):
    _, whole, _ = all_at_once
    report = run(ExtractRequest(str(whole), tmp_path, dry_run=True, phases=(number,)))
    assert [file.path for file in report.files if file.action != "unchanged"] == []


@pytest.mark.parametrize("last", PHASES)
def test_after_each_phase_the_runners_do_the_same(all_at_once, tmp_path, drive, last):
    source, _, _ = all_at_once
    part = extracted(source, tmp_path / "part", phases=PHASES[:last])
    assert drive(part) == drive(source)


@pytest.mark.parametrize("adapter", ["mrope", "qwen3_talker", "mimo_audio", "glm_image", "preprocess", "omni_output"])
def test_one_adapter_alone(all_at_once, tmp_path, drive, adapter):
    source, _, _ = all_at_once
    part = extracted(source, tmp_path / "part", only=(adapter,))
    added = {path for path in contents(part).keys() - contents(source).keys() if path.startswith("vllm_omni")}
    names = {path.rsplit("/", 1)[1] for path in added}
    assert names == {"__init__.py", "base.py", "registry.py", f"{adapter}.py"}
    assert drive(part) == drive(source)


def test_a_phase_needs_the_first(all_at_once, tmp_path):
    source, _, _ = all_at_once
    with pytest.raises(InputError, match="builds on phase 1"):
        extracted(source, tmp_path / "part", phases=(3,))


def test_only_the_runners_and_what_is_new_change(all_at_once):
    source, whole, report = all_at_once
    before, after = contents(source), contents(whole)
    assert {path for path in before if before[path] != after[path]} == RUNNERS
    assert all("/adapters/" in path for path in after.keys() - before.keys())
    assert report.summary["left"] == 1  # the override of a talker's method that calls super()
    assert report.summary["moved"] == report.summary["sites"] - 1


def test_each_phase_names_what_it_moves(all_at_once):
    _, _, report = all_at_once
    by_phase = {number: {m["adapter"] for m in report.extra["moves"] if m["phase"] == number} for number in PHASES}
    assert by_phase[2] == {"MRopeAdapter"}
    assert by_phase[3] == {"Qwen3TalkerAdapter"}
    assert by_phase[4] == {"MiMoAudioAdapter"}
    assert by_phase[5] == {"GLMImageAdapter"}
    assert {"PreprocessAdapter", "PostprocessAdapter", "OmniOutputAdapter"} <= by_phase[6]
    assert by_phase[7] == {"Qwen3TalkerAdapter", "ModelSamplerAdapter"}


def test_a_block_that_two_runners_have_is_one_hook(all_at_once):
    _, whole, report = all_at_once
    places = [m["symbol"] for m in report.extra["moves"] if m["hook"] == "has_talker_mtp"]
    assert places == ["OmniGPUModelRunner.load_model", "OmniNPUModelRunner.load_model"]
    adapter = (whole / "vllm_omni/worker/adapters/qwen3_talker.py").read_text()
    assert adapter.count("def has_talker_mtp(") == 1


def test_registrations_are_the_classes_that_have_the_capability(all_at_once):
    _, whole, _ = all_at_once
    text = (whole / "vllm_omni/worker/adapters/qwen3_talker.py").read_text()
    assert '@ModelAdapterRegistry.register("Everything", "FastTalker", "Talker")' in text


def test_comments_move_with_their_statements(all_at_once):
    _, whole, _ = all_at_once
    talker = (whole / "vllm_omni/worker/adapters/qwen3_talker.py").read_text()
    assert "        # Talkers bring a second forward pass.\n        if hasattr(" in talker
    assert "            # its rows\n            runner.talker_mtp_input_ids" in talker


def test_imports_that_nothing_needs_any_more_are_gone(all_at_once):
    _, whole, _ = all_at_once
    runner = (whole / "vllm_omni/worker/gpu_ar_model_runner.py").read_text()
    assert "from typing import Any" in runner
    assert "ModelAdapterRegistry" not in runner
