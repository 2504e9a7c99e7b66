"""What a module and its classes define, import and look up, read off its syntax tree: the facts of check-resolves."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from omni_migrate.facts.syntax import children, parse, walk
from omni_migrate.plan.workspace import decode


@dataclass(frozen=True)
class Import:
    """One imported name: `from` `level` dots `module` import `name`, or `import module` if `name` is None."""

    level: int
    module: str
    name: str | None


@dataclass
class ClassFacts:
    """What a class defines and what its methods look up; lines are 1-based."""

    line: int
    bases: list[str]
    shared: set[str] = field(default_factory=set)
    instance: set[str] = field(default_factory=set)
    uses: list[tuple[str, int]] = field(default_factory=list)
    super_uses: list[tuple[str, int]] = field(default_factory=list)
    augmented: set[int] = field(default_factory=set)

    @property
    def own(self) -> set[str]:
        return self.shared | self.instance


@dataclass
class ModuleFacts:
    """What a module provides, imports and defines. `is_open`: it may provide any name (star import, __getattr__)."""

    node: ast.Module
    names: set[str] = field(default_factory=set)
    is_open: bool = False
    imports: list[tuple[Import, int]] = field(default_factory=list)
    aliases: dict[str, list[Import]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    classes: dict[str, ClassFacts] = field(default_factory=dict)

    @cached_property
    def augmented(self) -> set[int]:
        """The targets of `x.y += z` in methods, by id(): they must be there already."""
        return set().union(*(facts.augmented for facts in self.classes.values()))


def module_facts(data: bytes) -> ModuleFacts | None:
    """Facts of a Python file; None if it does not parse."""
    try:
        facts = ModuleFacts(parse(decode(data).text))
    except (SyntaxError, ValueError):
        return None
    for node in _statements(facts.node.body):
        facts.names |= _bound(node)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            facts.renamed.update({dotted(target): dotted(node.value) for target in node.targets})
    facts.is_open = bool({"*", "__getattr__"} & facts.names)
    _add_scope(facts, facts.node.body, "")
    return facts


def _add_scope(facts: ModuleFacts, body: Iterable[ast.stmt], prefix: str) -> None:
    """Imports, classes and global names of one scope and of those within."""
    for node in _statements(body):
        if isinstance(node, ast.ClassDef):
            facts.classes[prefix + node.name] = _class_facts(node)
            _add_scope(facts, node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _add_scope(facts, node.body, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.Global):
            facts.names.update(node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                _add_import(facts, Import(0, alias.name, None), alias, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                _add_import(facts, Import(node.level, node.module or "", alias.name), alias, node.lineno)


def _add_import(facts: ModuleFacts, wanted: Import, alias: ast.alias, line: int) -> None:
    facts.imports.append((wanted, line))
    if alias.asname is None and wanted.name is None:
        first = wanted.module.split(".")[0]
        facts.aliases.setdefault(first, []).append(Import(0, first, None))
    else:
        facts.aliases.setdefault(alias.asname or alias.name, []).append(wanted)


def _class_facts(node: ast.ClassDef) -> ClassFacts:
    facts = ClassFacts(node.lineno, [])
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        inner = plain.args if isinstance(plain, ast.Call) else [plain]  # with_mixin(Base) inherits from Base
        facts.bases += [text for each in inner if (text := dotted(each))]
    for statement in _statements(node.body):
        facts.shared |= _bound(statement)
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            _add_method(facts, statement)
    return facts


def _add_method(facts: ClassFacts, method: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    arguments = [*method.args.posonlyargs, *method.args.args]
    static = any(dotted(decorator) == "staticmethod" for decorator in method.decorator_list)
    this = arguments[0].arg if arguments and not static else None
    stack: list[ast.AST] = list(method.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.ClassDef):
            continue
        if isinstance(node, ast.AugAssign):
            facts.augmented.add(id(node.target))
        stack.extend(children(node))
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == this:
                if isinstance(node.ctx, ast.Store) and id(node) not in facts.augmented:
                    facts.instance.add(node.attr)
                else:
                    facts.uses.append((node.attr, node.lineno))
            elif isinstance(node.value, ast.Call) and dotted(node.value.func) == "super":
                facts.super_uses.append((node.attr, node.lineno))
        elif isinstance(node, ast.Call) and len(node.args) >= 2 and dotted(node.args[0]) == this and this:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                if dotted(node.func) == "setattr":
                    facts.instance.add(name.value)
                elif dotted(node.func) == "getattr" and len(node.args) == 2:
                    facts.uses.append((name.value, node.lineno))


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of one scope, those within if, try, with, for, while and match included."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, name, ()))
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                yield from _statements(part.body)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that the statement binds in its scope."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom):
        return {alias.asname or alias.name for alias in statement.names}
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.For | ast.AsyncFor):
        targets = [statement.target]
    elif isinstance(statement, ast.With | ast.AsyncWith):
        targets = [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return {node.id for target in targets for node in walk(target) if isinstance(node, ast.Name)}


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text; "" for anything that is not a plain dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
