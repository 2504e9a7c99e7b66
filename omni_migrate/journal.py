"""What a run is doing to a checkout, on disk: the lock that lets one run write, and the journal that says what it does.

Both lie in the checkout's git folder. A journal that stands there while nobody holds the lock was left by a run that
was killed: the tree is half written, and `plan.apply.recover` puts it back. A checkout may come from anywhere, so what
a journal says is checked field by field, and names no place but files of its own checkout; the names of a run's
temporary files are made from its token, never read.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from omni_migrate.confined import confined
from omni_migrate.errors import InputError

JOURNAL = "omni-migrate-journal"
"""While it stands, files are under way."""
DONE = f"{JOURNAL}.done"
"""What the journal is renamed to when all is in place: only cleaning up is left."""
UNFINISHED = f"{JOURNAL}.new"
"""A journal that is being written; no file was touched yet."""
LOCK = "omni-migrate.lock"
TEMPORARY = ".omni-migrate-"
OUTPUT_BUILD = ".omni-migrate-build"
OUTPUT_LOCK = ".omni-migrate-build.lock"
"""Stand in an output folder until all of the tree is there."""
_LARGEST = 16 << 20
_TOKEN = re.compile(r"[0-9a-f]{16}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REFERENCE = re.compile(r"refs/[^\s\x00-\x20\x7f~^:?*\[\\]+")
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a link"), (stat.S_ISFIFO, "a named pipe"))
# A named pipe must not hang, a link must not be followed.
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True)
class Checkout:
    """A work tree and its git folder, links resolved."""

    top: Path
    git_folder: Path


@dataclass(frozen=True)
class FileStep:
    """One file: its path from the top, and the SHA-256 of its bytes before (None: there was none) and after."""

    path: str
    before: str | None
    after: str


@dataclass(frozen=True)
class BranchStep:
    """A new branch: its tip, what HEAD named (None: detached) and was, and what the index lists before and after."""

    branch: str
    tip: str
    head_ref: str | None
    head: str
    index_before: str
    index_after: str


@dataclass(frozen=True)
class Journal:
    """A run: `folders` are those that it makes, outer ones first."""

    token: str
    folders: tuple[str, ...]
    files: tuple[FileStep, ...]
    branch: BranchStep | None = None

    def encoded(self) -> bytes:
        import json

        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True)
class Held:
    """A checkout whose lock this process holds; child processes that inherit `descriptor` hold it too."""

    checkout: Checkout
    descriptor: int

    def own(self, name: str) -> Path:
        """One of the run's own files in the git folder."""
        return self.checkout.git_folder / name


def find_checkout(folder: Path) -> Checkout | None:
    """The checkout that `folder` lies in; `.git` is a file in linked work trees and submodules."""
    folder = Path(os.path.realpath(folder))
    for top in (folder, *folder.parents):
        link = top / ".git"
        if link.is_dir():
            return Checkout(top, Path(os.path.realpath(link)))
        if os.path.lexists(link):
            return Checkout(top, _pointed_to(link))
    return None


def _pointed_to(link: Path) -> Path:
    try:
        text = _read(link, 4096).decode("utf-8", "surrogateescape") if link.is_file() else ""
    except OSError:
        text = ""
    return Path(os.path.realpath(link.parent / text.removeprefix("gitdir:").strip())) if text else link


@contextmanager
def locked(checkout: Checkout) -> Iterator[Held]:
    """Let nobody else write to the checkout meanwhile. Raises InputError if somebody does, or if it is another's.

    The lock goes with the process and with the git commands that it started; the file is removed while it is held.
    """
    _refuse_anothers(checkout)
    with lock_file(checkout.git_folder / LOCK, f"working on {checkout.top}") as descriptor:
        yield Held(checkout, descriptor)


@contextmanager
def lock_file(path: Path, doing: str) -> Iterator[int]:
    """Hold a lock that is a file; its descriptor. Raises InputError if another run, which is `doing` that, holds it.

    The file is removed while it is held, and who finds it locks it only if it still is the one of that name.
    """
    descriptor = _opened(path, doing)
    try:
        yield descriptor
    finally:
        try:
            with suppress(OSError):
                path.unlink()
        finally:
            os.close(descriptor)


def refuse_interrupted(folder: Path) -> None:
    """Raise InputError if a tree, or the checkout that it lies in, is half written: nothing may be read from it."""
    if os.path.lexists(folder / OUTPUT_LOCK):
        raise InputError(f"{folder} is half written by a run with --output: wait until it ends, or delete it")
    checkout = find_checkout(folder)
    if checkout is None or not any(os.path.lexists(checkout.git_folder / name) for name in (JOURNAL, DONE)):
        return
    if _is_held(checkout.git_folder / LOCK):
        raise InputError(f"another omni-migrate is writing to {checkout.top}: wait until it ends, then run again")
    raise InputError(
        f"{checkout.top} is left half written by a run that was interrupted: put it right with "
        f"`omni-migrate recover {checkout.top}`, then run again"
    )


def _refuse_anothers(checkout: Checkout) -> None:
    """A `.git` that leads to another checkout's repository is none of this one's."""
    folder, link = checkout.git_folder, checkout.top / ".git"
    if not folder.is_dir():
        raise InputError(f"{link} leads to {folder}, which is no folder: mend it, or use --output")
    if folder == link:
        return
    back = folder / "gitdir"
    if back.is_file():
        said = Path(os.path.realpath(folder / _read(back, 4096).decode("utf-8", "surrogateescape").strip()))
        right = said == Path(os.path.realpath(checkout.top)) / ".git"
    else:
        right = folder.name != ".git"
    if not right:
        raise InputError(f"{link} leads to {folder}, the repository of another checkout: mend it, or use --output")


def _opened(path: Path, doing: str) -> int:
    """The lock's descriptor, once the lock is this process's and the file is still the one that the others open."""
    while True:
        _refuse_irregular(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o600)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; make it writable and run again") from error
        try:
            if not _lock(descriptor, path):
                raise InputError(
                    f"another omni-migrate, or git that it started, is {doing}: wait until it ends, then run again"
                )
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.lstat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # removed by the run that held it, between opening and locking


def _is_held(path: Path) -> bool:
    try:
        _refuse_irregular(path)
        descriptor = os.open(path, os.O_RDWR | _SAFELY)
    except (OSError, InputError):
        return False
    try:
        return not _lock(descriptor, path)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> bool:
    """Take the lock for this process; False if another one has it. Raises InputError where files cannot be locked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise InputError(f"cannot lock {path}: {error.strerror}; use --output") from error
    return True


# -- the journal on disk -----------------------------------------------------------------------------------------------


def write_journal(held: Held, journal: Journal) -> None:
    """Put the journal in place, whole and synced with its folder: only then may a file be touched."""
    unfinished = held.own(UNFINISHED)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(journal.encoded())
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(held.own(JOURNAL))
    sync_folder(held.checkout.git_folder)


def read_journal(held: Held, name: str) -> Journal | None:
    """The journal of that name, or None. Raises InputError for what this tool cannot have written."""
    path = held.own(name)
    if not os.path.lexists(path):
        return None
    _refuse_irregular(path)
    try:
        data = _read(path, _LARGEST + 1)
        if hasattr(os, "geteuid") and os.geteuid() not in (0, path.lstat().st_uid):
            _refuse(path, "it belongs to another user")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; put that right and run again") from error
    if len(data) > _LARGEST:
        _refuse(path, "it is too long")
    return _decoded(data, path, held.checkout)


def _decoded(data: bytes, path: Path, checkout: Checkout) -> Journal:
    import json

    try:
        record = _fields(json.loads(data), ("token", "folders", "files", "branch"))
        token = _matched(record["token"], _TOKEN)
        files = tuple(_file(item) for item in _list(record["files"]))
        folders = tuple(_text(item) for item in _list(record["folders"]))
        branch = None if record["branch"] is None else _branch(record["branch"])
    except (ValueError, RecursionError) as error:
        _refuse(path, str(error).splitlines()[0][:80])
    places = [step.path for step in files] + list(folders)
    if len(set(places)) != len(places):
        _refuse(path, "a path stands in it twice")
    above = {str(folder) for step in files for folder in PurePosixPath(step.path).parents}
    if not above.issuperset(folders):
        _refuse(path, "a folder in it holds none of its files")
    for place in places:
        whole = confined(checkout.top, place, f"{path}: path")
        if PurePosixPath(place).as_posix() != place or Path(os.path.realpath(whole.parent)) != whole.parent:
            _refuse(path, f"{place!r} is no plain path")
    return Journal(token, folders, files, branch)


def _file(item: object) -> FileStep:
    record = _fields(item, ("path", "before", "after"))
    before = None if record["before"] is None else _matched(record["before"], _SHA256)
    return FileStep(_text(record["path"]), before, _matched(record["after"], _SHA256))


def _branch(item: object) -> BranchStep:
    record = _fields(item, ("branch", "tip", "head_ref", "head", "index_before", "index_after"))
    branch = _text(record["branch"])
    _matched(f"refs/heads/{branch}", _REFERENCE)
    head_ref = None if record["head_ref"] is None else _matched(record["head_ref"], _REFERENCE)
    for name in (f"refs/heads/{branch}", head_ref or ""):
        if ".." in name or "//" in name or "/." in name or name.endswith((".lock", "/", ".")) or "@{" in name:
            raise ValueError(f"{name!r} is no name of a branch")
    tip, head = _matched(record["tip"], _OBJECT), _matched(record["head"], _OBJECT)
    index = [_matched(record[name], _SHA256) for name in ("index_before", "index_after")]
    return BranchStep(branch, tip, head_ref, head, index[0], index[1])


def _fields(item: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(item, dict) or sorted(item) != sorted(names):
        raise ValueError(f"not an entry with just {', '.join(names)}")
    return item


def _list(item: object) -> list[object]:
    if not isinstance(item, list):
        raise ValueError("no list where one belongs")
    return item


def _text(item: object) -> str:
    if not isinstance(item, str) or not item or len(item) > 4096:
        raise ValueError("no text where a path or a name belongs")
    os.fsencode(item)  # half of a surrogate pair names no file: a ValueError too
    return item


def _matched(item: object, pattern: re.Pattern[str]) -> str:
    text = _text(item)
    if pattern.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is not what belongs there")
    return text


def _refuse(path: Path, why: str) -> NoReturn:
    raise InputError(
        f"{path} is no journal of omni-migrate ({why}): look at it, and move it away if you do not know it"
    )


def _refuse_irregular(path: Path) -> None:
    """Raise InputError unless `path` is a regular file or missing."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; put that right and run again") from error
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "no plain file")
        raise InputError(f"{path} is {kind}, which omni-migrate did not make: move it away and run again")


def _read(path: Path, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _SAFELY)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(size)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
