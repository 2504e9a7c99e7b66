"""Classes over several source trees: what a name refers to, and the order in which a class's bases are searched."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.linearization import bases_first, c3
from omni_migrate.facts.modules import Module, Modules

_HOPS = 4


@dataclass(frozen=True, eq=False)
class ClassNode:
    """A class and the module that it stands in; `name` is qualified."""

    name: str
    module: Module
    node: ast.ClassDef

    @property
    def short(self) -> str:
        return self.node.name

    @property
    def package(self) -> str:
        """The tree's top-level package."""
        return self.name.partition(".")[0]

    def methods(self) -> dict[str, FunctionNode]:
        """Methods by name; of several definitions the last one counts, as in Python."""
        return self._methods

    @cached_property
    def _methods(self) -> dict[str, FunctionNode]:
        return {n.name: n for n in self.node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}


class ClassTree:
    """Top-level package -> modules. A class of a package that is not given is unknown: its bases are not seen."""

    def __init__(self, packages: Mapping[str, Modules]) -> None:
        self._packages = dict(packages)
        self._found: dict[str, ClassNode | None] = {}
        self._orders: dict[str, tuple[ClassNode, ...]] = {}

    def has(self, package: str) -> bool:
        """Whether a top-level package is among the trees."""
        return package in self._packages

    def module(self, name: str) -> Module | None:
        """The module of a dotted name, or None if no tree has it or it cannot be read."""
        modules = self._packages.get(name.partition(".")[0])
        if modules is None:
            return None
        path = name.replace(".", "/")
        for candidate in (f"{path}.py", f"{path}/__init__.py"):
            for prefix in ("", "src/"):
                if modules.workspace.exists(prefix + candidate):
                    return modules.get(prefix + candidate)
        return None

    def find(self, name: str) -> ClassNode | None:
        """The class of a qualified name, through re-exports."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> ClassNode | None:
        for _ in range(_HOPS):
            home, _, short = name.rpartition(".")
            module = self.module(home) if home else None
            if module is None:
                return None
            if short in module.classes:
                return ClassNode(f"{home}.{short}", module, module.classes[short])
            imported = module.imports.get(short)
            if imported is None or imported.name is None:
                return None
            name = f"{imported.module}.{imported.name}"
        return None

    def order(self, name: str) -> tuple[ClassNode, ...]:
        """The class and its bases in Python's method resolution order, without those that no tree has."""
        if name not in self._orders:
            for cls in bases_first(name, self._orders, self._bases, ()):  # a class that extends itself has no order
                found = self.find(cls)
                if found is not None:
                    orders = [self._orders[base] for base in self._bases(cls)]
                    direct = [order[0] for order in orders if order]
                    self._orders[cls] = (found, *c3([*orders, direct]))
        return self._orders[name]

    def _bases(self, name: str) -> list[str]:
        found = self.find(name)
        if found is None:
            return []
        return [q for b in found.node.bases if (q := found.module.qualify(b)) and self.find(q)]

    def definitions(self, name: str, method: str) -> Iterator[tuple[ClassNode, FunctionNode]]:
        """Every definition of a method, in the order in which super() would reach them."""
        for cls in self.order(name):
            found = cls.methods().get(method)
            if found is not None:
                yield cls, found
