"""Changes reach the disk all or none, whatever interrupts them (ANCHORS.md traps 6 and 12)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omni_migrate.errors import InputError
from omni_migrate.plan.apply import apply_in_place, apply_to_output, recover
from omni_migrate.report.findings import FileChange

Tree = dict[str, tuple[int, bytes]]


def tree(root: Path) -> Tree:
    """Every file and folder below `root`: mode and content (of a link: where it points)."""
    found: Tree = {}
    for path in sorted(root.rglob("*")):
        content = str(path.readlink()).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        found[path.relative_to(root).as_posix()] = (path.lstat().st_mode, content)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with the kinds of files that tools break: CRLF, BOM, latin-1, no last newline, empty, executable."""
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / "pkg").mkdir()
    (root / "pkg/crlf.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    (root / "pkg/bom.py").write_bytes(b"\xef\xbb\xbfa = 1\n")
    (root / "pkg/latin.py").write_bytes(b"# -*- coding: latin-1 -*-\na = '\xe9'")
    (root / "pkg/empty.py").write_bytes(b"")
    (root / "run.py").write_bytes(b"#!/usr/bin/env python\n")
    (root / "run.py").chmod(0o755)
    (root / "notes.txt").write_bytes(b"not Python\n")
    return root


def plan(root: Path) -> list[FileChange]:
    """A change to each Python file of `root`, and two new files, one in new folders."""
    changes = [
        FileChange(path.relative_to(root).as_posix(), path.read_bytes(), path.read_bytes() + b"\r\n# \xe9")
        for path in sorted(root.rglob("*.py"))
    ]
    return [*changes, FileChange("pkg/new.py", None, b"new = 1\n"), FileChange("deep/er/__init__.py", None, b"")]


def test_unchanged_files_are_not_touched(root: Path) -> None:
    before = (root / "run.py").stat()
    apply_in_place(root, [FileChange("run.py", b"#!/usr/bin/env python\n", b"#!/usr/bin/env python\n")])
    assert (root / "run.py").stat() == before


def test_every_change_is_written_byte_for_byte_with_the_modes_kept(root: Path) -> None:
    changes, before = plan(root), tree(root)
    apply_in_place(root, changes)
    after = tree(root)
    for change in changes:
        assert after[change.path][1] == change.after
        if change.before is not None:
            assert after[change.path][0] == before[change.path][0]
    assert set(after) - set(before) == {"pkg/new.py", "deep", "deep/er", "deep/er/__init__.py"}
    assert after["notes.txt"] == before["notes.txt"]


@pytest.mark.parametrize("spoil", [b"edited", None])
def test_a_file_that_changed_since_it_was_read_stops_everything(root: Path, spoil: bytes | None) -> None:
    changes = plan(root)
    if spoil is None:
        (root / "run.py").unlink()
    else:
        (root / "run.py").write_bytes(spoil)
    before = tree(root)
    with pytest.raises(InputError, match=r"run\.py .* since it was read"):
        apply_in_place(root, changes)
    assert tree(root) == before


def test_a_new_file_that_somebody_else_made_meanwhile_is_kept(root: Path) -> None:
    changes = plan(root)
    (root / "pkg/new.py").write_bytes(b"mine\n")
    before = tree(root)
    with pytest.raises(InputError, match=r"pkg/new\.py exists"):
        apply_in_place(root, changes)
    assert tree(root) == before


def test_a_link_is_written_through(root: Path) -> None:
    (root / "link.py").symlink_to("pkg/crlf.py")
    apply_in_place(root, [FileChange("link.py", b"a = 1\r\nb = 2\r\n", b"c = 3\r\n")])
    assert (root / "link.py").is_symlink()
    assert (root / "pkg/crlf.py").read_bytes() == b"c = 3\r\n"


def test_a_link_out_of_the_checkout_is_refused(root: Path) -> None:
    outside = root.parent / "outside.py"
    outside.write_bytes(b"1\n")
    (root / "link.py").symlink_to(outside)
    with pytest.raises(InputError, match=r"link\.py is a link to .*outside"):
        apply_in_place(root, [FileChange("link.py", b"1\n", b"2\n")])
    assert outside.read_bytes() == b"1\n"


def test_a_file_and_a_link_to_it_must_agree(root: Path) -> None:
    (root / "link.py").symlink_to("run.py")
    old = (root / "run.py").read_bytes()
    with pytest.raises(InputError, match="one file with two planned contents"):
        apply_in_place(root, [FileChange("run.py", old, b"1\n"), FileChange("link.py", old, b"2\n")])
    apply_in_place(root, [FileChange("run.py", old, b"1\n"), FileChange("link.py", old, b"1\n")])
    assert (root / "run.py").read_bytes() == b"1\n"


def test_a_read_only_file_is_refused(root: Path) -> None:
    changes = plan(root)
    (root / "run.py").chmod(0o444)
    before = tree(root)
    with pytest.raises(InputError, match=r"run\.py is read-only"):
        apply_in_place(root, changes)
    assert tree(root) == before


# --- whatever stops a run, the tree is as before ------------------------------------------------------------------


class Stopper:
    """Raises `error` at the n-th call of any function that it guards."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.calls, self.at, self.error = 0, at, error

    def guard(self, function: Callable[..., object]) -> Callable[..., object]:
        def guarded(*args: object, **kwargs: object) -> object:
            self.calls += 1
            if self.calls == self.at:
                raise self.error
            return function(*args, **kwargs)

        return guarded


WRITING_STEPS = [
    (Path, "mkdir"),
    (Path, "replace"),
    (Path, "chmod"),
    (os, "open"),
    (os, "fsync"),
    (os, "link"),
]


@pytest.mark.parametrize("owner, name", WRITING_STEPS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device", "some/file")], ids=repr)
def test_stopped_at_any_step_the_tree_is_as_it_was(root: Path, owner: object, name: str, error: BaseException) -> None:
    changes, before = plan(root), tree(root)
    reached = 0
    for at in range(1, 100):
        stopper = Stopper(at, error)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, stopper.guard(getattr(owner, name)))
            try:
                apply_in_place(root, changes)
            except KeyboardInterrupt:
                pass
            except InputError as refused:
                assert str(refused).startswith("cannot write some/file: No space left on device; nothing was changed")
            else:
                break
        reached += 1
        assert tree(root) == before, f"call {at} of {name}"
    # A file system without hard links is no error: there the original is renamed.
    assert reached >= (0 if name == "link" and isinstance(error, OSError) else 1)
    assert all((root / change.path).read_bytes() == change.after for change in changes)


def test_a_journal_that_cannot_be_written_stops_the_run_before_any_file(root: Path) -> None:
    changes = plan(root)
    (root / ".git").rmdir()
    (root / ".git").write_text("gitdir: nowhere")
    before = tree(root)
    with pytest.raises(InputError, match=r"nowhere/omni-migrate-journal: No such file .*; nothing was changed"):
        apply_in_place(root, changes)
    assert tree(root) == before


def test_without_hard_links_originals_are_renamed_and_put_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    test_stopped_at_any_step_the_tree_is_as_it_was(root, Path, "replace", KeyboardInterrupt())


def test_the_follow_up_step_failing_puts_the_files_back(root: Path) -> None:
    changes, before = plan(root), tree(root)

    def fail() -> None:
        assert (root / "pkg/new.py").exists()
        raise InputError("no")

    with pytest.raises(InputError, match=r"^no$"):
        apply_in_place(root, changes, then=fail)
    assert tree(root) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 kB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(mount)], capture_output=True)
    if made.returncode:
        pytest.skip("mounting needs root; the same is tested with injected errors above")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk_leaves_the_tree_as_it_was(small_disk: Path) -> None:
    (small_disk / ".git").mkdir()
    for name in "abcd":
        (small_disk / f"{name}.py").write_bytes(b"1\n")
    before = tree(small_disk)
    with pytest.raises(InputError, match="No space left on device; nothing was changed, free some space"):
        apply_in_place(small_disk, [FileChange(f"{name}.py", b"1\n", b"2" * 40_000) for name in "abcd"])
    assert tree(small_disk) == before


def test_a_full_disk_leaves_no_output(small_disk: Path, root: Path) -> None:
    (root / "big.bin").write_bytes(b"0" * 200_000)
    before = tree(small_disk)
    with pytest.raises(InputError, match="No space left on device"):
        apply_to_output(root, plan(root), small_disk / "deep/out")
    assert tree(small_disk) == before


def test_a_read_only_disk_is_one_line(small_disk: Path) -> None:
    (small_disk / ".git").mkdir()
    (small_disk / "a.py").write_bytes(b"1\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(InputError, match=r"Read-only file system|read-only") as refused:
        apply_in_place(small_disk, [FileChange("a.py", b"1\n", b"2\n")])
    assert "\n" not in str(refused.value)


STOPPED_RUN = """
import os, signal, sys
from pathlib import Path
from omni_migrate.plan.apply import apply_in_place
from omni_migrate.report.findings import FileChange
root, step, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
replace, calls = Path.replace, 0
def stop_at(self, target):
    global calls
    calls += 1
    if calls == step:
        os.kill(os.getpid(), number)
    return replace(self, target)
Path.replace = stop_at
changes = [FileChange(f"{n}.py", b"old\\n", b"new\\n") for n in "abc"] + [FileChange("d/e.py", None, b"new\\n")]
apply_in_place(root, changes)
"""


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_killed_run_is_put_back_at_the_latest_by_the_next_one(
    tmp_path: Path, step: int, number: signal.Signals
) -> None:
    (tmp_path / ".git").mkdir()
    for name in "abc":
        (tmp_path / f"{name}.py").write_bytes(b"old\n")
    before = tree(tmp_path)
    command = [sys.executable, "-c", STOPPED_RUN, str(tmp_path), str(step), str(int(number))]
    stopped = subprocess.run(command, capture_output=True)
    if step == 5 and number != signal.SIGKILL:
        # The fifth rename ends the journal: what comes now is too late, and the files are all written.
        assert stopped.returncode == 0
        assert (tmp_path / "d/e.py").read_bytes() == b"new\n"
        return
    assert stopped.returncode != 0
    assert recover(tmp_path) is (number == signal.SIGKILL)
    assert tree(tmp_path) == before


def test_a_run_killed_while_cleaning_up_is_cleaned_up_by_the_next_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = plan(root)
    monkeypatch.setattr("omni_migrate.plan.apply._clean_up", lambda _: None)
    apply_in_place(root, changes)
    monkeypatch.undo()
    assert list(root.rglob(".omni-migrate-*.old"))
    assert recover(root)
    assert not list(root.rglob(".omni-migrate-*"))
    assert not list((root / ".git").iterdir())
    assert all((root / change.path).read_bytes() == change.after for change in changes)


def test_what_was_edited_after_a_killed_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in "abc":
        (tmp_path / f"{name}.py").write_bytes(b"old\n")
    subprocess.run([sys.executable, "-c", STOPPED_RUN, str(tmp_path), "3", "9"], capture_output=True)
    (tmp_path / "a.py").write_bytes(b"edited by hand\n")
    with pytest.raises(InputError, match=r"a\.py was edited after an interrupted run"):
        recover(tmp_path)
    assert (tmp_path / "a.py").read_bytes() == b"edited by hand\n"


def test_two_runs_at_once_in_one_tree(root: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from omni_migrate.plan.apply import apply_in_place\n"
        "from omni_migrate.report.findings import FileChange\n"
        "def wait():\n    print('ready', flush=True); time.sleep(60)\n"
        "apply_in_place(Path(sys.argv[1]), [FileChange('x.py', None, b'')], then=wait)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(InputError, match="another omni-migrate is writing"):
            apply_in_place(root, plan(root))
        other.terminate()
    assert not (root / "x.py").exists()


# --- a whole new tree ---------------------------------------------------------------------------------------------


def test_the_output_is_the_whole_tree_with_the_changes(root: Path, tmp_path: Path) -> None:
    (root / "pkg/__pycache__").mkdir()
    (root / "pkg/__pycache__/crlf.pyc").write_bytes(b"")
    (root / "data").mkdir()
    (root / "data/link").symlink_to("../notes.txt")
    changes, before = plan(root), tree(root)
    apply_to_output(root, changes, tmp_path / "deep/out")
    out = tree(tmp_path / "deep/out")
    expected = {path: entry for path, entry in before.items() if ".git" not in path and "__pycache__" not in path}
    changed = {change.path: change.after for change in changes}
    assert {path: content for path, (_, content) in out.items() if path in changed} == changed
    assert {path: entry for path, entry in out.items() if path in expected and path not in changed} == {
        path: entry for path, entry in expected.items() if path not in changed
    }
    assert set(out) == set(expected) | set(changed) | {"deep", "deep/er"}
    assert out["run.py"][0] == before["run.py"][0]
    assert tree(root) == before
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


def test_an_empty_folder_is_filled_and_stays_the_same_folder(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o750)
    before = (tmp_path / "out").stat()
    apply_to_output(root, plan(root), tmp_path / "out")
    after = (tmp_path / "out").stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert "pkg" in {path.name for path in (tmp_path / "out").iterdir()}


def test_an_output_within_the_source_does_not_hold_itself(root: Path) -> None:
    apply_to_output(root, plan(root), root / "out")
    assert not (root / "out/out").exists()


@pytest.mark.parametrize("there", ["a file", "a full folder"])
def test_anything_else_there_is_refused(root: Path, tmp_path: Path, there: str) -> None:
    if there == "a file":
        (tmp_path / "out").write_bytes(b"")
    else:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/.hidden").write_bytes(b"")
    before = tree(tmp_path)
    with pytest.raises(InputError, match=r"out is (a file|not empty): name a folder"):
        apply_to_output(root, plan(root), tmp_path / "out")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("existed", [False, True])
def test_an_interrupted_output_leaves_nothing(root: Path, tmp_path: Path, existed: bool) -> None:
    if existed:
        (tmp_path / "out").mkdir()
    changes, before = plan(root), tree(tmp_path)
    for name in ("mkdir", "replace", "write_bytes"):
        for at in range(1, 50):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Path, name, Stopper(at, KeyboardInterrupt()).guard(getattr(Path, name)))
                try:
                    apply_to_output(root, changes, tmp_path / "out")
                except KeyboardInterrupt:
                    assert tree(tmp_path) == before
                    continue
            break
        assert at > 1, "never interrupted"
        subprocess.run(["rm", "-r", str(tmp_path / "out")], check=True)
        if existed:
            (tmp_path / "out").mkdir()


def test_a_changed_link_out_of_the_tree_becomes_a_file_in_the_copy(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_bytes(b"1\n")
    (root / "link.py").symlink_to(outside)
    apply_to_output(root, [FileChange("link.py", b"1\n", b"2\n")], tmp_path / "out")
    assert (outside.read_bytes(), (tmp_path / "out/link.py").read_bytes()) == (b"1\n", b"2\n")


def test_a_source_that_changed_meanwhile_gives_no_output(root: Path, tmp_path: Path) -> None:
    changes = plan(root)
    (root / "run.py").write_bytes(b"edited")
    with pytest.raises(InputError, match=r"run\.py changed since it was read"):
        apply_to_output(root, changes, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_named_pipe_in_the_source_does_not_hang_the_copy(root: Path, tmp_path: Path) -> None:
    os.mkfifo(root / "pipe")
    started = time.monotonic()
    apply_to_output(root, [], tmp_path / "out")
    assert time.monotonic() - started < 5
    assert not (tmp_path / "out/pipe").exists()
