"""A checkout that an interrupted run left half written: readers refuse it, `recover` and writing runs put it back."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from test_audit_npu import PATH, TREE, refused
from test_port_v2 import VLLM

from omni_migrate.journal import find_checkout, locked
from omni_migrate.plan.apply import apply_in_place
from omni_migrate.report.findings import FileChange

RUNNER = "vllm_omni/worker/gpu_model_runner.py"
GPU = {
    RUNNER: "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\nclass Omni(GPUModelRunner):\n    pass\n"
}


@pytest.fixture
def half_written(checkout):
    """A run is killed when it has moved the runner aside."""
    root = checkout("omni", {**TREE, **GPU})
    if os.fork() == 0:
        rename = Path.rename

        def killed(self, target):
            moved = rename(self, target)
            if Path(target).suffix == ".old":
                os.kill(os.getpid(), signal.SIGKILL)
            return moved

        Path.rename = killed
        with locked(find_checkout(root)) as held:
            apply_in_place(held, root, [FileChange(RUNNER, (root / RUNNER).read_bytes(), b"new\n")])
    os.wait()
    assert not (root / RUNNER).exists()
    return root


READING = [
    ["extract-adapters", "--list-sites"],
    ["extract-adapters", "--dry-run"],
    ["extract-adapters", "--check"],
    ["extract-adapters", "{root}", "--output", "{out}"],
    ["extract-adapters", "{root}/vllm_omni", "--dry-run"],
    ["port-v2", "--list-sites", "--vllm", "{vllm}"],
    ["port-v2", "--dry-run", "--vllm", "{vllm}"],
    ["port-v2", "--track", "{vllm}..{vllm}"],
    ["port-v2", "--output", "{out}", "--vllm", "{vllm}"],
    ["audit-npu"],
    ["audit-npu", "--check"],
    ["audit-npu", "--write", "--dry-run"],
    ["audit-npu", "--write", "--output", "{out}"],
]


@pytest.mark.parametrize("line", READING, ids=" ".join)
def test_no_command_reads_it(cli, tree, half_written, tmp_path, line):
    places = {"root": half_written, "out": tmp_path / "out", "vllm": tree("upstream", VLLM)}
    before = sorted(half_written.rglob("*"))
    done = cli(*(part.format(**places) for part in line), cwd=half_written)
    refused(done, "half written by a run that was interrupted", f"omni-migrate recover {half_written}")
    assert sorted(half_written.rglob("*")) == before
    assert not (tmp_path / "out").exists()


def test_a_commit_of_it_is_read(cli, half_written):
    done = cli("audit-npu", f"{half_written}@HEAD")
    assert done.returncode == 0, done.stderr


def test_recover_puts_it_back_and_says_so(cli, half_written, git, tmp_path):
    done = cli("recover", str(half_written / "vllm_omni"))
    assert (done.returncode, done.stdout) == (
        0,
        f"{half_written}: put back 1 files of a run that was interrupted\n",
    )
    assert git(half_written, "status", "--porcelain") == ""
    done = cli("recover", cwd=half_written)
    assert (done.returncode, done.stdout) == (
        0,
        f"{half_written}: nothing to put back: no run was interrupted here\n",
    )
    (tmp_path / "bare").mkdir()
    refused(cli("recover", cwd=tmp_path / "bare"), "is not in a git checkout")
    refused(cli("recover", "no/such"), "no/such: no such folder")


def test_a_writing_run_puts_it_back_by_itself(cli, half_written, git):
    done = cli("audit-npu", "--write", cwd=half_written)
    assert done.returncode == 0, done.stderr
    assert git(half_written, "status", "--porcelain") == "?? docs/"


@pytest.mark.parametrize("option", [(), ("--branch", "b"), ("--allow-dirty",)])
def test_what_git_does_not_track_stops_every_way_of_writing(cli, checkout, git, option):
    """An ignored file where a generated one goes; with a base, markers go into an ignored runner."""
    root = checkout("omni", TREE)
    git(root, "config", "user.name", "Test")
    git(root, "config", "user.email", "test@example.invalid")
    git(root, "rm", "-q", "--cached", PATH)
    git(root, "commit", "-qm", "untracked")
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/exclude").write_text(PATH + "\ndocs/\n")
    (root / "docs").mkdir()
    (root / "docs/npu-omni-blocks.md").write_text("mine\n")
    runner = (
        (root / PATH).read_text().replace("        # ---- Omni-new ----\n        self.talker", "        self.talker")
    )
    (root / PATH).write_text(runner)
    for edit in ("--write", "--fix-markers"):
        refused(cli("audit-npu", edit, *option, cwd=root), "git does not track", "git add", "--output")
    assert (root / "docs/npu-omni-blocks.md").read_text() == "mine\n"
    assert (root / PATH).read_text() == runner
    assert git(root, "branch", "--format", "%(refname:short)") == "main"


def test_a_tree_in_a_folder_that_its_repository_ignores_is_not_written(cli, checkout, tree, git):
    outer = checkout("outer", {"README.md": "", ".gitignore": "copies/\n"})
    root = tree("outer/copies/omni", TREE)
    refused(cli("audit-npu", "--write", cwd=root), "git tracks nothing of", "--output")
    assert not (root / "docs").exists()
    assert git(outer, "status", "--porcelain") == ""
