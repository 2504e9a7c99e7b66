"""Def-use of a block of statements: what flows into it, what flows out, and how it can be left.

A block that becomes a method of its own gets the locals that it reads as parameters and returns the locals that it
assigns and that are read later. Whatever would make that unfaithful (a name that may be unbound, a closure that
shares a variable, an exception handler that sees half of the block's assignments) is a refusal with its reason.

One approximation: a `with` is taken to let exceptions through, unless its context manager is named like one that
swallows them (`suppress`, `raises`, `assertRaises`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SWALLOWING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})
_CONSUMERS = frozenset(
    {"all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple", "join", "extend", "update"}
)
_FRAME_READERS = frozenset({"locals", "eval", "exec", "vars", "dir", "super"})


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
    exits: frozenset[str]  # of "return", "break", "continue": how the block is left other than by its end
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

    def visit(self, node: ast.AST | None, conditional: bool = False) -> None:
        if node is None:
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._read(node.id)
            else:
                self._bind(node.id, conditional)
        elif isinstance(node, ast.NamedExpr):
            self.visit(node.value, conditional)
            self._bind(node.target.id, conditional)
        elif isinstance(node, ast.BoolOp):
            self.visit(node.values[0], conditional)
            self._branch(node.values[1:])
        elif isinstance(node, ast.IfExp):
            self.visit(node.test, conditional)
            self._either([node.body], [node.orelse])
        elif isinstance(node, ast.Compare):
            self.visit(node.left, conditional)
            self.visit(node.comparators[0], conditional)
            self._branch(node.comparators[1:])
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        elif isinstance(node, _SCOPES):
            self._nested(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                self.visit(key, conditional)
                self.visit(value, conditional)
        else:
            for child in ast.iter_child_nodes(node):
                self.visit(child, conditional)

    def _read(self, name: str) -> None:
        if name not in self.must:
            self.uses.add(name)

    def _bind(self, name: str, conditional: bool) -> None:
        self.may.add(name)
        if not conditional:
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
        """A nested scope: its defaults, decorators and bases run now; what it captures is read, at the latest, later."""
        if isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases, *node.keywords):
                self.visit(part)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            if not isinstance(node, ast.Lambda):
                for part in (*node.decorator_list, node.returns, *_annotations(node.args)):
                    self.visit(part)
            for part in (*node.args.defaults, *node.args.kw_defaults):
                self.visit(part)
        for name in free_names(node):
            self._read(name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._bind(node.name, False)


def _annotations(arguments: ast.arguments) -> list[ast.expr | None]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [argument.annotation for argument in every if argument is not None]


def argument_names(arguments: ast.arguments) -> list[str]:
    """Every parameter's name, in the order of the signature."""
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [argument.arg for argument in every if argument is not None]


def _bound_by_target(target: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def walk_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of one scope: nested functions, lambdas and classes are yielded but not entered."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.ClassDef):
            pending.extend((*node.decorator_list, *node.bases, *node.keywords))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending.extend(part for part in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults) if part)
        elif isinstance(node, ast.Lambda):
            pending.extend(part for part in (*node.args.defaults, *node.args.kw_defaults) if part)
        else:
            pending.extend(ast.iter_child_nodes(node))


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that these statements bind in their own scope (comprehension targets are not in it)."""
    bound: set[str] = set()
    shadowed: set[int] = set()
    nodes = list(nodes)
    for node in walk_scope(nodes):
        if isinstance(node, _COMPREHENSIONS):
            for generator in node.generators:
                shadowed.update(id(name) for name in ast.walk(generator.target))
    for node in walk_scope(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)) and id(node) not in shadowed:
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update((alias.asname or alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
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
        for name in ast.walk(generator.target)
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
    return {name for node in ast.walk(scope) if isinstance(node, ast.Nonlocal) for name in node.names}


class _Cfg:
    """Control flow of one function, one node per simple statement or header; node 0 is the function's exit."""

    def __init__(self, function: FunctionNode) -> None:
        self.nodes: list[_Node] = [_Node()]
        self.ranges: dict[int, range] = {}
        self.entries: dict[int, int] = {}
        self.follows: dict[int, int] = {}
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
            self.follows[id(statement)] = follow
            follow = self._statement(statement, follow, targets)
            self.ranges[id(statement)] = range(first, len(self.nodes))
            self.entries[id(statement)] = follow
        return follow

    def _evaluate(self, follow: Iterable[int], targets: _Targets, *parts: ast.AST | None) -> int:
        reads = _Reads()
        for part in parts:
            reads.visit(part)
        return self._new(targets, follow, reads)

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
            return self._evaluate([targets.leave], targets, node.value)
        if isinstance(node, ast.Raise):
            return self._evaluate([], targets, node.exc, node.cause)
        if isinstance(node, ast.Break):
            return self._new(targets, [targets.break_to or 0])
        if isinstance(node, ast.Continue):
            return self._new(targets, [targets.continue_to or 0])
        return self._simple(node, follow, targets)

    def _simple(self, node: ast.stmt, follow: int, targets: _Targets) -> int:
        reads = _Reads()
        if isinstance(node, ast.Assign):
            for part in (node.value, *node.targets):
                reads.visit(part)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                reads.visit(ast.Name(node.target.id, ast.Load()))
            reads.visit(node.value)
            reads.visit(node.target)
        elif isinstance(node, ast.AnnAssign):
            reads.visit(node.value)
            if node.value is not None or not isinstance(node.target, ast.Name):
                reads.visit(node.target)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in bound_names([node]):
                reads._bind(name, False)
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
        return self._new(targets, [follow], reads)

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
        names = {part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
                 for item in node.items for part in ast.walk(item.context_expr)}  # fmt: skip
        inside = targets
        if names & _SWALLOWING:
            inside = _Targets(targets.leave, (*targets.raises, follow), targets.break_to, targets.continue_to)
        entry = self._block(node.body, follow, inside)
        for item in reversed(node.items):
            entry = self._evaluate([entry], targets, item.context_expr, item.optional_vars)
        return entry

    def _try(self, node: ast.Try, follow: int, targets: _Targets) -> int:
        outer = targets
        if node.finalbody:
            every = [follow, targets.leave, *targets.raises, targets.break_to, targets.continue_to]
            end = self._new(targets, [target for target in every if target is not None])
            final = self._block(node.finalbody, end, targets)
            follow = final
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
            unbind = self._new(outer, [follow])
            self.nodes[unbind].kills.add(handler.name)
            body = self._block(handler.body, unbind, outer)
            bind = self._new(outer, [body])
            self.nodes[bind].may.add(handler.name)
            self.nodes[bind].must.add(handler.name)
            handlers.append(self._evaluate([bind], outer, handler.type))
        orelse = self._block(node.orelse, follow, outer)
        inside = _Targets(outer.leave, (*handlers, *outer.raises), outer.break_to, outer.continue_to)
        return self._block(node.body, orelse, inside)

    def _match(self, node: ast.Match, follow: int, targets: _Targets) -> int:
        entry = follow
        for case in reversed(node.cases):
            body = self._block(case.body, follow, targets)
            captures = bound_names([case.pattern])
            guard = self._evaluate([body, entry] if case.guard else [body], targets, case.guard)
            bind = self._new(targets, [guard])
            self.nodes[bind].may |= captures
            self.nodes[bind].must |= captures
            entry = self._evaluate([bind, entry], targets, case.pattern)
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

    def assigned_in(self, entry: int, at_entry: set[str], nodes: Iterable[int]) -> list[set[str] | None]:
        """Names that are bound on every path from `entry` to each node's entry; None where no path leads."""
        inside = set(nodes)
        known: list[set[str] | None] = [None] * len(self.nodes)
        known[entry] = set(at_entry)
        pending = [entry]
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

    def reachable(self, start: Iterable[int]) -> set[int]:
        """Nodes on some path from `start`, `start` included."""
        seen: set[int] = set()
        pending = list(start)
        while pending:
            index = pending.pop()
            if index not in seen:
                seen.add(index)
                pending.extend((*self.nodes[index].follow, *self.nodes[index].raises))
        return seen


class MethodFlow:
    """Def-use of one method, built once and asked about any number of its blocks."""

    def __init__(self, function: FunctionNode) -> None:
        self.function = function
        self.receiver = function.args.args[0].arg if function.args.args else ""
        self._cfg = _Cfg(function)
        body_bound = bound_names(function.body)
        self._global = {n for node in walk_scope(function.body) if isinstance(node, ast.Global) for n in node.names}
        self._nonlocal = {n for node in walk_scope(function.body) if isinstance(node, ast.Nonlocal) for n in node.names}
        self.locals = (set(argument_names(function.args)) | body_bound) - self._global - self._nonlocal
        self._live = self._cfg.live_in()
        self._bound = self._cfg.assigned_in(
            self._cfg.entry, set(argument_names(function.args)), range(len(self._cfg.nodes))
        )

    def block(self, body: Sequence[ast.stmt], start: int, stop: int) -> BlockFlow | Refusal:
        """The flow of `body[start:stop]`, where `body` is one statement list of the method."""
        statements = list(body[start:stop])
        line = statements[0].lineno
        refusal = self.unsupported(statements) or self._closures(statements)
        if refusal is not None:
            return refusal
        cfg = self._cfg
        inside = {index for statement in statements for index in cfg.ranges[id(statement)]}
        entry = cfg.entries[id(statements[0])]
        writes = self._writes(statements)
        leaving = {t for index in inside for t in cfg.nodes[index].follow if t not in inside}
        raising = {t for index in inside for t in cfg.nodes[index].raises if t not in inside}
        before = self._bound[entry]
        if before is None:
            return Refusal("the block is never reached", line)

        seen_by_handlers = set().union(*(self._live[target] for target in raising)) & writes
        if seen_by_handlers:
            return Refusal(f"{_names(seen_by_handlers)} is assigned here and read where an exception leads", line)
        exits = frozenset(_exits(statements))
        live_after = set().union(*(self._live[target] for target in leaving)) & self.locals
        returns = live_after & writes
        at_exit = cfg.assigned_in(entry, set(), inside)
        assured = [at_exit[t] or set() for t in leaving if at_exit[t] is not None]
        always = set.intersection(*assured) if assured else set()
        exposed = cfg.live_in(inside)[entry] & self.locals - {self.receiver}
        parameters = exposed | (returns - always)
        unbound = parameters - before
        if unbound:
            return Refusal(f"{_names(unbound)} may be unbound where the block begins", line)
        reached = cfg.assigned_in(entry, before, inside)
        for target in leaving:
            missing = returns - (reached[target] or set())
            if missing and target and reached[target] is not None:
                return Refusal(f"{_names(missing)} may be unbound where the block ends", line)
        falls = cfg.follows[id(statements[-1])] in leaving
        tail = not (cfg.reachable(leaving | raising) - {0})
        order = self.order()
        return BlockFlow(
            tuple(sorted(parameters, key=order)), tuple(sorted(returns, key=order)), exits, falls, tail
        )

    def order(self) -> Callable[[str], tuple[tuple[int, int], str]]:
        """Names by where they first stand in the method: a signature that reads like the code."""
        first: dict[str, tuple[int, int]] = {}
        for position, name in enumerate(argument_names(self.function.args)):
            first[name] = (0, position)
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name):
                place = (node.lineno, node.col_offset)
                first[node.id] = min(first.get(node.id, place), place)
        return lambda name: (first.get(name, (1 << 30, 0)), name)

    def bound_before(self, statement: ast.stmt) -> set[str]:
        """Names that are bound on every path to a statement of the method; empty if no path leads to it."""
        return self._bound[self._cfg.entries[id(statement)]] or set()

    def _writes(self, statements: Sequence[ast.stmt]) -> set[str]:
        writes = bound_names(statements)
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
        for node in (inner for statement in statements for inner in ast.walk(statement)):
            line = getattr(node, "lineno", statements[0].lineno)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FRAME_READERS:
                if node.func.id == "super" or not node.args or node.func.id in ("eval", "exec"):
                    return Refusal(f"{node.func.id}() means another frame or class once it is moved", line)
            if isinstance(node, ast.Name) and node.id == "__class__":
                return Refusal("it reads __class__", line)
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

    def _closures(self, statements: Sequence[ast.stmt]) -> Refusal | None:
        """A variable shared with a nested function has one cell; two methods would have two."""
        cfg = self._cfg
        inside_scopes = {id(node) for statement in statements for node in ast.walk(statement)}
        nested = [n for n in walk_scope(self.function.body) if isinstance(n, (*_SCOPES, ast.GeneratorExp))]
        used = {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}
        writes = self._writes(statements)
        consumed = _consumed(self.function)
        inside = {index for statement in statements for index in cfg.ranges[id(statement)]}
        leaving = {t for i in inside for t in (*cfg.nodes[i].follow, *cfg.nodes[i].raises) if t not in inside}
        after = cfg.reachable(leaving)
        written_after = set().union(*(cfg.nodes[index].may | cfg.nodes[index].kills for index in after - inside))
        if after & inside:
            written_after |= writes  # the block runs again, in a loop around it
        read_after = set().union(*(cfg.nodes[index].uses for index in after))
        first_line, last_line = statements[0].lineno, statements[-1].end_lineno or 0
        for scope in nested:
            if id(scope) in consumed:
                continue
            line = getattr(scope, "lineno", first_line)
            captured = free_names(scope) & self.locals
            rebound = nonlocal_names(scope) & self.locals
            if id(scope) in inside_scopes:
                name = scope.name if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
                if name is not None and name not in read_after and _only_called(name, statements):
                    continue
                shared = (captured & written_after) | (rebound & read_after)
                if shared:
                    return Refusal(f"{_names(shared)} is shared with a function that outlives the block", line)
                continue
            later = line > last_line and not (after & inside)
            shared = (captured & writes) | (rebound & (used | writes))
            if shared and not later:
                return Refusal(f"{_names(shared)} is shared with a function defined outside the block", line)
        return None


def _only_called(name: str, statements: Sequence[ast.stmt]) -> bool:
    """Whether every use of a nested function here is a direct call, so that it cannot outlive the block."""
    called = {
        id(node.func)
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return all(
        id(node) in called
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    )


def _consumed(function: FunctionNode) -> set[int]:
    """Generator expressions that a call such as any() or list() uses up on the spot."""
    found: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in _CONSUMERS:
                found.update(id(argument) for argument in node.args if isinstance(argument, ast.GeneratorExp))
    return found


def _exits(statements: Sequence[ast.stmt], in_loop: bool = False) -> Iterator[str]:
    for node in statements:
        if isinstance(node, ast.Return):
            yield "return"
        elif isinstance(node, (ast.Break, ast.Continue)) and not in_loop:
            yield "break" if isinstance(node, ast.Break) else "continue"
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
