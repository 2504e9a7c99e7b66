"""How file changes reach a checkout: all or none.

New contents are written next to their targets. Then each old file is renamed aside and compared once more, and the new
one is linked in its place, which never replaces what somebody made there meanwhile. The journal
(`omni_migrate.journal`) says what is under way, so that `recover` can put back what a killed run left half done.
docs/security.md has the order of syncs and what follows from it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from omni_migrate.confined import confined
from omni_migrate.errors import InputError
from omni_migrate.journal import (
    DONE,
    JOURNAL,
    TEMPORARY,
    UNFINISHED,
    Checkout,
    FileStep,
    Held,
    Journal,
    read_journal,
    sync_folder,
    write_journal,
)
from omni_migrate.plan.switch import OWN_FILES, Switch, check_undo, clean_locks, undo
from omni_migrate.report.findings import FileChange

__all__ = ["apply_in_place", "interruptible", "recover", "refuse", "uninterrupted"]

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


@dataclass(frozen=True)
class _Left:
    """The same as a journal tells it of a run that stopped, with hashes for contents."""

    step: FileStep
    target: Path
    new: Path
    old: Path

    @property
    def ours(self) -> bool:
        """Whether the target holds what the run wrote there."""
        return _hash(self.target) == self.step.after

    @property
    def placed(self) -> bool:
        """Whether the run has made the target: its new file is gone from where it was written, or edited as well."""
        return _hash(self.new) != self.step.after

    @property
    def restored(self) -> bool:
        """Whether the target holds what was kept."""
        return _hash(self.target) == _hash(self.old) is not None


def apply_in_place(held: Held, root: Path, changes: Iterable[FileChange], switch: Switch | None = None) -> None:
    """Write the changes below `root`, and bring git to `switch`'s branch: all of it, or nothing.

    Symbolic links are written through, mode bits kept. Raises InputError if a file no longer is as planned, or cannot
    be written; nothing fails once all is in place.
    """
    entries = _entries(held.checkout, root, [change for change in changes if change.before != change.after])
    if not entries and switch is None:
        return
    top = held.checkout.top
    folders = missing_folders(entry.target.parent for entry in entries)
    journal = Journal(
        token=entries[0].new.name.removeprefix(TEMPORARY).partition("-")[0] if entries else secrets.token_hex(8),
        folders=tuple(folder.relative_to(top).as_posix() for folder in folders),
        files=tuple(
            FileStep(
                entry.target.relative_to(top).as_posix(),
                None if entry.before is None else hashlib.sha256(entry.before).hexdigest(),
                hashlib.sha256(entry.after).hexdigest(),
            )
            for entry in entries
        ),
        branch=None if switch is None else switch.step,
    )
    with interruptible():
        try:
            write_journal(held, journal)
            if switch is not None:
                switch.hold_index(held)
            _write_files(entries, folders)
            if switch is not None:
                switch.forward(held)
            with uninterrupted():
                held.own(JOURNAL).rename(held.own(DONE))
                with suppress(OSError):  # a leftover only costs space
                    _clean_up(held, journal)
        except BaseException as error:
            with uninterrupted():
                _undo(held)
            if isinstance(error, OSError):
                refuse(error, root)
            raise


def recover(held: Held) -> str:
    """Put back what a run that was killed left half done in this checkout; what was done, "" if there was nothing.

    To be called before the tree is looked at. Raises InputError, and changes nothing, if the journal is not one of this
    tool or something was edited since.
    """
    told = ""
    finished = read_journal(held, DONE)
    if finished is not None:
        try:
            with uninterrupted():
                _clean_up(held, finished)
        except OSError as error:
            raise InputError(
                f"cannot remove {error.filename}, which a finished run had kept: {error.strerror}; put that right, or "
                "remove it yourself, and run again: everything that the run wrote is in place"
            ) from error
        told = f"removed what a finished run had kept of {len(finished.files)} files"
    journal = read_journal(held, JOURNAL)
    if journal is not None:
        with uninterrupted():
            _roll_back(held, journal)
        branch = f" and the branch {journal.branch.branch}" if journal.branch else ""
        told = f"put back {len(journal.files)} files{branch} of a run that was interrupted"
    remove_own_files(held)
    return told


def remove_own_files(held: Held) -> None:
    """Remove what a run prepares in the git folder before it touches anything; never fails."""
    for name in (UNFINISHED, *OWN_FILES):
        with suppress(OSError):
            held.own(name).unlink(missing_ok=True)


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


# -- forward -----------------------------------------------------------------------------------------------------------


def _entries(checkout: Checkout, root: Path, changes: Sequence[FileChange]) -> list[_Entry]:
    """What to write where, links resolved; raises InputError if a file is not as the plan found it."""
    token = secrets.token_hex(8)
    entries: dict[Path, _Entry] = {}
    for change in changes:
        target = written_place(checkout, root, change.path)
        new, old = _kept(target, token, len(entries))
        entry = _Entry(change.path, target, new, old, change.before, change.after)
        other = entries.setdefault(target, entry)
        if other.after != entry.after:
            raise InputError(f"{other.path} and {entry.path} are one file with two planned contents")
        if change.before is None and (root / change.path).is_symlink():
            raise InputError(f"{change.path} exists by now: run again")
        _refuse_no_folder(change.path, target)
        try:
            verify(change, target)
        except OSError as error:
            refuse(error, root)
        if change.before is not None and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
            raise InputError(f"{change.path} is read-only: make it writable (chmod u+w) and run again")
    return list(entries.values())


def _refuse_no_folder(path: str, target: Path) -> None:
    """Raise InputError where something that is no folder stands at the place of one that the file needs."""
    above = next(folder for folder in target.parents if os.path.lexists(folder))
    if not above.is_dir():
        raise InputError(f"{path} cannot be written, as {above} is no folder: move it elsewhere and run again")


def written_place(checkout: Checkout, root: Path, path: str) -> Path:
    """Where a planned file is written, links resolved. Raises InputError outside the checkout, and in git's folder."""
    target = Path(os.path.realpath(root / path))
    if not target.is_relative_to(checkout.top):
        raise InputError(f"{path} is a link to {target}, outside {checkout.top}: nothing was written")
    return confined(checkout.top, target.relative_to(checkout.top).as_posix(), "planned file")


def _kept(target: Path, token: str, number: int) -> tuple[Path, Path]:
    """Where a run writes the new file, and keeps the old one: next to the target, named by the run's token."""
    base = target.parent / f"{TEMPORARY}{token}-{number}"
    return base.with_suffix(".new"), base.with_suffix(".old")


def verify(change: FileChange, file: Path) -> None:
    """Raise InputError if a file no longer is as the plan found it."""
    if change.before is None:
        if os.path.lexists(file):
            raise InputError(f"{change.path} exists by now: nothing was written, run again")
        return
    if not file.exists():
        raise InputError(f"{change.path} is gone since it was read: nothing was written, run again")
    if not file.is_file() or file.read_bytes() != change.before:
        raise InputError(f"{change.path} changed since it was read: nothing was written, run again")


def _compare(entry: _Entry, file: Path) -> None:
    if not stat.S_ISREG(file.lstat().st_mode) or file.read_bytes() != entry.before:
        raise InputError(f"{entry.path} changed since it was read: nothing was written, run again")


def _write_files(entries: Sequence[_Entry], folders: Sequence[Path]) -> None:
    """New files first, on the disk; then each in its place; the folders' names on the disk before this returns."""
    for folder in folders:
        folder.mkdir()
    for entry in entries:
        _write_new(entry)
    touched = {entry.target.parent for entry in entries}
    for folder in touched:
        sync_folder(folder)
    for entry in entries:
        _place(entry)
    for entry in entries:
        if entry.before is not None:
            _compare(entry, entry.old)  # an editor that had it open may have written into it meanwhile
    for folder in touched.union(*({folder, folder.parent} for folder in folders)):
        sync_folder(folder)


def _write_new(entry: _Entry) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(entry.new, flags, 0o666), "wb") as file:
        file.write(entry.after)
        if entry.before is not None:
            file.flush()
            _keep_owner_and_mode(entry.target, entry.new)
        file.flush()
        os.fsync(file.fileno())


def _keep_owner_and_mode(original: Path, copy: Path) -> None:
    info = original.stat()
    if hasattr(os, "chown") and (copy.stat().st_uid, copy.stat().st_gid) != (info.st_uid, info.st_gid):
        with suppress(PermissionError):
            os.chown(copy, info.st_uid, info.st_gid)
    copy.chmod(stat.S_IMODE(info.st_mode))


def _place(entry: _Entry) -> None:
    """Whatever stands at the target is moved aside, looked at, and kept; the new file replaces nothing."""
    if entry.before is not None:
        entry.target.rename(entry.old)
        _compare(entry, entry.old)
    try:
        _link(entry.new, entry.target)
    except FileExistsError:
        if entry.before is not None:
            entry.old.unlink()  # what stands there now was saved over it by somebody: that stays
        raise InputError(f"{entry.path} was written by another program meanwhile: run again") from None
    entry.new.unlink(missing_ok=True)


def _link(file: Path, target: Path) -> None:
    """Give `file` the name `target`; raises FileExistsError if there is such a file."""
    try:
        os.link(file, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        file.rename(target)


def missing_folders(wanted: Iterable[Path]) -> list[Path]:
    """The folders that do not exist yet, outer ones first."""
    missing = {folder for path in wanted for folder in (path, *path.parents) if not os.path.lexists(folder)}
    return sorted(missing, key=lambda folder: (len(folder.parts), folder))


def _clean_up(held: Held, journal: Journal) -> None:
    """Remove the originals that were kept, when all is in place. Raises OSError; then the next run goes on with it."""
    sync_folder(held.checkout.git_folder)  # the originals go only when it is sure that all is in place
    for left in _lefts(held, journal):
        _remove(left.old)
        _remove(left.new)
    clean_locks(held, DONE, journal.branch)
    remove_own_files(held)
    held.own(DONE).unlink(missing_ok=True)


# -- back --------------------------------------------------------------------------------------------------------------


def _undo(held: Held) -> None:
    """Put everything back after an error. Raises InputError if that cannot be done now; then `recover` can."""
    journal = read_journal(held, JOURNAL)
    if journal is not None:
        _roll_back(held, journal)
    remove_own_files(held)


def _lefts(held: Held, journal: Journal) -> list[_Left]:
    top = held.checkout.top
    return [
        _Left(step, top / step.path, *_kept(top / step.path, journal.token, number))
        for number, step in enumerate(journal.files)
    ]


def _roll_back(held: Held, journal: Journal) -> None:
    """Put back every file, and git, as the journal says; safe to be run again if it is cut off itself."""
    lefts = _lefts(held, journal)
    try:
        for left in lefts:
            _refuse_edited(held, left)
        if journal.branch is not None:
            check_undo(held, journal.branch)
            undo(held, journal.branch)
        for left in reversed(lefts):
            _put_back(left)
        for folder in reversed(journal.folders):
            with suppress(OSError):
                (held.checkout.top / folder).rmdir()
        for parent in {left.target.parent for left in lefts}:
            with suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(parent)
        clean_locks(held, JOURNAL, journal.branch)
        held.own(JOURNAL).unlink()
    except OSError as error:
        raise InputError(
            f"could not put back {error.filename or held.checkout.top}: {error.strerror}; put that right and run "
            f"`omni-migrate recover {held.checkout.top}` to finish"
        ) from error


def _refuse_edited(held: Held, left: _Left) -> None:
    """Raise InputError if somebody edited a file after the run stopped: what they wrote is not touched."""
    if not os.path.lexists(left.target) or left.ours:
        return
    if left.step.before is None:
        edited, original = left.placed, ""
    else:
        edited = os.path.lexists(left.old) and not left.restored
        original = f", its original is {left.old.name} beside it"
    if edited:
        raise InputError(
            f"{left.target} was edited after a run was interrupted{original}: move your version elsewhere, run "
            f"`omni-migrate recover {held.checkout.top}`, and bring your edit in again"
        )


def _put_back(left: _Left) -> None:
    if left.step.before is None:
        if left.ours:
            left.target.unlink()
    elif os.path.lexists(left.old):
        if left.ours and not left.restored:
            left.target.unlink()
        if not os.path.lexists(left.target):
            _link(left.old, left.target)
        _remove(left.old)
    _remove(left.new)


def _remove(file: Path) -> None:
    """Remove a file that may be gone, and whose folder may be a file by now."""
    with suppress(FileNotFoundError, NotADirectoryError):
        file.unlink()


def _hash(file: Path) -> str | None:
    """The SHA-256 of a regular file's bytes; None of anything else."""
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return None
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def refuse(error: OSError, root: Path) -> NoReturn:
    """One line for what the system refused; by now the tree is as it was."""
    if isinstance(error, shutil.Error) or error.strerror is None:
        what, reason = str(root), str(error)
    else:
        # Of a copy, the second name is the one that was written.
        what, reason = str(error.filename2 or error.filename or root), error.strerror
    hints = {errno.ENOSPC: "free some space", errno.EDQUOT: "free some space", errno.EROFS: "make it writable"}
    hint = hints.get(error.errno or 0, "make it writable" if isinstance(error, PermissionError) else "put that right")
    raise InputError(f"cannot write {what}: {reason}; nothing was changed, {hint} and run again") from error
