"""A whole new tree: the source with a plan's changes, in a folder that is missing or empty."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from omni_migrate.confined import lies_in_git_folder
from omni_migrate.errors import InputError
from omni_migrate.journal import OUTPUT_BUILD, OUTPUT_LOCK, lock_file
from omni_migrate.plan.apply import interruptible, missing_folders, refuse, uninterrupted, verify
from omni_migrate.report.findings import FileChange

_CACHE_FOLDERS = frozenset({"__pycache__", ".hypothesis", ".tox", ".nox", ".eggs", "node_modules"})
_ADVICE = "name a folder that is empty or does not exist"


def apply_to_output(root: Path, changes: Iterable[FileChange], output: Path) -> None:
    """Write the whole tree below `root` with the changes into `output`, which must be missing or empty.

    Everything but git's folder and caches is copied, links as links. Raises InputError, and then nothing is left.
    """
    output = Path(os.path.realpath(output))
    if output.exists() and not output.is_dir():
        raise InputError(f"--output {output} is a file: {_ADVICE}")
    if lies_in_git_folder(output):
        raise InputError(f"--output {output} lies in git's own folder: {_ADVICE}, elsewhere")
    existed = output.exists()
    created = [] if existed else missing_folders([output.parent])
    # An empty folder is filled from inside: it may be a mount point, or where the user's shell stands.
    build = output / OUTPUT_BUILD if existed else output.parent / f"{OUTPUT_BUILD}-{output.name}"
    lock = output / OUTPUT_LOCK if existed else build.with_name(f"{build.name}.lock")
    if existed:
        _remove_beside(output)
        _refuse_full(output)
    moved: list[Path] = []
    with interruptible():
        try:
            for folder in created:
                folder.mkdir()
            with lock_file(lock, f"writing to {output}"):
                _remove_left(build)
                build.mkdir()
                try:
                    _fill(root, changes, build, skipped={build, output})
                    if existed:
                        _move_up(build, output, moved)
                    else:
                        build.rename(output)
                except BaseException:
                    with uninterrupted():
                        _remove(build, *moved)
                    raise
        except BaseException as error:
            with uninterrupted():
                for folder in reversed(created):
                    with suppress(OSError):
                        folder.rmdir()
            if isinstance(error, (OSError, shutil.Error)):
                refuse(error, output)
            raise


def _remove_beside(output: Path) -> None:
    """Remove what a run left beside the folder that was killed when it had just given it its name."""
    build = output.parent / f"{OUTPUT_BUILD}-{output.name}"
    lock = build.with_name(f"{build.name}.lock")
    if os.path.lexists(lock):
        with lock_file(lock, f"writing to {output}"):
            _remove_left(build)


def _refuse_full(output: Path) -> None:
    """Raise InputError unless the folder is empty, but for what a run that was killed had not yet moved there."""
    there = {path.name for path in output.iterdir()}
    if there - {OUTPUT_BUILD, OUTPUT_LOCK} and OUTPUT_LOCK in there:
        raise InputError(f"--output {output} is half written by a run that was interrupted: delete it and run again")
    if there - {OUTPUT_BUILD, OUTPUT_LOCK} or there == {OUTPUT_BUILD}:
        raise InputError(f"--output {output} is not empty: {_ADVICE}")


def _remove_left(build: Path) -> None:
    """Remove what a run that was killed left where this one builds; the lock, which is held, says whose it is."""
    if build.is_symlink() or (os.path.lexists(build) and not build.is_dir()):
        raise InputError(f"{build} is no folder of omni-migrate: move it away and run again")
    if build.is_dir():
        shutil.rmtree(build)


def _fill(root: Path, changes: Iterable[FileChange], build: Path, skipped: set[Path]) -> None:
    _copy_tree(root, build, skipped)
    for change in changes:
        _write_copy(root, build, change)


def _move_up(build: Path, output: Path, moved: list[Path]) -> None:
    for item in sorted(build.iterdir()):
        place = output / item.name
        if os.path.lexists(place):
            raise InputError(f"{place} was made by another program meanwhile: {_ADVICE}")
        item.rename(place)
        moved.append(place)
    build.rmdir()


def _remove(*paths: Path) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


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
    verify(change, source)
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
