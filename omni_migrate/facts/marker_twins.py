"""Marked blocks whose code stands unmarked in another runner: one of the two copies says the wrong thing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.markers import Markers, Pair
from omni_migrate.facts.modules import Module
from omni_migrate.facts.syntax import walk
from omni_migrate.report.findings import Finding, Severity

# Fewer nodes than this are alike by chance: a call and an assignment or two.
_NODES = 30


def find_twins(modules: Mapping[str, Module], markers: Sequence[Markers]) -> list[Finding]:
    """A warning for each marked block that another of the modules has, unmarked, in a method of the same name."""
    marked = {found.path: found.marked() for found in markers}
    bodies = {path: list(_bodies(module)) for path, module in modules.items()}
    places = _places(bodies) if any(found.pairs for found in markers) and len(modules) > 1 else {}
    findings = []
    for found in markers:
        for pair in found.pairs:
            twin = _twin(pair, bodies, places, marked)
            if twin is not None:
                message = (
                    f"the same code stands unmarked at {twin}: it is the platform's, or that copy lacks the marker"
                )
                hint = "compare both with the platform's own method"
                findings.append(
                    Finding(found.path, pair.first_line, "marker-twin", Severity.WARNING, pair.scope, message, hint)
                )
    return findings


_Body = tuple[str, list[ast.stmt]]  # the method's name, and one of its bodies
_Places = dict[tuple[str, str], list[tuple[str, list[ast.stmt], int]]]


def _bodies(module: Module) -> Iterator[_Body]:
    for definition in module.classes.values():
        for method in definition.body:
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for body in _inner_bodies(method):
                    yield method.name, body


def _inner_bodies(method: FunctionNode) -> Iterator[list[ast.stmt]]:
    for node in walk(method):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body:
                yield body


def _twin(
    pair: Pair, bodies: Mapping[str, Sequence[_Body]], places: _Places, marked: Mapping[str, set[int]]
) -> str | None:
    method, code = "", []
    for method, body in bodies[pair.path]:
        if pair.scope.split(".")[1:2] != [method]:
            continue
        code = [s for s in body if pair.first_line < s.lineno and (s.end_lineno or 0) < pair.last_line]
        if code:
            break
    else:
        return None
    if sum(1 for statement in code for _ in ast.walk(statement)) < _NODES:  # contexts and operators count
        return None
    wanted = [ast.dump(statement) for statement in code]
    for path, body, at in places.get((method, wanted[0]), ()):
        window = body[at : at + len(wanted)]
        if path == pair.path or len(window) < len(wanted) or window[0].lineno in marked[path]:
            continue
        if all(ast.dump(statement) == text for statement, text in zip(window, wanted, strict=True)):
            return f"{path}:{window[0].lineno}"
    return None


def _places(bodies: Mapping[str, Sequence[_Body]]) -> _Places:
    """Where a statement stands in a method of a name: every body is dumped once, however many blocks are marked."""
    found: _Places = {}
    for path, others in bodies.items():
        for name, body in others:
            for at, statement in enumerate(body):
                found.setdefault((name, ast.dump(statement)), []).append((path, body, at))
    return found
