"""The feature parity matrix of a ported tree (RFC-005 §5.2): each cell computed from the tree, with its evidence."""

from __future__ import annotations

import ast
import io
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omni_migrate.errors import InputError
from omni_migrate.facts.hook_sites import HookSite
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import platform_of
from omni_migrate.knowledge import read_toml
from omni_migrate.plan.v2_binding import binding_path
from omni_migrate.plan.v2_port import V2Port, forces_v1

PAGE = "docs/model_runner_v2_parity.md"
_TITLE = "# Feature parity of the V1 and V2 runners"
_COLUMNS = ["feature", "V1", "V2", "notes"]
_CELL = re.compile(r"(yes|no|missing|stays on V1|unproven|separate)(<br>`[^`]+`)*(<br>and \d+ more)?")
"""A cell as it is drawn."""
SHOWN = 3
"""Places that a cell names at most; how many more there are is said."""


@dataclass(frozen=True)
class Cell:
    """`state` is "yes", "no", "missing" (V1 has it, V2 not), "V1" (the worker stays on V1), "unproven" or "separate".

    `evidence` are places, `path:line symbol`.
    """

    state: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Feature:
    """One row of the matrix."""

    name: str
    v1: Cell
    v2: Cell
    notes: str


def parity_matrix(modules: Modules, package: str, sites: Iterable[HookSite] = ()) -> tuple[Feature, ...]:
    """The rows for a tree as it is in the workspace, in the order of knowledge/parity.toml."""
    reader = _Reader(modules, package, tuple(sites))
    entries = read_toml("parity.toml")["feature"]
    return tuple(reader.feature(entry) for entry in entries if entry.get("ported", True))


class _Reader:
    def __init__(self, modules: Modules, package: str, sites: Sequence[HookSite]) -> None:
        self.modules, self.package, self.sites = modules, package, sites
        self.worker = posixpath.join(package, "worker")
        self.binding = binding_path(package)
        own = {*V2Port(modules, package).files, self.binding}
        self.v1_paths = [p for p in modules.workspace.python_files((self.worker,)) if p not in own]

    def feature(self, entry: Mapping[str, Any]) -> Feature:
        notes = entry.get("notes", "")
        if entry.get("separate"):
            found = self._mentions(["DiffusionModelRunner"], posixpath.join(self.package, "diffusion"))
            return Feature(entry["name"], Cell("separate", found), Cell("separate", found), notes)
        if platform := entry.get("platform"):
            return Feature(entry["name"], self._platform_v1(platform), self._platform_v2(platform), notes)
        v1 = self._v1(entry)
        return Feature(entry["name"], v1, self._v2(entry, v1), notes)

    def _v1(self, entry: Mapping[str, Any]) -> Cell:
        hooks = entry.get("hooks", ())
        own = set(self.v1_paths)
        found = [s for s in self.sites if s.hook in hooks and (s.path in own or not s.path.startswith(self.worker))]
        places = tuple(f"{site.path}:{site.line} {site.symbol}" for site in found)
        places = places or self._mentions(entry.get("v1", ()), self.worker)
        return Cell("yes", places) if places else Cell("no")

    def _v2(self, entry: Mapping[str, Any], v1: Cell) -> Cell:
        places = [self._defined(symbol) for symbol in entry.get("v2", ())]
        seams = [self._named(self.binding, name) for name in entry.get("seams", ())]
        if places and all(places) and all(seams):
            evidence = tuple(filter(None, [*places, *seams]))
            return Cell("unproven" if entry.get("unproven") else "yes", evidence)
        if v1.state == "no":
            return Cell("no")
        reason = self._named(self.binding, "v1_reason") if entry.get("stays") else ""
        return Cell("V1", (reason,)) if reason else Cell("missing")

    def _defined(self, symbol: str) -> str:
        """Where `hooks.py:OmniHooks.begin_step` is defined in the tree, "" if it is not there."""
        path, _, name = symbol.partition(":")
        module = self._module(posixpath.join(self.worker, path))
        body: Sequence[ast.stmt] = module.tree.body if module else ()
        node: ast.AST | None = None
        for part in name.split("."):
            node = next((n for n in body if getattr(n, "name", None) == part), None)
            body = getattr(node, "body", ())
        return f"{self.worker}/{path}:{node.lineno} {name}" if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else ""

    def _named(self, path: str, name: str) -> str:
        """Where a module defines or assigns a name."""
        module = self._module(path)
        for node in module.tree.body if module else ():
            targets = node.targets if isinstance(node, ast.Assign) else []
            if getattr(node, "name", None) == name or any(getattr(target, "id", "") == name for target in targets):
                return f"{path}:{node.lineno} {name}"
        return ""

    def _mentions(self, names: Collection[str], below: str) -> tuple[str, ...]:
        """The first place in each file below a folder that has one of the names, the V2 port's own files left out."""
        own = set(self.v1_paths) if below == self.worker else None
        found = []
        for path in self.modules.mentioning(set(names), below) if names else ():
            module = self._module(path) if own is None or path in own else None
            if module is not None:
                for name in names:
                    if lines := [n for n, line in enumerate(module.lines, 1) if name in line]:
                        found.append(f"{path}:{lines[0]} {name}")
                        break
        return tuple(found)

    def _platform_v1(self, platform: str) -> Cell:
        folder = posixpath.join(self.package, "platforms", platform, "worker")
        found = tuple(self._classes(folder, lambda node: "Runner" in node.name))
        return Cell("yes", found) if found else Cell("no")

    def _platform_v2(self, platform: str) -> Cell:
        folder = posixpath.join(self.package, "platforms", platform, "worker")
        forced = tuple(self._classes(folder, lambda node: bool(forces_v1(node))))
        if forced:
            return Cell("V1", forced)
        return Cell("missing" if any(self.modules.workspace.python_files((folder,))) else "no")

    def _classes(self, folder: str, wanted: Any) -> Iterator[str]:
        for path in self.modules.workspace.python_files((folder,)):
            module = self._module(path)
            for node in module.classes.values() if module and platform_of(path) else ():
                if wanted(node):
                    yield f"{path}:{node.lineno} {node.name}"

    def _module(self, path: str) -> Any:
        return self.modules.get(path) if self.modules.workspace.exists(path) else None


def draw_matrix(features: Sequence[Feature], version: str | None = None) -> str:
    """The matrix as a Markdown page."""
    lines = [
        _title(version),
        "",
        "Written by `omni-migrate port-v2` from what the tree has; each cell names where. *missing*: V1 has it, V2 has",
        "not. *stays on V1*: the workers choose V1 for such a stage and log why. *unproven*: V2 has it, and nothing",
        "has run it on such hardware. That something is there does not say that it was tested: `make prove-port` of",
        "omni-migrate runs both runners of a ported tree next to each other.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        "| --- | --- | --- | --- |",
    ]
    lines += [_row(feature, feature.notes) for feature in features]
    return "\n".join(lines) + "\n"


def redraw_matrix(page: bytes, features: Sequence[Feature], version: str | None = None) -> bytes:
    """A page that is there, with the cells of V1 and V2 as they are now; text, notes and rows of people's own stay.

    Raises InputError if it has not the one table, or a cell says what is not drawn.
    """
    try:
        text = page.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{PAGE} is no UTF-8: save it so first") from error
    lines = list(io.StringIO(text, newline=""))
    heads = [number for number, line in enumerate(lines) if _cells(line) == _COLUMNS]
    if len(heads) != 1:
        many = (
            f"has {len(heads)} tables {' | '.join(_COLUMNS)}"
            if heads
            else "is in the way: it has no table of port-v2's"
        )
        raise InputError(f"{PAGE} {many}; {'keep one' if heads else 'move it elsewhere first'}")
    newline = "\r\n" if lines[heads[0]].endswith("\r\n") else "\n"
    end = next((n for n in range(heads[0], len(lines)) if not lines[n].startswith("|")), len(lines))
    rows = {cells[0]: n for n in range(heads[0] + 2, end) if len(cells := _cells(lines[n])) == len(_COLUMNS)}
    added = []
    for feature in features:
        if feature.name not in rows:
            added.append(_row(feature, feature.notes) + newline)
            continue
        number = rows[feature.name]
        _, *drawn, notes = _cells(lines[number])
        for column, cell in zip(_COLUMNS[1:], drawn, strict=False):
            if not _CELL.fullmatch(cell):
                raise InputError(
                    f"{PAGE}:{number + 1} the cell {column} of {feature.name} was edited: say it in the notes or "
                    "around the table, and put back what was there"
                )
        if drawn != [_draw(feature.v1), _draw(feature.v2)]:
            lines[number] = _row(feature, notes) + newline
    if added and not lines[end - 1].endswith("\n"):
        lines[end - 1] += newline
    lines[end:end] = added
    if re.fullmatch(rf"{_TITLE}( of vllm-omni \S+)?", lines[0].rstrip()):
        lines[0] = _title(version) + newline
    return "".join(lines).encode("utf-8")


def _title(version: str | None) -> str:
    """Of the release alone: the commits since its tag change with every commit, this page's own included."""
    release = (version or "").partition("+")[0]
    return f"{_TITLE}{f' of vllm-omni {release}' if release else ''}"


def _row(feature: Feature, notes: str) -> str:
    return f"| {feature.name} | {_draw(feature.v1)} | {_draw(feature.v2)} | {notes} |"


def _cells(line: str) -> list[str]:
    """The cells of a table's row."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def _draw(cell: Cell) -> str:
    state = "stays on V1" if cell.state == "V1" else cell.state
    shown = [f"`{place}`" for place in cell.evidence[:SHOWN]]
    more = len(cell.evidence) - len(shown)
    return "<br>".join([state, *shown, *([f"and {more} more"] if more else [])])
