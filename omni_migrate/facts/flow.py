"""Def-use of a block of statements: what flows into it, what flows out, and how it can be left.

A block that becomes a method of its own gets the locals that it reads as parameters and returns the locals that it
assigns and that are read later. Whatever would make that unfaithful (a name that may be unbound, a closure that
shares a variable, an exception handler that sees half of the block's assignments) is a refusal with its reason.

One approximation: a `with` is taken to let exceptions through, unless its context manager is named like one that
swallows them (`suppress`, `raises`, `assertRaises`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from omni_migrate.facts.syntax import below, children, walk

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SWALLOWING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})
_CONSUMERS = frozenset({"all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple"})
_CONSUMING_METHODS = frozenset({"extend", "join", "update"})


@dataclass(frozen=True)
class Refusal:
    """Why a block stays where it is. `line` is 1-based in the text that was analysed."""

    reason: str
    line: int


@dataclass(frozen=True)
class BlockFlow:
    """How a block exchanges values with the method around it."""

    parameters: tuple[str, ...]
    returns: tuple[str, ...]
    exits: Mapping[str, tuple[str, ...]]  # "return", "break", "continue", as the block has: the names read after it
    falls_through: bool
    tail: bool  # nothing of the method runs after the block


@dataclass
class _Node:
    uses: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)
    must: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    follow: list[int] = field(default_factory=list)
    raises: list[int] = field(default_factory=list)
    binds_last: bool = False  # whatever may raise in it comes before it binds a name
    plain: bool = False  # it evaluates nothing but constants and names


@dataclass(frozen=True)
class _Targets:
    """Where control goes when a statement is left abnormally."""

    leave: int
    raises: tuple[int, ...]
    break_to: int | None = None
    continue_to: int | None = None


class _Reads:
    """Names an expression reads before it binds them itself, in evaluation order."""

    def __init__(self) -> None:
        self.uses: set[str] = set()
        self.may: set[str] = set()
        self.must: set[str] = set()

    def visit(self, node: ast.AST | None) -> None:
        if node is None:
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._read(node.id)
            else:
                self.bind(node.id)
        elif isinstance(node, ast.NamedExpr):
            self.visit(node.value)
            self.bind(node.target.id)
        elif isinstance(node, ast.BoolOp):
            self.visit(node.values[0])
            self._branch(node.values[1:])
        elif isinstance(node, ast.IfExp):
            self.visit(node.test)
            self._either([node.body], [node.orelse])
        elif isinstance(node, ast.Compare):
            self.visit(node.left)
            self.visit(node.comparators[0])
            self._branch(node.comparators[1:])
        elif isinstance(node, ast.Assert):
            self.visit(node.test)
            self._branch([node.msg] if node.msg else [])
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        elif isinstance(node, _SCOPES):
            self._nested(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                self.visit(key)
                self.visit(value)
        else:
            for child in children(node):
                self.visit(child)

    def _read(self, name: str) -> None:
        if name not in self.must:
            self.uses.add(name)

    def bind(self, name: str) -> None:
        self.may.add(name)
        self.must.add(name)

    def _branch(self, nodes: Sequence[ast.AST]) -> None:
        """Operands that may not be evaluated: they see their own bindings, the rest of the expression doesn't."""
        before = set(self.must)
        for node in nodes:
            self.visit(node)
        self.must = before

    def _either(self, first: Sequence[ast.AST], second: Sequence[ast.AST]) -> None:
        before = set(self.must)
        for node in first:
            self.visit(node)
        after_first, self.must = self.must, set(before)
        for node in second:
            self.visit(node)
        self.must = after_first & self.must

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)
        inner = _Reads()
        inner.must = set(self.must)
        targets: set[str] = set()
        for position, generator in enumerate(node.generators):
            if position:
                inner.visit(generator.iter)
            targets |= _bound_by_target(generator.target)
            inner.must |= targets
            for test in generator.ifs:
                inner.visit(test)
        for element in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            inner.visit(element)
        self.uses |= inner.uses - targets
        self.may |= inner.may - targets

    def _nested(self, node: ast.AST) -> None:
        """A nested scope: its defaults, decorators and bases run now; what it captures is read now or later."""
        if isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases, *node.keywords):
                self.visit(part)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            if not isinstance(node, ast.Lambda):
                for outer in (*node.decorator_list, node.returns, *_annotations(node.args)):
                    self.visit(outer)
            for default in (*node.args.defaults, *node.args.kw_defaults):
                self.visit(default)
        for name in free_names(node):
            self._read(name)
        self.may |= nonlocal_names(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bind(node.name)


def _annotations(arguments: ast.arguments) -> list[ast.expr | None]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.annotation for argument in every if argument is not None]


def argument_names(arguments: ast.arguments) -> list[str]:
    """Every parameter's name, in the order of the signature."""
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None]


def receiver_of(function: FunctionNode) -> str:
    """The name of a method's first parameter; empty if it has none, or is called on something else than an instance."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod"):
            return ""
    first = [*function.args.posonlyargs, *function.args.args][:1]
    return first[0].arg if first else ""


def _bound_by_target(target: ast.AST) -> set[str]:
    return {node.id for node in walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def walk_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of one scope: nested functions, lambdas and classes are yielded but not entered."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        pending.extend(_evaluated_outside(node) if isinstance(node, _SCOPES) else children(node))


def _evaluated_outside(scope: ast.AST) -> list[ast.AST]:
    """What of a nested scope is evaluated in the scope around it: decorators, bases, defaults."""
    if isinstance(scope, ast.ClassDef):
        return [*scope.decorator_list, *scope.bases, *scope.keywords]
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [part for part in (*scope.decorator_list, *scope.args.defaults, *scope.args.kw_defaults) if part]
    assert isinstance(scope, ast.Lambda)
    return [part for part in (*scope.args.defaults, *scope.args.kw_defaults) if part]


def bound_names(nodes: Iterable[ast.AST], leave_out: Collection[int] = ()) -> set[str]:
    """Names that these statements bind in their own scope (comprehension targets are not in it).

    Nodes whose id() is in `leave_out` do not count.
    """
    bound: set[str] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if id(node) in leave_out:
            continue
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
        elif isinstance(node, _COMPREHENSIONS):
            pending.extend((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,))
            for generator in node.generators:  # its targets are names of its own
                pending.extend((generator.iter, *generator.ifs))
        elif isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                bound.add(node.name)
            pending.extend(_evaluated_outside(node))
        else:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                bound.update((alias.asname or alias.name.split(".")[0]) for alias in node.names)
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                bound.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                bound.add(node.rest)
            pending.extend(children(node))
    return bound


def free_names(scope: ast.AST) -> set[str]:
    """Names that a nested function, lambda, class or generator expression takes from the scopes around it."""
    if isinstance(scope, _COMPREHENSIONS):
        reads = _Reads()
        reads.visit(scope)
        return reads.uses
    if isinstance(scope, ast.Lambda):
        body: list[ast.AST] = [scope.body]
        own = set(argument_names(scope.args))
    elif isinstance(scope, ast.ClassDef):
        body, own = list(scope.body), set()
    elif isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        body, own = list(scope.body), set(argument_names(scope.args))
    else:
        raise TypeError(type(scope).__name__)
    outer = {name for node in walk_scope(body) if isinstance(node, ast.Nonlocal) for name in node.names}
    globals_ = {name for node in walk_scope(body) if isinstance(node, ast.Global) for name in node.names}
    if not isinstance(scope, ast.ClassDef):
        own |= bound_names(body) - outer
    names: set[str] = set(outer)
    shadowed = {
        name.id
        for node in walk_scope(body)
        if isinstance(node, _COMPREHENSIONS)
        for generator in node.generators
        for name in walk(generator.target)
        if isinstance(name, ast.Name)
    }
    for node in walk_scope(body):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in shadowed:
            names.add(node.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)  # shadowed somewhere, perhaps not here: counting it as captured is the safe side
        elif isinstance(node, _SCOPES):
            names |= free_names(node)
    return names - own - globals_


def nonlocal_names(scope: ast.AST) -> set[str]:
    """Names of an enclosing function that a nested function rebinds, at any depth."""
    return {name for node in below(scope) if isinstance(node, ast.Nonlocal) for name in node.names}


def _is_plain(node: ast.AST | None) -> bool:
    return node is None or isinstance(node, (ast.Constant, ast.Name))


def _binds_last(node: ast.AST | None) -> bool:
    """Whether a statement or a part of it binds names only after all that may raise in it."""
    if node is None:
        return True
    if any(isinstance(part, ast.NamedExpr) for part in walk_scope([node])):
        return False
    if isinstance(node, ast.Import):
        return len(node.names) == 1
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) for target in node.targets) or (
            len(node.targets) == 1 and _binds_last(node.targets[0])
        )
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Store):
        inner = [part.value if isinstance(part, ast.Starred) else part for part in node.elts]
        return all(isinstance(part, ast.Name) for part in inner)
    return not isinstance(node, (ast.ImportFrom, ast.Delete))


def _walrus_targets(scope: ast.AST) -> set[str]:
    """Names of the enclosing function that a generator expression binds when it runs."""
    if not isinstance(scope, ast.GeneratorExp):
        return set()
    return {node.target.id for node in walk_scope([scope]) if isinstance(node, ast.NamedExpr)}


class _Cfg:
    """Control flow of one function, one node per simple statement or header; node 0 is the function's exit."""

    def __init__(self, function: FunctionNode) -> None:
        self.nodes: list[_Node] = [_Node()]
        self.parts: dict[int, set[int]] = {}  # the nodes of a statement, by its id()
        self.entries: dict[int, set[int]] = {}
        self.ways: dict[int, dict[str, set[int]]] = {}  # where a statement leads by its end or by a jump
        self.entry = self._block(function.body, 0, _Targets(leave=0, raises=()))

    def _new(self, targets: _Targets, follow: Iterable[int] = (), reads: _Reads | None = None) -> int:
        node = _Node(follow=list(follow), raises=list(targets.raises))
        if reads is not None:
            node.uses, node.may, node.must = reads.uses, reads.may, reads.must
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _block(self, body: Sequence[ast.stmt], follow: int, targets: _Targets) -> int:
        for statement in reversed(body):
            first = len(self.nodes)
            ways = self.ways.setdefault(
                id(statement), {"next": set(), "return": set(), "break": set(), "continue": set()}
            )
            jumps = {"return": targets.leave, "break": targets.break_to, "continue": targets.continue_to}
            for way, target in {"next": follow, **jumps}.items():
                ways[way] |= {target} if target is not None else set()
            follow = self._statement(statement, follow, targets)
            self.parts.setdefault(id(statement), set()).update(range(first, len(self.nodes)))
            self.entries.setdefault(id(statement), set()).add(follow)
        return follow

    def _evaluate(self, follow: Iterable[int], targets: _Targets, *parts: ast.AST | None) -> int:
        reads = _Reads()
        for part in parts:
            reads.visit(part)
        index = self._new(targets, follow, reads)
        self.nodes[index].binds_last = all(_binds_last(part) for part in parts)
        return index

    def _leave(self, follow: int, targets: _Targets, value: ast.expr | None = None) -> int:
        index = self._evaluate([follow], targets, value)
        self.nodes[index].plain = _is_plain(value)
        return index

    def _statement(self, node: ast.stmt, follow: int, targets: _Targets) -> int:
        if isinstance(node, ast.If):
            branches = [self._block(node.body, follow, targets), self._block(node.orelse, follow, targets)]
            return self._evaluate(branches, targets, node.test)
        if isinstance(node, ast.While):
            return self._while(node, follow, targets)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._for(node, follow, targets)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._with(node, follow, targets)
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            return self._try(node, follow, targets)  # type: ignore[arg-type]
        if isinstance(node, ast.Match):
            return self._match(node, follow, targets)
        if isinstance(node, ast.Return):
            return self._leave(targets.leave, targets, node.value)
        if isinstance(node, ast.Raise):
            return self._evaluate([], targets, node.exc, node.cause)
        if isinstance(node, ast.Break):
            return self._leave(targets.break_to or 0, targets)
        if isinstance(node, ast.Continue):
            return self._leave(targets.continue_to or 0, targets)
        return self._simple(node, follow, targets)

    def _simple(self, node: ast.stmt, follow: int, targets: _Targets) -> int:
        reads = _Reads()
        if isinstance(node, ast.Assign):
            for part in (node.value, *node.targets):
                reads.visit(part)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                reads.visit(ast.Name(node.target.id, ast.Load()))
            else:
                reads.visit(node.target)
            reads.visit(node.value)
            if isinstance(node.target, ast.Name):
                reads.visit(node.target)
        elif isinstance(node, ast.AnnAssign):
            reads.visit(node.value)
            if node.value is not None or not isinstance(node.target, ast.Name):
                reads.visit(node.target)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in bound_names([node]):
                reads.bind(name)
        elif isinstance(node, ast.Delete):
            index = self._new(targets, [follow], reads)
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.nodes[index].uses.add(target.id)
                    self.nodes[index].kills.add(target.id)
                else:
                    reads.visit(target)
            return index
        elif not isinstance(node, (ast.Global, ast.Nonlocal)):
            reads.visit(node)
        index = self._new(targets, [follow], reads)
        self.nodes[index].plain = isinstance(node, ast.Pass) or (
            isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)) and all(map(_is_plain, children(node)))
        )
        self.nodes[index].binds_last = _binds_last(node)
        return index

    def _while(self, node: ast.While, follow: int, targets: _Targets) -> int:
        orelse = self._block(node.orelse, follow, targets)
        header = self._evaluate([], targets, node.test)
        inside = _Targets(targets.leave, targets.raises, break_to=follow, continue_to=header)
        body = self._block(node.body, header, inside)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        self.nodes[header].follow = [body] if endless else [body, orelse]
        return header

    def _for(self, node: ast.For | ast.AsyncFor, follow: int, targets: _Targets) -> int:
        orelse = self._block(node.orelse, follow, targets)
        header = self._new(targets)
        inside = _Targets(targets.leave, targets.raises, break_to=follow, continue_to=header)
        body = self._block(node.body, header, inside)
        bind = self._evaluate([body], targets, node.target)
        self.nodes[header].follow = [bind, orelse]
        return self._evaluate([header], targets, node.iter)

    def _with(self, node: ast.With | ast.AsyncWith, follow: int, targets: _Targets) -> int:
        within = [targets]  # an item runs inside the ones before it
        for item in node.items:
            inside = within[-1]
            names = {getattr(part, "attr", None) or getattr(part, "id", "") for part in walk(item.context_expr)}
            if names & _SWALLOWING:
                inside = replace(inside, raises=(*inside.raises, follow))
            within.append(inside)
        entry = self._block(node.body, follow, within.pop())
        for item, outer in zip(reversed(node.items), reversed(within), strict=True):
            entry = self._evaluate([entry], outer, item.context_expr, item.optional_vars)
        return entry

    def _try(self, node: ast.Try, follow: int, targets: _Targets) -> int:
        outer = targets
        if node.finalbody:
            every = [targets.leave, *targets.raises, targets.break_to, targets.continue_to]
            end = self._new(targets, [target for target in every if target is not None])
            final = self._block(node.finalbody, end, targets)
            follow = self._block(node.finalbody, follow, targets)  # a copy for the way on, as the compiler makes
            outer = _Targets(
                leave=final,
                raises=(final,),
                break_to=None if targets.break_to is None else final,
                continue_to=None if targets.continue_to is None else final,
            )
        handlers = []
        for handler in node.handlers:
            if handler.name is None:
                body = self._block(handler.body, follow, outer)
                handlers.append(self._evaluate([body], outer, handler.type))
                continue
            body = self._block(
                handler.body,
                self._unbind(handler.name, follow, outer),
                _Targets(
                    self._unbind(handler.name, outer.leave, outer) if outer.leave else 0,
                    tuple(self._unbind(handler.name, target, outer) for target in outer.raises),
                    None if outer.break_to is None else self._unbind(handler.name, outer.break_to, outer),
                    None if outer.continue_to is None else self._unbind(handler.name, outer.continue_to, outer),
                ),
            )
            bind = self._new(outer, [body])
            self.nodes[bind].may.add(handler.name)
            self.nodes[bind].must.add(handler.name)
            handlers.append(self._evaluate([bind], outer, handler.type))
        orelse = self._block(node.orelse, follow, outer)
        inside = _Targets(outer.leave, (*handlers, *outer.raises), outer.break_to, outer.continue_to)
        return self._block(node.body, orelse, inside)

    def _unbind(self, name: str, follow: int, targets: _Targets) -> int:
        index = self._new(targets, [follow])
        self.nodes[index].kills.add(name)
        return index

    def _match(self, node: ast.Match, follow: int, targets: _Targets) -> int:
        entry = follow
        for case in reversed(node.cases):
            body = self._block(case.body, follow, targets)
            captures = bound_names([case.pattern])
            guard = self._evaluate([body, entry] if case.guard else [body], targets, case.guard)
            bind = self._new(targets, [guard])
            self.nodes[bind].may |= captures
            self.nodes[bind].must |= captures
            always = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            entry = self._evaluate([bind] if always else [bind, entry], targets, case.pattern)
            self.nodes[entry].may.clear()
            self.nodes[entry].must.clear()
        return self._evaluate([entry], targets, node.subject)

    def live_in(self, nodes: Iterable[int] | None = None) -> list[set[str]]:
        """Names live at each node's entry; restricted to `nodes`, names live across them alone."""
        inside = set(range(len(self.nodes)) if nodes is None else nodes)
        live: list[set[str]] = [set() for _ in self.nodes]
        changed = True
        while changed:
            changed = False
            for index in sorted(inside):
                node = self.nodes[index]
                after = set().union(*(live[target] for target in node.follow if target in inside))
                value = node.uses | (after - node.must)
                value |= set().union(*(live[target] for target in node.raises if target in inside))
                if value != live[index]:
                    live[index], changed = value, True
        return live

    def assigned_in(self, entries: Iterable[int], at_entry: set[str], nodes: Iterable[int]) -> list[set[str] | None]:
        """Names that are bound on every path from `entries` to each node's entry; None where no path leads."""
        inside = set(nodes)
        known: list[set[str] | None] = [None] * len(self.nodes)
        pending = list(entries)
        for entry in pending:
            known[entry] = set(at_entry)
        while pending:
            index = pending.pop()
            state = known[index]
            if state is None or index not in inside:
                continue
            node = self.nodes[index]
            for targets, value in (
                (node.follow, (state | node.must) - node.kills),
                (node.raises, state - node.kills),
            ):
                for target in targets:
                    old = known[target]
                    new = set(value) if old is None else old & value
                    if new != old:
                        known[target] = new
                        pending.append(target)
        return known

    def reachable(self, start: Iterable[int], within: Collection[int] | None = None) -> set[int]:
        """Nodes on some path from `start`, `start` included; restricted to `within`, on paths that stay there."""
        seen: set[int] = set()
        pending = list(start)
        while pending:
            index = pending.pop()
            if index not in seen and (within is None or index in within):
                seen.add(index)
                pending.extend((*self.nodes[index].follow, *self.nodes[index].raises))
        return seen


class MethodFlow:
    """Def-use of one method, built once and asked about any number of its blocks."""

    def __init__(self, function: FunctionNode) -> None:
        self.function = function
        self.receiver = receiver_of(function)
        self._cfg = _Cfg(function)
        body_bound = bound_names(function.body)
        self._here = list(walk_scope(function.body))
        self._global = {n for node in self._here if isinstance(node, ast.Global) for n in node.names}
        self._nonlocal = {n for node in self._here if isinstance(node, ast.Nonlocal) for n in node.names}
        self.locals = (set(argument_names(function.args)) | body_bound) - self._global - self._nonlocal
        nonlocals = nonlocal_names(function)
        self.rebound_later = nonlocals & self.locals  # by a nested function, whenever it runs
        self.rebound = (body_bound | nonlocals) & self.locals
        shareable = self.locals - {self.receiver}
        self._consumed = _consumed(function, shareable)
        self._only_called = _only_called(function, self._here, shareable, self._consumed)
        self._live = self._cfg.live_in()
        self._bound = self._cfg.assigned_in(
            [self._cfg.entry], set(argument_names(function.args)), range(len(self._cfg.nodes))
        )

    def block(self, body: Sequence[ast.stmt], start: int, stop: int) -> BlockFlow | Refusal:
        """The flow of `body[start:stop]`, where `body` is one statement list of the method."""
        statements = list(body[start:stop])
        line = statements[0].lineno
        refusal = self.unsupported(statements) or self._frame(statements)
        if refusal is not None:
            return refusal
        shared = self._shared(statements)
        if isinstance(shared, Refusal):
            return shared
        cfg = self._cfg
        inside = {index for statement in statements for index in cfg.parts[id(statement)]}
        entries = {entry for entry in cfg.entries[id(statements[0])] if self._bound[entry] is not None}
        writes = self._writes(statements)
        leaving = {t for index in inside for t in cfg.nodes[index].follow if t not in inside}
        raising = {t for index in inside for t in cfg.nodes[index].raises if t not in inside}
        if not entries:
            return Refusal("the block is never reached", line)
        before = self.bound_before(statements[0])

        reached = cfg.assigned_in(entries, before, inside)

        def live(target: int) -> set[str]:
            """Names live there, with those that a function which may still be called there reads."""
            return self._live[target].union(*(shared.get(name, ()) for name in self._live[target]))

        for target in raising:
            seen = live(target) & writes & self._half_done(inside, target, reached)
            if seen:
                return Refusal(f"{_names(seen)} is assigned here and read where an exception leads", line)
        jumps = list(_exits(statements))
        exits = {way for way, _ in jumps}
        if "return" in exits and isinstance(self.function, ast.AsyncFunctionDef) and _yields(self.function):
            return Refusal("an async generator cannot return a value", line)
        at_exit = cfg.assigned_in(entries, set(), inside)
        ways = cfg.ways[id(statements[-1])]
        jumping = {index for _, jump in jumps for index in cfg.entries[id(jump)]}
        ending = {index for index in inside - jumping if reached[index] is not None}
        falls = any(target in ways["next"] for index in ending for target in cfg.nodes[index].follow)
        carried: dict[str, set[str]] = {}
        needed: set[str] = set()
        for way in exits | ({"next"} if falls else set()):
            targets = ways[way] & leaving
            carried[way] = set().union(*map(live, targets)) & writes
            missing = {name for t in targets for name in carried[way] - (reached[t] or set())}
            if missing:
                return Refusal(f"{_names(missing)} may be unbound where the block ends", line)
            needed |= {name for t in targets for name in carried[way] - (at_exit[t] or set())}
        after_return = carried.get("return")
        if after_return:
            return Refusal(f"{_names(after_return)} is assigned here and read after a return, in a finally", line)
        live_inside = cfg.live_in(inside)
        exposed = set().union(*(live_inside[entry] for entry in entries)) & self.locals - {self.receiver}
        parameters = exposed | needed
        unbound = parameters - before
        if unbound:
            return Refusal(f"{_names(unbound)} may be unbound where the block begins", line)
        tail = not (cfg.reachable(leaving | raising) - {0})
        stray = self._stray(statements, set().union(*carried.values()))
        if stray:
            return Refusal(f"{_names(stray)} is a local of the method only because of this block", line)
        order = self.order()
        outs = {way: tuple(sorted(names, key=order)) for way, names in carried.items()}
        returns = outs.pop("next", ())
        return BlockFlow(tuple(sorted(parameters, key=order)), returns, outs, falls, tail)

    def order(self) -> Callable[[str], tuple[tuple[int, int], str]]:
        """Names by where they first stand in the method: a signature that reads like the code."""
        first = self._first_places
        return lambda name: (first.get(name, (1 << 30, 0)), name)

    @cached_property
    def _first_places(self) -> dict[str, tuple[int, int]]:
        first: dict[str, tuple[int, int]] = {}
        for position, name in enumerate(argument_names(self.function.args)):
            first[name] = (0, position)
        for node in below(self.function):
            if isinstance(node, ast.Name):
                place = (node.lineno, node.col_offset)
                first[node.id] = min(first.get(node.id, place), place)
        return first

    def bound_before(self, statement: ast.stmt) -> set[str]:
        """Names that are bound on every path to a statement of the method; empty if no path leads to it."""
        ways = [self._bound[entry] for entry in self._cfg.entries[id(statement)]]
        reached = [names for names in ways if names is not None]
        return set.intersection(*reached) if reached else set()

    def _frame(self, statements: Sequence[ast.stmt]) -> Refusal | None:
        """What the rest of the method needs of this block besides values."""
        line = statements[0].lineno
        if not self.receiver:
            return Refusal("the function has no receiver", line)
        body = self.function.body
        if self.receiver in self.rebound:
            return Refusal(f"the method rebinds {self.receiver}", line)
        if statements[0] is body[0] and ast.get_docstring(self.function, clean=False) is not None:
            return Refusal("it is the method's docstring", line)
        if self._frame_reader is not None:
            return Refusal(f"the method calls {ast.unparse(self._frame_reader)}, which sees its locals", line)
        return None

    @cached_property
    def _frame_reader(self) -> ast.AST | None:
        return next((node for node in below(self.function) if _reads_frame(node)), None)

    def _stray(self, statements: Sequence[ast.stmt], returns: set[str]) -> set[str]:
        """Names that the method reads as its locals, and would read as globals once the block is gone."""
        inside = {id(node) for statement in statements for node in walk(statement)}
        elsewhere = bound_names(self.function.body, inside) | set(argument_names(self.function.args))
        here = {index for statement in statements for index in self._cfg.parts[id(statement)]}
        read = set().union(*(node.uses for index, node in enumerate(self._cfg.nodes) if index not in here))
        return (bound_names(statements) & self.locals - elsewhere - returns) & read

    def _writes(self, statements: Sequence[ast.stmt]) -> set[str]:
        declarations = {
            id(node) for node in walk_scope(statements) if isinstance(node, ast.AnnAssign) and not node.value
        }
        writes = bound_names(statements, declarations)
        for node in walk_scope(statements):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                writes |= nonlocal_names(node)
        return writes & self.locals

    def unsupported(self, statements: Sequence[ast.stmt]) -> Refusal | None:
        """Constructs whose meaning depends on the frame, the class or the module they stand in."""
        for node in walk_scope(statements):
            line = getattr(node, "lineno", statements[0].lineno)
            if isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)):
                return Refusal("it yields or awaits", line)
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                return Refusal(f"it rebinds {_names(node.names)} of an outer scope", line)
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                return Refusal("it imports everything from a module", line)
        for node in (inner for statement in statements for inner in walk(statement)):
            line = getattr(node, "lineno", statements[0].lineno)
            if _reads_frame(node):
                return Refusal(f"{ast.unparse(node)} means another frame once it is moved", line)
            if isinstance(node, ast.Name) and node.id in ("__class__", "super"):
                return Refusal(f"it reads {node.id}, which means another class once it is moved", line)
            if isinstance(node, ast.JoinedStr) and self._shows_receiver(node):
                return Refusal(f"an f-string shows the text of an expression with {self.receiver}", line)
            name = getattr(node, "attr", None) or getattr(node, "id", None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                return Refusal(f"{name} is mangled with the name of its class", line)
        writes = bound_names(statements)
        if self.receiver in writes:
            return Refusal(f"it rebinds {self.receiver}", statements[0].lineno)
        outer = writes & (self._global | self._nonlocal)
        if outer:
            return Refusal(f"it rebinds {_names(outer)} of an outer scope", statements[0].lineno)
        return None

    def is_consumed(self, scope: ast.AST) -> bool:
        """Whether a generator expression or lambda is used up by the call that it is handed to, as in `any(...)`."""
        return id(scope) in self._consumed

    def _shows_receiver(self, node: ast.JoinedStr) -> bool:
        """Whether `f"{self.x=}"` would print another name after the move."""
        for text, shown in pairwise(node.values):
            if isinstance(text, ast.Constant) and isinstance(shown, ast.FormattedValue):
                names = {part.id for part in walk(shown.value) if isinstance(part, ast.Name)}
                if self.receiver in names and str(text.value).rstrip().endswith("="):
                    return True
        return False

    def _half_done(self, inside: set[int], target: int, reached: Sequence[set[str] | None]) -> set[str]:
        """Names that may have been bound in the block when an exception leaves it for `target`."""
        nodes = self._cfg.nodes
        raising = {
            index
            for index in inside
            if target in nodes[index].raises
            and not (nodes[index].plain and nodes[index].uses <= (reached[index] or set()))
        }
        names: set[str] = set()
        for index in inside:
            changes = nodes[index].may | nodes[index].kills
            if changes - names:
                early = index in raising and not nodes[index].binds_last
                if early or self._cfg.reachable(nodes[index].follow, inside) & raising:
                    names |= changes
        return names

    def _shared(self, statements: Sequence[ast.stmt]) -> dict[str, set[str]] | Refusal:
        """Functions that live outside the block and are only called outside it, with the names that they capture.

        A variable shared with a nested function has one cell; two methods would have two: all else is a refusal.
        """
        cfg = self._cfg
        inside_scopes = {id(node) for statement in statements for node in walk(statement)}
        nested = [n for n in self._here if isinstance(n, (*_SCOPES, ast.GeneratorExp))]
        used = {n.id for s in statements for n in walk(s) if isinstance(n, ast.Name)}
        writes = self._writes(statements)
        inside = {index for statement in statements for index in cfg.parts[id(statement)]}
        leaving = {t for i in inside for t in (*cfg.nodes[i].follow, *cfg.nodes[i].raises) if t not in inside}
        after = cfg.reachable(leaving)
        written_after = set().union(*(cfg.nodes[index].may | cfg.nodes[index].kills for index in after - inside))
        if after & inside:
            written_after |= writes  # the block runs again, in a loop around it
        read_after = set().union(*(cfg.nodes[index].uses for index in after))
        outside: dict[str, set[str]] = {}
        first_line, last_line = statements[0].lineno, statements[-1].end_lineno or 0
        for scope in nested:
            if id(scope) in self._consumed:
                continue
            line = getattr(scope, "lineno", first_line)
            name = self._only_called.get(id(scope))
            captured = free_names(scope) & self.locals
            rebound = (nonlocal_names(scope) | _walrus_targets(scope)) & self.locals
            if id(scope) in inside_scopes:
                if name is not None and name not in read_after:
                    continue
                shared = (captured & written_after) | (rebound & read_after)
                if shared:
                    return Refusal(f"{_names(shared)} is shared with a function that outlives the block", line)
                continue
            if line > last_line and not (after & inside):
                continue
            shared = ((captured | rebound) & writes) | (rebound & used)
            if shared and (name is None or name in used):
                return Refusal(f"{_names(shared)} is shared with a function defined outside the block", line)
            if shared:
                outside[name or ""] = outside.get(name or "", set()) | shared
        return outside


def _only_called(
    function: FunctionNode, here: Sequence[ast.AST], shareable: set[str], consumed: Collection[int]
) -> dict[int, str]:
    """Nested functions and generators that can run only where their name is called or used up, by id().

    The value is that name. What may leave behind another function with the method's variables is not among them.
    """
    direct: set[int] = set()
    for node in here:
        if isinstance(node, ast.Call):
            direct.add(id(node.func))
            if isinstance(node.func, ast.Name) and node.func.id in _CONSUMERS:
                direct.update(id(argument) for argument in node.args)
    escaping = {
        node.id
        for node in below(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in direct
    }
    found: dict[int, str] = {}
    for node in here:
        scope: ast.AST = node
        body: list[ast.AST] = []
        if isinstance(node, ast.FunctionDef) and not node.decorator_list and not _yields(node):
            name, body = node.name, [*node.body]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, scope = node.targets[0].id, node.value
            if not isinstance(scope, (ast.Lambda, ast.GeneratorExp)):
                continue
            body = [scope.body] if isinstance(scope, ast.Lambda) else [*children(scope)]
        else:
            continue
        if name not in escaping and not _leaves_scopes(body, shareable, consumed):
            found[id(scope)] = name
    return found


def _leaves_scopes(body: Sequence[ast.AST], shareable: set[str], consumed: Collection[int]) -> bool:
    """Whether a function or generator made in there may live on with a variable of the method."""
    inner = (node for node in walk_scope(body) if isinstance(node, (*_SCOPES, ast.GeneratorExp)))
    return any(id(node) not in consumed and free_names(node) & shareable for node in inner)


def _reads_frame(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id in ("eval", "exec") or (node.func.id in ("locals", "vars", "dir") and not node.args)


def _yields(function: FunctionNode) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk_scope(function.body))


def _consumed(function: FunctionNode, shareable: set[str]) -> set[int]:
    """Generator expressions and lambdas that a call such as any(), list() or sorted() uses up on the spot, by id()."""
    found: set[int] = set()
    for node in reversed(below(function)):  # what is inside comes first
        if not isinstance(node, ast.Call):
            continue
        builtin = isinstance(node.func, ast.Name) and node.func.id in _CONSUMERS
        if builtin or getattr(node.func, "attr", None) in _CONSUMING_METHODS:
            found.update(id(argument) for argument in node.args if isinstance(argument, ast.GeneratorExp))
        lambdas = [node.func, *(keyword.value for keyword in node.keywords if builtin and keyword.arg == "key")]
        for part in lambdas:
            if isinstance(part, ast.Lambda) and not _leaves_scopes([part.body], shareable, found):
                found.add(id(part))
    return found


def _exits(statements: Sequence[ast.stmt], in_loop: bool = False) -> Iterator[tuple[str, ast.stmt]]:
    for node in statements:
        if isinstance(node, ast.Return):
            yield "return", node
        elif isinstance(node, (ast.Break, ast.Continue)) and not in_loop:
            yield "break" if isinstance(node, ast.Break) else "continue", node
        elif isinstance(node, (ast.For, ast.While, ast.AsyncFor)):
            yield from _exits(node.body, True)
            yield from _exits(node.orelse, in_loop)
        elif not isinstance(node, _SCOPES):
            for child in ("body", "orelse", "finalbody"):
                yield from _exits(getattr(node, child, []), in_loop)
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                yield from _exits(part.body, in_loop)


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
