"""The one door for paths that come from outside: git trees, archives, journals, configuration, options."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from omni_migrate.errors import InputError


def confined(folder: Path, path: str, what: str) -> Path:
    """`folder / path`, which lies below `folder` on any operating system, links on the way resolved.

    `path` is relative and is taken as it is written: no part of it is `..` or git's own folder. `what` says in a
    message where the path comes from. Raises InputError.
    """
    if not stays_inside(path):
        raise InputError(f"{what} {path!r} leads out of its folder, or into git's: nothing is read or written there")
    place = folder / path
    if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
        raise InputError(f"{what} {path!r} is a link out of {folder}: nothing is read or written there")
    return place


def stays_inside(path: str) -> bool:
    """Whether a relative path names something below the folder that it starts from; `.git` is never inside."""
    windows = PureWindowsPath(path)
    parts = {part.rstrip(". ").lower() if part != ".." else part for part in windows.parts}
    return bool(
        PurePosixPath(path).parts
        and not PurePosixPath(path).is_absolute()
        and not (windows.drive or windows.root)
        and not parts & {"..", ".git", "git~1"}
        and "\0" not in path
        and PurePosixPath(path) != PurePosixPath(".")
    )
