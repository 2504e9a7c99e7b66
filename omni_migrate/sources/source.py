"""A source: a tree on disk, where it came from and which version it is."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from omni_migrate.confined import confined, is_gits_own
from omni_migrate.errors import InputError
from omni_migrate.limits import files_below, read_regular, shown

Kind = Literal["directory", "git-ref", "wheel", "archive", "installed", "requirement"]

# What is read of a source besides its Python files: how it is formatted and what it configures.
CONFIG_FILES = frozenset({"pyproject.toml", "ruff.toml", ".ruff.toml", "setup.cfg", "omni-migrate.toml"})


@dataclass(frozen=True)
class Source:
    """`root` is the folder that contains the package; `checkout` is the work tree that may be changed in place."""

    spec: str
    root: Path
    version: str | None
    kind: Kind
    checkout: Path | None = None


def wanted(path: str) -> bool:
    """Whether a file of an archive or a git tree is kept; `path` has forward slashes. A stray `.git` is not."""
    folder, _, name = path.rpartition("/")
    return (
        name.endswith(".py")
        or name in CONFIG_FILES
        or name == "PKG-INFO"
        or (name == "METADATA" and folder.endswith(".dist-info"))
    ) and not is_gits_own(path)


def write_member(spec: str, folder: Path, path: str, data: bytes) -> None:
    """Write a file of an archive or a git tree below `folder`. Raises InputError that names the member, or OSError."""
    # In the file system's own encoding, whatever the locale says.
    path = os.fsdecode(path.encode("utf-8", "surrogateescape"))
    file = confined(folder, path, f"{spec}: its member")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(data)
    except FileExistsError as error:
        raise InputError(
            f"{spec}: its member {shown(path)} is there twice, or differs from another in upper and lower case only; "
            "it is not unpacked"
        ) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(f"{spec}: the path of its member {shown(path)} is too long for this disk") from error
        if error.errno == errno.ENOTDIR:
            raise InputError(f"{spec}: its member {shown(path)} lies below a file; it is not unpacked") from error
        raise


def find_root(folders: Iterable[Path], package: str) -> Path | None:
    """The first of `folders` that holds `package` or its `src/package`, or is `package` itself."""
    for folder in folders:
        for root in (folder, folder / "src"):
            if _is_package(root / package):
                return root
        if folder.name == package and _is_package(folder):
            return folder.parent
    return None


def unpacked_root(spec: str, tree: Path, package: str) -> Path:
    """The root in an unpacked tree, whose files may lie in one folder of the archive's name. Raises InputError."""
    inner = sorted(folder for folder in tree.iterdir() if folder.is_dir())
    root = find_root((tree, *inner), package)
    if root is None:
        top = ", ".join(folder.name for folder in inner[:5]) or "nothing"
        raise InputError(f"{spec}: not {package}: looked for a folder {package}/ with Python files, found {top}")
    return root


def unpacked_version(root: Path, package: str) -> str | None:
    """The version by `*.dist-info/METADATA`, PKG-INFO or the package's `_version.py`."""
    for metadata in _metadata_files(root, package):
        version = metadata_field(metadata, "Version")
        if version:
            return version
    try:
        text = read_regular(root / package / "_version.py").decode("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r"^(?:__version__|version)\b[^'\"\n]*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found.group(1) if found else None


def metadata_field(file: Path, field: str) -> str | None:
    """A header of a METADATA or PKG-INFO file; None without it, or if the file cannot be read."""
    try:
        text = read_regular(file).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return None
    found = re.search(rf"^{field}:[ \t]*(\S+)", text.partition("\n\n")[0], re.MULTILINE)
    return found.group(1) if found else None


def _is_package(folder: Path) -> bool:
    return folder.is_dir() and any(file.endswith(".py") for file in files_below(str(folder)))


def _metadata_files(root: Path, package: str) -> Iterator[Path]:
    infos = sorted(root.glob("*.dist-info/METADATA"))
    name = package.replace("_", "-")
    for info in infos:
        own = (metadata_field(info, "Name") or "").lower().replace("_", "-")
        if len(infos) == 1 or own == name or own.startswith(f"{name}-"):
            yield info
    for folder in (root, root.parent) if root.name == "src" else (root,):
        yield folder / "PKG-INFO"
