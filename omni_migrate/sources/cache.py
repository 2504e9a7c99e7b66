"""The folder in which fetched and unpacked sources are kept, each complete or not there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.limits import files_below

CACHE_VARIABLE = "OMNI_MIGRATE_CACHE"
ENTRY = "entry.json"
ABANDONED_SECONDS = 24 * 3600


def cache_folder() -> Path:
    """The cache: `OMNI_MIGRATE_CACHE`, or the user's cache folder of the platform."""
    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        import platformdirs

        folder = Path(platformdirs.user_cache_dir("omni-migrate", appauthor=False))
    except RuntimeError:
        folder = Path("~")
    # Without a home the answer is `~/.cache`, word for word.
    if not folder.is_absolute():
        raise InputError(f"this user has no home folder for the cache: let {CACHE_VARIABLE} name a folder for it")
    return folder


def kept(*key: str) -> Path | None:
    """The tree kept under `key`; None if there is none, or if a file of it has gone, come or changed."""
    entry = _place(key)
    try:
        same = json.loads((entry / ENTRY).read_text(encoding="utf-8")) == _fingerprint(entry / "tree")
    except (OSError, ValueError):
        return None
    return entry / "tree" if same else None


def keep(fill: Callable[[Path], None], *key: str) -> Path:
    """Keep under `key` the tree that `fill` writes into the folder given to it; whoever comes first wins.

    Raises InputError if the cache cannot be written, and what `fill` raises; neither leaves anything.
    """
    with scratch() as folder:
        new = folder / "new"
        (new / "tree").mkdir(parents=True)
        fill(new / "tree")
        (new / ENTRY).write_text(json.dumps(_fingerprint(new / "tree")), encoding="utf-8")
        entry = _place(key)
        entry.parent.mkdir(parents=True, exist_ok=True)
        if entry.exists() and kept(*key) is None:
            entry.rename(folder / "broken")
        try:
            new.rename(entry)
        except OSError:
            if kept(*key) is None:
                raise
    return entry / "tree"


def kept_names(*key: str) -> list[str]:
    """What there is below `key`, by name; whether it is whole, `kept` says."""
    try:
        return sorted(entry.name for entry in _place(key).iterdir())
    except OSError:
        return []


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder in the cache that is gone afterwards. An OSError inside means that the cache cannot be written."""
    base = cache_folder()
    folder = base / "tmp" / f"{os.getpid()}-{time.time_ns()}"
    try:
        _drop_abandoned(base / "tmp")
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unwritable(reason: str) -> InputError:
    """The cache could not be written: which folder, why, what to do."""
    return InputError(
        f"the cache {cache_folder()} cannot be written: {reason}; free space there or let {CACHE_VARIABLE} name "
        "another folder"
    )


def _place(key: tuple[str, ...]) -> Path:
    # The folder's name is the format's: what another version of the tool keeps is not mistaken for ours.
    return cache_folder().joinpath("trees", *key)


def _fingerprint(tree: Path) -> dict[str, str]:
    """A hash of every file's path and bytes: 50 ms for vLLM's 2,643 files."""
    digest = hashlib.sha256()
    for file in sorted(files_below(str(tree), unlisted=_fail)):
        path, data = os.fsencode(os.path.relpath(file, tree)), _bytes_of(file)
        digest.update(b"%d %d\0%b%b" % (len(path), len(data), path, data))
    return {"sha256": digest.hexdigest()}


def _bytes_of(file: str) -> bytes:
    with open(file, "rb", buffering=0) as stream:  # noqa: PTH123 (Path.open costs as much as the reading)
        return stream.read()


def _fail(folder: str, error: OSError) -> None:
    raise error


def _drop_abandoned(folder: Path) -> None:
    """Remove what killed runs left."""
    for left in folder.iterdir() if folder.is_dir() else ():
        try:
            abandoned = time.time() - left.lstat().st_mtime > ABANDONED_SECONDS
        except FileNotFoundError:
            # Another run has ended at this moment.
            continue
        if abandoned:
            shutil.rmtree(left, ignore_errors=True)
