"""The one door for paths that come from outside: git trees, archives, journals, configuration, options."""

from __future__ import annotations

import os
import unicodedata
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
    return bool(PurePosixPath(path).parts) and not leaves(path) and not is_gits_own(path)


def leaves(path: str) -> bool:
    """Whether a path leads out of the folder that it starts from, on any operating system."""
    windows = PureWindowsPath(path)
    # Windows drops dots and spaces at the end of a name: `.. ` is `..` there.
    climbs = any(part.startswith("..") and not part.strip(". ") for part in windows.parts)
    return path.startswith(("/", "\\")) or bool(windows.drive or windows.root) or climbs or "\0" in path


def is_gits_own(path: str) -> bool:
    """Whether a part of a path is git's own folder, also as Windows and macOS spell it."""
    for part in PureWindowsPath(path).parts:
        visible = part if part.isascii() else "".join(c for c in part if unicodedata.category(c) != "Cf")
        # A stream of a file (`.git::$INDEX_ALLOCATION`) is the file.
        if visible.partition(":")[0].rstrip(". ").lower() in (".git", "git~1"):
            return True
    return False


def lies_in_git_folder(place: Path) -> bool:
    """Whether a place, links resolved, is or lies in a git folder, also a bare or separate one of another name."""
    real = Path(os.path.realpath(place))
    return is_gits_own(str(real)) or any(
        (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
        for folder in (real, *real.parents)
    )
