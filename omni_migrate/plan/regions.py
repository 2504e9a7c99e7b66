"""Which code around a site is model-specific: the block, the whole method, or the expression alone.

The largest run of statements that does nothing for a model without the adapter is the adapter's. Where the site stands
in the middle of upstream's code, only the expression that asks the model is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from codemods.blocks import first_line
from omni_migrate.facts.absence import Absence, does_nothing, ends_method, folds
from omni_migrate.facts.flow import FunctionNode, MethodFlow, bound_names
from omni_migrate.facts.syntax import below, children

_MAX_GROWTH = 8  # statements between a probe and the use of its answer


@dataclass(frozen=True)
class Block:
    """Lines of a method (1-based, inclusive); `whole` if it is all of its body."""

    first: int
    last: int
    whole: bool = False


@dataclass(frozen=True)
class Expression:
    """An expression of a method."""

    node: ast.expr


Region = Block | Expression


class MethodView:
    """One method as the search for regions sees it: what stands where, looked up by line."""

    def __init__(self, function: FunctionNode, lines: Sequence[str], aliases: frozenset[str]) -> None:
        self.function, self.lines, self.aliases = function, lines, aliases
        self.receiver = function.args.args[0].arg if function.args.args else ""
        self._loads: dict[str, list[int]] = {}
        self._stores: dict[str, list[int]] = {}
        for node in below(function):
            if isinstance(node, ast.Name):
                where = self._loads if isinstance(node.ctx, ast.Load) else self._stores
                where.setdefault(node.id, []).append(node.lineno)

    @cached_property
    def flow(self) -> MethodFlow:
        """Def-use of the method."""
        return MethodFlow(self.function)

    @cached_property
    def _parents(self) -> dict[int, ast.AST]:
        return {id(child): node for node in (self.function, *below(self.function)) for child in children(node)}

    def regions(self, site: ast.AST, absence: Absence, own: Sequence[int] = ()) -> Iterator[Region]:
        """Candidates for what to move with a site, the best first; `own` are the lines of its adapter's sites."""
        blocks: list[Block] = []
        for body, index in self._chain(site):
            block = self._grown(body, index, absence, own)
            if block is not None and block not in blocks:
                blocks.append(block)
        yield from blocks
        if isinstance(site, ast.expr):
            whole = self._climb(site, absence)
            yield Expression(whole)
            if whole is not site:
                yield Expression(site)

    def _chain(self, site: ast.AST) -> list[tuple[list[ast.stmt], int]]:
        """The statement lists around a node, outermost first, with the place of the statement that holds it."""
        chain: list[tuple[list[ast.stmt], int]] = []
        line = getattr(site, "lineno", 0)
        body: list[ast.stmt] | None = None if site is self.function else self.function.body
        while body is not None:
            index = next((i for i, node in enumerate(body) if _covers(node, line)), None)
            if index is None:
                return chain
            statement = body[index]
            is_elif = isinstance(statement, ast.If) and self.lines[statement.lineno - 1].lstrip().startswith("elif")
            if not is_elif:
                chain.append((body, index))
            body = None
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = (b for b in _bodies(statement) if first_line(b[0]) <= line <= (b[-1].end_lineno or 0))
                body = next(inner, None)
        return chain

    def _grown(self, body: list[ast.stmt], index: int, absence: Absence, own: Sequence[int]) -> Block | None:
        """The run of statements around `body[index]` that does nothing without the adapter, None if there is none."""
        stop = self._forward(body, index, absence)
        if stop is None:
            return None
        if ends_method(body[index:stop], self.receiver, absence, self.aliases):
            if body is not self.function.body:
                return None
            stop = len(body)  # a guard that returns: all that follows is for the model alone
        else:
            stop = self._joined(body, index, stop, absence, own)
        start = index
        while start > 0 and self._feeds(body[start - 1], body[start:stop], absence):
            start -= 1
        start_of_code = 1 if ast.get_docstring(self.function, clean=False) is not None else 0
        whole = body is self.function.body and start <= start_of_code and stop == len(body)
        return Block(first_line(body[start]), body[stop - 1].end_lineno or 0, whole)

    def _joined(self, body: list[ast.stmt], index: int, stop: int, absence: Absence, own: Sequence[int]) -> int:
        """Where the run ends with what follows at once and is the same adapter's: one block, one adapter method."""
        grown = True
        while grown:
            grown = False
            for later in range(stop + 1, min(len(body), stop + _MAX_GROWTH) + 1):
                first, last = first_line(body[stop]), body[later - 1].end_lineno or 0
                run = body[index:later]
                joins = any(first <= line <= last for line in own) and self._is_the_adapters(run, absence)
                if joins and not ends_method(run, self.receiver, absence, self.aliases):
                    stop, grown = later, True
                    break
        return stop

    def _forward(self, body: list[ast.stmt], index: int, absence: Absence) -> int | None:
        """Where the run that begins at `index` ends: a probe's answer goes with the statements that use it."""
        alone = isinstance(body[index], (ast.Assign, ast.AnnAssign))
        for stop in range(index + 1, min(len(body), index + _MAX_GROWTH) + 1):
            run = body[index:stop]
            if alone and self._read_outside(bound_names([body[index]]) - {self.receiver}, run):
                continue
            if self._is_the_adapters(run, absence):
                return stop
            if not alone:
                return None
        return None

    def _read_outside(self, names: set[str], run: Sequence[ast.stmt]) -> bool:
        first, last = first_line(run[0]), run[-1].end_lineno or 0
        return any(not first <= line <= last for name in names for line in self._loads.get(name, ()))

    def _feeds(self, statement: ast.stmt, run: Sequence[ast.stmt], absence: Absence) -> bool:
        """Whether a statement only prepares a local for the run: then it goes along."""
        if not isinstance(statement, ast.Assign) or not all(isinstance(t, ast.Name) for t in statement.targets):
            return False
        first, last = first_line(statement), run[-1].end_lineno or 0
        names = bound_names([statement])
        rebound = any(not first <= line <= last for name in names for line in self._stores.get(name, ()))
        used = any(first_line(run[0]) <= line for name in names for line in self._loads.get(name, ()))
        return used and not rebound and not self._read_outside(names, [statement, *run]) and self._is_the_adapters(
            [statement, *run], absence
        )  # fmt: skip

    def _is_the_adapters(self, run: Sequence[ast.stmt], absence: Absence) -> bool:
        """Whether nothing is left of a run without the adapter: no effect, and no value that the method still uses."""
        values = does_nothing(run, self.receiver, absence, self.aliases)
        return values is not None and not self._read_outside(values, run)

    def _climb(self, site: ast.expr, absence: Absence) -> ast.expr:
        """The expression that asks the model one question, such as `hasattr(m, "x") and m.x`."""
        parents = self._parents
        node = site
        while True:
            parent = parents.get(id(node))
            if isinstance(parent, ast.BoolOp):
                asks = all(self._folds(operand, absence) or _raises(operand, absence) for operand in parent.values)
            elif isinstance(parent, ast.Compare):
                asks = self._folds(parent, absence)
            elif isinstance(parent, ast.Call):
                asks = parent.func is node or getattr(parent.func, "id", "") in ("bool", "callable")
            else:
                asks = isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is node
                asks = asks and isinstance(parent.ctx, ast.Load)  # type: ignore[union-attr]
            if not asks or not isinstance(parent, ast.expr):
                return node
            node = parent

    def _folds(self, node: ast.expr, absence: Absence) -> bool:
        return folds(node, self.receiver, absence, self.aliases)


def _covers(statement: ast.stmt, line: int) -> bool:
    return first_line(statement) <= line <= (statement.end_lineno or 0)


def _bodies(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        inner = getattr(statement, name, None)
        if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
            yield inner
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, []):
            yield part.body


def _raises(node: ast.expr, absence: Absence) -> bool:
    """A bare read of an absent capability: undecided alone, decided behind the hasattr before it."""
    return isinstance(node, ast.Attribute) and node.attr in absence.capabilities
