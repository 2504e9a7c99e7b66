"""How a command ends: 0 done, 1 --check failed, 2 input, 3 verification, 130 interrupted; never a traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stand_in import CHANGED, ERROR, NOTE, UNCHANGED, report

from omni_migrate.errors import InputError, VerificationError


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (report(), 0),
        (report(files=(UNCHANGED,), findings=(NOTE,)), 0),
        (report(files=(CHANGED,)), 1),
        (report(findings=(ERROR,)), 1),
    ],
    ids=["nothing", "a note", "a change", "an error"],
)
def test_check_fails_for_a_change_or_an_error(engine, command, found, code):
    engine.report = found
    assert command("extract-adapters", "--check") == code
    assert command("extract-adapters", "--dry-run") == 0


def test_dry_run_prints_the_diff_and_check_does_not(engine, command, capsys):
    engine.report = report(files=(CHANGED,))
    command("extract-adapters", "--dry-run")
    assert "+x: list[str] = []\n" in capsys.readouterr().out
    command("extract-adapters", "--check")
    assert "+x: list[str] = []\n" not in capsys.readouterr().out


def _raises(error: BaseException):
    def act(request: object) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("nowhere: no such path"), 2, "error: nowhere: no such path"),
        (VerificationError("comments: one is lost"), 3, "error: comments: one is lost"),
        (InputError("two\nlines"), 2, "error: two lines"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "error: out of memory"),
        (OSError(errno.ENOSPC, "No space left on device", "out/a.py"), 2, "error: out/a.py: No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "a.py"), 2, "error: a.py: Read-only file system"),
        (PermissionError(errno.EACCES, "Permission denied", "a.py"), 2, "error: a.py: Permission denied"),
        (ValueError("odd"), 3, "error: this is a bug in omni-migrate: ValueError: odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_what_goes_wrong_is_one_line(engine, command, capsys, error, code, said):
    engine.act = _raises(error)
    assert command("extract-adapters") == code
    printed = capsys.readouterr()
    assert printed.err.startswith(f"omni-migrate: {said}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_the_traceback_of_a_bug_is_kept(engine, command, capsys):
    engine.act = _raises(ValueError("odd"))
    command("extract-adapters")
    file = Path(capsys.readouterr().err.strip().rpartition(" ")[2])
    assert file.parent == Path(os.environ["OMNI_MIGRATE_CACHE"], "logs")
    assert "ValueError: odd" in file.read_text()


def test_the_traceback_of_a_bug_can_be_shown(engine, command, capsys, monkeypatch):
    monkeypatch.setenv("OMNI_MIGRATE_TRACEBACK", "1")
    engine.act = _raises(ValueError("odd"))
    assert command("extract-adapters") == 3
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_bug_is_told_where_its_traceback_cannot_be_kept(engine, command, capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", str(tmp_path / "file"))
    engine.act = _raises(ValueError("odd"))
    assert command("extract-adapters") == 3
    assert "set OMNI_MIGRATE_TRACEBACK=1" in capsys.readouterr().err


# A process whose engine prints much, or waits until it is interrupted.
SCRIPT = """
import signal, sys, time, types
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell has it ignored
sys.path.insert(0, {tests!r})
from stand_in import ERROR, NOTE, report
from dataclasses import replace
stand_in = types.ModuleType("omni_migrate.extract")
def run(request):
    if request.list_sites:
        print("ready", file=sys.stderr, flush=True)
        time.sleep(60)
    return report(findings=(ERROR, *(replace(NOTE, line=line) for line in range(5000))))
stand_in.run = run
sys.modules["omni_migrate.extract"] = stand_in
from omni_migrate.cli import main
main()
"""


def _start(*args: str) -> subprocess.Popen[bytes]:
    script = SCRIPT.format(tests=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-c", script, "extract-adapters", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("drawn_as", ["text", "json", "markdown"])
@pytest.mark.parametrize(("option", "code"), [("--check", 1), ("--dry-run", 0)])
def test_a_reader_that_leaves_is_no_error_and_the_exit_code_is_kept(drawn_as, option, code):
    process = _start(option, "--format", drawn_as)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == code


def test_an_interrupt_is_one_line():
    process = _start("--list-sites")
    assert process.stderr is not None
    assert process.stderr.readline() == b"ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.stderr.read() == b"omni-migrate: interrupted\n"
    assert process.wait(30) == 130


def test_help_to_a_closed_pipe_is_silent():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "omni_migrate", "--help"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "line", [["list", "rules"], ["explain", "model-probe"], ["--help"], ["--version"]], ids=" ".join
)
def test_output_to_a_full_disk_is_one_line(line):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "omni_migrate", *line]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("omni-migrate: error: No space left on device")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", [["extract-adapters"], ["audit-npu", "--ascend", "ascend"], ["port-v2", "--vllm", "vllm"]]
)
@pytest.mark.parametrize("skip", [True, False])
def test_pipes_devices_and_large_files_neither_hang_nor_stop_a_command(tree, cli, command, skip):
    root = tree("omni")
    tree("omni/vllm", {"vllm/__init__.py": ""})
    tree("omni/ascend", {"vllm_ascend/__init__.py": ""})
    for folder in ("vllm_omni/worker", "vllm_omni/model_executor/models", "vllm/vllm/v1/worker", "ascend/vllm_ascend"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / folder / "pipe.py")
        (root / folder / "device.py").symlink_to("/dev/zero")
        with (root / folder / "gpu_large.py").open("wb") as stream:
            stream.truncate(100 << 20)
    if skip:
        (root / "omni-migrate.toml").write_text('skip = ["*/pipe.py", "*/device.py", "*/gpu_large.py"]\n')
    done = cli(*command, "--dry-run", cwd=root)
    assert "operating system refused" not in done.stderr and "a bug" not in done.stderr
    assert done.returncode in (0, 2)
