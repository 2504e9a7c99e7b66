"""Python formatted by ruff, as the target tree's own configuration asks."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omni_migrate.checks.ruff import RuffError, run_ruff
from omni_migrate.errors import InputError, VerificationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BOM = "\ufeff"
_CONFIGURATIONS = (".ruff.toml", "ruff.toml", "pyproject.toml")


def format_python(text: str, path: str, root: Path, line_length_default: int = 120) -> str:
    """`text` as `format_many` formats it; `path` says where below `root` it will stand."""
    return format_many({path: text}, root, line_length_default)[path]


def format_many(files: Mapping[str, str], root: Path, line_length_default: int = 120) -> dict[str, str]:
    """Each file's text with sorted imports and `ruff format`: two processes for each configuration among them.

    A file follows the nearest ruff configuration between it and `root`; what lies above `root`, or belongs to the
    user, counts for nothing. Without one: ruff's defaults with lines of `line_length_default`. For new files only: in
    a file that was there, everything that ruff dislikes would change.

    Pitfalls: `# fmt: off` and `# yapf: disable` both switch ruff off until they are taken back, so after one that
    never is, the text is returned unformatted without a word; `# isort: skip_file` and `# isort: off` do the same to
    the imports. Line ends and a BOM are kept. Raises InputError if ruff does not accept the tree's configuration, and
    VerificationError if a text does not parse.
    """
    groups: dict[Path | None, dict[str, str]] = {}
    for path, text in files.items():
        groups.setdefault(_configuration(root, path), {})[path] = text
    formatted: dict[str, str] = {}
    for configuration, group in groups.items():
        formatted |= _format(group, root, configuration, line_length_default)
    return formatted


def _configuration(root: Path, path: str) -> Path | None:
    """The ruff configuration that holds for `path`: the nearest one, as ruff itself would choose, up to `root`."""
    folder = (root / path).parent
    while True:
        for name in _CONFIGURATIONS:
            file = folder / name
            if file.is_file() and (name != "pyproject.toml" or b"[tool.ruff" in file.read_bytes()):
                return file
        if folder == root or folder == folder.parent:
            return None
        folder = folder.parent


def _first_party(project: Path, configuration: Path | None) -> list[str]:
    """The packages that are the project's own: those that its configuration names, and those in its `src` folders."""
    table: dict[str, Any] = {}
    if configuration is not None:
        try:
            table = tomllib.loads(configuration.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            return []  # ruff says what is wrong with it
        table = table.get("tool", {}).get("ruff", {}) if configuration.name == "pyproject.toml" else table
    isort = table.get("lint", {}).get("isort", {}) or table.get("isort", {})
    folders = [project / name for name in table.get("src", [".", "src"])]
    packages = {file.parent.name for folder in folders if folder.is_dir() for file in folder.glob("*/__init__.py")}
    return sorted(packages.union(isort.get("known-first-party", ())))


def _format(
    files: Mapping[str, str], root: Path, configuration: Path | None, line_length_default: int
) -> dict[str, str]:
    if configuration is None:
        options = ["--isolated", "--line-length", str(line_length_default)]
        project = root
    else:
        options = ["--config", str(configuration.resolve())]
        project = configuration.parent
    with tempfile.TemporaryDirectory() as folder:
        placed = {path: Path(folder, path) for path in files}
        for path, file in placed.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(files[path].removeprefix(_BOM).encode("utf-8"))
        # In the project's folder, so that ruff takes the project's own packages for first-party imports: by name,
        # for a module that is new has no file there yet.
        options += ["--config", f"lint.isort.known-first-party = {json.dumps(_first_party(project, configuration))}"]
        arguments = [*options, *(str(file) for file in placed.values())]
        try:
            run_ruff("check", "--select", "I", "--fix-only", "--exit-zero", *arguments, folder=project)
        except RuffError as error:
            raise InputError(
                f"ruff does not accept {configuration}: {error}; install the ruff that it is for"
            ) from error
        try:
            run_ruff("format", *arguments, folder=project)
        except RuffError as error:
            reason = str(error).replace(f"{folder}/", "")
            raise VerificationError(f"the generated code cannot be formatted: {reason}; please report this") from error
        texts = {path: file.read_bytes().decode("utf-8") for path, file in placed.items()}
    return {path: (_BOM if files[path].startswith(_BOM) else "") + text for path, text in texts.items()}
