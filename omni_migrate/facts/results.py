"""How many values pass between methods: fields of named tuples, tuples that are returned, and what unpacks them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from omni_migrate.facts.flow import FunctionNode, walk_scope
from omni_migrate.facts.syntax import walk


def fields_of(node: ast.ClassDef) -> dict[str, tuple[int, bool]]:
    """The fields of a NamedTuple, in order: name -> (line, whether it has a default)."""
    return {
        item.target.id: (item.lineno, item.value is not None)
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def is_named_tuple(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).rpartition(".")[2] == "NamedTuple" for base in node.bases)


@dataclass(frozen=True)
class Unpacking:
    """`a, b = value`: how many names take the value, and its text (without a call's arguments)."""

    line: int
    count: int
    value: str


def unpackings(function: FunctionNode) -> Iterator[Unpacking]:
    """Assignments of a name or call to a tuple of fixed length."""
    for node in walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        if isinstance(value, ast.Call):
            value = value.func
        plain = isinstance(target, ast.Tuple) and not any(isinstance(item, ast.Starred) for item in target.elts)
        if plain and isinstance(value, (ast.Name, ast.Attribute)):
            yield Unpacking(node.lineno, len(target.elts), ast.unparse(value))  # type: ignore[attr-defined]


def returned(function: FunctionNode) -> dict[int, int]:
    """The lengths of the tuples that a function returns -> the line of the first. Empty if it returns other things too.

    A bare return and None are passed over.
    """
    found: dict[int, int] = {}
    for node in walk_scope(function.body):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            continue
        if not isinstance(node.value, ast.Tuple) or any(isinstance(item, ast.Starred) for item in node.value.elts):
            return {}
        found.setdefault(len(node.value.elts), node.lineno)
    return found
