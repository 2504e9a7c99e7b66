"""Changes reach the disk all or none, whatever interrupts them (ANCHORS.md traps 6 and 12)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from omni_migrate.errors import InputError
from omni_migrate.journal import DONE, JOURNAL, LOCK, find_checkout, locked, refuse_interrupted
from omni_migrate.plan import apply, output_folder
from omni_migrate.plan.output_folder import apply_to_output
from omni_migrate.report.findings import FileChange

Tree = dict[str, tuple[int, bytes]]


def apply_in_place(root: Path, changes: list[FileChange]) -> None:
    """Under the lock, as a run does it."""
    checkout = find_checkout(root)
    assert checkout is not None
    with locked(checkout) as held:
        apply.apply_in_place(held, root, changes)


def recover(root: Path) -> str:
    checkout = find_checkout(root)
    assert checkout is not None
    with locked(checkout) as held:
        return apply.recover(held)


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


@pytest.mark.parametrize("path", ["notes/new.py", "notes/deeper/new.py"])
def test_a_file_where_a_folder_belongs_stops_everything(root: Path, path: str) -> None:
    (root / "notes").write_bytes(b"mine")
    before = tree(root)
    with pytest.raises(InputError, match=f"{path} cannot be written, as .*/notes is no folder: move it elsewhere"):
        apply_in_place(root, [FileChange("run.py", (root / "run.py").read_bytes(), b"x"), FileChange(path, None, b"y")])
    assert tree(root) == before


def test_a_folder_that_became_a_file_meanwhile_keeps_nobody_from_putting_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(root)
    place = apply._place

    def turned_into_a_file(entry: apply._Entry) -> None:
        if entry.path == "made/new.py":
            entry.new.unlink()
            entry.new.parent.rmdir()
            entry.new.parent.write_bytes(b"mine")
        place(entry)

    monkeypatch.setattr(apply, "_place", turned_into_a_file)
    run_py = FileChange("run.py", (root / "run.py").read_bytes(), b"x")
    with pytest.raises(InputError, match="nothing was changed"):
        apply_in_place(root, [run_py, FileChange("made/new.py", None, b"y")])
    assert (root / "made").read_bytes() == b"mine"
    (root / "made").unlink()
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
    (Path, "rename"),
    (Path, "unlink"),
    (Path, "chmod"),
    (os, "open"),
    (os, "fsync"),
    (os, "link"),
]
NO_SPACE = OSError(28, "No space left on device", "some/file")


@pytest.mark.parametrize("owner, name", WRITING_STEPS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("error", [KeyboardInterrupt(), NO_SPACE], ids=repr)
def test_stopped_at_any_step_the_tree_is_as_it_was(root: Path, owner: object, name: str, error: BaseException) -> None:
    changes, before = plan(root), tree(root)
    after = before | {change.path: (before.get(change.path, (0, b""))[0], change.after) for change in changes}
    reached = 0
    for at in range(1, 200):
        stopper, refused = Stopper(at, error), None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, stopper.guard(getattr(owner, name)))
            try:
                apply_in_place(root, changes)
            except KeyboardInterrupt:
                pass
            except InputError as raised:
                refused = raised
        if stopper.calls < at:
            break
        reached += 1
        if refused is None:  # while cleaning up, nothing is worth failing for, and Ctrl-C is not heard
            recover(root)
        now = tree(root)
        if now == before:
            continue
        assert refused is None, f"call {at} of {name}: {refused}"
        assert {path: content for path, (_, content) in now.items() if path in after} == {
            path: content for path, (_, content) in after.items()
        }
        assert not [path for path in now if "omni-migrate" in path]
        for path in set(now) - set(before):
            if (root / path).is_file():
                (root / path).unlink()
        for change in changes:
            if change.before is not None:
                (root / change.path).write_bytes(change.before)
        for folder in ("deep/er", "deep"):
            (root / folder).rmdir()
        assert tree(root) == before
    assert reached >= 1


def test_a_file_that_git_leads_nowhere_stops_the_run_before_any_file(root: Path) -> None:
    changes = plan(root)
    (root / ".git").rmdir()
    (root / ".git").write_text("gitdir: nowhere")
    before = tree(root)
    with pytest.raises(InputError, match=r"\.git leads to .*nowhere, which is no folder"):
        apply_in_place(root, changes)
    assert tree(root) == before


def test_without_hard_links_files_are_renamed_and_put_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    test_stopped_at_any_step_the_tree_is_as_it_was(root, Path, "rename", KeyboardInterrupt())


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


@pytest.fixture
def half_written(root: Path) -> Path:
    """A tree whose run was killed when half of its files were in place."""
    if os.fork() == 0:
        rename, calls = Path.rename, 0

        def killed(self: Path, target: Path) -> Path:
            nonlocal calls
            calls += 1
            if calls == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)

        Path.rename = killed  # type: ignore[assignment, method-assign]
        apply_in_place(root, plan(root))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
    return root


def test_what_was_edited_after_a_killed_run_is_not_overwritten(half_written: Path) -> None:
    edited = half_written / "pkg/crlf.py"
    assert edited.read_bytes() == b"a = 1\r\nb = 2\r\n\r\n# \xe9"
    edited.write_bytes(b"edited by hand\n")
    (half_written / ".git" / LOCK).unlink()
    before = tree(half_written)
    with pytest.raises(InputError, match=r"crlf\.py was edited after .* original is \.omni-migrate-.*\.old beside it"):
        recover(half_written)
    assert tree(half_written) == before
    edited.rename(half_written / "mine.py")
    assert recover(half_written)
    assert edited.read_bytes() == b"a = 1\r\nb = 2\r\n"
    assert not [path for path in tree(half_written) if "omni-migrate" in path]


# --- what others do meanwhile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["in place", "by rename", "through an open file"])
@pytest.mark.parametrize("moment", ["rename", "link", "unlink"])
def test_an_edit_between_the_last_check_and_the_writing_is_not_lost(
    root: Path, monkeypatch: pytest.MonkeyPatch, way: str, moment: str
) -> None:
    changes, file = plan(root), root / "run.py"
    opened = file.open("r+b")
    owner: object = os if moment == "link" else Path
    step, done = getattr(owner, moment), False

    def edit_first(one: Path, *rest: Path, **options: bool) -> object:
        nonlocal done
        if not done and (one == file or file in rest or (moment == "unlink" and one.suffix == ".new")):
            done = moment != "unlink" or file.read_bytes().endswith(b"\xe9")
            if done and way == "in place":
                file.write_bytes(b"mine\n")
            elif done and way == "by rename":
                (root / "run.py~").write_bytes(b"mine\n")
                os.replace(root / "run.py~", file)  # noqa: PTH105
            elif done:
                opened.write(b"mine")
                opened.flush()
        return step(one, *rest, **options)

    monkeypatch.setattr(owner, moment, edit_first)
    with suppress(InputError):
        apply_in_place(root, changes)
    opened.close()
    monkeypatch.undo()
    assert done
    assert file.read_bytes().startswith(b"mine")


# --- the journal is not trusted -----------------------------------------------------------------------------------

GOOD = {"token": "0" * 16, "folders": [], "files": [], "branch": None}
FILE = {"path": "run.py", "before": "a" * 64, "after": "b" * 64}
BRANCH_STEP = {
    "branch": "b",
    "tip": "a" * 40,
    "head_ref": "refs/heads/main",
    "head": "a" * 40,
    "index_before": "a" * 64,
    "index_after": "a" * 64,
}


@pytest.mark.parametrize(
    "journal",
    [
        b"",
        b"no JSON\n",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b"0" * (17 << 20),
        {},
        {**GOOD, "more": 1},
        {**GOOD, "token": "../../../../x0"},
        {**GOOD, "token": 7},
        {**GOOD, "files": {"path": "run.py"}},
        {**GOOD, "files": ["run.py"]},
        {**GOOD, "files": [{**FILE, "path": "../outside.py"}]},
        {**GOOD, "files": [{**FILE, "path": "/etc/passwd"}]},
        {**GOOD, "files": [{**FILE, "path": ".git/config"}]},
        {**GOOD, "files": [{**FILE, "path": "pkg/../run.py"}]},
        {**GOOD, "files": [{**FILE, "path": "pkg/./crlf.py"}]},
        {**GOOD, "files": [{**FILE, "path": "out/x.py"}]},
        {**GOOD, "files": [{**FILE, "path": "run.py\0"}]},
        {**GOOD, "files": [{**FILE, "path": ["run.py"]}]},
        {**GOOD, "files": [{**FILE, "after": None}]},
        {**GOOD, "files": [{**FILE, "after": "B" * 64}]},
        {**GOOD, "files": [{**FILE, "old": "../../outside.py"}]},
        {**GOOD, "files": [FILE, FILE]},
        {**GOOD, "folders": ["pkg"]},
        {**GOOD, "folders": [".."], "files": [FILE]},
        {**GOOD, "branch": "main"},
        {**GOOD, "branch": {**BRANCH_STEP, "branch": "../../x"}},
        {**GOOD, "branch": {**BRANCH_STEP, "branch": "a b"}},
        {**GOOD, "branch": {**BRANCH_STEP, "tip": "HEAD"}},
        {**GOOD, "branch": {**BRANCH_STEP, "head_ref": "--help"}},
        {**GOOD, "branch": {**BRANCH_STEP, "index_before": 1}},
    ],
    ids=lambda journal: str(journal)[:60],
)
@pytest.mark.parametrize("name", [JOURNAL, DONE])
def test_what_is_no_journal_of_ours_is_one_line_and_touches_nothing(root: Path, journal: object, name: str) -> None:
    (root / "out").symlink_to(root.parent)
    (root.parent / "outside.py").write_bytes(b"mine\n")
    (root / ".git" / name).write_bytes(journal if isinstance(journal, bytes) else json.dumps(journal).encode())
    before = tree(root.parent)
    with pytest.raises(InputError, match=r"no journal of omni-migrate|leads out of its folder|is a link out of") as no:
        recover(root)
    assert "\n" not in str(no.value)
    assert tree(root.parent) == before


def test_what_a_finished_run_kept_and_cannot_be_removed_is_named_until_it_can(root: Path) -> None:
    (root / ".git" / DONE).write_text(json.dumps({**GOOD, "files": [FILE]}))
    kept = root / f".omni-migrate-{GOOD['token']}-0.old"
    kept.mkdir()
    before = tree(root)
    for _ in range(2):
        with pytest.raises(InputError, match=r"cannot remove .*0\.old, which a finished run had kept") as no:
            recover(root)
        assert "\n" not in str(no.value)
        assert tree(root) == before
    kept.rmdir()
    assert "removed what a finished run had kept" in str(recover(root))
    assert not (root / ".git" / DONE).exists()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "run.py")


def make_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent.parent / "not/there")


def make_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("name", [JOURNAL, DONE, LOCK])
@pytest.mark.parametrize("make", [make_pipe, make_folder, make_link, make_dangling_link, make_link_to_a_device])
def test_what_is_no_plain_file_is_neither_opened_nor_followed(
    root: Path, name: str, make: Callable[[Path], None]
) -> None:
    make(root / ".git" / name)
    before = tree_but_pipes(root)
    with pytest.raises(InputError, match=r"is (a folder|a link|a named pipe), which omni-migrate did not make"):
        recover(root)
    assert tree_but_pipes(root) == before


def tree_but_pipes(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*")} | {(root / "run.py").read_text()}


def test_a_journal_with_a_path_that_no_file_can_have_is_one_line(root: Path) -> None:
    step = {"path": "half\ud800.py", "before": None, "after": "0" * 64}
    journal = json.dumps({"token": "0" * 16, "folders": [], "files": [step], "branch": None})
    (root / ".git" / JOURNAL).write_text(journal)
    with pytest.raises(InputError, match="is no journal of omni-migrate"):
        recover(root)


def test_a_git_folder_of_another_checkout_is_not_written_to(root: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    for link in ("gitdir: ../root/.git", None):
        (unpacked / ".git").write_text(link) if link else (unpacked / ".git").symlink_to("../root/.git")
        with pytest.raises(InputError, match="the repository of another checkout"):
            recover(unpacked)
        (unpacked / ".git").unlink()
    assert list((root / ".git").iterdir()) == []


# --- one at a time ------------------------------------------------------------------------------------------------


def test_the_lock_is_one_runs_and_goes_with_its_process(root: Path) -> None:
    checkout = find_checkout(root)
    assert checkout is not None
    with locked(checkout):
        with pytest.raises(InputError, match="another omni-migrate, or git that it started, is working on"):
            recover(root)
        with pytest.raises(InputError, match="another omni-migrate"):
            apply_in_place(root, plan(root))
    assert list((root / ".git").iterdir()) == []
    (root / ".git" / LOCK).write_bytes(b"")  # of a process that was killed
    assert recover(root) == ""
    assert list((root / ".git").iterdir()) == []


def test_a_child_that_outlives_the_run_keeps_the_lock(root: Path) -> None:
    checkout = find_checkout(root)
    assert checkout is not None
    if os.fork() == 0:
        with locked(checkout) as held:
            subprocess.Popen(["sleep", "1"], pass_fds=(held.descriptor,))
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    with pytest.raises(InputError, match="or git that it started"):
        recover(root)
    time.sleep(1.2)
    recover(root)


def test_of_many_runs_at_once_only_one_is_in(root: Path, tmp_path: Path) -> None:
    """Each that gets in adds one to a number, slowly: none is lost, and no lock is left."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    checkout = find_checkout(root)
    assert checkout is not None
    children = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            entered = 0
            for _ in range(200):
                try:
                    with locked(checkout):
                        number = int(counter.read_text())
                        time.sleep(0.0002)
                        counter.write_text(str(number + 1))
                        entered += 1
                except InputError:
                    continue
            (tmp_path / f"entered-{os.getpid()}").write_text(str(entered))
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    entered = sum(int(file.read_text()) for file in tmp_path.glob("entered-*"))
    assert int(counter.read_text()) == entered >= 8
    assert list((root / ".git").iterdir()) == []


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


@pytest.mark.parametrize("output", [".git/refs/heads/new", ".GIT/new", "link/new", "../named.otherwise/refs/new"])
def test_an_output_in_gits_own_folder_is_refused(root: Path, tmp_path: Path, output: str) -> None:
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "named.otherwise"], check=True)
    (root / "link").symlink_to(".git")
    with pytest.raises(InputError, match="lies in git's own folder"):
        apply_to_output(root, [], root / output)
    assert not (root / output).exists()


@pytest.mark.parametrize("existed", [True, False])
def test_an_interrupted_output_leaves_nothing(root: Path, tmp_path: Path, existed: bool) -> None:
    if existed:
        (tmp_path / "out").mkdir()
    changes, before = plan(root), tree(tmp_path)
    for name in ("mkdir", "rename", "write_bytes"):
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


def test_an_output_that_a_killed_run_left_is_said_to_readers_and_to_the_next_run(root: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    if os.fork() == 0:
        rename, calls = Path.rename, 0

        def killed(self: Path, target: Path) -> Path:
            nonlocal calls
            calls += 1
            if calls == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)

        Path.rename = killed  # type: ignore[assignment, method-assign]
        apply_to_output(root, plan(root), tmp_path / "out")
    os.wait()
    before = tree(tmp_path)
    with pytest.raises(InputError, match="half written by a run with --output"):
        refuse_interrupted(tmp_path / "out")
    with pytest.raises(InputError, match="half written by a run that was interrupted: delete it and run again"):
        apply_to_output(root, plan(root), tmp_path / "out")
    assert tree(tmp_path) == before


def test_an_output_that_fails_leaves_what_others_put_there(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    move = output_folder._move_up

    def meanwhile(*arguments: object) -> None:
        (tmp_path / "out/run.py").write_bytes(b"mine\n")
        move(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(output_folder, "_move_up", meanwhile)
    with pytest.raises(InputError, match=r"run\.py was made by another program meanwhile"):
        apply_to_output(root, plan(root), tmp_path / "out")
    assert {path: content for path, (_, content) in tree(tmp_path / "out").items()} == {"run.py": b"mine\n"}


def test_a_full_output_is_named_not_the_source(small_disk: Path, root: Path) -> None:
    (root / "big.bin").write_bytes(b"0" * 200_000)
    with pytest.raises(InputError, match=rf"^cannot write {small_disk}/.*: No space left on device"):
        apply_to_output(root, [], small_disk / "out")
