"""The V2 port of the published releases without one: which files, what the binding says, what is left; and in either
order with extract-adapters.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import tampered

from omni_migrate.checks.names import names
from omni_migrate.checks.parses import parses
from omni_migrate.checks.resolves import resolves
from omni_migrate.checks.untouched import untouched
from omni_migrate.facts.modules import Modules
from omni_migrate.plan.output_folder import apply_to_output
from omni_migrate.plan.v2_port import V2Port
from omni_migrate.plan.workspace import Workspace
from omni_migrate.runners import in_tree_worker
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

WORKERS = ("vllm_omni/worker/gpu_ar_worker.py", "vllm_omni/worker/gpu_generation_worker.py")
SCHEDULERS = ("vllm_omni/core/sched/omni_ar_scheduler.py", "vllm_omni/core/sched/omni_generation_scheduler.py")
ADDED = (
    "adapter_host.py", "adopt.py", "async_output.py", "binding.py", "gpu_ar_model_runner_v2.py",
    "gpu_generation_model_runner_v2.py", "gpu_model_runner_v2.py", "graph_outputs.py", "hook_adapters/__init__.py",
    "hook_adapters/base.py", "hook_adapters/glm_image.py", "hook_adapters/hunyuan_vl.py", "hook_adapters/mimo_audio.py",
    "hook_adapters/model_methods.py", "hook_adapters/mrope.py", "hook_adapters/mtp_batch.py",
    "hook_adapters/qwen3_talker.py", "hook_adapters/registry.py", "hooks.py", "host_copy.py", "kv_transfer.py",
    "model_errors.py", "model_traits.py", "model_wrap.py", "request_store.py", "stage.py", "step.py", "step_inputs.py",
    "step_outputs.py",
)  # fmt: skip
RUNNER_CLASSES = ("OmniGPUModelRunner", "GPUARModelRunner", "GPUGenerationModelRunner")
CODES, LATER_CODES = "code_predictor_codes", ("codes", "audio")


@dataclass(frozen=True)
class Facts:
    """What the binding says: where MTP's codes go, which output fields hold payloads, and how many capabilities of
    models and models with a connector of their own stay on V1; whether the schedulers drop the prefill tokens, and how
    many workers of platforms are left."""

    codes: str | tuple[str, ...]
    payloads: tuple[str, ...]
    unported: int
    connected: int
    schedulers: bool
    left: int


OLD, NEW = ("pooler_output",), ("multimodal_outputs", "inter_stage_outputs")
FACTS = {
    "0.14.0": Facts(CODES, OLD, 0, 0, True, 0),
    "0.16.0": Facts(CODES, OLD, 0, 0, True, 0),
    "0.18.0": Facts(CODES, OLD, 2, 0, True, 0),
    "0.20.0": Facts(LATER_CODES, OLD, 5, 0, True, 0),
    "0.22.0": Facts(LATER_CODES, OLD, 4, 8, True, 0),
    "0.24.0": Facts(LATER_CODES, NEW, 7, 10, True, 0),
    "0.26.0": Facts(LATER_CODES, NEW, 8, 14, True, 2),
    "0.28.0": Facts(LATER_CODES, NEW, 12, 0, False, 2),
}


@pytest.fixture(scope="module", params=FACTS)
def ported(request):
    """A release, its port and the plan."""
    source = resolve(f"vllm-omni=={request.param}", cwd=Path.cwd())
    port = V2Port(Modules(Workspace(source.root)), "vllm_omni")
    return request.param, port, port.plan()


def test_the_files(ported):
    release, _, plan = ported
    changes = plan.net_changes()
    assert {c.path for c in changes if c.before is None} == {f"vllm_omni/worker/{name}" for name in ADDED}
    schedulers = SCHEDULERS if FACTS[release].schedulers else ()
    assert {c.path for c in changes if c.before is not None} == {*WORKERS, *schedulers}


def test_the_v2_modules_are_the_in_tree_ones(ported):
    _, _, plan = ported
    after = {c.path.removeprefix("vllm_omni/worker/"): c.after for c in plan.net_changes() if c.before is None}
    del after["binding.py"]
    assert after == {path: in_tree_worker()[path] for path in after}


def test_the_binding(ported):
    release, port, _ = ported
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(port.binding).body
        if isinstance(node, ast.Assign)
    }
    facts = FACTS[release]
    assert found["TALKER_MTP_NAMES"] == ("talker_mtp",)
    assert (found["TALKER_MTP_OUTPUT_KEY"], found["PAYLOAD_FIELDS"]) == (facts.codes, facts.payloads)
    assert (len(found["UNPORTED"]), len(found.get("CONNECTED", ()))) == (facts.unported, facts.connected)


def test_models_that_give_themselves_what_v2_lacks_are_named(ported):
    release, port, _ = ported
    found = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(port.binding).body
        if isinstance(node, ast.Assign)
    }
    sampler = ("MiniCPMO45OmniForConditionalGeneration", "prefer_model_sampler")
    assert (sampler in found.get("ASSIGNED", ())) is (release in ("0.26.0", "0.28.0"))
    assert ("prepare_duplex_sampling" in found["UNPORTED"]) is (release in ("0.26.0", "0.28.0"))


@pytest.mark.parametrize("release", ["0.20.0", "0.26.0", "0.28.0"])
def test_the_binding_of_a_tree_with_other_locals_another_order_and_another_layout_is_the_same(release, tmp_path):
    published = resolve(f"vllm-omni=={release}", cwd=Path.cwd()).root
    root = tampered.copied(published, tmp_path / "tree")
    for path in tampered.RUNNERS:
        (name,) = [n for n in tampered.classes(tampered.read(root, path)) if n in RUNNER_CLASSES]
        tampered.edit(root, path, tampered.rename_locals(name))
        tampered.edit(root, path, tampered.reverse_methods(name))
    tampered.rename_word(root, tampered.AR, "OmniModelRunnerOutput", "Given")
    tampered.move_module(root, tampered.RUNNER, "vllm_omni/shared/base_runner.py")
    assert (
        V2Port(Modules(Workspace(root)), "vllm_omni").binding
        == V2Port(Modules(Workspace(published)), "vllm_omni").binding
    )


def test_only_a_platform_s_forced_v1_is_left(ported):
    release, port, _ = ported
    assert len(port.findings) == FACTS[release].left
    assert all("XPU" in finding.symbol and finding.line for finding in port.findings)


def test_no_worker_forces_v1_without_a_reason(ported):
    _, port, _ = ported
    for path in WORKERS:
        text = port.modules.workspace.read(path).decode()
        assert "if self.use_v2_model_runner and (reason := v1_reason(self.vllm_config)):" in text
        assert text.count("self.use_v2_model_runner = False") == 1


def test_every_wrapped_request_keeps_its_prefill_tokens(ported):
    """Without the tool's own rule: wherever the class is called with fields by name, the tokens are among them."""
    _, port, _ = ported
    calls = 0
    for path in port.modules.workspace.python_files(("vllm_omni/core/sched",)):
        for node in ast.walk(ast.parse(port.modules.workspace.read(path))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "OmniNewRequestData":
                calls += 1
                assert "prefill_token_ids" in {keyword.arg for keyword in node.keywords}, f"{path}:{node.lineno}"
    assert calls == (2 if FACTS[ported[0]].schedulers else 0)


def test_the_result_holds(ported):
    _, port, plan = ported
    changes, workspace = plan.net_changes(), port.modules.workspace
    assert parses(changes) == []
    assert names(changes) == []
    assert list(resolves(Workspace(workspace.root), workspace, [change.path for change in changes])) == []
    for change in changes:
        if change.before is not None:
            assert untouched(change.path, change.before, change.after, port.touched(change.path, change.before)) == []


def test_a_second_run_plans_nothing(ported):
    _, port, _ = ported
    snapshot = port.modules.workspace.snapshot()
    V2Port(port.modules, "vllm_omni").plan()
    assert port.modules.workspace.changes_since(snapshot) == ()


def _extract(source: Path, target: Path) -> Path:
    command = [sys.executable, "-m", "omni_migrate", "extract-adapters", str(source), "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def _port(source: Path, target: Path) -> Path:
    apply_to_output(source, V2Port(Modules(Workspace(source)), "vllm_omni").plan().net_changes(), target)
    return target


def _content(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("release", ["0.16.0", "0.24.0", "0.26.0", "0.28.0"])
def test_in_either_order_with_extract_adapters_the_tree_is_the_same(release, tmp_path):
    published = resolve(f"vllm-omni=={release}", cwd=Path.cwd()).root
    first = _content(_port(_extract(published, tmp_path / "x"), tmp_path / "xp"))
    second = _content(_extract(_port(published, tmp_path / "p"), tmp_path / "px"))
    assert sorted(first) == sorted(second)
    assert [path for path in first if first[path] != second[path]] == []
    assert {"vllm_omni/worker/adapters/base.py", "vllm_omni/worker/hook_adapters/base.py"} <= set(first)
