"""Functions that probe the model for their callers: what they ask is decided where they are called."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from omni_migrate.facts.absence import is_model
from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.syntax import walk


@dataclass(frozen=True)
class Helper:
    """`place` is the argument, without the receiver, that names the attribute.

    With `capabilities`, it is the one that is the model, and these are what the function asks it for. `gives_model` is
    "call" or "read" for a method or property whose answer is the loaded model.
    """

    place: int
    capabilities: frozenset[str] = frozenset()
    gives_model: str = ""


def probing_helpers(methods: Mapping[str, FunctionNode], functions: Mapping[str, FunctionNode]) -> dict[str, Helper]:
    """The runners' methods, and functions of their modules, that probe the model for an attribute which they are given.

    And the functions of their modules that probe an argument of theirs, and methods that return the model.
    """
    every = {**functions, **methods}
    found = {name: Helper(-1, gives_model=how) for name, method in methods.items() if (how := _gives_model(method))}
    grown = True
    while grown:
        grown = False
        for name, function in every.items():
            if name in found:
                continue
            names = [argument.arg for argument in function.args.args]
            static = any(getattr(d, "id", "") == "staticmethod" for d in function.decorator_list)
            offset = 0 if static or not names or name not in methods else 1
            receiver = names[0] if offset else ""
            for node in walk(function):
                if not isinstance(node, ast.Call):
                    continue
                probe = _probe_argument(node, receiver, found)
                if isinstance(probe, ast.Name) and probe.id in names[offset:]:
                    found[name] = Helper(names.index(probe.id) - offset)
                    grown = True
                    break
    for name, function in functions.items():
        for place, argument in enumerate(function.args.args):
            asked = _asked_of(function, argument.arg)
            if asked and name not in found and name not in methods:
                found[name] = Helper(place, asked)
    return found


def _probe_argument(node: ast.Call, receiver: str, helpers: Mapping[str, Helper]) -> ast.expr | None:
    """The argument of a call that names the probed attribute, if the call is a probe."""
    if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr") and len(node.args) >= 2:
        owner = node.args[0]
        model_like = is_model(owner, receiver) or (isinstance(owner, ast.Name) and owner.id == "model")
        return node.args[1] if model_like else None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
    helper = helpers.get(name) if isinstance(name, str) else None
    return node.args[helper.place] if helper is not None and 0 <= helper.place < len(node.args) else None


def holds_model(
    node: ast.expr, receiver: str, helpers: Mapping[str, Helper], aliases: Collection[str] = frozenset()
) -> bool:
    """Whether an expression is the loaded model, also behind a cast, a wrapper's `unwrap`, a choice or a helper."""
    if is_model(node, receiver, frozenset(aliases)):
        return True
    if isinstance(node, ast.IfExp):
        return all(holds_model(side, receiver, helpers, aliases) for side in (node.body, node.orelse))
    how, asked = ("call", node.func) if isinstance(node, ast.Call) else ("read", node)
    if isinstance(node, ast.Call) and isinstance(asked, ast.Name):
        return asked.id == "cast" and len(node.args) == 2 and holds_model(node.args[1], receiver, helpers, aliases)
    if not isinstance(asked, ast.Attribute):
        return False
    if how == "call" and asked.attr == "unwrap":
        return holds_model(asked.value, receiver, helpers, aliases)
    helper = helpers.get(asked.attr)
    return helper is not None and helper.gives_model == how and getattr(asked.value, "id", None) == receiver


def _gives_model(method: FunctionNode) -> str:
    """How the model is asked for, if a method does nothing but return it."""
    body = [node for node in method.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    names = [argument.arg for argument in method.args.args]
    if value is None or not names or not is_model(value, names[0]):
        return ""
    decorators = {getattr(decorator, "id", "") for decorator in method.decorator_list}
    return "read" if decorators & {"property", "cached_property"} else "" if decorators or len(names) > 1 else "call"


def _asked_of(function: FunctionNode, parameter: str) -> frozenset[str]:
    """The attributes for which a function probes one of its parameters by getattr or hasattr."""
    asked = set()
    for node in walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            owner, name = (*node.args, None, None)[:2]
            if (
                getattr(owner, "id", None) == parameter
                and isinstance(name, ast.Constant)
                and isinstance(name.value, str)
            ):
                asked.add(name.value)
    return frozenset(asked)
