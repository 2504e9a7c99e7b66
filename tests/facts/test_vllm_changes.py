"""What changed between two small vLLMs of our own: each kind of change is found, and a reformatting is none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omni_migrate.facts.extension_points import open_vllm, prove
from omni_migrate.facts.hook_sites import HookSite
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.facts.vllm_changes import Tracked, overridden_methods, track
from omni_migrate.knowledge import Claim, ExtensionPoint, HookSpec, upstream_runners
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.mapping_document import render_mapping

Tree = Callable[..., Path]

STATE = """
class State:
    input_ids: int
    embeds: "list[int]"

    def prepare(self, batch, states=None):
        first = batch.rows
        second = states.lengths
        total = first + second
        return {"rows": total}
"""
RUNNER = """
class GPUModelRunner:
    def execute(self, output):
        return self.state.prepare(output)

    def sample(self, output):
        return output
"""
STATE_FILE, RUNNER_FILE = "vllm/v1/worker/gpu/state.py", "vllm/v1/worker/gpu/runner.py"
NAME = "vllm.v1.worker.gpu.state.State"

POINTS = (
    ExtensionPoint(
        f"{NAME}.prepare",
        ">=1",
        "",
        (Claim("called_in", "vllm.v1.worker.gpu.runner.GPUModelRunner.execute", on="state"),),
    ),
    ExtensionPoint(NAME, ">=1", "", (Claim("fields", ("input_ids",)),)),
)
SPEC = HookSpec("hook", "the hook", "Does it", "adapt", "low", "P0", 3, {"overrides": ("_update",)}, POINTS)


def tracked(tree: Tree, *changes: tuple[str, str], **files: str) -> dict[str, Tracked]:
    before = {"vllm/__init__.py": "", STATE_FILE: STATE, RUNNER_FILE: RUNNER}
    after = dict(before)
    for old, new in changes:
        assert any(old in text for text in after.values())
        after = {path: text.replace(old, new) for path, text in after.items()}
    after |= {f"vllm/v1/worker/gpu/{name}.py": text for name, text in files.items()}
    old, new = open_vllm(tree("old", before), "1.0"), open_vllm(tree("new", after), "2.0")
    return {item.symbol.rpartition(".")[2]: item for item in track(old, new, [SPEC])}


def said(item: Tracked) -> list[tuple[str, str]]:
    return [(difference.kind, difference.text) for difference in item.differences]


def test_nothing_changed_though_lines_moved(tree: Tree) -> None:
    item = tracked(
        tree, ("class State", "# a comment\n\n\nclass State"), ("first = batch.rows", "first = (batch.rows)")
    )["prepare"]
    assert (item.status, item.before, item.after, said(item)) == ("unchanged", (STATE_FILE, 6), (STATE_FILE, 9), [])


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("states=None)", "states=None, loras=0)", ("parameter-added", "gains loras = 0")),
        ("batch, states=None", "batch, loras, states=None", ("parameter-required", "requires loras")),
        ("states=None)", "states=None, **more)", ("parameter-added", "gains **more")),
        ("batch, states=None", "batch", ("parameter-removed", "loses states")),
        ("states=None", "states=0", ("parameter-default", "states: default None became 0")),
        ("states=None", "states", ("parameter-required", "states: default None became none")),
        ("batch, states", "batch: int, states", ("parameter-annotation", "batch: none became int")),
        ("batch, states=None)", "batch, states=None) -> dict", ("returns", "result: nothing became dict")),
        (
            "(self, batch, states=None)",
            "(self, states=None, batch=None)",
            ("parameter-order", "batch, states became states, batch"),
        ),
        ("total = first + second", "total = second", ("body", "1 line of the body")),
        (
            "        return self.state.prepare(output)",
            "        return 0",
            ("caller-removed", "no longer called in GPUModelRunner.execute"),
        ),
        (
            "        return output",
            "        return self.state.prepare(output)",
            ("caller-added", "called in GPUModelRunner.sample"),
        ),
    ],
)
def test_a_method_changed(tree: Tree, old: str, new: str, difference: tuple[str, str]) -> None:
    item = tracked(tree, (old, new))["prepare"]
    assert item.status == "changed"
    assert difference in said(item)


@pytest.mark.parametrize(
    ("old", "new", "differences"),
    [
        ("    input_ids: int\n", "", [("field-removed", "loses input_ids")]),
        ("    input_ids: int\n", "    input_ids: int\n    is_padding: bool\n", [("field-added", "gains is_padding")]),
        ("input_ids: int", "input_ids: str", [("field-type", "input_ids: int became str")]),
        ("batch, states=None", "batch, states=None, n=1", [("method", "prepare: gains n = 1")]),
    ],
)
def test_a_class_changed(tree: Tree, old: str, new: str, differences: list[tuple[str, str]]) -> None:
    assert said(tracked(tree, (old, new))["State"]) == differences


def test_renamed_by_its_body(tree: Tree) -> None:
    item = tracked(tree, ("def prepare(", "def prepare_inputs("))["prepare"]
    assert (item.status, item.now, item.after) == ("renamed", f"{NAME}.prepare_inputs", (STATE_FILE, 6))


def test_moved_to_another_module(tree: Tree) -> None:
    items = tracked(tree, (STATE, "X = 1\n"), states=STATE)
    assert {name: (item.status, item.now) for name, item in items.items()} == {
        "prepare": ("moved", "vllm.v1.worker.gpu.states.State.prepare"),
        "State": ("moved", "vllm.v1.worker.gpu.states.State"),
    }


def test_gone(tree: Tree) -> None:
    item = tracked(tree, (STATE[STATE.index("    def prepare") :], ""))["prepare"]
    assert (item.status, item.now, item.after) == ("gone", "", None)


def test_new_and_absent(tree: Tree) -> None:
    point = ExtensionPoint(f"{NAME}.capture", ">=2", "", ())
    spec = HookSpec(
        "hook", "hook", "", "adapt", "low", "P0", 3, {}, (point, ExtensionPoint(f"{NAME}.x", ">=2", "", ()))
    )
    old = open_vllm(tree("old", {STATE_FILE: STATE}), "1.0")
    new = open_vllm(tree("new", {STATE_FILE: STATE + "    def capture(self):\n        pass\n"}), "2.0")
    (item,) = track(old, new, [spec])
    assert (item.symbol, item.status, item.before) == (f"{NAME}.capture", "new", None)


def test_methods_of_vllms_v1_runner_that_the_tree_overrides(tree: Tree) -> None:
    upstream = (
        "class Base:\n    def reset(self): ...\nclass GPUModelRunner(Base):\n    def _update(self, output): ...\n"
    )
    vllm = open_vllm(tree("vllm", {"vllm/v1/worker/gpu_model_runner.py": upstream}), "1.0")
    runner = """
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
class Omni(GPUModelRunner):
    def __init__(self): ...
    def _update(self, output): ...
    def reset(self): ...
    def own(self): ...
"""
    modules = Modules(Workspace(tree("omni", {"vllm_omni/worker/a.py": runner})))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    assert overridden_methods(modules, runners, vllm) == ["_update", "reset"]


def test_the_mapping_document_has_sites_places_changes_and_proof(tree: Tree) -> None:
    old = open_vllm(tree("old", {STATE_FILE: STATE, RUNNER_FILE: RUNNER}), "1.0")
    new = open_vllm(tree("new", {STATE_FILE: STATE.replace("states=None", "states"), RUNNER_FILE: RUNNER}), "2.0")
    site = HookSite("worker/a.py", 7, 4, "hook", "call", "Runner._step", "_update")
    text = render_mapping("vllm-omni 1.0", ("1.0", "2.0"), [SPEC], [site], track(old, new, [SPEC]), prove([SPEC], new))
    assert (
        "| `the hook` | P0 | 1 | `State.prepare` | vllm/v1/worker/gpu/state.py:6 | vllm/v1/worker/gpu/state.py:6 "
        "| states: default None became none | 2 of 2 |"
    ) in text
    assert "| `Runner._step` | worker/a.py | 7 | `_update` |" in text
    assert (
        "| `State.prepare` is called in GPUModelRunner.execute | yes | self.state.prepare "
        "| vllm/v1/worker/gpu/runner.py:4 |"
    ) in text
