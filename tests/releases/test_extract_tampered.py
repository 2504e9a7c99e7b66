"""extract-adapters on trees that nobody published: a release whose runners the test has changed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import planted
import pytest
import tampered
from tampered import AR, RUNNER, RUNNERS

from omni_migrate.errors import InputError
from omni_migrate.extract import run
from omni_migrate.report.findings import Report
from omni_migrate.request import ExtractRequest
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

HERE = Path(__file__).parent
SITES = 107  # of the release itself
PLANTED = Path(planted.__file__).read_text(encoding="utf-8")
METHODS = [node for node in tampered.classes(PLANTED)["Planted"].body if isinstance(node, tampered.Function)]
NAMES = [node.name for node in METHODS if len(node.args.args) > 1 and not node.name.startswith("_")]

# Sites that stay in the planted methods, with the reason.
LEFT = {
    "part_of_a_class_name": "NewTalker stays: it tests a part of a class's name",
    "part_of_a_class_name_by_in": "Talker stays: it tests a part of a class's name",
    "matched_class_name": "NewTalkerForGeneration stays: no statement or expression around it can be moved",
    "architecture": "architectures stays: it asks the configuration",
    "static": "talker_mtp stays: the function has no receiver",
    "name_made_at_run_time": "('talker' + '_mtp' * x) stays: the name of the attribute is made at run time",
    "unknown_capability": "no adapter claims the capability wants_silence",
}

# Runs a method on models that differ in what they have, with the adapter that the model gets, and with all adapters.
DRIVER = """
import asyncio, inspect, json, types
module = package("vllm_omni.worker.gpu_model_runner")
planted_model = package("vllm_omni.worker.planted_model").PlantedModel

class Talker:
    has_preprocess, wants_silence, talker_mtp_output_key = True, True, 2
    def talker_mtp(self, x):
        if x == 7:
            raise ValueError("seven")
        return x * 10
    class talker:
        text_step = staticmethod(lambda x: x - 1)

class Quiet:
    has_preprocess, talker_mtp, talker = False, None, None

class NewTalkerForGeneration(Talker):
    def twist(self, x):
        return -x

class MiMoAudioForConditionalGeneration:
    has_preprocess = True

class Plain:
    pass

def outcome(runner, name, value):
    try:
        arguments = (runner.model, value) if name == "static" else (value,)
        result = getattr(runner, name)(*arguments)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        elif inspect.isgenerator(result):
            result = list(result)
    except Exception as error:
        result = [type(error).__name__, str(error)]
    state = {key: value for key, value in vars(runner).items() if key in ("seen", "count")}
    return [result, state]

def runners(model):
    for own in (False, True):
        runner = object.__new__(module.OmniGPUModelRunner)
        runner.model, runner.get_model = model, lambda: model
        runner.model_config = types.SimpleNamespace(hf_config=types.SimpleNamespace(architectures=["MiMoAudioModel"]))
        if own and hasattr(module, "ModelAdapterRegistry"):
            runner._adapter = module.ModelAdapterRegistry.get_adapter(model)
        yield runner

results = {}
for name, many in NAMES.items():
    results[name] = [
        outcome(runner, name, value)
        for kind in (Talker, Quiet, NewTalkerForGeneration, MiMoAudioForConditionalGeneration, Plain, planted_model)
        for value in ([[], [1, 2, -1, 7]] if many else [0, 1, 2, 7])
        for runner in runners(kind())
    ]
print(json.dumps(results))
"""


def extracted(root: Path, **options: Any) -> Report:
    return run(ExtractRequest(str(root), root, **({"dry_run": True} | options)))


def texts(report: Report) -> dict[str, str]:
    return {file.path: file.after.decode() for file in report.files}


def left(report: Report) -> list[str]:
    return [found.message for found in report.findings if found.rule in ("site-left", "unclaimed-site")]


def everything_moved(report: Report, more: int = 0) -> None:
    assert (report.summary["sites"], report.summary["moved"], left(report)) == (SITES + more, SITES + more, [])


@pytest.fixture(scope="session")
def release() -> Path:
    return resolve("vllm-omni==0.16.0", cwd=Path.cwd()).root


@pytest.fixture
def tree(release, tmp_path) -> Path:
    return tampered.copied(release, tmp_path / "tree")


# -- sites in every construct


@pytest.fixture(scope="module")
def plants(release, tmp_path_factory) -> tuple[Path, Path, Report]:
    """A tree with all planted methods in its runner, the same extracted, and the report."""
    root = tampered.copied(release, tmp_path_factory.mktemp("plants") / "tree")
    module = ast.parse(PLANTED)
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    lines = PLANTED.splitlines(keepends=True)
    body = tampered.classes(PLANTED)["Planted"].body
    methods = "".join(lines[body[0].lineno - 1 : body[-1].end_lineno])
    tampered.edit(
        root, RUNNER, tampered.add_to_module("\n\n".join(["import contextlib", *map(ast.unparse, functions)]))
    )
    tampered.edit(root, RUNNER, tampered.add_methods("OmniGPUModelRunner", methods))
    (root / "vllm_omni/worker/planted_model.py").write_text("class PlantedModel:\n    has_preprocess = True\n")
    output = root.parent / "extracted"
    return root, output, extracted(root, dry_run=False, output=output)


def drive(root: Path) -> dict[str, object]:
    names = {node.name: node.args.args[-1].arg == "xs" for node in METHODS if node.name in NAMES}
    script = f"NAMES = {names!r}\n{DRIVER}"
    done = subprocess.run(
        [sys.executable, "-B", str(HERE / "stubbed.py"), str(root)],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def outcomes(plants) -> tuple[dict[str, object], dict[str, object]]:
    return drive(plants[0]), drive(plants[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_method_does_what_it_did(outcomes, name):
    before, after = outcomes
    assert after[name] == before[name]
    assert len({json.dumps(outcome) for outcome in before[name]}) > 1  # the models do differ in it


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_site_is_moved_or_left_with_its_reason(plants, name):
    _, output, report = plants
    found = [f for f in report.findings if f.symbol == f"OmniGPUModelRunner.{name}"]
    stays = [f.message for f in found if f.rule in ("site-left", "unclaimed-site")]
    assert all(message.startswith(LEFT[name]) for message in stays) if name in LEFT else stays == []
    if name not in LEFT and name != "behind_a_property":
        source = ast.unparse(tampered.method(tampered.read(output, RUNNER), "OmniGPUModelRunner", name))
        assert "_adapter." in source


def test_an_unclaimed_site_comes_with_the_lines_that_claim_it(plants):
    (found,) = [f for f in plants[2].findings if f.rule == "unclaimed-site"]
    assert 'adapters = [{ name = "wants_silence", phase = 6, capabilities = ["wants_silence"] }]' in found.hint


# -- the same code in another shape


@pytest.fixture(scope="module")
def plain(release, tmp_path_factory) -> Report:
    return extracted(tampered.copied(release, tmp_path_factory.mktemp("plain") / "tree"))


def moves(report: Report) -> list[tuple[object, ...]]:
    moved: list[dict[str, object]] = report.extra["moves"]  # type: ignore[assignment]
    return sorted((m["phase"], m["symbol"], m["subject"], m["adapter"], m["hook"], m["as"]) for m in moved)


def test_renamed_locals(tree, plain):
    tampered.edit(tree, RUNNER, tampered.rename_locals("OmniGPUModelRunner"))
    report = extracted(tree)
    everything_moved(report)
    # the platforms' code is no longer the same as the shared runner's, so it gets adapter methods of its own
    shared, shared_before = ([move for move in moves(each) if move[0] != 7] for each in (report, plain))
    assert shared == shared_before


def test_methods_in_another_order(tree, plain):
    tampered.edit(tree, RUNNER, tampered.reverse_methods("OmniGPUModelRunner"))
    report = extracted(tree)
    everything_moved(report)
    assert [move[:2] for move in moves(report)] == [move[:2] for move in moves(plain)]


def test_runners_under_other_names_in_other_modules(tree, plain):
    tampered.move_module(tree, RUNNER, "vllm_omni/engines/core.py")
    tampered.move_module(tree, AR, "vllm_omni/engines/text/step.py")
    tampered.rename_everywhere(tree, {"OmniGPUModelRunner": "SpeechRunner", "GPUARModelRunner": "TextRunner"})
    report = extracted(tree)
    everything_moved(report)
    assert "vllm_omni/engines/adapters/qwen3_talker.py" in texts(report)
    assert len(moves(report)) == len(moves(plain))


def test_carriage_returns(tree, plain):
    for path in RUNNERS:
        tampered.edit(tree, path, tampered.with_crlf)
    report = extracted(tree)
    everything_moved(report)
    for path in RUNNERS:
        assert texts(report)[path] == tampered.with_crlf(texts(plain)[path])


BLANKS_IN_A_STRING = """
    text = '''one


    two'''
"""


def test_more_blank_lines_than_usual(tree):
    tampered.edit(tree, RUNNER, tampered.add_methods("OmniGPUModelRunner", BLANKS_IN_A_STRING))
    for path in RUNNERS:
        tampered.edit(tree, path, lambda text: text.replace("\n\n    def ", "\n\n\n    def "))
    report = extracted(tree)
    everything_moved(report)
    after = texts(report)[RUNNER]
    assert BLANKS_IN_A_STRING.splitlines()[1] + "\n\n\n" in after
    assert len(re.findall(r"\n\n\n    (@|def )", after)) > 15
    assert "\n\n\n\n" not in after


def test_tabs(tree):
    for path in RUNNERS:
        tampered.edit(tree, path, tampered.with_tabs)
    report = extracted(tree)
    everything_moved(report)
    for path in RUNNERS:
        before, after = tampered.read(tree, path).splitlines(), texts(report)[path].splitlines()
        assert not [line for line in set(after) - set(before) if line.startswith(" ")]


def test_a_coding_line(tree, plain):
    (tree / RUNNER).write_bytes(tampered.in_latin_1(tampered.read(tree, RUNNER)))
    report = extracted(tree)
    everything_moved(report)
    (after,) = [file.after for file in report.files if file.path == RUNNER]
    assert after.decode("latin-1").startswith("# -*- coding: latin-1 -*-\n# für jedes Modell\n")
    assert moves(report) == moves(plain)


# -- what stands around the runners


SUBCLASS = """
from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner


class LoudRunner(OmniGPUModelRunner):
    def _talker_mtp_forward(self, decode_req_ids, inputs_embeds):
        print("talker", decode_req_ids)
        return super()._talker_mtp_forward(decode_req_ids, inputs_embeds)

    def _calc_mrope_positions(self, scheduler_output):
        self._fixup_precomputed_mrope_decode_positions(scheduler_output)
"""


def test_a_subclass_that_overrides_a_moved_method_is_still_asked(tree):
    (tree / "vllm_omni/loud.py").write_text(SUBCLASS)
    report = extracted(tree)
    assert left(report) == [  # the override itself
        "_talker_mtp_forward stays: its method cannot be moved whole: it reads super, which means another class once "
        "it is moved"
    ]
    runner = tampered.classes(texts(report)[RUNNER])["OmniGPUModelRunner"]
    methods = {node.name: ast.unparse(node) for node in runner.body if isinstance(node, tampered.Function)}
    # it is called by its name wherever it was, so that the override is reached
    assert "return self._adapter.talker_mtp_forward(" in methods["_talker_mtp_forward"]
    talker = texts(report)["vllm_omni/worker/adapters/qwen3_talker.py"]
    assert "runner._talker_mtp_forward(" in talker
    assert "self.talker_mtp_forward(" not in talker


def test_a_test_that_replaces_a_moved_method_is_still_asked(tree):
    (tree / "tests").mkdir()
    (tree / "tests/test_talker.py").write_text(
        'def test(monkeypatch, runner):\n    monkeypatch.setattr(runner, "_init_mrope_positions", None)\n'
    )
    report = extracted(tree)
    assert set(left(report)) == {
        "_init_mrope_positions stays: a file of this tree replaces the method, so it is called by its name"
    }
    assert "self._init_mrope_positions(" in texts(report)[RUNNER]


PATCHES = """
import pytest

import vllm_omni.worker.gpu_model_runner as mod
from unittest.mock import patch


def test_talker(monkeypatch):
    monkeypatch.setattr(mod, "set_forward_context", None)
    monkeypatch.setattr(mod, "get_pp_group", None)


@patch("vllm_omni.worker.gpu_model_runner.set_forward_context")
def test_talker_too(context): ...
"""


@pytest.mark.parametrize("phases", [(), (1, 2, 3)])
def test_patches_of_a_runner_s_globals_reach_the_adapters(tree, phases):
    (tree / "tests").mkdir()
    (tree / "tests/test_talker.py").write_text(PATCHES)
    report = extracted(tree, phases=phases)
    before = '    monkeypatch.setattr(mod, "set_forward_context", None)\n'
    added = '    monkeypatch.setattr("vllm_omni.worker.adapters.qwen3_talker.set_forward_context", None)\n'
    assert texts(report)["tests/test_talker.py"] == PATCHES.replace(before, before + added)
    assert [(f.path, f.line, f.hint) for f in report.findings if f.rule == "test-patch"] == [
        ("tests/test_talker.py", 14, "patch vllm_omni.worker.adapters.qwen3_talker.set_forward_context too")
    ]


# A test as the project has them: it builds a runner without its __init__, and replaces what its module has imported.
PROJECT_TEST = """
import types

import vllm_omni.worker.gpu_model_runner as mod


class Reached(Exception):
    pass


def reached(*args, **kwargs):
    raise Reached


def test_talker(monkeypatch):
    monkeypatch.setattr(mod, "set_forward_context", reached)
    runner = object.__new__(mod.OmniGPUModelRunner)
    buffer = types.SimpleNamespace(gpu=[1, 2])
    for name in ("talker_mtp_input_ids", "talker_mtp_inputs_embeds", "last_talker_hidden", "text_step"):
        setattr(runner, name, buffer)
    runner.talker_mtp, runner.vllm_config, runner.model = None, None, object()
    runner._determine_batch_execution_and_padding = lambda **_: (0, types.SimpleNamespace(num_tokens=1), 0, 0, 0)
    try:
        mod.OmniGPUModelRunner._talker_mtp_forward(runner, ["r1"], None)
    except Reached:
        return
    raise AssertionError
"""

RUN_PROJECT_TEST = """
import importlib

class Monkeypatch:
    def setattr(self, target, name, *value):
        if isinstance(target, str):
            module, _, attribute = target.rpartition(".")
            target, name, value = importlib.import_module(module), attribute, (name,)
        assert hasattr(target, name)
        setattr(target, name, *value)

package("tests.test_talker").test_talker(Monkeypatch())
"""


def test_a_test_of_the_project_does_what_it_did(tree):
    (tree / "tests").mkdir()
    (tree / "tests/test_talker.py").write_text(PROJECT_TEST)
    output = tree.parent / "output"
    extracted(tree, dry_run=False, output=output)

    def run_test(root: Path) -> str:
        command = [sys.executable, "-B", str(HERE / "stubbed.py"), str(root)]
        return subprocess.run(command, input=RUN_PROJECT_TEST, capture_output=True, text=True, check=False).stderr

    assert run_test(tree) == run_test(output) == ""
    (output / "tests/test_talker.py").write_text(PROJECT_TEST)  # as it was: it no longer reaches the code that moved
    assert "'NoneType' object is not callable" in run_test(output)


@pytest.mark.parametrize("path", [AR, "vllm_omni/model_executor/models/qwen3_omni/qwen3_omni.py"])
def test_a_file_that_does_not_parse_is_named_and_nothing_is_planned(tree, path):
    (tree / path).write_bytes((tree / path).read_bytes() + b"\ndef x(:\n")
    report = extracted(tree)
    assert [f.path for f in report.findings if f.rule == "unreadable-file"] == [path]
    assert [file.path for file in report.files if file.before != file.after] == []
    with pytest.raises(InputError, match=path):
        extracted(tree, dry_run=False, output=tree.parent / "output")
    assert not (tree.parent / "output").exists()


@pytest.mark.parametrize(
    "path",
    [
        "vllm_omni/worker/adapters/__init__.py",
        "vllm_omni/worker/adapters/qwen3_talker.py",
        "vllm_omni/platforms/npu/worker/adapters/__init__.py",
    ],
)
def test_files_of_something_else_are_not_overwritten(tree, path):
    (tree / path).parent.mkdir()
    (tree / path).write_text("LORA = 1\n")
    with pytest.raises(InputError, match=f"^{path} is in the way"):
        extracted(tree)


@pytest.mark.parametrize("path", [RUNNER, AR])
def test_an_attribute_of_that_name_is_not_taken_over(tree, path):
    constructor = "        super().__init__(*args, **kwargs)\n"
    tampered.edit(tree, path, lambda text: text.replace(constructor, f"{constructor}        self._adapter = lora\n", 1))
    with pytest.raises(InputError, match=rf"^{path}:\d+ gives a runner an attribute _adapter of another kind"):
        extracted(tree)


def test_another_folder_called_adapters_is_left_alone(tree):
    folder = tree / "vllm_omni/lora/adapters"
    folder.mkdir(parents=True)
    lora = "class Lora:\n    def talker_mtp_forward(self, runner):\n        runner._init_mrope_positions(self)\n"
    (folder / "talker.py").write_text(lora)
    report = extracted(tree)
    everything_moved(report)
    assert "vllm_omni/lora/adapters/talker.py" not in texts(report)
    assert "def talker_mtp_forward(" in texts(report)["vllm_omni/worker/adapters/qwen3_talker.py"]
