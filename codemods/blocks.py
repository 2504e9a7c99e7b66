"""Shared by the codemods: from a block's lines to its statements, and the renaming of the receiver.

A method is handed to a codemod as its own dedented source, so that libcst parses only what moves (a runner file costs
0.4 s, a block a millisecond).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from omni_migrate.facts.flow import FunctionNode, Refusal
from omni_migrate.facts.syntax import below, walk

Statement = cst.BaseStatement


@dataclass(frozen=True)
class Location:
    """A run of statements: the field of its parent that their list is, and their place in it."""

    field: str
    start: int
    stop: int


def parse_method(source: str) -> FunctionNode:
    """The method's `ast`; raises ValueError if the source is not exactly one function."""
    body = ast.parse(source).body
    if len(body) != 1 or not isinstance(body[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise ValueError("expected the source of one method")
    return body[0]


def first_line(node: ast.stmt) -> int:
    """The line where a statement begins, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def locate(function: FunctionNode, first: int, last: int) -> tuple[list[ast.stmt], Location] | Refusal:
    """The statement list that has a run of statements from line `first` to line `last`, and their place in it."""
    for body, name in _lists(function):
        starts = [index for index, node in enumerate(body) if first_line(node) == first]
        stops = [index for index, node in enumerate(body) if node.end_lineno == last]
        if starts and stops and starts[0] <= stops[-1]:
            start, stop = starts[0], stops[-1] + 1
            shares_first = start and body[start - 1].end_lineno == first
            if shares_first or (stop < len(body) and first_line(body[stop]) == last):
                return Refusal("it shares a line with another statement", first)
            return body, Location(name, start, stop)
    return Refusal("its lines are not whole statements of one block", first)


def _lists(node: ast.AST) -> Iterator[tuple[list[ast.stmt], str]]:
    """Every statement list below a node with its field, without entering nested functions or classes."""
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield body, name
            for child in body:
                if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield from _lists(child)
    for name in ("handlers", "cases"):
        for part in getattr(node, name, []):
            yield from _lists(part)


class RenameReceiver(cst.CSTTransformer):
    """`self` becomes `runner` in moved code, but not where a nested function has a parameter of that name."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__()
        self.old, self.new = old, new

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return not _has_parameter(node.params, self.old)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if not _has_parameter(original_node.params, self.old):
            return updated_node
        decorators = [decorator.visit(self) for decorator in original_node.decorators]
        return original_node.with_changes(decorators=decorators, params=self._defaults(original_node.params))

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return not _has_parameter(node.params, self.old)

    def leave_Lambda(self, original_node: cst.Lambda, updated_node: cst.Lambda) -> cst.Lambda:
        if not _has_parameter(original_node.params, self.old):
            return updated_node
        return original_node.with_changes(params=self._defaults(original_node.params))

    def _defaults(self, parameters: cst.Parameters) -> cst.Parameters:
        """Defaults and annotations are evaluated outside the function whose parameter hides the receiver."""
        changes = {
            field: [parameter.with_changes(**self._outer(parameter)) for parameter in getattr(parameters, field)]
            for field in ("posonly_params", "params", "kwonly_params")
        }
        return parameters.with_changes(**changes)

    def _outer(self, parameter: cst.Param) -> dict[str, object]:
        parts = {"default": parameter.default, "annotation": parameter.annotation}
        return {name: part.visit(self) for name, part in parts.items() if part is not None}

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self.new) if original_node.value == self.old else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_MatchKeywordElement(
        self, original_node: cst.MatchKeywordElement, updated_node: cst.MatchKeywordElement
    ) -> cst.MatchKeywordElement:
        return updated_node.with_changes(key=original_node.key)


def _has_parameter(parameters: cst.Parameters, name: str) -> bool:
    every = [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]
    every += [star for star in (parameters.star_arg, parameters.star_kwarg) if isinstance(star, cst.Param)]
    return any(parameter.name.value == name for parameter in every)


def fresh_name(wanted: Sequence[str], taken: Collection[str]) -> str:
    """The first of `wanted` that is free, else the last with underscores added."""
    for name in wanted:
        if name not in taken:
            return name
    name = wanted[-1]
    while name in taken:
        name += "_"
    return name


def names_in(function: ast.AST) -> set[str]:
    """Every identifier that a function reads or binds, in any scope of it; attributes are none."""
    names: set[str] = set()
    for node in (function, *below(function)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
        else:
            names.update(name for name in (getattr(node, "name", None), getattr(node, "rest", None)) if name)
    return names


def is_divider(comment: str) -> bool:
    """A comment that frames the code below it up to another such line: `# -----`, `# ---- Omni-new ----`."""
    return comment.lstrip("# \t").startswith(("---", "==="))


def calls_hook(nodes: Iterable[ast.AST], receiver: str, adapter: str, hook: str) -> bool:
    """Whether this code already is what a codemod would put in its place."""
    return any(
        isinstance(node, ast.Attribute) and ast.unparse(node) == f"{receiver}.{adapter}.{hook}"
        for root in nodes
        for node in walk(root)
    )


def own_receiver(names: Collection[str], receiver: str) -> str:
    """What the adapter's method calls its own first parameter: `self`, unless the moved code has another use for it."""
    return fresh_name(("self", "adapter"), set(names) - {receiver})


def call_text(target: str, arguments: Sequence[str], assign: str, indent: int, line_length: int) -> str:
    """`assign target(arguments)` laid out as ruff format does: one line, arguments on a line, an argument a line."""
    joined = ", ".join(arguments)
    line = f"{assign}{target}({joined})"
    if indent + len(line) <= line_length:
        return line
    if indent + 4 + len(joined) <= line_length:
        return f"{assign}{target}(\n    {joined}\n)"
    inner = "".join(f"    {argument},\n" for argument in arguments)
    return f"{assign}{target}(\n{inner})"
