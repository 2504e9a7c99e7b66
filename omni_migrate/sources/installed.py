"""A package that is installed, in the tool's own environment or in the active one."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from omni_migrate.errors import InputError
from omni_migrate.limits import files_below, read_regular, shown
from omni_migrate.sources import cache
from omni_migrate.sources.source import Source, find_root


def from_environment(spec: str, package: str) -> Source:
    """A copy of an installed package's Python files: an environment is never changed. Raises InputError."""
    from importlib.metadata import Distribution, distributions

    name = spec.removeprefix("installed:").strip()
    paths = [*sys.path, *_active_environment()]
    found: Distribution | None = next(iter(distributions(name=name, path=paths)), None) if name else None
    if found is None:
        raise InputError(
            f"{spec}: no package {name or '(empty)'} is installed in {sys.prefix}"
            f"{' or ' + os.environ['VIRTUAL_ENV'] if os.environ.get('VIRTUAL_ENV') else ''}; "
            "give its folder, or a requirement such as vllm-omni==0.30.0"
        )
    folders = [Path(str(found.locate_file(""))), *_editable(spec, found.read_text("direct_url.json"))]
    root = find_root(folders, package)
    if root is None:
        looked = ", ".join(map(str, folders))
        raise InputError(f"{spec}: not {package}: looked for a folder {package}/ with Python files in {looked}")
    return Source(spec, copy_of_package(root, package), found.version, "installed")


def copy_of_package(root: Path, package: str) -> Path:
    """The Python files of `root/package` alone, in the cache: its neighbours are other people's packages."""
    found = map(Path, files_below(str(root / package), unlisted=_refuse))
    files = sorted(file for file in found if file.suffix == ".py" and file.is_file())
    stamps = [(file.relative_to(root).as_posix(), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = ("installed", hashlib.sha256(repr((str(root), stamps)).encode("utf-8", "surrogateescape")).hexdigest())

    def copy(target: Path) -> None:
        for file in files:
            try:
                data = read_regular(file)
            except OSError as error:
                _refuse(str(file), error)
            copied = target / file.relative_to(root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(data)

    return cache.kept(*key) or cache.keep(copy, *key)


def _refuse(path: str, error: OSError) -> NoReturn:
    raise InputError(f"{shown(path)} cannot be read: {error.strerror or error}; give a source without it") from error


def _active_environment() -> list[str]:
    active = os.environ.get("VIRTUAL_ENV")
    if not active:
        return []
    return [
        str(folder)
        for pattern in ("lib/python*/site-packages", "Lib/site-packages")
        for folder in Path(active).glob(pattern)
    ]


def _editable(spec: str, direct_url: str | None) -> list[Path]:
    """The folder of an editable install, by PEP 610; it is only read. Raises InputError if the file is none."""
    import json
    from urllib.parse import unquote, urlsplit

    if direct_url is None:
        return []
    try:
        url = urlsplit(json.loads(direct_url)["url"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{spec}: its direct_url.json names no folder; install it again, or give its folder"
        ) from error
    return [Path(unquote(url.path))] if url.scheme == "file" else []
