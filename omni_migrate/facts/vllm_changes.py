"""What changed between two versions of vLLM under the hooks: extension points of V2, and methods that V1 overrides.

Bodies are compared without comments, docstrings and layout, so that reformatting is no change.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.sites import methods_of
from omni_migrate.facts.vllm_source import (
    FunctionNode,
    Parameter,
    Symbol,
    VllmSource,
    calls,
    class_fields,
    is_call_of,
    methods,
    parameters,
)
from omni_migrate.knowledge import HookSpec

V1_RUNNER = "vllm.v1.worker.gpu_model_runner.GPUModelRunner"
# Full name of a function that calls an extension point, and on what ("" on anything).
_Caller: TypeAlias = "tuple[str, str]"
# A body that is this much like the old one under another name is the old one renamed.
_SAME_BODY = 0.6


@dataclass(frozen=True)
class Difference:
    """One thing that changed.

    `kind`: "parameter-added", "parameter-required" (added, and a caller must give it), "parameter-removed",
    "parameter-order", "parameter-default", "parameter-annotation", "returns", "field-added", "field-removed",
    "field-type", "method" (a signature of a class's method), "caller-added", "caller-removed", "body".
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Tracked:
    """One symbol in both versions. `hooks` are those that it serves, `api` is "V1" or "V2".

    `status`: "unchanged", "changed", "moved" (to another module), "renamed", "gone", "new", or "absent" from both.
    `now` is its full name in the new version, "" if it is gone. Places are path and 1-based line, None where it isn't.
    """

    symbol: str
    hooks: tuple[str, ...]
    api: str
    status: str
    before: tuple[str, int] | None
    after: tuple[str, int] | None
    now: str
    differences: tuple[Difference, ...] = ()


def track(old: VllmSource, new: VllmSource, specs: Sequence[HookSpec], overridden: Iterable[str] = ()) -> list[Tracked]:
    """Every extension point of V2 and every method of V1's runner that a hook names or that is `overridden`."""
    found = []
    for watched in _v2_symbols(specs):
        found.append(_tracked(old, new, watched))
    v1: dict[str, list[str]] = {name: [] for name in overridden}
    for spec in specs:
        for name in spec.names.get("overrides", ()):
            v1.setdefault(name, []).append(spec.id)
    for name in sorted(v1):
        found.append(_tracked(old, new, _Watched(f"{V1_RUNNER}.{name}", "V1", v1[name])))
    return [item for item in found if item.status != "absent"]


def overridden_methods(modules: Modules, runners: Iterable[RunnerClass], vllm: VllmSource) -> list[str]:
    """Methods of vLLM's V1 runner that the tree's V1 runner classes define anew, sorted."""
    upstream = vllm.find(V1_RUNNER)
    known = set(_all_methods(vllm, upstream)) if upstream is not None else set()
    names = set()
    for runner in runners:
        module = modules.get(runner.path) if runner.api == "V1" else None
        node = module.classes.get(runner.name) if module is not None else None
        names |= {function.name for function in methods_of(node)} & known if node is not None else set()
    return sorted(names - {"__init__"})


def _all_methods(vllm: VllmSource, symbol: Symbol) -> Iterator[str]:
    if isinstance(symbol.node, ast.ClassDef):
        yield from (node.name for node in methods(symbol.node))
        for base in vllm.bases(symbol):
            yield from _all_methods(vllm, base)


@dataclass
class _Watched:
    """A symbol to compare: the hooks that it serves, who is claimed to call it, and the fields that are claimed."""

    symbol: str
    api: str
    hooks: list[str]
    callers: list[_Caller] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)


def _v2_symbols(specs: Iterable[HookSpec]) -> Iterable[_Watched]:
    found: dict[str, _Watched] = {}
    for spec in specs:
        for point in spec.points:
            watched = found.setdefault(point.symbol, _Watched(point.symbol, "V2", []))
            watched.hooks.append(spec.id)
            for claim in point.claims:
                if claim.kind in ("called_in", "result_overrides"):
                    watched.callers.append((claim.value, claim.on))
                elif claim.kind == "fields":
                    watched.fields += claim.value
    return found.values()


def _tracked(old: VllmSource, new: VllmSource, watched: _Watched) -> Tracked:
    name, hooks = watched.symbol, tuple(dict.fromkeys(watched.hooks))
    before, after = old.find(name), new.find(name)
    places = (before.place if before else None, after.place if after else None)
    item = Tracked(name, hooks, watched.api, "absent", *places, name)
    if before is None:
        return replace(item, status="new" if after is not None else "absent", now=name if after is not None else "")
    if after is None:
        successor = _renamed(old, new, name, before) or _appeared(old, new, name)
        after = new.find(successor) if successor else None
        if after is None:
            return replace(item, status="gone", now="")
        moved = successor.rpartition(".")[2] == name.rpartition(".")[2]
        item = replace(item, status="moved" if moved else "renamed", now=successor, after=after.place)
    differences = (
        *_compared(old, new, before, after, watched.fields),
        *(
            difference
            for caller in dict.fromkeys(watched.callers)
            for difference in _callers(old, new, caller, name.rpartition(".")[2])
        ),
    )
    if item.status == "absent":
        left = before.module.path != after.module.path
        item = replace(item, status="moved" if left else "changed" if differences else "unchanged")
    return replace(item, differences=differences)


def _appeared(old: VllmSource, new: VllmSource, name: str) -> str:
    """Where a symbol of that name stands now and did not stand before, "" if nowhere."""
    there = new.moved(name)
    return there if there and old.find(there) is None and new.find(there) is not None else ""


def _renamed(old: VllmSource, new: VllmSource, name: str, before: Symbol) -> str:
    """The new method of the same class, or new function or class of the module, whose body is the old one's."""
    outer = name.rpartition(".")[0]
    now = _siblings(new, outer)
    candidates = {node.name: node for node in now if node.name not in {other.name for other in _siblings(old, outer)}}
    best, likeness = "", _SAME_BODY
    for candidate, node in candidates.items():
        if type(node) is type(before.node):
            like = difflib.SequenceMatcher(None, _lines(before.node), _lines(node), False).ratio()
            if like > likeness:
                best, likeness = f"{outer}.{candidate}", like
    return best


def _siblings(vllm: VllmSource, outer: str) -> list[ast.ClassDef | FunctionNode]:
    owner = vllm.find(outer)
    if owner is not None:
        return list(methods(owner.node)) if isinstance(owner.node, ast.ClassDef) else []
    module, _ = vllm.module_of(f"{outer}.x")
    body = module.tree.body if module is not None else []
    return [node for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))]


def _compared(
    old: VllmSource, new: VllmSource, before: Symbol, after: Symbol, claimed: Collection[str]
) -> Iterator[Difference]:
    """What differs. Of a class that is no record of fields, only what is claimed of it, and how it is made."""
    if isinstance(before.node, ast.ClassDef) and isinstance(after.node, ast.ClassDef):
        is_record = any(isinstance(statement, ast.AnnAssign) for statement in before.node.body)
        yield from _fields(old, new, before, after, None if is_record else claimed)
        now = {node.name: node for node in methods(after.node)}
        for method in {node.name: node for node in methods(before.node)}.values():
            if method.name in now and (is_record or method.name in ("__init__", *claimed)):
                for difference in _signatures(parameters(method, True), parameters(now[method.name], True)):
                    yield Difference("method", f"{method.name}: {difference.text}")
    elif not isinstance(before.node, ast.ClassDef) and not isinstance(after.node, ast.ClassDef):
        is_method = before.owner is not None
        yield from _signatures(parameters(before.node, is_method), parameters(after.node, is_method))
        returns = [ast.unparse(node.returns) if node.returns else "nothing" for node in (before.node, after.node)]
        if returns[0] != returns[1]:
            yield Difference("returns", f"result: {returns[0]} became {returns[1]}")
        lines = _changed_lines(before.node, after.node)
        if lines:
            yield Difference("body", f"{lines} line{'s' if lines > 1 else ''} of the body")


def _fields(
    old: VllmSource, new: VllmSource, before: Symbol, after: Symbol, only: Collection[str] | None
) -> Iterator[Difference]:
    was, now = class_fields(old, before), class_fields(new, after)
    if only is not None:
        was, now = ({name: note for name, note in has.items() if name in only} for has in (was, now))
    for name in was:
        if name not in now:
            yield Difference("field-removed", f"loses {name}")
        elif was[name] != now[name]:
            yield Difference("field-type", f"{name}: {was[name] or 'none'} became {now[name] or 'none'}")
    for name in now:
        if name not in was:
            yield Difference("field-added", f"gains {name}")


def _signatures(was: Sequence[Parameter], now: Sequence[Parameter]) -> Iterator[Difference]:
    old, new = {item.name: item for item in was}, {item.name: item for item in now}
    for name in old:
        if name not in new:
            yield Difference("parameter-removed", f"loses {name}")
    for name, item in new.items():
        if name not in old:
            default = f" = {item.default}" if item.default is not None else ""
            star = item.kind if item.kind in ("*", "**") else ""
            verb = "requires" if item.required else "gains"
            yield Difference(
                "parameter-required" if item.required else "parameter-added", f"{verb} {star}{name}{default}"
            )
            continue
        before = old[name]
        if before.default != item.default:
            became = f"{before.default or 'none'} became {item.default or 'none'}"
            yield Difference(
                "parameter-required" if item.required else "parameter-default", f"{name}: default {became}"
            )
        if before.annotation != item.annotation:
            became = f"{before.annotation or 'none'} became {item.annotation or 'none'}"
            yield Difference("parameter-annotation", f"{name}: {became}")
    positional = [[i.name for i in items if i.kind == "positional"] for items in (was, now)]
    kept = [[name for name in names if name in old and name in new] for names in positional]
    if kept[0] != kept[1]:
        yield Difference("parameter-order", f"{', '.join(kept[0])} became {', '.join(kept[1])}")


def _callers(old: VllmSource, new: VllmSource, caller: _Caller, name: str) -> Iterator[Difference]:
    """Functions of the caller's module that call the name in one version only."""
    was, now = _calling(old, caller, name), _calling(new, caller, name)
    for function in was:
        if function not in now:
            yield Difference("caller-removed", f"no longer called in {function}")
    for function in now:
        if function not in was:
            yield Difference("caller-added", f"called in {function}")


def _calling(vllm: VllmSource, caller: _Caller, name: str) -> list[str]:
    module, _ = vllm.module_of(caller[0])
    found = []
    for node in module.tree.body if module is not None else ():
        inner = list(methods(node)) if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for function in inner:
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
                is_call_of(call, name, caller[1]) for call in calls(function)
            ):
                found.append(f"{prefix}{function.name}")
    return found


def _changed_lines(before: ast.AST, after: ast.AST) -> int:
    """Lines that stand in one body only, of a changed line both."""
    opcodes = difflib.SequenceMatcher(None, _lines(before), _lines(after), False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in opcodes if tag != "equal")


def _lines(node: ast.AST) -> list[str]:
    body = list(getattr(node, "body", []))
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return [line for statement in body for line in ast.unparse(statement).splitlines()]
