"""The user's own configuration: `[tool.omni-migrate]` in pyproject.toml, or omni-migrate.toml, which wins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omni_migrate.errors import InputError

CONFIG_FILE = "omni-migrate.toml"


@dataclass(frozen=True)
class Config:
    """`skip`: globs of files left alone, relative to the root; `adapters`, `markers`: entries as in the TOML files of
    those names in knowledge/.
    """

    skip: tuple[str, ...] = ()
    adapters: tuple[dict[str, Any], ...] = ()
    markers: tuple[dict[str, Any], ...] = ()


def load_config(root: Path) -> Config:
    """The configuration of the source at `root` (or its parent for a `src` layout); the default if there is none.

    Raises InputError for TOML that does not parse, an unknown key, or a value of the wrong type.
    """
    for folder in (root, root.parent) if root.name == "src" else (root,):
        own = folder / CONFIG_FILE
        if own.is_file():
            return _config(read_toml(own), own.as_posix())
        project = folder / "pyproject.toml"
        if project.is_file():
            tool = read_toml(project).get("tool")
            table = tool.get("omni-migrate") if isinstance(tool, dict) else None
            if table is not None:
                return _config(table, f"{project.as_posix()} [tool.omni-migrate]")
    return Config()


def read_toml(file: Path) -> dict[str, Any]:
    """A TOML file as a dict; raises InputError with the file and the line."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        line = file.read_bytes().count(b"\n", 0, error.start) + 1
        raise InputError(f"{file}: is not UTF-8 (at line {line}); save it as UTF-8") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error


def _config(table: object, where: str) -> Config:
    if not isinstance(table, dict):
        raise InputError(f"{where}: is not a table; write the keys below it")
    known = ("skip", "adapters", "markers")
    for key in table:
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}; the known ones are {', '.join(known)}")
    skip = table.get("skip", [])
    if not (isinstance(skip, list) and all(isinstance(glob, str) for glob in skip)):
        raise InputError(f"{where}: skip must be a list of globs, such as ['vllm_omni/legacy/*.py']")
    tables = {key: table.get(key, []) for key in ("adapters", "markers")}
    for key, entries in tables.items():
        if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
            raise InputError(f"{where}: {key} must be an array of tables, [[{key}]]")
    return Config(tuple(skip), tuple(tables["adapters"]), tuple(tables["markers"]))
