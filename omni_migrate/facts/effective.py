"""A runner class as it runs: which definition of ours each call reaches, and what each function asks and calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from omni_migrate.facts.alignment import Text
from omni_migrate.facts.class_tree import ClassNode, ClassTree
from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.helpers import Helper, probing_helpers
from omni_migrate.facts.modules import Module
from omni_migrate.facts.syntax import walk

# Expressions that are the loaded model, as text.
_MODEL = re.compile(r"(?:^|\.)model$|get_model\(\)$|'model', None\)$")


@dataclass(frozen=True)
class Uses:
    """What a function asks of the model and what it calls: name -> line.

    `passed_on`: methods whose base it calls. `needed`: methods of self that it calls without having asked for them.
    `read`: attributes of the model that it takes without having asked for them.
    """

    probes: dict[str, int]
    calls: dict[str, int]
    passed_on: frozenset[str]
    needed: frozenset[str]
    read: dict[str, int]


class EffectiveClass:
    """A class with its bases. `own` is our top-level package: what stands elsewhere is upstream's."""

    def __init__(self, tree: ClassTree, cls: ClassNode, own: str) -> None:
        self.tree, self.cls, self.own = tree, cls, own
        self.order = [c for c in tree.order(cls.name) if c.package == own]
        self.methods: dict[str, tuple[ClassNode, FunctionNode]] = {}
        for c in reversed(self.order):
            self.methods.update({name: (c, node) for name, node in c.methods().items()})
        self._uses: dict[int, Uses] = {}
        self._reached: dict[str, list[FunctionNode]] = {}

    def upstream(self, method: str) -> Text | None:
        """The first definition of a method that is not ours."""
        for cls, node in self.tree.definitions(self.cls.name, method):
            if cls.package != self.own:
                return Text(cls.module, cls.short, node)
        return None

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Functions of the modules that the classes stand in, and those of ours that they import."""
        found: dict[str, FunctionNode] = {}
        for cls in reversed(self.order):
            for bound, imported in cls.module.imports.items():
                if imported.name and imported.name[0].islower() and imported.module.startswith(f"{self.own}."):
                    module = self.tree.module(imported.module)
                    function = _functions_of(module).get(imported.name) if module is not None else None
                    if function is not None:
                        found[bound] = function
            found.update(module_functions(cls))
        return found

    @cached_property
    def _helpers(self) -> dict[str, Helper]:
        return probing_helpers({name: node for name, (_, node) in self.methods.items()}, self.functions)

    def uses(self, function: FunctionNode) -> Uses:
        if id(function) not in self._uses:
            self._uses[id(function)] = _uses_of(function, self._helpers)
        return self._uses[id(function)]

    def reach(self, method: str) -> list[FunctionNode]:
        """The method and what of ours it calls, through self, super() or a function's name, however far."""
        if method not in self._reached:
            found: dict[int, FunctionNode] = {}
            waiting = self._definitions(method)
            while waiting:
                function = waiting.pop()
                if id(function) in found:
                    continue
                found[id(function)] = function
                for name in self.uses(function).calls:
                    waiting += self._definitions(name)
                    if name in self.functions:
                        waiting.append(self.functions[name])
            self._reached[method] = list(found.values())
        return self._reached[method]

    def _definitions(self, method: str) -> list[FunctionNode]:
        """A method of ours and what it hides of ours, as far as each passes the call on."""
        found = []
        for cls in self.order:
            function = cls.methods().get(method)
            if function is not None:
                found.append(function)
                if method not in self.uses(function).passed_on:
                    break
        return found

    def every_function(self) -> Iterator[FunctionNode]:
        """All that may run, hidden definitions that are never passed on to left out."""
        for name in self.methods:
            yield from self._definitions(name)


def module_functions(cls: ClassNode) -> dict[str, FunctionNode]:
    """The functions beside a class."""
    return _functions_of(cls.module)


def _functions_of(module: Module) -> dict[str, FunctionNode]:
    body = module.tree.body
    return {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _uses_of(function: FunctionNode, helpers: Mapping[str, Helper]) -> Uses:
    probes: dict[str, int] = {}
    calls: dict[str, int] = {}
    passed_on: set[str] = set()
    needed: set[str] = set()
    asked_of_self: set[str] = set()
    read: dict[str, int] = {}
    receiver = function.args.args[0].arg if function.args.args else ""
    nodes = list(walk(function))
    aliases = frozenset(_model_aliases(nodes))
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_model(node.value, aliases):
            read.setdefault(node.attr, node.lineno)
        if not isinstance(node, ast.Call):
            continue
        asked = _asked(node, helpers, aliases)
        if asked:
            probes.setdefault(asked, node.lineno)
        if isinstance(node.func, ast.Name):
            calls.setdefault(node.func.id, node.lineno)
            if node.func.id in ("getattr", "hasattr") and ast.unparse(node.args[0]) == receiver:
                asked_of_self.update(a.value for a in node.args[1:2] if isinstance(a, ast.Constant))  # type: ignore[misc]
        elif isinstance(node.func, ast.Attribute):
            owner, name = node.func.value, node.func.attr
            is_super = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"
            is_class = isinstance(owner, ast.Name) and owner.id[:1].isupper()
            if is_super or is_class or (isinstance(owner, ast.Name) and owner.id == receiver):
                calls.setdefault(name, node.lineno)
            if isinstance(owner, ast.Name) and owner.id == receiver:
                needed.add(name)
            if is_super or is_class:
                passed_on.add(name)
            elif _is_model(owner, aliases):
                probes.setdefault(name, node.lineno)
    return Uses(probes, calls, frozenset(passed_on), frozenset(needed - asked_of_self), read)


def _is_model(node: ast.expr, aliases: Collection[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in aliases) or _MODEL.search(ast.unparse(node)) is not None


def _model_aliases(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that are set to the model, and to nothing else."""
    values: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    values.setdefault(target.id, []).append(node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr, ast.For)) and isinstance(node.target, ast.Name):
            value = node.value if not isinstance(node, ast.For) else None
            values.setdefault(node.target.id, []).append(value)
    for name, given in values.items():
        if all(value is not None and _MODEL.search(ast.unparse(value)) for value in given):
            yield name


def _asked(node: ast.Call, helpers: Mapping[str, Helper], aliases: Collection[str]) -> str:
    """The attribute of the model that a call asks for, if it does."""
    func = node.func
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    asked: ast.expr | None = None
    if isinstance(func, ast.Name) and name in ("getattr", "hasattr") and len(node.args) >= 2:
        asked = node.args[1] if _is_model(node.args[0], aliases) else None
    elif name in helpers and 0 <= helpers[name].place < len(node.args):
        asked = node.args[helpers[name].place]
    return asked.value if isinstance(asked, ast.Constant) and isinstance(asked.value, str) else ""
