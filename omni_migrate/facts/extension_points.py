"""Proves from vLLM's source what hooks.toml says of its extension points, one claim at a time."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.syntax import walk
from omni_migrate.facts.vllm_source import (
    FunctionNode,
    Parameter,
    Symbol,
    VllmSource,
    assigned,
    called_name,
    called_on,
    calls,
    class_fields,
    is_call_of,
    methods,
    names_in,
    parameters,
)
from omni_migrate.knowledge import Claim, ExtensionPoint, HookSpec
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.findings import Finding, Severity


@dataclass(frozen=True)
class Proof:
    """One claim about one extension point of one hook, held against one version of vLLM.

    `found` says what the source has, `nearest` what is most like what was looked for ("" if nothing is). `path` and
    `line` (1-based; "" and 0 without such a place) are where that is. `relied_on`: hooks.toml says that it holds here.
    """

    hook: str
    symbol: str
    claim: str
    holds: bool
    relied_on: bool
    path: str
    line: int
    found: str
    nearest: str = ""


def open_vllm(root: Path, version: str) -> VllmSource:
    """The tree of vLLM below `root`, the folder that holds `vllm/`."""
    return VllmSource(Modules(Workspace(root)), version)


def prove(specs: Iterable[HookSpec], vllm: VllmSource) -> list[Proof]:
    """A proof of every claim, in the order of the data; that its symbol exists is each point's first."""
    return [proof for spec in specs for point in spec.points for proof in _prove_point(spec, point, vllm)]


def _prove_point(spec: HookSpec, point: ExtensionPoint, vllm: VllmSource) -> Iterable[Proof]:
    symbol, relied_on = vllm.find(point.symbol), point.applies(vllm.version)

    def proof(claim: str, holds: bool, place: tuple[str, int], found: str, nearest: str = "") -> Proof:
        return Proof(spec.id, point.symbol, claim, holds, relied_on, *place, found, nearest)

    if symbol is None:
        nearest = vllm.nearest(point.symbol) or _same_parameters(vllm, point)
        near = vllm.find(nearest) if nearest else None
        place = near.place if near is not None else ("", 0)
        yield proof("exists", False, place, _absent(vllm, point.symbol), nearest)
        return
    yield proof("exists", True, symbol.place, _described(symbol))
    for claim in point.claims:
        holds, place, found, nearest = _PROVERS[claim.kind](vllm, symbol, claim)
        yield proof(_text(claim), holds, place, found, nearest)


def proof_findings(proofs: Sequence[Proof]) -> list[Finding]:
    """What doesn't hold, one finding a claim; paths are vLLM's, with line 0 where there is no such place.

    An error if it is relied on, or if nothing of its hook is relied on in this version: then the map doesn't cover it.
    Else a note: another extension point serves.
    """
    covered = {proof.hook for proof in proofs if proof.relied_on}
    found = []
    for proof in proofs:
        if not proof.holds:
            served = proof.hook in covered and not proof.relied_on
            text = f"{proof.claim}: {proof.found} (hook {proof.hook}{', relied on in later versions only' * served})"
            path = proof.path or proof.symbol.removesuffix(f".{_short(proof.symbol)}").replace(".", "/") + ".py"
            severity = Severity.NOTE if served else Severity.ERROR
            hint = f"nearest: {proof.nearest}" if proof.nearest else ""
            found.append(Finding(path, proof.line, "extension-point", severity, proof.symbol, text, hint))
    return found


# What a prover gives: whether the claim holds, where to look, what is there, and what comes nearest.
Verdict = tuple[bool, tuple[str, int], str, str]


def _accepts(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    function = _callable(vllm, symbol)
    if function is None:
        return False, symbol.place, f"{symbol.node.name} is no function", ""
    node, takes = function
    given = list(claim.value)
    positional = [item for item in takes if item.kind == "positional"]
    starred = any(item.kind == "*" for item in takes)
    names = [item.name for item in positional[: len(given)]]
    extra = [item.name for item in takes if item.required and item.name not in names]
    place = (symbol.module.path, node.lineno)
    if extra:
        return False, place, f"also requires {', '.join(extra)}: {_signature(takes)}", ""
    if names != given[: len(names)] or (len(names) < len(given) and not starred):
        return False, place, f"takes {_signature(takes)}", _like(set(given) - set(names), [item.name for item in takes])
    return True, place, _signature(takes), ""


def _accepts_keywords(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    function = _callable(vllm, symbol)
    if function is None:
        return False, symbol.place, f"{symbol.node.name} is no function", ""
    node, takes = function
    names = {item.name for item in takes if item.kind in ("positional", "keyword")}
    anything = any(item.kind == "**" for item in takes)
    missing = [name for name in claim.value if name not in names and not anything]
    found = f"has no {', '.join(missing)}: {_signature(takes)}" if missing else _signature(takes)
    return not missing, (symbol.module.path, node.lineno), found, _like(missing, names)


def _called_in(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    caller, name = vllm.find(claim.value), symbol.node.name
    if caller is None:
        return False, ("", 0), _absent(vllm, claim.value), vllm.nearest(claim.value)
    for call in calls(caller.node):
        if is_call_of(call, name, claim.on):
            return True, (caller.module.path, call.lineno), ast.unparse(call.func), ""
    others = {called_name(call) for call in calls(caller.node) if claim.on in ("", called_on(call))}
    called = f"{claim.on}.{name}" if claim.on else name
    return False, caller.place, f"{caller.node.name} doesn't call {called}", _like([name], others)


def _result_overrides(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    caller, name = vllm.find(claim.value), symbol.node.name
    if caller is None:
        return False, ("", 0), _absent(vllm, claim.value), vllm.nearest(claim.value)
    for node in walk(caller.node):
        if not isinstance(node, ast.Dict):
            continue
        for index, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            if key is None and isinstance(value, ast.Call) and is_call_of(value, name, claim.on):
                before = {key.value for key in node.keys[:index] if isinstance(key, ast.Constant)}
                after = [ast.unparse(key) for key in node.keys[index + 1 :] if key is not None]
                place, missing = (caller.module.path, value.lineno), [item for item in claim.over if item not in before]
                if not missing and index == len(node.keys) - 1:
                    return True, place, f"goes over {', '.join(sorted(map(str, before)))}", ""
                late = [item for item in missing if repr(item) in after]
                why = (
                    f"{', '.join(late or after)} goes over it" if late or after else f"no {', '.join(missing)} below it"
                )
                return False, place, why, ""
    return False, caller.place, f"{caller.node.name} puts the result of {name} into no dictionary", ""


def _assigns(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    if isinstance(symbol.node, ast.ClassDef):
        return False, symbol.place, f"{symbol.node.name} is no function", ""
    has = assigned(symbol.node)
    missing = [name for name in claim.value if name not in has]
    found = f"doesn't assign {', '.join(missing)}" if missing else f"assigns {', '.join(claim.value)}"
    return not missing, symbol.place, found, _like(missing, has)


def _fields(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    if not isinstance(symbol.node, ast.ClassDef):
        return False, symbol.place, f"{symbol.node.name} is no class", ""
    has = class_fields(vllm, symbol)
    missing = [name for name in claim.value if name not in has]
    found = f"has no {', '.join(missing)}" if missing else f"has {', '.join(claim.value)}"
    return not missing, symbol.place, found, _like(missing, has)


def _order(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    first = dict.fromkeys(claim.value, 0)
    for call in calls(symbol.node):
        name = called_name(call)
        if name in first and not first[name]:
            first[name] = call.lineno
    missing = [name for name, line in first.items() if not line]
    if missing:
        return (
            False,
            symbol.place,
            f"doesn't call {', '.join(missing)}",
            _like(missing, map(called_name, calls(symbol.node))),
        )
    lines = list(first.values())
    found = ", ".join(f"{name} in line {line}" for name, line in first.items())
    return lines == sorted(lines), (symbol.module.path, lines[0]), found, ""


def _mentions(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    has = names_in(symbol.node)
    missing = [name for name in claim.value if name not in has]
    found = f"doesn't name {', '.join(missing)}" if missing else f"names {', '.join(claim.value)}"
    return not missing, symbol.place, found, _like(missing, has)


def _calls_with(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    name, number = claim.value["name"], claim.value["arguments"]
    counts = []
    for call in calls(symbol.node):
        if called_name(call) == name:
            if len(call.args) == number:
                return True, (symbol.module.path, call.lineno), ast.unparse(call), ""
            counts.append(len(call.args))
    if counts:
        return False, symbol.place, f"{name} gets {counts[0]} arguments, not {number}", ""
    return False, symbol.place, f"doesn't call {name}", _like([name], map(called_name, calls(symbol.node)))


def _extends(vllm: VllmSource, symbol: Symbol, claim: Claim) -> Verdict:
    bases = list(vllm.ancestors(symbol))
    found = f"extends {', '.join(bases) or 'nothing'}"
    return claim.value in bases, symbol.place, found, _like([claim.value], bases)


_PROVERS: dict[str, Callable[[VllmSource, Symbol, Claim], Verdict]] = {
    "accepts": _accepts,
    "accepts_keywords": _accepts_keywords,
    "called_in": _called_in,
    "result_overrides": _result_overrides,
    "assigns": _assigns,
    "fields": _fields,
    "order": _order,
    "mentions": _mentions,
    "calls_with": _calls_with,
    "extends": _extends,
}
CLAIM_KINDS = tuple(_PROVERS)


def _callable(vllm: VllmSource, symbol: Symbol) -> tuple[FunctionNode, list[Parameter]] | None:
    """The function, or the class's `__init__`, with its parameters."""
    if isinstance(symbol.node, ast.ClassDef):
        made = vllm.find(f"{symbol.module.name}.{symbol.node.name}.__init__")
        if made is None or isinstance(made.node, ast.ClassDef):
            return None
        return made.node, parameters(made.node, True)
    return symbol.node, parameters(symbol.node, symbol.owner is not None)


def _same_parameters(vllm: VllmSource, point: ExtensionPoint) -> str:
    """A method of the same class that takes just what the missing one was to be given."""
    owner = vllm.find(point.symbol.rpartition(".")[0])
    wanted = next((list(claim.value) for claim in point.claims if claim.kind == "accepts"), [])
    if owner is None or not isinstance(owner.node, ast.ClassDef) or not wanted:
        return ""
    for method in methods(owner.node):
        if [item.name for item in parameters(method, True) if item.required] == wanted:
            return f"{point.symbol.rpartition('.')[0]}.{method.name}"
    return ""


def _absent(vllm: VllmSource, name: str) -> str:
    module, rest = vllm.module_of(name)
    if module is None:
        return f"there is no module {name.rpartition('.')[0]}"
    owner = vllm.find(name.rpartition(".")[0]) if len(rest) > 1 else None
    if len(rest) > 1 and owner is None:
        return f"{module.name} has no {rest[0]}"
    return f"{rest[-2] if len(rest) > 1 else module.name} has no {rest[-1]}"


def _described(symbol: Symbol) -> str:
    if isinstance(symbol.node, ast.ClassDef):
        return f"class {symbol.node.name}"
    owner = f" of {symbol.owner.name}" if symbol.owner is not None else ""
    return f"{symbol.node.name}({_signature(parameters(symbol.node, symbol.owner is not None))}){owner}"


def _signature(takes: Iterable[Parameter]) -> str:
    parts = []
    for item in takes:
        star = item.kind if item.kind in ("*", "**") else ""
        parts.append(f"{star}{item.name}" + (f"={item.default}" if item.default is not None else ""))
    return ", ".join(parts) or "nothing"


def _like(wanted: Iterable[str], among: Iterable[str]) -> str:
    names = list(among)
    found = [match for name in wanted for match in difflib.get_close_matches(name, names, 1, 0.6)]
    return ", ".join(dict.fromkeys(found))


def _text(claim: Claim) -> str:
    """The claim in words."""
    value = claim.value
    joined = ", ".join(value) if isinstance(value, tuple) else str(value)
    if claim.kind == "result_overrides":
        return f"its result goes over {', '.join(claim.over)} in {_short(value)}"
    if claim.kind == "calls_with":
        return f"calls {value['name']} with {value['arguments']} arguments"
    words = {
        "accepts": f"accepts {joined or 'no argument'}",
        "accepts_keywords": f"accepts {joined} by name",
        "called_in": f"is called in {_short(joined)}",
        "assigns": f"assigns {joined}",
        "fields": f"has {joined}",
        "order": f"calls {' before '.join(value)}",
        "mentions": f"names {joined}",
        "extends": f"extends {_short(joined)}",
    }
    return words[claim.kind]


def _short(name: str) -> str:
    """A full name from its class on."""
    parts = name.split(".")
    start = next((index for index, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return ".".join(parts[start:])
