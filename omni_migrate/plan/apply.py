"""How file changes reach the disk: all or none, in place or as a whole new tree.

In place: new contents are written next to their targets, then renamed over them. A journal (in the checkout's git
folder, else in the root) says what is under way, so that `recover` can put back what a killed run left half done.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from omni_migrate.errors import InputError
from omni_migrate.report.diff import unified_diff
from omni_migrate.report.findings import FileChange

__all__ = ["apply_in_place", "apply_to_output", "interruptible", "recover", "unified_diff", "uninterrupted"]

_JOURNAL = "omni-migrate-journal"
_TEMPORARY = ".omni-migrate-"
_CACHE_FOLDERS = frozenset({"__pycache__", ".hypothesis", ".tox", ".nox", ".eggs", "node_modules"})
_SIGNALS = ("SIGTERM", "SIGHUP")


@dataclass(frozen=True)
class _Entry:
    """One file under way: `new` becomes `target`; `old` keeps the original until all are done."""

    path: str
    target: Path
    new: Path
    old: Path
    before: bytes | None
    after: bytes


def apply_in_place(root: Path, changes: Iterable[FileChange], then: Callable[[], None] | None = None) -> None:
    """Write the changes below `root`: all of them, or none.

    `then` runs when every file is in place; if it raises, the files are put back. Symbolic links are written through,
    mode bits kept. Raises InputError if a file no longer is as planned, or cannot be written.
    """
    recover(root)
    entries = _entries(root, [change for change in changes if change.before != change.after])
    if not entries:
        if then is not None:
            then()
        return
    folders = _missing_folders(entry.target.parent for entry in entries)
    journal = _journal(root)
    with interruptible(), _locked_journal(journal, entries, folders):
        try:
            for folder in folders:
                folder.mkdir()
            for entry in entries:
                _write_new(entry)
            for entry in entries:
                _verify(entry)
                _replace(entry)
            for folder in {entry.target.parent for entry in entries}:
                _sync_folder(folder)
            if then is not None:
                then()
            with uninterrupted():
                journal.replace(_done(journal))
                _clean_up(_done(journal))
        except BaseException as error:
            with uninterrupted():
                if journal.exists():
                    _roll_back(journal)
            if isinstance(error, OSError):
                _refuse(error, root)
            raise


def recover(root: Path) -> bool:
    """Put back what a killed run left half written in this checkout; True if there was something.

    To be called before the tree is looked at. Raises InputError if another run is writing, or a file was edited since.
    """
    journal = _journal(root)
    found = False
    if _done(journal).exists():
        _clean_up(_done(journal))
        found = True
    if journal.exists():
        with journal.open("rb") as file:
            if not _lock(file.fileno()):
                raise InputError(f"another omni-migrate is writing to {root}: wait until it ends, then run again")
            with uninterrupted():
                _roll_back(journal)
        found = True
    return found


def apply_to_output(root: Path, changes: Iterable[FileChange], output: Path) -> None:
    """Write the whole tree below `root` with the changes into `output`, which must be missing or empty.

    Everything but git's folder and caches is copied, links as links. Raises InputError, and then nothing is left.
    """
    output = Path(os.path.realpath(output))
    if output.exists() and not output.is_dir():
        raise InputError(f"--output {output} is a file: name a folder that is empty or does not exist")
    existed = output.exists()
    if existed and any(output.iterdir()):
        raise InputError(f"--output {output} is not empty: name a folder that is empty or does not exist")
    created = [] if existed else _missing_folders([output.parent])
    # An empty folder is filled from inside: it may be a mount point, or where the user's shell stands.
    build = (output if existed else output.parent) / f"{_TEMPORARY}{secrets.token_hex(4)}"
    with interruptible():
        try:
            for folder in created:
                folder.mkdir()
            build.mkdir()
            _copy_tree(root, build, skipped={build, output})
            for change in changes:
                _write_copy(root, build, change)
            if existed:
                for item in sorted(build.iterdir()):
                    item.replace(output / item.name)
                build.rmdir()
            else:
                build.replace(output)
        except BaseException as error:
            with uninterrupted():
                shutil.rmtree(build, ignore_errors=True)
                for item in output.iterdir() if existed else ():
                    shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
                for folder in reversed(created):
                    with suppress(OSError):
                        folder.rmdir()
            if isinstance(error, (OSError, shutil.Error)):
                _refuse(error, root)
            raise


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise SystemExit as Ctrl-C raises KeyboardInterrupt, so that cleaning up runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {}
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            kept[number] = signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Within, Ctrl-C, SIGTERM and SIGHUP are ignored, by child processes too: for the few steps of cleaning up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", *_SIGNALS) if hasattr(signal, name)]
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _entries(root: Path, changes: Sequence[FileChange]) -> list[_Entry]:
    """What to write where, links resolved; raises InputError if a file is not as the plan found it."""
    token = secrets.token_hex(4)
    checkout = _checkout(root)
    boundary = Path(os.path.realpath(checkout[0] if checkout else root))
    entries: dict[Path, _Entry] = {}
    for number, change in enumerate(changes):
        target = Path(os.path.realpath(root / change.path))
        if not target.is_relative_to(boundary):
            raise InputError(f"{change.path} is a link to {target}, outside {boundary}: nothing was written")
        base = target.parent / f"{_TEMPORARY}{token}-{number}"
        entry = _Entry(
            change.path, target, base.with_suffix(".new"), base.with_suffix(".old"), change.before, change.after
        )
        other = entries.setdefault(target, entry)
        if other.after != entry.after:
            raise InputError(f"{other.path} and {entry.path} are one file with two planned contents")
        if change.before is None and (root / change.path).is_symlink():
            raise InputError(f"{change.path} exists by now: run again")
        try:
            _verify(entry)
        except OSError as error:
            _refuse(error, root)
        if change.before is not None and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
            raise InputError(f"{change.path} is read-only: make it writable (chmod u+w) and run again")
    return list(entries.values())


def _verify(entry: _Entry) -> None:
    if entry.before is None:
        if os.path.lexists(entry.target):
            raise InputError(f"{entry.path} exists by now: nothing was written, run again")
        return
    try:
        now = entry.target.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{entry.path} is gone since it was read: nothing was written, run again") from None
    if now != entry.before:
        raise InputError(f"{entry.path} changed since it was read: nothing was written, run again")


def _write_new(entry: _Entry) -> None:
    descriptor = os.open(entry.new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(entry.after)
        file.flush()
        os.fsync(file.fileno())
    if entry.before is not None:
        _keep_owner_and_mode(entry.target, entry.new)


def _keep_owner_and_mode(original: Path, copy: Path) -> None:
    info = original.stat()
    if hasattr(os, "chown") and (copy.stat().st_uid, copy.stat().st_gid) != (info.st_uid, info.st_gid):
        with suppress(PermissionError):
            os.chown(copy, info.st_uid, info.st_gid)
    copy.chmod(stat.S_IMODE(info.st_mode))


def _replace(entry: _Entry) -> None:
    if entry.before is not None:
        try:
            os.link(entry.target, entry.old)
        except OSError:  # a file system without hard links
            entry.target.replace(entry.old)
    entry.new.replace(entry.target)


def _sync_folder(folder: Path) -> None:
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _missing_folders(wanted: Iterable[Path]) -> list[Path]:
    """The folders that do not exist yet, outer ones first."""
    missing = {folder for path in wanted for folder in (path, *path.parents) if not os.path.lexists(folder)}
    return sorted(missing, key=lambda folder: len(folder.parts))


def _checkout(root: Path) -> tuple[Path, Path] | None:
    """The work tree that `root` lies in and its git folder (a file in worktrees and submodules)."""
    root = Path(os.path.realpath(root))
    for folder in (root, *root.parents):
        link = folder / ".git"
        if link.is_dir():
            return folder, link
        if link.is_file():
            text = link.read_text(encoding="utf-8", errors="surrogateescape")
            return folder, folder / text.removeprefix("gitdir:").strip()
    return None


def _journal(root: Path) -> Path:
    checkout = _checkout(root)
    return checkout[1] / _JOURNAL if checkout else Path(os.path.realpath(root)) / f".{_JOURNAL}"


def _done(journal: Path) -> Path:
    """Where the journal is renamed to when every file is in place: what is left is cleaning up."""
    return journal.with_name(journal.name + ".done")


@contextmanager
def _locked_journal(journal: Path, entries: Sequence[_Entry], folders: Sequence[Path]) -> Iterator[None]:
    """Create the journal on disk, locked while this process lives. Paths in it are relative to its folder."""
    record = {
        "folders": [_relative(folder, journal) for folder in folders],
        "files": [
            {
                "target": _relative(entry.target, journal),
                "new": _relative(entry.new, journal),
                "old": _relative(entry.old, journal),
                "created": entry.before is None,
                "sha256": hashlib.sha256(entry.after).hexdigest(),
            }
            for entry in entries
        ],
    }
    try:
        file = journal.open("xb")
    except FileExistsError:
        raise InputError("another omni-migrate is writing here: wait until it ends, then run again") from None
    except OSError as error:
        _refuse(error, journal.parent)
    with file:
        try:
            _lock(file.fileno())
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except BaseException as error:
            journal.unlink()
            if isinstance(error, OSError):
                _refuse(error, journal.parent)
            raise
        yield


def _lock(descriptor: int) -> bool:
    """Take the journal for this process; False if another one has it. The lock goes with the process."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _relative(path: Path, journal: Path) -> str:
    return os.path.relpath(path, os.path.realpath(journal.parent))


def _read_journal(journal: Path) -> dict[str, Any]:
    data = journal.read_bytes()
    if not data.endswith(b"\n"):  # cut off while it was written: no file was touched yet
        return {"folders": [], "files": []}
    record: dict[str, Any] = json.loads(data)
    return record


def _roll_back(journal: Path) -> None:
    """Put back every file as the journal's state on disk says; safe to be run again if it is cut off itself."""
    record = _read_journal(journal)
    base = Path(os.path.realpath(journal.parent))
    try:
        for item in reversed(record["files"]):
            target, new, old = base / item["target"], base / item["new"], base / item["old"]
            ours = target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == item["sha256"]
            if item["created"] and ours and not new.exists():
                target.unlink()
            elif old.exists():
                if not ours and target.exists() and target.read_bytes() != old.read_bytes():
                    raise InputError(
                        f"{os.path.normpath(target)} was edited after an interrupted run: its original is "
                        f"{old.name} beside it; keep the one you want and delete {journal}"
                    )
                old.replace(target)
                old.unlink(missing_ok=True)  # a rename between two links to one file leaves both
            new.unlink(missing_ok=True)
        for folder in reversed(record["folders"]):
            with suppress(OSError):
                (base / folder).rmdir()
        journal.unlink()
    except OSError as error:
        raise InputError(
            f"could not put back {error.filename}: {error.strerror}; put that right and run again to finish"
        ) from error


def _clean_up(journal: Path) -> None:
    """Remove the originals that were kept; a leftover only costs space, so no error is worth failing for."""
    base = Path(os.path.realpath(journal.parent))
    with suppress(OSError):
        for item in _read_journal(journal)["files"]:
            (base / item["old"]).unlink(missing_ok=True)
        journal.unlink()


def _copy_tree(root: Path, build: Path, skipped: set[Path]) -> None:
    def fail(error: OSError) -> NoReturn:
        raise error

    root = Path(os.path.realpath(root))
    for folder, folders, files in os.walk(root, onerror=fail):
        here = Path(folder)
        copy = build / here.relative_to(root)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = sorted(
            name for name in folders if name not in links and here / name not in skipped and not _is_cache(here / name)
        )
        for name in folders:
            (copy / name).mkdir()
        for name in (*links, *files):
            source = here / name
            if source.is_symlink():
                (copy / name).symlink_to(source.readlink())
            elif source.is_file() and name != ".git" and not name.endswith(".pyc"):
                shutil.copy2(source, copy / name)


def _is_cache(folder: Path) -> bool:
    name = folder.name
    if name == ".git" or name in _CACHE_FOLDERS or (name.startswith(".") and name.endswith("_cache")):
        return True
    return (folder / "pyvenv.cfg").exists()


def _write_copy(root: Path, build: Path, change: FileChange) -> None:
    source, copy = root / change.path, build / change.path
    _verify(_Entry(change.path, source, copy, copy, change.before, change.after))
    copy.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.realpath(copy))
    if not target.is_relative_to(os.path.realpath(build)):
        copy.unlink()  # a link out of the tree: the copy gets a file of its own, the original is not ours to write
        target = copy
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    if mode is not None:
        target.chmod(mode | 0o200)
    target.write_bytes(change.after)
    if mode is not None:
        target.chmod(mode)


def _refuse(error: OSError, root: Path) -> NoReturn:
    """One line for what the system refused; by now the tree is as it was."""
    if isinstance(error, shutil.Error) or error.strerror is None:
        what, reason = str(root), str(error)
    else:
        what, reason = str(error.filename or root), error.strerror
    hints = {errno.ENOSPC: "free some space", errno.EDQUOT: "free some space", errno.EROFS: "make it writable"}
    hint = hints.get(error.errno or 0, "make it writable" if isinstance(error, PermissionError) else "put that right")
    raise InputError(f"cannot write {what}: {reason}; nothing was changed, {hint} and run again") from error
