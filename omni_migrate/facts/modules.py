"""A parsed module and what its names refer to. Each file is parsed once, however many analyses ask."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property

from omni_migrate.facts.syntax import parse, walk
from omni_migrate.plan.workspace import TextFile, Workspace, decode

_UNREAD = "cannot be read"


@dataclass(frozen=True)
class ImportedName:
    """What a module-level name refers to: `module` and the `name` in it (None: the module itself)."""

    module: str
    name: str | None
    node: ast.Import | ast.ImportFrom
    alias: ast.alias


class Module:
    """One Python file: its text, its tree and its imports. Lines are 1-based."""

    def __init__(self, path: str, file: TextFile) -> None:
        self.path = path
        self.file = file
        self.text = file.text
        self.tree = parse(file.text)
        self.name = module_name(path)

    @cached_property
    def lines(self) -> list[str]:
        """The text by lines, line ends kept: joined, they are the text again."""
        return split_lines(self.text)

    @cached_property
    def imports(self) -> dict[str, ImportedName]:
        """Module-level imports, those in `if`, `try` and type-checking blocks included."""
        found: dict[str, ImportedName] = {}
        for node in module_level(self.tree.body):
            found.update(self.resolve_import(node))
        return found

    def resolve_import(self, node: ast.stmt) -> dict[str, ImportedName]:
        """The names that an import statement binds."""
        found: dict[str, ImportedName] = {}
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                target = alias.name if alias.asname else bound
                found[bound] = ImportedName(target, None, node, alias)
        elif isinstance(node, ast.ImportFrom):
            base = self.absolute(node)
            for alias in node.names:
                found[alias.asname or alias.name] = ImportedName(base, alias.name, node, alias)
        return found

    def absolute(self, node: ast.ImportFrom) -> str:
        """The full name of the module that a `from` import names, relative or not."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        if not self.path.endswith("/__init__.py"):
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def qualify(self, node: ast.expr) -> str | None:
        """The dotted name an expression refers to through the module's imports and own classes, if it is one."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        imported = self.imports.get(node.id)
        value = self._aliases.get(node.id) if imported is None else None
        if value is not None:
            return ".".join([self.qualify(value) or f"{self.name}.{node.id}", *reversed(parts)])
        if imported is None:
            head = f"{self.name}.{node.id}"
        else:
            head = imported.module if imported.name is None else f"{imported.module}.{imported.name}"
        return ".".join([head, *reversed(parts)])

    @cached_property
    def _aliases(self) -> dict[str, ast.expr]:
        """`Base = package.Base`, once: other names of imports and classes that stand above it."""
        found: dict[str, ast.expr] = {}
        for node in module_level(self.tree.body):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, node.value
                root = next((n for n in walk(value) if isinstance(n, ast.Name)), None)
                dotted = isinstance(value, (ast.Name, ast.Attribute)) and root is not None
                if dotted and root.id not in (name, *found) and name not in found:  # type: ignore[union-attr]
                    found[name] = value
        return found

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The module's classes by name, those in `if` and `try` included."""
        return {node.name: node for node in module_level(self.tree.body) if isinstance(node, ast.ClassDef)}


def split_lines(text: str) -> list[str]:
    """Lines as Python's tokenizer counts them: str.splitlines() also breaks at form feeds and Unicode separators."""
    return list(io.StringIO(text, newline=""))


def module_level(body: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        for name in ("body", "orelse", "finalbody"):
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found.extend(module_level(getattr(node, name, [])))
        for handler in getattr(node, "handlers", []):
            found.extend(module_level(handler.body))
    return found


def module_name(path: str) -> str:
    """`vllm_omni/worker/base.py` -> `vllm_omni.worker.base`; a package's `__init__` is the package."""
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__").removeprefix("src.")


class Modules:
    """The modules of a workspace, parsed on demand; what cannot be parsed is remembered with its reason.

    Files that match a glob of `skip` are not looked for.
    """

    def __init__(self, workspace: Workspace, skip: Collection[str] = ()) -> None:
        self.workspace = workspace
        self._skip = tuple(skip)
        self.unreadable: dict[str, str] = {}
        self._parsed: dict[str, tuple[bytes, Module]] = {}
        self._mentions: dict[str, dict[str, tuple[bytes, bool]]] = {}  # word -> file -> whether its bytes have it

    def get(self, path: str) -> Module | None:
        """The module, parsed again only if its bytes changed; None if it cannot be read or parsed."""
        data = self._read(path)
        if data is None:
            return None
        known = self._parsed.get(path)
        if known is not None and known[0] == data:
            return known[1]
        try:
            module = Module(path, decode(data))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            self.unreadable[path] = f"cannot be parsed: {getattr(error, 'msg', None) or error}" + (
                f" (line {line})" if line else ""
            )
            return None
        self._parsed[path] = (data, module)
        return module

    def data(self, path: str) -> bytes:
        """The file's bytes; none, and the reason is remembered, if it cannot be read."""
        return self._read(path) or b""

    def _read(self, path: str) -> bytes | None:
        try:
            return self.workspace.read(path)
        except OSError as error:
            self.unreadable[path] = f"{_UNREAD}: {error.strerror or error}"
            return None

    def searched(self, below: str) -> Iterator[str]:
        """The files below a folder, those to skip left out; a folder that cannot be listed is unreadable."""
        paths = list(self.workspace.python_files((below,)))
        prefix = f"{below}/" if below and not below.endswith("/") else below
        for folder, reason in self.workspace.unlisted.items():
            if folder.startswith(prefix) and not any(fnmatch(folder, pattern) for pattern in self._skip):
                self.unreadable[folder] = reason
        for path in paths:
            if not any(fnmatch(path, pattern) for pattern in self._skip):
                yield path

    def unread_definition(self, name: str, below: str) -> str:
        """A file that seems to define a class or function of this name but is not read, and why; else ""."""
        definition = re.compile(rb"^(?:class|def) " + re.escape(name.encode()) + rb"\b", re.MULTILINE)
        searched = set(self.searched(below))
        for path in self.workspace.python_files((below,)):
            reason = self.unreadable.get(path, "") if path in searched else "is listed under `skip`"
            if reason and not reason.startswith(_UNREAD) and definition.search(self.workspace.read(path)):
                return f"{path} {reason}"
        return ""

    def mentioning(self, words: set[str], below: str) -> list[str]:
        """Files whose bytes have one of the words: cheaper than parsing by a factor of a hundred."""
        needles = [(word.encode(), self._mentions.setdefault(word, {})) for word in words]
        found = []
        for path in self.searched(below):
            data = self.data(path)
            for needle, known in needles:
                before = known.get(path)
                if before is None or before[0] is not data:
                    before = known[path] = (data, needle in data)
                if before[1]:
                    found.append(path)
                    break
        return found
