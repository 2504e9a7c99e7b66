"""The folder in which fetched and unpacked sources are kept, each complete or not there."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from omni_migrate.errors import InputError

CACHE_VARIABLE = "OMNI_MIGRATE_CACHE"
ENTRY = "entry.json"
ABANDONED_SECONDS = 24 * 3600


def cache_folder() -> Path:
    """The cache: `OMNI_MIGRATE_CACHE`, or the user's cache folder of the platform."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("omni-migrate", appauthor=False))


def kept(*key: str) -> Path | None:
    """The tree kept under `key`; None if there is none, or if files of it have gone."""
    entry = _place(key)
    try:
        complete = json.loads((entry / ENTRY).read_text(encoding="utf-8")) == _measure(entry / "tree")
    except (OSError, ValueError):
        return None
    return entry / "tree" if complete else None


def keep(fill: Callable[[Path], None], *key: str) -> Path:
    """Keep under `key` the tree that `fill` writes into the folder given to it; whoever comes first wins.

    Raises InputError if the cache cannot be written, and what `fill` raises; neither leaves anything.
    """
    with scratch() as folder:
        new = folder / "new"
        (new / "tree").mkdir(parents=True)
        fill(new / "tree")
        (new / ENTRY).write_text(json.dumps(_measure(new / "tree")), encoding="utf-8")
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
    """What is kept below `key`, by name."""
    place = _place(key)
    return sorted(entry.name for entry in place.iterdir()) if place.is_dir() else []


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
    return cache_folder().joinpath("sources", *key)


def _measure(tree: Path) -> dict[str, int]:
    sizes = [file.stat().st_size for file in tree.rglob("*") if file.is_file()]
    return {"files": len(sizes), "bytes": sum(sizes)}


def _drop_abandoned(folder: Path) -> None:
    """Remove what killed runs left."""
    if not folder.is_dir():
        return
    for left in folder.iterdir():
        if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
