"""The adapter protocol is true: mypy notices what the host lacks, and an adapter that wants or does something else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANDED_OUT = """
from vllm_omni.worker.gpu_model_runner import OmniModelRunnerMixin
from vllm_omni.worker.gpu_model_runner_v2 import OmniModelRunnerV2Mixin
from vllm_omni.worker.hook_adapters.base import AdapterHost


def hosts(v1: OmniModelRunnerMixin, v2: OmniModelRunnerV2Mixin) -> list[AdapterHost]:
    return [v1.omni.host, v2.omni.host]
"""
"""What both runner classes give to adapters."""

BASE, GLM = "hook_adapters/base.py", "hook_adapters/glm_image.py"
FAULTS = {
    "the host lacks what the protocol says": (
        BASE,
        "    def gather_mtp(",
        "    def tokens(self) -> int: ...\n    def gather_mtp(",
        '"RunnerHost" is missing following "AdapterHost" protocol member',
    ),
    "the host gives another type": (
        "adapter_host.py",
        "self.rows: list[Row] = []",
        "self.rows: list[str] = []",
        'rows: expected "list[Row]", got "list[str]"',
    ),
    "an adapter asks for more": (GLM, "runner.store.get(", "runner.requests.get(", '"AdapterHost" has no attribute'),
    "an adapter sets something of the runner": (GLM, "target = runner.positions", "runner.rows = []", "is read-only"),
    "an adapter method takes something else": (
        GLM,
        "runner: AdapterHost, scheduler_output: Any)",
        "runner: AdapterHost)",
        '"fixup_decode_positions" incompatible with supertype',
    ),
    "the V1 runner hands out another host": (
        "gpu_model_runner.py",
        "self.omni = OmniHooks(stage)",
        "self.omni = stage",
        '"Stage" has no attribute "host"',
    ),
    "the V2 runner hands out another host": (
        "gpu_model_runner_v2.py",
        "self.omni = OmniHooks(stage)",
        "self.omni = stage",
        '"Stage" has no attribute "host"',
    ),
}


def errors(tree: Path) -> str:
    """What mypy says of a tree."""
    command = [sys.executable, "-m", "mypy", "--no-incremental", "-p", "vllm_omni"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout if done.returncode else ""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the runners, and what both hand out."""
    folder = tmp_path_factory.mktemp("types")
    shutil.copytree(ROOT / "vllm_omni", folder / "vllm_omni", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "vllm_omni" / "handed_out.py").write_text(HANDED_OUT)
    return folder


def test_both_runners_hand_out_the_host_of_the_protocol(tree):
    assert errors(tree) == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_as_the_protocol_says_is_noticed(tree, fault):
    path, old, new, said = FAULTS[fault]
    file = tree / "vllm_omni" / "worker" / path
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    try:
        assert said in errors(tree)
    finally:
        file.write_text(text)
