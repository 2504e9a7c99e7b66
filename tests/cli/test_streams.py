"""Where a report goes: what cannot be delivered is known before the tree is changed, and no stream breaks a run."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_migrate.cli.drawing import Drawing
from omni_migrate.errors import InputError
from omni_migrate.report.findings import FileChange, Report

PATH = "vllm_omni/platforms/npu/worker/npu_model_runner.py"
RUNNER = """
from vllm_ascend.worker.model_runner_v1 import NPUModelRunner


class OmniNPUModelRunner(NPUModelRunner):
    def load_model(self):
        super().load_model()
        # ---- Omni-new ----
        self.talker = make_talker()
        # ---- Omni-new ----
"""
TREE = {"vllm_omni/__init__.py": "", PATH: RUNNER, "README.md": "mine\n"}
WRITING = ["audit-npu", "--write"]
COMMAND = [sys.executable, "-m", "omni_migrate"]


@pytest.fixture
def root(checkout: Callable[..., Path]) -> Path:
    return checkout(files=TREE)


def state(root: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in sorted(root.rglob("*")) if f.is_file() and ".git" not in f.parts}


def shell(root: Path, line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs `omni-migrate LINE` as a shell does, redirections included."""
    command = f'"{sys.executable}" -m omni_migrate {line}'
    return subprocess.run(["sh", "-c", command], cwd=root, env=os.environ | environment, capture_output=True)


def is_one_line(done: subprocess.CompletedProcess[bytes], *said: str) -> bool:
    text = done.stderr.decode()
    return text.count("\n") == 1 and all(word in text for word in said)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (PATH, "such files are source"),
        ("new.py", "such files are source"),
        ("pyproject.toml", "such files are source"),
        ("README.md", "git tracks that file"),
        (".git/HEAD", "lies in git's own folder"),
        (".git/new.md", "lies in git's own folder"),
        ("vllm_omni", "is a folder"),
        ("absent/r.md", "there is no folder"),
        ("README.md/r.md", "there is no folder"),
    ],
)
@pytest.mark.parametrize("command", ["audit-npu --write", "extract-adapters", "port-v2"])
def test_a_place_where_no_report_can_be_is_known_before_any_work(
    root: Path, command: str, place: str, said: str
) -> None:
    before = state(root)
    done = shell(root, f"{command} --report {place}")
    assert (done.returncode, is_one_line(done, f"--report {place}: ", said)) == (2, True), done.stderr
    assert state(root) == before


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/new"])
def test_a_git_folder_of_another_name_takes_no_report(root: Path, name: str) -> None:
    subprocess.run(["git", "init", "--quiet", "--separate-git-dir=../apart"], cwd=root, check=True)
    before = state(root.parent / "apart")
    done = shell(root, f"audit-npu --dry-run --report ../apart/{name}")
    assert (done.returncode, is_one_line(done, "lies in git's own folder")) == (2, True), done.stderr
    assert state(root.parent / "apart") == before


def test_a_report_does_not_go_into_the_folder_of_the_output(root: Path) -> None:
    (root.parent / "out").mkdir()
    done = shell(root, "audit-npu --write --output ../out --report ../out/r.md")
    assert (done.returncode, is_one_line(done, "lies in the folder of --output")) == (2, True)
    assert list((root.parent / "out").iterdir()) == []


def test_a_report_does_not_take_the_place_of_what_the_run_writes(root: Path) -> None:
    written = next(
        path for path in json.loads(shell(root, "audit-npu --write --dry-run --format json").stdout)["files"]
    )
    path = written["path"]
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    done = shell(root, f"{' '.join(WRITING)} --report {path}")
    assert (done.returncode, is_one_line(done, "the run itself writes that file")) == (2, True), done.stderr
    assert [p for p in state(root) if p not in (str(root / name) for name in TREE)] == []


def test_a_report_that_cannot_be_put_down_leaves_the_tree_as_it_was(root: Path, tmp_path: Path) -> None:
    """The folder goes away between the first look and the writing."""
    from omni_migrate.audit_npu import run
    from omni_migrate.request import AuditRequest

    folder = tmp_path / "reports"
    folder.mkdir()
    before = state(root)
    with Drawing("text", folder / "r.md") as drawing:
        folder.rmdir()
        with pytest.raises(InputError, match="cannot be written"):
            run(AuditRequest(str(root), root, write=True, before_writing=drawing.prepare))
    assert state(root) == before


def test_nothing_is_left_beside_the_place_if_the_run_fails(tmp_path: Path) -> None:
    report = Report("audit-npu", "x", None, {}, (), (FileChange("a.py", b"", b"1"),))
    with pytest.raises(ValueError), Drawing("text", tmp_path / "r.md") as drawing:
        drawing.prepare(report, tmp_path / "tree")
        assert len(list(tmp_path.iterdir())) == 1
        raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_an_earlier_run_is_replaced_and_a_link_written_through(root: Path, tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    assert shell(root, f"audit-npu --report {tmp_path}/link.md").returncode == 0
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text().startswith("# audit-npu")


def test_a_report_into_a_pipe(root: Path) -> None:
    done = shell(root, "audit-npu --report /dev/stderr --format json > /dev/null")
    assert json.loads(done.stderr)["command"] == "audit-npu"


def test_a_closed_standard_output_is_known_before_the_tree_is_changed(root: Path) -> None:
    before = state(root)
    done = shell(root, f"{' '.join(WRITING)} >&-")
    assert (done.returncode, is_one_line(done, "standard output cannot be written")) == (2, True), done.stderr
    assert state(root) == before


@pytest.mark.parametrize("line", ["list rules", "explain model-probe", "--help", "--version", "audit-npu"])
def test_a_closed_standard_output_is_one_line(root: Path, line: str) -> None:
    done = shell(root, f"{line} >&-")
    assert (done.returncode, is_one_line(done, "omni-migrate: error: ")) == (2, True), done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_standard_output_is_known_before_the_tree_is_changed(root: Path) -> None:
    before = state(root)
    done = shell(root, f"{' '.join(WRITING)} > /dev/full")
    assert (done.returncode, is_one_line(done, "No space left")) == (2, True), done.stderr
    assert state(root) == before


class Filling(io.StringIO):
    """A standard output that has no space left once something is written."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_if_standard_output_fills_up_the_line_says_what_was_written_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = Report("audit-npu", "x", None, {"written": "3 files in place"}, (), ())
    monkeypatch.setattr(sys, "stdout", Filling())
    with pytest.raises(InputError, match="No space left on device; all the same this was written: 3 files in place"):
        Drawing("text", None).finish(report)


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-"])
def test_other_closed_streams_change_no_exit_code_and_write_into_no_file(root: Path, closed: str) -> None:
    assert shell(root, f"{' '.join(WRITING)} --report ../r.json {closed}").returncode == 0
    assert json.loads((root.parent / "r.json").read_text())["summary"]["written"] == "1 files in place"
    for line, code in (("audit-npu absent", 2), ("audit-npu --check", 0)):
        done = shell(root, f"{line} {closed}")
        assert done.returncode == code
        if code == 2:
            assert done.stdout == b""  # the message goes to standard error or nowhere


@pytest.mark.parametrize(
    "environment",
    [
        {"COLUMNS": "20"},
        {"COLUMNS": "0", "TERM": "dumb"},
        {"NO_COLOR": "1", "COLUMNS": "junk"},
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "utf-16"},
    ],
    ids=str,
)
@pytest.mark.parametrize("drawn_as", ["text", "json", "markdown"])
def test_no_terminal_and_no_locale_breaks_a_report(root: Path, drawn_as: str, environment: dict[str, str]) -> None:
    done = shell(root, f"audit-npu --format {drawn_as}", **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    assert "OmniNPUModelRunner" in done.stdout.decode(encoding)


def test_without_a_home_there_is_a_line_or_a_run(root: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "OMNI_MIGRATE_CACHE", "XDG_CACHE_HOME")}
    done = subprocess.run([*COMMAND, "audit-npu"], cwd=root, env=environment, capture_output=True)
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["a\nb.py", "a\x1b[31m.py", "a\udcff.py"], ids=["newline", "escape", "no UTF-8"])
@pytest.mark.parametrize("drawn_as", ["text", "json", "markdown"])
def test_an_odd_file_name_is_a_place_on_one_line(tree: Callable[..., Path], name: str, drawn_as: str) -> None:
    root = tree(files=TREE)
    (root / "vllm_omni/platforms/npu/worker" / name).write_text(
        "from vllm_ascend.worker.model_runner_v1 import NPUModelRunner\nclass X(NPUModelRunner\n"
    )
    done = shell(root, f"audit-npu --format {drawn_as} .")
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    if drawn_as == "json":
        assert [f["path"] for f in json.loads(done.stdout)["failed"]]
    else:
        found = [line for line in done.stdout.decode().splitlines() if "unreadable-file" in line]
        assert found and all(".py" in line for line in found)


def test_no_catalogue_is_written_into_gits_own_folder(root: Path) -> None:
    done = shell(root, "audit-npu --write --catalogue .git/catalogue.md")
    assert (done.returncode, is_one_line(done, "lies in git's own folder")) == (2, True), done.stderr
    assert not (root / ".git" / "catalogue.md").exists()
