"""The sites of a runner class where the code is specific to a model (RFC-003 §2), and who answers for each.

Rules: `model-class-test` (the name of the model's class is compared), `model-probe` (an attribute of the model that is
not of vLLM's own interface: getattr, hasattr, a bare read, or a helper that does it), `model-state` (a runner attribute
that only such code uses), `model-method` (a method that serves only such code), `rope-metadata` (M-RoPE metadata that
only some models carry).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from omni_migrate.facts.absence import Absence
from omni_migrate.facts.flow import FunctionNode, argument_names, bound_names
from omni_migrate.facts.held import ARCHITECTURE, Held
from omni_migrate.facts.helpers import Helper, holds_model
from omni_migrate.facts.modules import Module
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.syntax import below, walk
from omni_migrate.knowledge import AdapterSpec, proposed_adapter

# Wrappers around a model, of vLLM and torch: testing for one is not specific to a model.
_WRAPPERS = frozenset({"CUDAGraphWrapper", "UBatchWrapper", "ACLGraphWrapper", "Module", "VllmModelForPooling"})
# A method that probes anything mentions its model one of these ways.
_ANY_SITE = re.compile(r"\bmodel\b|get_model|__class__|architecture|model_arch")
RULES = ("model-class-test", "model-probe", "model-state", "model-method", "rope-metadata")


@dataclass(frozen=True)
class Site:
    """One place. `subject`: the capability, class name, attribute, method or metadata key; `adapter`: who claims it."""

    rule: str
    path: str
    line: int
    column: int
    symbol: str
    subject: str
    adapter: str | None

    @property
    def unanswerable(self) -> str | None:
        """Why no adapter could be told to answer this, if so."""
        if self.adapter is not None or (self.subject.isidentifier() and self.rule == "model-probe"):
            return None
        if self.rule == "model-probe":
            return "the name of the attribute is made at run time"
        if self.subject in ARCHITECTURE:
            return "it asks the configuration, and may do so before a model is loaded that an adapter belongs to"
        return "it tests a part of a class's name, which classes of several adapters may have"


class Claims:
    """Who claims a capability, a class name, an attribute, a method or a metadata key."""

    def __init__(self, specs: Sequence[AdapterSpec], interface: Collection[str]) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.interface = frozenset(interface) - {
            cap for spec in specs for cap in spec.capabilities if spec.default == "derived"
        }
        self.capabilities = {cap: spec.name for spec in specs for cap in spec.capabilities if cap not in self.interface}
        self.class_names = {name: spec.name for spec in specs for name in spec.class_names}
        self.state = {name: spec.name for spec in specs for name in spec.state}
        self.methods = {name: spec.name for spec in specs for name in spec.methods}
        self.metadata = {name: spec.name for spec in specs for name in spec.metadata}
        self.sites_of_text: dict[tuple[str, str, str], tuple[Site, ...]] = {}  # lines from the method's first on

    def words(self, specs: Iterable[AdapterSpec], helpers: Iterable[str] = ()) -> re.Pattern[str]:
        """What the text of a method must have one of, if a site of these adapters is in it."""
        words = set(helpers)
        for spec in specs:
            words.update(spec.capabilities, spec.class_names, spec.metadata, spec.state, spec.methods)
        return re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)) or "(?!)")

    def of_classes(self, names: Sequence[str]) -> str:
        """The adapter of model classes that one test names; one is proposed for them if nobody claims any."""
        claimed = [self.class_names[name] for name in names if name in self.class_names]
        if not claimed:
            spec = proposed_adapter(names)
            self.specs.setdefault(spec.name, spec)
            self.class_names.update(dict.fromkeys(names, spec.name))
            claimed = [spec.name]
        return claimed[0]


def methods_of(node: ast.ClassDef) -> Iterator[FunctionNode]:
    """The methods of a class body, those under `if` included."""
    pending: list[ast.stmt] = list(node.body)
    while pending:
        statement = pending.pop(0)
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement
        elif isinstance(statement, (ast.If, ast.Try)):
            pending = [*statement.body, *statement.orelse, *pending]


def find_sites(module: Module, runner: RunnerClass, claims: Claims, helpers: Mapping[str, Helper]) -> tuple[Site, ...]:
    """The model-specific sites of one runner class, method by method."""
    found: list[Site] = []
    node = module.classes.get(runner.name)
    every = re.compile(_ANY_SITE.pattern + "|" + claims.words(claims.specs.values(), helpers).pattern)
    for function in methods_of(node) if node is not None else ():
        if every.search("".join(module.lines[function.lineno - 1 : function.end_lineno])):
            found += sites_in(module, function, runner, claims, helpers)
    return tuple(found)


def sites_in(
    module: Module, function: FunctionNode, runner: RunnerClass, claims: Claims, helpers: Mapping[str, Helper]
) -> tuple[Site, ...]:
    """The sites of one method of a module, looked for once for each text that it has in the course of a plan."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    text = "".join(module.lines[first - 1 : function.end_lineno])
    key = (runner.path, runner.name, text)
    if key not in claims.sites_of_text:
        sites = sites_of_method(function, runner, claims, helpers)
        claims.sites_of_text[key] = tuple(replace(site, line=site.line - first) for site, _ in sites)
    return tuple(replace(site, line=site.line + first) for site in claims.sites_of_text[key])


def sites_of_method(
    function: FunctionNode, runner: RunnerClass, claims: Claims, helpers: Mapping[str, Helper]
) -> tuple[tuple[Site, ast.AST], ...]:
    """The sites of one method with their nodes, in order; a delegate to an adapter has none."""
    if dispatched_hook(function) is not None:
        return ()
    receiver = function.args.args[0].arg if function.args.args else "self"
    nodes = below(function)
    aliases = model_aliases(function, receiver, nodes, helpers)
    symbol = f"{runner.name}.{function.name}"
    sites: dict[tuple[int, int, str], tuple[Site, ast.AST]] = {}
    for rule, subject, adapter, where in _sites_in(function, nodes, receiver, aliases, claims, helpers):
        line, column = getattr(where, "lineno", function.lineno), getattr(where, "col_offset", 0)
        site = Site(rule, runner.path, line, column, symbol, subject, adapter)
        sites.setdefault((line, column, subject), (site, where))
    return tuple(sites[key] for key in sorted(sites))


def dispatched_hook(function: FunctionNode) -> str | None:
    """The adapter method that a one-line delegate calls, if the method is one."""
    body = [node for node in function.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    value = body[0].value if len(body) == 1 and isinstance(body[0], (ast.Return, ast.Expr)) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        owner = value.func.value
        if isinstance(owner, ast.Attribute) and owner.attr == "_adapter":
            return value.func.attr
    return None


def model_aliases(
    function: FunctionNode,
    receiver: str,
    nodes: Iterable[ast.AST] | None = None,
    helpers: Mapping[str, Helper] | None = None,
) -> set[str]:
    """Locals that hold the loaded model: assigned from it and nothing else, or a parameter called `model`."""
    assigned: dict[str, list[ast.expr | None]] = {}

    def bind(target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            values = value.elts if same else [None] * len(target.elts)  # type: ignore[union-attr]
            for inner, part in zip(target.elts, values, strict=True):
                bind(inner, part)
        elif isinstance(target, (ast.Name, ast.Starred)):
            name = target if isinstance(target, ast.Name) else target.value
            if isinstance(name, ast.Name):
                assigned.setdefault(name.id, []).append(value if name is target else None)

    for node in below(function) if nodes is None else nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind(target, node.value)
        elif isinstance(node, (ast.NamedExpr, ast.AnnAssign)):
            bind(node.target, node.value)
        elif isinstance(node, (ast.For, ast.AugAssign)):
            for part in walk(node.target):
                if isinstance(part, ast.Name):
                    bind(part, None)
        elif isinstance(node, (ast.withitem, ast.Import, ast.ImportFrom)):
            for bound in bound_names([node]):
                assigned.setdefault(bound, []).append(None)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            assigned.setdefault(node.name, []).append(None)
    for parameter in argument_names(function.args):
        if parameter in assigned:
            assigned[parameter].append(None)  # before it was assigned, it was what the caller passed
    aliases = {
        name
        for name, values in assigned.items()
        if values and all(value is not None and holds_model(value, receiver, helpers or {}) for value in values)
    }
    if any(argument.arg == "model" for argument in function.args.args) and "model" not in assigned:
        aliases.add("model")
    return aliases


def _sites_in(
    function: FunctionNode,
    nodes: Sequence[ast.AST],
    receiver: str,
    aliases: set[str],
    claims: Claims,
    helpers: Mapping[str, Helper],
) -> Iterator[tuple[str, str, str | None, ast.AST]]:
    if function.name in claims.methods:
        yield "model-method", function.name, claims.methods[function.name], function
    if function.name in claims.state:
        yield "model-state", function.name, claims.state[function.name], function
    in_init = function.name == "__init__"
    held = Held(nodes, receiver, aliases, helpers)
    for node in nodes:
        if isinstance(node, (ast.Compare, ast.BinOp)):
            yield from _class_tests(node, held, claims)
        elif isinstance(node, ast.Match) and held.is_class_name(node.subject):
            for part in walk(node):
                name = _literal([part.value]) if isinstance(part, ast.MatchValue) else None
                if name is not None:
                    yield "model-class-test", name, claims.of_classes([name]), node
        elif isinstance(node, ast.Call):
            yield from _call_sites(node, held, claims, helpers)
        elif isinstance(node, ast.Attribute):
            if held.is_model(node.value):
                read = isinstance(node.ctx, ast.Load) and not node.attr.startswith("__")
                if read and node.attr not in claims.interface:
                    yield "model-probe", node.attr, claims.capabilities.get(node.attr), node
                continue
            initial = in_init and isinstance(node.ctx, ast.Store)
            if getattr(node.value, "id", None) == receiver and node.attr in claims.state and not initial:
                yield "model-state", node.attr, claims.state[node.attr], node
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in claims.metadata:
            yield "rope-metadata", node.value, claims.metadata[node.value], node


def _call_sites(
    node: ast.Call, held: Held, claims: Claims, helpers: Mapping[str, Helper]
) -> Iterator[tuple[str, str, str | None, ast.AST]]:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if isinstance(node.func, ast.Name) and called in ("getattr", "hasattr") and len(node.args) >= 2:
        yield from _probes(node, held, claims)
    elif isinstance(node.func, ast.Name) and called in ("isinstance", "issubclass") and len(node.args) == 2:
        if held.is_model(node.args[0]) or held.is_class(node.args[0]):
            tested = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            names = [n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in tested]
            names = [name for name in names if name and name not in _WRAPPERS]
            for class_name in names:
                yield "model-class-test", class_name, claims.of_classes(names), node
    elif isinstance(node.func, ast.Attribute) and called in ("startswith", "endswith"):
        part = _literal(node.args)
        if held.is_class_name(node.func.value) and part is not None:
            yield "model-class-test", part, None, node  # part of a name: any class's
    elif isinstance(node.func, ast.Attribute) and called == "get" and held.is_attributes(node.func.value):
        yield from _asked(_literal(node.args), node, claims)
    elif called in helpers and helpers[called].place >= 0:
        yield from _helped(node, helpers[called], held, claims)
    on_receiver = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", None) == held.receiver
    if called in claims.methods and on_receiver:
        yield "model-method", called, claims.methods[called], node


def _probes(node: ast.Call, held: Held, claims: Claims) -> Iterator[tuple[str, str, str | None, ast.AST]]:
    """Sites of a getattr or hasattr; a name that is no literal is what its local may be, else its expression."""
    owner, name = node.args[:2]
    asked = _literal([name])
    if not held.is_model(owner):
        if asked in claims.state and getattr(owner, "id", None) == held.receiver:
            yield "model-state", asked, claims.state[asked], node
        return
    if isinstance(name, ast.Name) and name.id in held.parameters:
        return  # a helper: its callers name the attribute
    for text in [asked] if asked is not None else held.texts(name) or [f"({ast.unparse(name)})"]:
        if text not in claims.interface:
            yield "model-probe", text, claims.capabilities.get(text), node


def _helped(
    node: ast.Call, helper: Helper, held: Held, claims: Claims
) -> Iterator[tuple[str, str, str | None, ast.AST]]:
    """What a helper asks the model for in its caller's stead."""
    given = node.args[helper.place :][:1]
    asked: Iterable[str] = filter(None, [_literal(given)])
    if helper.capabilities:
        asked = sorted(helper.capabilities) if given and held.is_model(given[0]) else ()
    for capability in asked:
        if capability not in claims.interface:
            yield "model-probe", capability, claims.capabilities.get(capability), node


def _asked(name: str | None, node: ast.AST, claims: Claims) -> Iterator[tuple[str, str, str | None, ast.AST]]:
    if name is not None and name not in claims.interface:
        yield "model-probe", name, claims.capabilities.get(name), node


def _literal(nodes: Sequence[ast.expr]) -> str | None:
    node = nodes[0] if nodes else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _class_tests(
    node: ast.Compare | ast.BinOp, held: Held, claims: Claims
) -> Iterator[tuple[str, str, str | None, ast.AST]]:
    asked = held.architecture_tested(node)
    if asked is not None:
        yield "model-class-test", asked, None, node
    if not isinstance(node, ast.Compare):
        return
    sides = [node.left, *node.comparators]
    if len(sides) == 2 and isinstance(node.ops[0], (ast.In, ast.NotIn)) and held.is_attributes(sides[1]):
        yield from _asked(_literal(sides[:1]), node, claims)
    if any(map(held.is_class, sides)):
        for side in sides:
            name = side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
            if name and not held.is_class(side) and name not in _WRAPPERS:
                yield "model-class-test", name, claims.of_classes([name]), node
    if not any(map(held.is_class_name, sides)):
        return
    partial = isinstance(node.ops[0], (ast.In, ast.NotIn)) and held.is_class_name(node.comparators[0])
    for side in sides:
        elements = side.elts if isinstance(side, (ast.Tuple, ast.List, ast.Set)) else [side]
        names = [name for name in (_literal([element]) for element in elements) if name is not None]
        for name in names:
            yield "model-class-test", name, None if partial else claims.of_classes(names), node


def absence_of(spec: AdapterSpec, helpers: Mapping[str, FunctionNode]) -> Absence:
    """What is not there for a model without this adapter."""
    return Absence(frozenset(spec.capabilities), frozenset(spec.class_names), dict(spec.state), helpers)
