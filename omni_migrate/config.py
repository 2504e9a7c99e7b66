"""The user's own configuration: `[tool.omni-migrate]` in pyproject.toml, or omni-migrate.toml, and not both."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omni_migrate.errors import InputError
from omni_migrate.limits import read_regular

CONFIG_FILE = "omni-migrate.toml"
# The largest that is read; vllm-omni's pyproject.toml has 12 KiB.
TOML_BYTES = 1 << 20
# A key of many parts costs tomllib the square of their number.
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""")


@dataclass(frozen=True)
class Config:
    """`skip`: globs of files left alone, relative to the root; `adapters`, `markers`: entries as in the TOML files of
    those names in knowledge/.
    """

    skip: tuple[str, ...] = ()
    adapters: tuple[Mapping[str, Any], ...] = ()
    markers: tuple[Mapping[str, Any], ...] = ()


def load_config(root: Path) -> Config:
    """The configuration of the source at `root` (or its parent for a `src` layout); the default if there is none.

    Raises InputError, naming the file and the key, for TOML that does not parse and for what does not fit the schema.
    """
    for folder in (root, root.parent) if root.name == "src" else (root,):
        own, project = folder / CONFIG_FILE, folder / "pyproject.toml"
        tool = read_toml(project).get("tool") if os.path.lexists(project) else None
        table = tool.get("omni-migrate") if isinstance(tool, dict) else None
        if os.path.lexists(own):
            if table is not None:
                raise InputError(f"{own} and [tool.omni-migrate] of {project} both configure it: keep one of them")
            return _config(read_toml(own), own.as_posix())
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
        data = read_regular(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    if len(data) > TOML_BYTES:
        raise InputError(f"{file}: is larger than {TOML_BYTES >> 20} MiB, which no configuration is")
    try:
        text = data.decode("utf-8-sig")
        deep = _DEEP_KEY.search(text)
        if deep is not None:
            raise InputError(f"{file}: line {text.count(chr(10), 0, deep.start()) + 1} has a key of over 100 parts")
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file}: is not TOML: {error}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file}: is not UTF-8 (at line {line}); save it as UTF-8") from error
    except RecursionError as error:
        raise InputError(f"{file}: is nested too deep to be read; make it flatter") from error
    except ValueError as error:  # a number with more digits than Python takes
        raise InputError(f"{file}: is not TOML: {error}") from error


def _config(table: object, where: str) -> Config:
    from omni_migrate.knowledge import merged_adapters
    from omni_migrate.knowledge.schema import check_claims, check_table

    check_table(table, where)
    assert isinstance(table, dict)
    adapters = table.get("adapters", [])
    own = {entry["name"]: number for number, entry in enumerate(adapters)}
    check_claims(merged_adapters(adapters), own, where)
    return Config(tuple(table.get("skip", ())), tuple(adapters), tuple(table.get("markers", ())))
