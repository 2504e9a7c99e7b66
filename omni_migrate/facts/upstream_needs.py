"""What a runner that is made of mixins overrides of its upstream class, and what it needs upstream to have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from omni_migrate.facts.alignment import Place, Text
from omni_migrate.facts.class_tree import ClassNode, ClassTree
from omni_migrate.facts.flow import FunctionNode, argument_names, receiver_of
from omni_migrate.facts.syntax import walk


@dataclass(frozen=True)
class Attribute:
    """An attribute of self that a method uses and none of our classes has. `upstream` is where one sets or defines it.

    `wants` is how it is used: "call", "read" or "write".
    """

    name: str
    wants: str
    line: int
    upstream: Place | None


@dataclass(frozen=True)
class OverrideNeeds:
    """A method of ours that overrides one of upstream's, None if upstream has none of the name."""

    ours: Place
    upstream: Place | None
    signature: str
    accepted: bool
    passes_on: bool
    attributes: tuple[Attribute, ...]


def needs_of(tree: ClassTree, name: str, own: str = "vllm_omni") -> tuple[OverrideNeeds, ...]:
    """Every method of our classes that a runner runs, in the order of its bases. `name` is qualified.

    Methods that upstream does not have are in it for what they need of self.
    """
    order = tree.order(name)
    mine = [cls for cls in order if cls.package == own]
    theirs = [cls for cls in order if cls.package != own]
    have = set().union(*(set(provided(cls)) for cls in mine))
    found = []
    for cls in mine:
        for method, function in cls.methods().items():
            upstream = next(((c, node) for c in theirs if (node := c.methods().get(method))), None)
            found.append(
                OverrideNeeds(
                    Text(cls.module, cls.short, function).place,
                    Text(upstream[0].module, upstream[0].short, upstream[1]).place if upstream else None,
                    f"({ast.unparse(upstream[1].args)})" if upstream else "",
                    upstream is None or accepts(function, upstream[1]),
                    any(isinstance(node, ast.Name) and node.id == "super" for node in walk(function)),
                    tuple(_attributes(function, have, theirs)),
                )
            )
    return tuple(found)


def accepts(ours: FunctionNode, theirs: FunctionNode) -> bool:
    """Whether whoever calls theirs may call ours: same leading names, the rest taken by *args and **kwargs."""
    if ours.args.kwarg is None and {a.arg for a in theirs.args.kwonlyargs} - set(argument_names(ours.args)):
        return False
    mine, given = [a.arg for a in ours.args.args], [a.arg for a in theirs.args.args]
    if mine != given[: len(mine)]:
        return False
    keywords = {a.arg for a in ours.args.kwonlyargs}
    more = [name for name in given[len(mine) :] if name not in keywords]
    return not more or (ours.args.vararg is not None and ours.args.kwarg is not None)


@lru_cache(maxsize=256)
def provided(cls: ClassNode) -> dict[str, int]:
    """What a class gives its instances: methods, class attributes and what its methods assign to self; name -> line."""
    found: dict[str, int] = {}
    for node in cls.node.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault(node.name, node.lineno)
            receiver = receiver_of(node)
            for inner in walk(node):
                if not isinstance(inner, ast.Attribute) or not isinstance(inner.ctx, ast.Store):
                    continue
                if isinstance(inner.value, ast.Name) and inner.value.id == receiver:
                    found.setdefault(inner.attr, inner.lineno)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, node.lineno)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, node.lineno)
    return found


def _attributes(function: FunctionNode, have: set[str], theirs: list[ClassNode]) -> Iterator[Attribute]:
    """The uses of self's attributes that upstream must provide, one for each name."""
    receiver = receiver_of(function)
    called = {id(node.func) for node in walk(function) if isinstance(node, ast.Call)}
    seen: set[str] = set()
    uses = [
        node
        for node in walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == receiver
    ]
    for node in sorted(uses, key=lambda use: (use.attr, use.lineno)):
        upstream = next((cls for cls in theirs if node.attr in provided(cls)), None)
        written = isinstance(node.ctx, ast.Store)
        if node.attr in seen or (node.attr in have and (upstream is None or not written)):
            continue
        seen.add(node.attr)
        place = None
        if upstream is not None:
            place = Place(upstream.module.path, upstream.short, node.attr, provided(upstream)[node.attr])
        yield Attribute(node.attr, "write" if written else "call" if id(node) in called else "read", node.lineno, place)
