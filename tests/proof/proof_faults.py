"""Planted faults: alters one statement of a file by its syntax tree, in a copy of the tree.

Sites are found by kind of statement, so that any adapter file will do. A site knows its lines; whether a scenario
executes them is measured, not guessed (`proof_engine` writes the lines reached).
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SILENT_CALLS = {"debug", "info", "warning", "error", "exception", "warning_once", "info_once", "print_exc"}
"""Calls whose loss changes a log line or nothing."""


@dataclass(frozen=True)
class Fault:
    """One alteration: `path` below the tree's root, where (the lines of the statement's own code), and what."""

    path: str
    function: str
    line: int
    last_line: int
    kind: str
    text: str
    index: int

    @property
    def key(self) -> str:
        """What names this fault in whatever file and line its statement stands."""
        return f"{self.kind}: {self.text.replace('runner.', 'self.')}"


def _alterations(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The faults that a node can carry: a kind, and the node to put in its place."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            if name not in SILENT_CALLS:
                yield "call dropped", ast.Pass()
        case ast.Assign(targets=targets, value=ast.Constant(value=bool() as value)):
            yield "truth swapped", ast.Assign(targets, ast.Constant(not value))
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]) | ast.AugAssign():
            yield "store dropped", ast.Pass()
        case ast.If(test=test, body=body, orelse=orelse):
            yield "condition negated", ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "condition negated", ast.IfExp(test, orelse, body)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield "offset turned", ast.BinOp(left, ast.Sub(), right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield "offset turned", ast.BinOp(left, ast.Add(), right)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=comparators):
            yield "bound moved", ast.Compare(left, [ast.LtE()], comparators)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=comparators):
            yield "bound moved", ast.Compare(left, [ast.GtE()], comparators)
        case ast.Slice(lower=ast.AST() as lower, upper=upper, step=step):
            yield "slice moved", ast.Slice(ast.BinOp(lower, ast.Add(), ast.Constant(1)), upper, step)
        case ast.Subscript(value=value, slice=ast.Constant(value=int() as number), ctx=ctx):
            yield "number moved", ast.Subscript(value, ast.Constant(number + 1), ctx)
        case ast.Return(value=ast.BoolOp() | ast.Compare() as value):
            yield "answer turned", ast.Return(ast.UnaryOp(ast.Not(), value))
        case ast.Return(value=ast.AST() as value) if not isinstance(value, ast.Constant):
            yield "result lost", ast.Return(ast.Constant(None))


class _Planter(ast.NodeTransformer):
    """Walks functions in order; puts in the fault of a given index, and notes them all."""

    def __init__(self, path: str, wanted: int | None = None) -> None:
        self.path, self.wanted = path, wanted
        self.faults: list[Fault] = []
        self.names: list[str] = []
        self.lines: list[tuple[int, int]] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._scope(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._scope(node)

    def _scope(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        self.names.append(node.name)
        inside = isinstance(node, ast.FunctionDef)
        node.body = [self._visit_statement(statement, inside) for statement in node.body]
        self.names.pop()
        return node

    def _visit_statement(self, statement: ast.stmt, inside: bool) -> ast.AST:
        return self.visit(statement) if inside or isinstance(statement, ast.ClassDef | ast.FunctionDef) else statement

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.arg | ast.arguments | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise):
            return node
        if isinstance(node, ast.AnnAssign):
            node.value = self.visit(node.value) if node.value else None
            return node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if getattr(function, "attr", getattr(function, "id", "")) in SILENT_CALLS:
                return node
        if isinstance(node, ast.BoolOp):  # what follows the first value need not be evaluated on a line that is reached
            node.values[0] = self.visit(node.values[0])
            return node
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            self.lines.append((node.lineno, body[0].lineno - 1 if body else node.end_lineno or node.lineno))
        replacement: ast.AST = node
        if self.names:
            for kind, other in _alterations(node):
                fault = Fault(
                    self.path,
                    ".".join(self.names),
                    *self.lines[-1],
                    kind,
                    ast.unparse(node.test if isinstance(node, ast.If) else node).splitlines()[0][:100],
                    len(self.faults),
                )
                self.faults.append(fault)
                if fault.index == self.wanted:
                    replacement = ast.copy_location(other, node)
        if isinstance(node, ast.IfExp):
            node.test = self.visit(node.test)
            return replacement if replacement is not node else node
        visited = super().generic_visit(node)
        if isinstance(node, ast.stmt):
            self.lines.pop()
        return replacement if replacement is not node else visited


EQUIVALENT = {
    "bound moved: num_computed_tokens + num_scheduled_tokens > num_prompt_tokens": (
        "where the span ends with the prompt, both branches find the whole span in the prompt"
    ),
    "bound moved: completion_part_len > 0": "no positions are copied, and the pointer moves on by none",
    "bound moved: idx < len(valid_sampled_token_ids)": "a row per request: no index is as long as the list",
}
"""Faults that change nothing, by key, each with the reason."""


def faults_of(root: Path, path: str) -> list[Fault]:
    """Every fault that can be planted in a file's functions."""
    planter = _Planter(path)
    planter.visit(ast.parse((root / path).read_bytes()))
    return planter.faults


def choose(faults: list[Fault], limit: int) -> list[Fault]:
    """At most `limit` faults, spread over kinds and functions; the same ones each time."""
    left = sorted(faults, key=lambda fault: hashlib.sha1(fault.key.encode()).hexdigest())
    chosen: list[Fault] = []
    while left and len(chosen) < limit:
        kinds = [fault.kind for fault in chosen]
        functions = [(fault.path, fault.function) for fault in chosen]
        left.sort(key=lambda fault: (functions.count((fault.path, fault.function)), kinds.count(fault.kind)))
        chosen.append(left.pop(0))
    return chosen


def copy_tree(tree: Path, target: Path) -> None:
    """A copy that shares its files with the original: those to be altered must be replaced, not written into."""
    shutil.copytree(tree / "vllm_omni", target / "vllm_omni", copy_function=os.link)


def plant(tree: Path, target: Path, fault: Fault) -> None:
    """Copy the tree with one fault in it."""
    copy_tree(tree, target)
    module = ast.parse((tree / fault.path).read_bytes())
    altered = _Planter(fault.path, fault.index).visit(module)
    text = ast.unparse(ast.fix_missing_locations(altered))
    file = target / fault.path
    file.unlink()
    file.write_text(text + "\n", encoding="utf-8")
