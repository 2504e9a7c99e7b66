"""What a block does for a model that has none of an adapter's capabilities.

A block is model-specific if, with the capabilities absent, nothing is left of it but constants. What is left is the
default adapter's answer. This is partial evaluation: probes of absent attributes fold to their defaults, class-name
tests to False, and the rest follows by constant folding; anything that has an effect, or that cannot be decided,
ends the attempt.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from omni_migrate.facts.flow import FunctionNode, argument_names, bound_names
from omni_migrate.facts.syntax import below, children, walk

UNSET = "unset"  # in knowledge: a runner attribute that exists only where the adapter made it
_PURE_METHODS = frozenset({"get", "items", "keys", "values", "copy"})
_PURE_CALLS = frozenset({"bool", "callable", "cast", "dict", "frozenset", "getattr", "hasattr", "int", "isinstance"})
_PURE_CALLS |= {
    "len",
    "list",
    "max",
    "min",
    "range",
    "set",
    "slice",
    "sorted",
    "str",
    "tuple",
    "type",
    "enumerate",
    "zip",
}
_ITERATE = frozenset({"dict", "enumerate", "frozenset", "len", "list", "set", "sorted", "tuple", "zip"})
_COUNT = frozenset({"int", "max", "min", "range"})
_NONE_IS_ONE = frozenset({"Hashable", "NoneType", "object"})
_TRANSPARENT = frozenset({"inference_mode", "no_grad"})  # decorators that leave what a helper returns alone
_ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_ORDER: dict[type, Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.GtE: operator.ge,
    ast.LtE: operator.le,
}
_SUSPENDS = (ast.Await, ast.Yield, ast.YieldFrom)
_MAX_INLINE = 3


@dataclass(frozen=True)
class Absence:
    """An adapter that is not there: no attribute of `capabilities` on the model, no class of `class_names`.

    `state` maps a runner attribute to its value without the adapter, UNSET if it does not exist then. `helpers` are the
    runner's own methods by name, so that a probe behind a helper folds too.
    """

    capabilities: frozenset[str]
    class_names: frozenset[str] = frozenset()
    state: Mapping[str, object] = field(default_factory=dict)
    helpers: Mapping[str, FunctionNode] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """A value that the absence decides."""

    value: object


class _Model:
    """The loaded model."""


class _ClassName:
    """The name of the loaded model's class."""


@dataclass(frozen=True)
class _Unknown:
    pure: bool = True
    parameter: str | None = None  # what the caller passed for it, unchanged


MODEL, CLASS_NAME = _Model(), _ClassName()
Value = Known | _Model | _ClassName | _Unknown
Env = dict[str, Value]  # locals by name; the runner's state that the code has set, by name with a dot before it


class _UndecidedError(Exception):
    """The absence doesn't decide this, or it would have an effect."""


def is_model(node: ast.expr, receiver: str, aliases: frozenset[str] | set[str] = frozenset()) -> bool:
    """Whether an expression is the loaded model: `self.model`, `self.get_model()`, `getattr(self, "model", None)`."""
    if isinstance(node, ast.Name):
        return node.id in aliases
    if isinstance(node, ast.Attribute):
        return node.attr == "model" and isinstance(node.value, ast.Name) and node.value.id == receiver
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        return node.func.attr == "get_model" and isinstance(owner, ast.Name) and owner.id == receiver
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        first, second = (*node.args, None, None)[:2]
        named = isinstance(second, ast.Constant) and second.value == "model"
        return named and isinstance(first, ast.Name) and first.id == receiver
    return False


class _Evaluator:
    """Evaluates code under the absence.

    With `parameters`, it works out a default body: then whatever is set counts, also where it says what holds anyway.
    """

    def __init__(
        self,
        absence: Absence,
        receiver: str,
        depth: int = 0,
        parameters: Sequence[str] = (),
        bound: Collection[str] = (),
    ) -> None:
        self.absence, self.receiver, self.depth = absence, receiver, depth
        self.parameters, self.bound = frozenset(parameters), frozenset(bound)
        self.exact = bool(parameters)
        self.may_raise = False
        # of the statement that is looked at, by the node and what is known there
        self._values: dict[tuple[int, int], tuple[Env, Value]] = {}
        self._truths: dict[tuple[int, int], tuple[Env, bool | None]] = {}

    def value(self, node: ast.expr, env: Env) -> Value:
        """The value of an expression under the absence; raises _UndecidedError where it would raise."""
        if isinstance(node, (ast.Constant, ast.Name)):
            return self._evaluated(node, env)
        place = (id(node), id(env))
        if place not in self._values:
            # each of the ways that ask for a part's value would ask again for those of its parts
            self._values[place] = (env, self._evaluated(node, env))
        return self._values[place][1]

    def _evaluated(self, node: ast.expr, env: Env) -> Value:
        if isinstance(node, ast.Constant):
            return Known(node.value)
        if isinstance(node, ast.Name):
            if node.id in env:
                return env[node.id]
            return _Unknown(parameter=node.id if node.id in self.parameters else None)
        if is_model(node, self.receiver):
            return MODEL
        if isinstance(node, _SUSPENDS):
            raise _UndecidedError("it is suspended")
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        result: Value = handler(node, env) if handler is not None else _Unknown(pure=self._pure_children(node, env))
        self.may_raise = self.may_raise or isinstance(result, _Unknown)
        return result

    def _pure_children(self, node: ast.AST, env: Env) -> bool:
        pure = True
        for child in children(node):
            if isinstance(child, ast.expr):
                value = self.value(child, env)
                pure = pure and not (isinstance(value, _Unknown) and not value.pure)
            elif isinstance(child, (ast.comprehension, ast.keyword)):
                pure = self._pure_children(child, env) and pure
        return pure

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id == self.receiver:
            return self._state(node.attr, env)
        if node.attr == "__name__":
            named = _class_of(node.value)
            if named is not None and self.value(named, env) is MODEL:
                return CLASS_NAME
        owner = self.value(node.value, env)
        if (owner is MODEL or self.exact) and node.attr in self.absence.capabilities:
            raise _UndecidedError(f"reads {node.attr}, which is not there")
        if isinstance(owner, Known) and not hasattr(owner.value, node.attr):
            raise _UndecidedError(f"reads {node.attr} of a constant")
        return _Unknown(pure=not isinstance(owner, _Unknown) or owner.pure)

    def _state(self, name: str, env: Env) -> Value:
        """An attribute of the runner."""
        if f".{name}" in env:
            return env[f".{name}"]
        value = self.absence.state.get(name, _Unknown())
        if value == UNSET:
            raise _UndecidedError(f"reads {name}, which is not there")
        if isinstance(value, (_Unknown, list, dict)):
            return _Unknown()  # of a list, the runner's own is meant, not an equal one
        return Known(value)

    def _call(self, node: ast.Call, env: Env) -> Value:
        if isinstance(node.func, ast.Name):
            if node.func.id in env or node.func.id in self.bound:
                return _Unknown(pure=False)  # a local that is called as a builtin is
            return self._builtin(node.func.id, node, env)
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == self.receiver:
                return self._helper(node.func.attr, node, env)
            value = self.value(owner, env)
            if value is MODEL and node.func.attr in self.absence.capabilities:
                raise _UndecidedError(f"calls {node.func.attr}, which is not there")
            pure = node.func.attr in _PURE_METHODS and self._pure_children(node, env)
            if node.func.attr == "get" and (not node.args or node.keywords):
                pure = False  # a queue's, not a mapping's
            return _Unknown(pure=pure)
        return _Unknown(pure=False)

    def _builtin(self, name: str, node: ast.Call, env: Env) -> Value:
        arguments = node.args
        if name in ("getattr", "hasattr") and len(arguments) >= 2:
            if not self._pure_children(node, env):
                return _Unknown(pure=False)  # a default is evaluated, wanted or not
            attribute = self.value(arguments[1], env)
            if isinstance(attribute, Known) and isinstance(attribute.value, str):
                found = self._probe(name, attribute.value, arguments, env)
                if found is not None:
                    return found
        if name == "cast" and len(arguments) == 2:
            return self.value(arguments[1], env)
        if name in ("bool", "callable", "isinstance") and arguments:
            value = self.value(arguments[0], env)
            if name == "bool":
                truth = self.truth(arguments[0], env)
                if truth is not None:
                    return Known(truth)
            if isinstance(value, Known) and name == "callable":
                return Known(callable(value.value))
            if name == "isinstance" and len(arguments) == 2:
                tested = [
                    _last_name(c)
                    for c in (arguments[1].elts if isinstance(arguments[1], ast.Tuple) else [arguments[1]])
                ]
                if isinstance(value, Known) and value.value is None and all(tested) and not _NONE_IS_ONE & set(tested):
                    return Known(False)
                # a subclass is one too, under a name that nobody registered: no default can be made of it
                if value is MODEL and self.absence.class_names.issuperset(tested) and not self.exact:
                    return Known(False)
        for argument in arguments:
            value = self.value(argument, env)
            if isinstance(value, Known) and (
                (name in _ITERATE and not isinstance(value.value, str))
                or (name in _COUNT and not _is_number(value.value))
            ):
                raise _UndecidedError(f"{name}() of a constant")
        called = any(keyword.arg == "key" for keyword in node.keywords)
        return _Unknown(pure=name in _PURE_CALLS and not called and self._pure_children(node, env))

    def _probe(self, name: str, attribute: str, arguments: Sequence[ast.expr], env: Env) -> Value | None:
        owner = arguments[0]
        if isinstance(owner, ast.Name) and owner.id == self.receiver:
            if attribute not in self.absence.state:
                return None
            value = env.get(f".{attribute}")
            absent = value is None and self.absence.state[attribute] == UNSET
            if isinstance(value, _Unknown):
                return None  # set on one way, not on the other
            if not absent:
                return Known(True) if name == "hasattr" else self._state(attribute, env)
        else:
            value = self.value(owner, env)
            absent = attribute in self.absence.capabilities and value is MODEL
            if isinstance(value, Known):
                absent = not hasattr(value.value, attribute)
        if not absent:
            if self.exact and attribute in self.absence.capabilities and name == "getattr" and len(arguments) < 3:
                raise _UndecidedError(f"may read {attribute} where it is not there")
            return None
        if name == "hasattr":
            return Known(False)
        if len(arguments) < 3:
            raise _UndecidedError(f"reads {attribute}, which is not there")
        return self.value(arguments[2], env)

    def _helper(self, name: str, node: ast.Call, env: Env) -> Value:
        """A call of the runner's own method: folded if its body decides, else unknown and with effects."""
        helper = self.absence.helpers.get(name)
        effects = not self._pure_children(node, env)
        if helper is None or self.depth >= _MAX_INLINE or effects:
            return _Unknown(pure=False)
        receiver, inner = self._bound(helper, node, env)
        if receiver is None:
            return _Unknown(pure=False)
        evaluator = _Evaluator(self.absence, receiver, self.depth + 1)
        try:
            left = evaluator.block(helper.body, inner)
        except _UndecidedError:
            return _Unknown(pure=False)
        self.may_raise = self.may_raise or evaluator.may_raise
        if left.changes or (self.exact and left.lines):
            return _Unknown(pure=False)
        return left.value if left.value is not None else Known(None)

    def _bound(self, helper: FunctionNode, node: ast.Call, env: Env) -> tuple[str | None, Env]:
        """The receiver and the parameters of a helper as a call gives them; no receiver if that cannot be said."""
        decorators = {_last_name(getattr(d, "func", d)) for d in helper.decorator_list}
        unpacks = any(isinstance(a, ast.Starred) for a in node.args) or any(not k.arg for k in node.keywords)
        suspends = isinstance(helper, ast.AsyncFunctionDef) or any(isinstance(n, _SUSPENDS) for n in below(helper))
        names = [argument.arg for argument in (*helper.args.posonlyargs, *helper.args.args)]
        if decorators - _TRANSPARENT - {"staticmethod", "classmethod"} or unpacks or suspends:
            return None, {}
        static = "staticmethod" in decorators
        positional = names if static else names[1:]
        if len(node.args) > len(positional) or not (static or names):
            return None, {}
        inner: Env = dict.fromkeys(argument_names(helper.args), _Unknown())
        defaults = zip(reversed(names), reversed(helper.args.defaults), strict=False)
        keyword_only = zip((a.arg for a in helper.args.kwonlyargs), helper.args.kw_defaults, strict=True)
        for parameter, default in (*defaults, *keyword_only):
            inner[parameter] = self._outside(default)
        for parameter, argument in zip(positional, node.args, strict=False):
            inner[parameter] = self.value(argument, env)
        for keyword in node.keywords:
            if keyword.arg not in inner:
                return None, {}
            inner[keyword.arg] = self.value(keyword.value, env)
        if static or "classmethod" in decorators:
            return "", inner
        del inner[names[0]]
        inner.update({name: value for name, value in env.items() if name.startswith(".")})
        return names[0], inner

    def _outside(self, default: ast.expr | None) -> Value:
        return Known(default.value) if isinstance(default, ast.Constant) else _Unknown()

    def _boolop(self, node: ast.BoolOp, env: Env) -> Value:
        stop = isinstance(node.op, ast.Or)
        pure, unknown = True, False
        last: Value = Known(None)
        for operand in node.values:
            last = self.value(operand, env)
            truth = self.truth(operand, env)
            if unknown:
                self._forget([operand], env)
            if truth is stop and pure:
                return _Unknown() if unknown else last
            if truth is None:
                unknown = True
                pure = pure and (not isinstance(last, _Unknown) or last.pure)
        return _Unknown(pure=pure) if unknown else last

    def _unaryop(self, node: ast.UnaryOp, env: Env) -> Value:
        if isinstance(node.op, ast.Not):
            truth = self.truth(node.operand, env)
            if truth is not None:
                return Known(not truth)
        value = self.value(node.operand, env)
        if isinstance(value, Known) and not isinstance(node.op, ast.Not):
            if isinstance(node.op, ast.USub) and _is_number(value.value):
                return Known(-value.value)
            raise _UndecidedError("an operation on a constant")
        return _Unknown(pure=not isinstance(value, _Unknown) or value.pure)

    def _binop(self, node: ast.BinOp, env: Env) -> Value:
        sides = [self.value(node.left, env), self.value(node.right, env)]
        values = [side.value for side in sides if isinstance(side, Known)]
        numbers = [value for value in values if _is_number(value)]
        if len(numbers) == 2 and type(node.op) in _ARITHMETIC:
            return Known(_ARITHMETIC[type(node.op)](*numbers))
        if None in values or len(values) == 2:
            raise _UndecidedError("an operation on constants")
        return _Unknown(pure=all(not isinstance(side, _Unknown) or side.pure for side in sides))

    def _subscript(self, node: ast.Subscript, env: Env) -> Value:
        if isinstance(self.value(node.value, env), Known):
            raise _UndecidedError("an item of a constant")
        return _Unknown(pure=self._pure_children(node, env))

    def _starred(self, node: ast.Starred, env: Env) -> Value:
        if isinstance(self.value(node.value, env), Known):
            raise _UndecidedError("unpacks a constant")
        return _Unknown(pure=self._pure_children(node, env))

    def _ifexp(self, node: ast.IfExp, env: Env) -> Value:
        truth = self.truth(node.test, env)
        if truth is None:
            pure = self._pure_children(node, env)
            self._forget([node.body, node.orelse], env)
            return _Unknown(pure=pure)
        return self.value(node.body if truth else node.orelse, env)

    def _namedexpr(self, node: ast.NamedExpr, env: Env) -> Value:
        env[node.target.id] = self.value(node.value, env)
        self._changed()
        return env[node.target.id]

    def _changed(self) -> None:
        """What was found out may not hold any more."""
        self._values.clear()
        self._truths.clear()

    def _forget(self, nodes: Sequence[ast.AST], env: Env) -> None:
        """What code that may not run, or runs more than once, binds by `:=` is not known."""
        for node in nodes:
            for inner in walk(node):
                if isinstance(inner, ast.NamedExpr):
                    env[inner.target.id] = _Unknown()
                    self._changed()

    def _lambda(self, node: ast.Lambda, env: Env) -> Value:
        return _Unknown(pure=self._pure_children(node.args, env))

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env) -> Value:
        targets = {n.id for g in node.generators for n in walk(g.target) if isinstance(n, ast.Name)}
        first = self.value(node.generators[0].iter, env)
        if isinstance(first, Known):
            raise _UndecidedError("iterates over a constant")
        inner = {**env, **dict.fromkeys(targets, _Unknown())}
        self._forget([node], inner)
        pure = self._pure_children(node, inner) and not (isinstance(first, _Unknown) and not first.pure)
        self._forget([node], env)
        return _Unknown(pure=pure)

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        values = [self.value(node.left, env)]
        for comparator in node.comparators:
            values.append(self.value(comparator, env))
        self._forget(node.comparators[1:], env)
        if len(node.ops) == 1:
            found = self._comparison(node, *values)
            if found is not None:
                return found
        for operation, left, right in zip(node.ops, values, values[1:], strict=False):
            ordered = isinstance(operation, tuple(_ORDER)) and (left == Known(None) or right == Known(None))
            if ordered or (isinstance(operation, (ast.In, ast.NotIn)) and right == Known(None)):
                raise _UndecidedError("compares with a constant")
        return _Unknown(pure=all(not isinstance(value, _Unknown) or value.pure for value in values))

    def _comparison(self, node: ast.Compare, left: Value, right: Value) -> Value | None:
        operation = node.ops[0]
        if left is CLASS_NAME or right is CLASS_NAME:
            return self._class_test(node, left, right)
        if isinstance(left, Known) and isinstance(right, Known):
            folded = _fold(operation, left.value, right.value)
            if folded is not None:
                return Known(folded)
            raise _UndecidedError("compares constants")
        is_none = [isinstance(side, Known) and side.value is None for side in (left, right)]
        if any(is_none) and isinstance(operation, (ast.Is, ast.IsNot)):
            other = right if is_none[0] else left
            if other is MODEL:
                return Known(isinstance(operation, ast.IsNot))
        return None

    def _class_test(self, node: ast.Compare, left: Value, right: Value) -> Value | None:
        """A test of the model's class by its whole name; part of a name may be any class's."""
        operation, literal = node.ops[0], node.comparators[0]
        names: list[object] = []
        if isinstance(operation, (ast.Eq, ast.NotEq)):
            names = [side.value for side in (left, right) if isinstance(side, Known)]
        elif isinstance(operation, (ast.In, ast.NotIn)) and isinstance(literal, (ast.Tuple, ast.List, ast.Set)):
            names = [element.value if isinstance(element, ast.Constant) else None for element in literal.elts]
        if names and all(name in self.absence.class_names for name in names):
            return Known(isinstance(operation, (ast.NotEq, ast.NotIn)))
        return None

    def truth(self, node: ast.expr, env: Env) -> bool | None:
        """Whether an expression is true; None if undecided. `a and absent` is false whatever a is."""
        place = (id(node), id(env))
        if place not in self._truths:
            self._truths[place] = (env, self._decided(node, env))
        return self._truths[place][1]

    def _decided(self, node: ast.expr, env: Env) -> bool | None:
        if isinstance(node, ast.BoolOp):
            decisive = isinstance(node.op, ast.Or)
            undecided = False
            for operand in node.values:
                truth = self.truth(operand, env)
                if undecided:
                    self._forget([operand], env)
                if truth is decisive:
                    return decisive
                if truth is None:
                    value = self.value(operand, env)
                    if isinstance(value, _Unknown) and not value.pure:
                        return None
                    undecided = True
            return None if undecided else not decisive
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.truth(node.operand, env)
            return None if truth is None else not truth
        value = self.value(node, env)
        if isinstance(value, Known):
            return bool(value.value)
        return True if value is MODEL or value is CLASS_NAME else None

    def block(self, body: Sequence[ast.stmt], env: Env) -> Left:
        """What is left of a block; raises _UndecidedError if more than constants is left."""
        left = Left()
        for statement in body:
            self._changed()
            self._statement(statement, env, left)
            if left.returned:
                break
        return left

    def _statement(self, node: ast.stmt, env: Env, left: Left) -> None:
        if isinstance(node, ast.Expr):
            self._no_effect(node.value, env)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assign(node, env, left)
        elif isinstance(node, ast.If):
            self._if(node, env, left)
        elif isinstance(node, ast.Return):
            left.returned = True
            left.value = Known(None) if node.value is None else self._no_effect(node.value, env)
            left.answer = None if node.value is None else self._answer(node.value, env)
        elif isinstance(node, ast.Try):
            self._try(node, env, left)
        elif isinstance(node, ast.For):
            self._for(node, env)
        elif isinstance(node, ast.FunctionDef):
            if node.decorator_list or not self._pure_children(node.args, env):
                raise _UndecidedError("a definition has an effect")
            env[node.name] = _Unknown(pure=False)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            env.update({name: _Unknown() for name in bound_names([node])})
        elif isinstance(node, ast.Assert):
            if self.truth(node.test, env) is not True:
                raise _UndecidedError("an assertion is not decided")
        elif not isinstance(node, ast.Pass):
            raise _UndecidedError(f"a {type(node).__name__.lower()} is not decided")

    def _no_effect(self, node: ast.expr, env: Env) -> Value:
        value = self.value(node, env)
        if isinstance(value, _Unknown) and not value.pure:
            raise _UndecidedError("it calls something")
        return value

    def _assign(self, node: ast.Assign | ast.AnnAssign, env: Env, left: Left) -> None:
        if node.value is None:
            return
        value = self._no_effect(node.value, env)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                env[target.id] = value
                continue
            if not isinstance(target, ast.Attribute) or getattr(target.value, "id", None) != self.receiver:
                raise _UndecidedError("it assigns to something else than a local or the runner")
            if not isinstance(value, Known) or target.attr == "model":
                raise _UndecidedError("it assigns something else than a constant to the runner")
            self._set(target.attr, value, env, left)

    def _set(self, name: str, value: Known, env: Env, left: Left) -> None:
        left.lines.append(f"{self.receiver}.{name} = {_source(value.value)}")
        if name not in self.absence.state:
            left.changes = True
            return
        absent = self.absence.state[name]
        # to say what holds anyway does nothing
        left.changes = left.changes or not (absent == value.value or (absent == UNSET and value.value is None))
        env[f".{name}"] = value

    def _if(self, node: ast.If, env: Env, left: Left) -> None:
        truth = self.truth(node.test, env)
        if truth is not None:
            left.merge(self.block(node.body if truth else node.orelse, env))
            return
        self._no_effect(node.test, env)
        branches = [dict(env), dict(env)]
        for body, branch in zip((node.body, node.orelse), branches, strict=True):
            self._nothing(self.block(body, branch), "a branch that the absence does not decide does something")
        _join(env, branches)

    def _try(self, node: ast.Try, env: Env, left: Left) -> None:
        before, outer = dict(env), self.may_raise
        self.may_raise = False
        inner = self.block(node.body, env)
        caught = self.may_raise and bool(node.handlers)
        self.may_raise = self.may_raise or outer
        if caught:
            self._nothing(inner, "an exception may come before what a try block does")
        left.merge(inner)
        if not inner.returned:
            left.merge(self.block(node.orelse, env))
        branches = []
        for handler in node.handlers if caught else ():
            branch = {**before, **dict.fromkeys(bound_names([*node.body, handler]), _Unknown())}
            self._nothing(self.block(handler.body, branch), "an exception handler does something")
            branches.append(branch)
        if branches:
            _join(env, [dict(env), *branches])
        self._nothing(self.block(node.finalbody, env), "a finally clause does something")

    def _for(self, node: ast.For, env: Env) -> None:
        if isinstance(self._no_effect(node.iter, env), Known):
            raise _UndecidedError("iterates over a constant")
        self.may_raise = True
        env.update(dict.fromkeys(bound_names([node]), _Unknown()))
        for inner in walk(node):
            if (
                isinstance(inner, ast.Attribute)
                and isinstance(inner.ctx, ast.Store)
                and inner.attr in self.absence.state
            ):
                env[f".{inner.attr}"] = _Unknown()
        self._nothing(self.block(node.body, dict(env)), "a loop does something")
        if node.orelse:
            raise _UndecidedError("a loop's else is not decided")

    def _nothing(self, left: Left, message: str) -> None:
        if left.changes or left.returned or (self.exact and left.lines):
            raise _UndecidedError(message)

    def _answer(self, node: ast.expr, env: Env, inside: bool = False) -> str | None:
        """The source of an answer that is made of parameters and constants, None if it is made of anything else."""
        if isinstance(node, ast.Tuple):
            answers = [answer for element in node.elts if (answer := self._answer(element, env, True)) is not None]
            if len(answers) < len(node.elts):
                return None
            listed = f"{', '.join(answers)}{',' if len(answers) == 1 else ''}"
            return f"({listed})" if inside or not answers else listed
        value = self.value(node, env)
        if isinstance(value, Known):
            return _source(value.value)
        return value.parameter if isinstance(value, _Unknown) else None


@dataclass
class Left:
    """What is left of a block: assignments of constants to the runner, and how it returns.

    `changes` if one of them says something else than what holds without the adapter anyway.
    """

    lines: list[str] = field(default_factory=list)
    changes: bool = False
    returned: bool = False
    value: Value | None = None
    answer: str | None = None

    def merge(self, other: Left) -> None:
        self.lines.extend(other.lines)
        self.changes = self.changes or other.changes
        if other.returned:
            self.returned, self.value, self.answer = True, other.value, other.answer


def _join(env: Env, branches: Sequence[Env]) -> None:
    """What is known after one of several ways was taken."""
    for name in set().union(*branches):
        first, *others = (branch.get(name) for branch in branches)
        env[name] = first if first is not None and all(_same(first, other) for other in others) else _Unknown()


def _same(one: Value, other: Value | None) -> bool:
    if isinstance(one, Known) and isinstance(other, Known):
        return type(one.value) is type(other.value) and one == other  # 0 is not False
    return one == other


def _class_of(node: ast.expr) -> ast.expr | None:
    """`x` of `x.__class__` and `type(x)`."""
    if isinstance(node, ast.Attribute) and node.attr == "__class__":
        return node.value
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "type" and len(node.args) == 1:
        return node.args[0]
    return None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float))


def _source(value: object) -> str:
    return ast.unparse(ast.Constant(value))  # type: ignore[arg-type]


def _fold(operation: ast.cmpop, left: object, right: object) -> bool | None:
    if isinstance(operation, (ast.Is, ast.IsNot)) and (left is None or right is None or isinstance(left, bool)):
        return (left is right) == isinstance(operation, ast.Is)
    if isinstance(operation, (ast.Eq, ast.NotEq)):
        return (left == right) == isinstance(operation, ast.Eq)
    if _is_number(left) and _is_number(right) and type(operation) in _ORDER:
        return _ORDER[type(operation)](left, right)
    return None


def does_nothing(
    body: Sequence[ast.stmt], receiver: str, absence: Absence, aliases: frozenset[str] = frozenset()
) -> set[str] | None:
    """Whether, with the capabilities absent, a block does nothing but assign constants to the runner and to locals.

    Returns the locals that it would still give a value that is not a constant (it does something if anybody reads
    them), None if it does something. `aliases` are locals that hold the model.
    """
    env: Env = dict.fromkeys(aliases, MODEL)
    try:
        _Evaluator(absence, receiver).block(body, env)
    except _UndecidedError:
        return None
    return {name for name, value in env.items() if not name.startswith(".") and not isinstance(value, (Known, _Model))}


def ends_method(
    body: Sequence[ast.stmt], receiver: str, absence: Absence, aliases: frozenset[str] = frozenset()
) -> bool:
    """Whether, with the capabilities absent, a block that does nothing returns from its method."""
    return _Evaluator(absence, receiver).block(body, dict.fromkeys(aliases, MODEL)).returned


def folds(node: ast.expr, receiver: str, absence: Absence, aliases: frozenset[str] = frozenset()) -> bool:
    """Whether the absence decides an expression's truth."""
    try:
        return _Evaluator(absence, receiver).truth(node, dict.fromkeys(aliases, MODEL)) is not None
    except _UndecidedError:
        return False


def default_body(hook: FunctionNode, absence: Absence, aliases: frozenset[str] = frozenset()) -> list[str] | None:
    """The default adapter's body for an adapter method: source lines, or None if the absence does not decide it.

    `hook` is `def name(self, runner, ...)`. Locals that the answer mentions are parameters or constants.
    """
    if isinstance(hook, ast.AsyncFunctionDef) or any(isinstance(node, _SUSPENDS) for node in walk(hook)):
        return None
    names = argument_names(hook.args)
    evaluator = _Evaluator(absence, names[1], parameters=names, bound={*names, *bound_names(hook.body)})
    try:
        left = evaluator.block(hook.body, dict.fromkeys(aliases, MODEL))
    except _UndecidedError:
        return None
    if left.value is None or (left.value == Known(None) and left.answer is None):
        return left.lines
    return [*left.lines, f"return {left.answer}"] if left.answer is not None else None
