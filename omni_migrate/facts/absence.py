"""What a block does for a model that has none of an adapter's capabilities.

A block is model-specific if, with the capabilities absent, nothing is left of it but constants. What is left is the
default adapter's answer. This is partial evaluation: probes of absent attributes fold to their defaults, class-name
tests to False, and the rest follows by constant folding; anything that has an effect, or that cannot be decided,
ends the attempt.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omni_migrate.facts.flow import FunctionNode, argument_names, bound_names

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
_MAX_INLINE = 3
_NOTHING = object()


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
    alias: ast.expr | None = None


MODEL, CLASS_NAME = _Model(), _ClassName()
Value = Known | _Model | _ClassName | _Unknown
Env = dict[str, Value]


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
    def __init__(self, absence: Absence, receiver: str, depth: int = 0) -> None:
        self.absence, self.receiver, self.depth = absence, receiver, depth

    def value(self, node: ast.expr, env: Env) -> Value:
        """The value of an expression under the absence; raises _UndecidedError where it would raise."""
        if isinstance(node, ast.Constant):
            return Known(node.value)
        if isinstance(node, ast.Name):
            return env.get(node.id, _Unknown(alias=node))
        if is_model(node, self.receiver):
            return MODEL
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            result: Value = handler(node, env)
            return result
        return _Unknown(pure=self._pure_children(node, env))

    def _pure_children(self, node: ast.AST, env: Env) -> bool:
        pure = True
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                value = self.value(child, env)
                pure = pure and not (isinstance(value, _Unknown) and not value.pure)
            elif isinstance(child, (ast.comprehension, ast.keyword)):
                pure = self._pure_children(child, env) and pure
        return pure

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        if isinstance(node.value, ast.Name) and node.value.id == self.receiver:
            if node.attr in self.absence.state:
                return self._state(node.attr)
            return _Unknown()
        if node.attr == "__name__":
            named = _instance_of(node.value)
            if named is not None and self.value(named, env) is MODEL:
                return CLASS_NAME
        owner = self.value(node.value, env)
        if owner is MODEL and node.attr in self.absence.capabilities:
            raise _UndecidedError(f"reads {node.attr}, which is not there")
        if isinstance(owner, Known) and owner.value is None:
            raise _UndecidedError("reads an attribute of None")
        return _Unknown(pure=not isinstance(owner, _Unknown) or owner.pure)

    def _state(self, name: str) -> Value:
        value = self.absence.state[name]
        if value == UNSET:
            raise _UndecidedError(f"reads {name}, which is not there")
        return Known(value)

    def _call(self, node: ast.Call, env: Env) -> Value:
        if isinstance(node.func, ast.Name):
            return self._builtin(node.func.id, node, env)
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id == self.receiver:
                return self._helper(node.func.attr, node, env)
            value = self.value(owner, env)
            if value is MODEL and node.func.attr in self.absence.capabilities:
                raise _UndecidedError(f"calls {node.func.attr}, which is not there")
            pure = node.func.attr in _PURE_METHODS and self._pure_children(node, env)
            return _Unknown(pure=pure)
        return _Unknown(pure=False)

    def _builtin(self, name: str, node: ast.Call, env: Env) -> Value:
        arguments = node.args
        if name in ("getattr", "hasattr") and len(arguments) >= 2:
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
            if isinstance(value, Known) and value.value is None and name == "isinstance":
                return Known(False)
            if value is MODEL and name == "isinstance" and len(arguments) == 2:
                tested = arguments[1].elts if isinstance(arguments[1], ast.Tuple) else [arguments[1]]
                if all(_last_name(node) in self.absence.class_names for node in tested):
                    return Known(False)
        return _Unknown(pure=name in _PURE_CALLS and self._pure_children(node, env))

    def _probe(self, name: str, attribute: str, arguments: Sequence[ast.expr], env: Env) -> Value | None:
        owner = arguments[0]
        on_runner = isinstance(owner, ast.Name) and owner.id == self.receiver and attribute in self.absence.state
        absent = on_runner and self.absence.state[attribute] == UNSET
        if on_runner and not absent:
            return Known(True) if name == "hasattr" else Known(self.absence.state[attribute])
        if not on_runner:
            value = self.value(owner, env)
            absent = attribute in self.absence.capabilities and value is MODEL
            if isinstance(value, Known) and value.value is None:
                absent = not hasattr(None, attribute)
        if not absent:
            return None
        if name == "hasattr":
            return Known(False)
        if len(arguments) < 3:
            raise _UndecidedError(f"reads {attribute}, which is not there")
        return self.value(arguments[2], env)

    def _helper(self, name: str, node: ast.Call, env: Env) -> Value:
        """A call of the runner's own method: folded if its body decides, else unknown and with effects."""
        helper = self.absence.helpers.get(name)
        if helper is None or self.depth >= _MAX_INLINE:
            self._pure_children(node, env)
            return _Unknown(pure=False)
        static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in helper.decorator_list)
        names = [argument.arg for argument in helper.args.args]
        inner: Env = {}
        positional = names if static else names[1:]
        for parameter, default in zip(reversed(names), reversed(helper.args.defaults), strict=False):
            inner[parameter] = self.value(default, {})
        for parameter, argument in zip(positional, node.args, strict=False):
            inner[parameter] = self.value(argument, env)
        for keyword in node.keywords:
            if keyword.arg:
                inner[keyword.arg] = self.value(keyword.value, env)
        receiver = "" if static or not names else names[0]
        evaluator = _Evaluator(self.absence, receiver, self.depth + 1)
        try:
            left = evaluator.block(helper.body, inner)
        except _UndecidedError:
            return _Unknown(pure=False)
        if left.statements and not left.returned:
            return _Unknown(pure=False)
        if left.returned and left.value is not None:
            return left.value if not left.statements else _Unknown(pure=False)
        return Known(None)

    def _boolop(self, node: ast.BoolOp, env: Env) -> Value:
        stop = isinstance(node.op, ast.Or)
        pure, unknown = True, False
        last: Value = Known(None)
        for operand in node.values:
            last = self.value(operand, env)
            truth = self.truth(operand, env)
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
        return _Unknown(pure=self._pure_children(node, env))

    def _ifexp(self, node: ast.IfExp, env: Env) -> Value:
        truth = self.truth(node.test, env)
        if truth is None:
            return _Unknown(pure=self._pure_children(node, env))
        return self.value(node.body if truth else node.orelse, env)

    def _namedexpr(self, node: ast.NamedExpr, env: Env) -> Value:
        env[node.target.id] = self.value(node.value, env)
        return env[node.target.id]

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        left, right = self.value(node.left, env), self.value(node.comparators[0], env)
        if len(node.ops) == 1:
            for one, other in ((left, right), (right, left)):
                if one is CLASS_NAME:
                    return self._class_test(node.ops[0], other, node.comparators[0])
            if isinstance(left, Known) and isinstance(right, Known):
                folded = _fold(node.ops[0], left.value, right.value)
                if folded is not None:
                    return Known(folded)
            is_none = [isinstance(side, Known) and side.value is None for side in (left, right)]
            if any(is_none) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                other = right if is_none[0] else left
                if other is MODEL:
                    return Known(isinstance(node.ops[0], ast.IsNot))
        return _Unknown(pure=self._pure_children(node, env))

    def _class_test(self, operator: ast.cmpop, other: Value, literal: ast.expr) -> Value:
        names: list[object] = []
        if isinstance(other, Known):
            names = [other.value]
        elif isinstance(literal, (ast.Tuple, ast.List, ast.Set)):
            names = [element.value if isinstance(element, ast.Constant) else None for element in literal.elts]
        if names and all(name in self.absence.class_names for name in names):
            return Known(isinstance(operator, (ast.NotEq, ast.NotIn, ast.IsNot)))
        return _Unknown()

    def truth(self, node: ast.expr, env: Env) -> bool | None:
        """Whether an expression is true; None if undecided. `a and absent` is false whatever a is."""
        if isinstance(node, ast.BoolOp):
            decisive = isinstance(node.op, ast.Or)
            undecided = False
            for operand in node.values:
                truth = self.truth(operand, env)
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
        return True if value is MODEL else None

    def block(self, body: Sequence[ast.stmt], env: Env) -> Left:
        """What is left of a block; raises _UndecidedError if more than constants is left."""
        left = Left()
        for statement in body:
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
            left.result = node.value
            left.value = Known(None) if node.value is None else self.value(node.value, env)
            if node.value is not None:
                self._no_effect(node.value, env)
        elif isinstance(node, ast.Try):
            inner = self.block(node.body, env)
            left.merge(inner)
            if not inner.returned:
                left.merge(self.block(node.orelse, env))
            final = self.block(node.finalbody, env)
            if final.returned or final.statements:
                raise _UndecidedError("a finally clause does something")
        elif isinstance(node, ast.For):
            self._no_effect(node.iter, env)
            for name in bound_names([node]):
                env[name] = _Unknown()
            if self.block(node.body, dict(env)).something or node.orelse:
                raise _UndecidedError("a loop does something")
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            env[node.name] = _Unknown(pure=False)
            left.locals[node.name] = ast.Name(node.name, ast.Load())
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            env.update({name: _Unknown() for name in bound_names([node])})
        elif isinstance(node, ast.Assert):
            if self.truth(node.test, env) is not True:
                raise _UndecidedError("an assertion is not decided")
        elif not isinstance(node, ast.Pass):
            raise _UndecidedError(f"a {type(node).__name__.lower()} is not decided")

    def _no_effect(self, node: ast.expr, env: Env) -> None:
        value = self.value(node, env)
        if isinstance(value, _Unknown) and not value.pure:
            raise _UndecidedError("it calls something")

    def _assign(self, node: ast.Assign | ast.AnnAssign, env: Env, left: Left) -> None:
        if node.value is None:
            return
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = self.value(node.value, env)
        self._no_effect(node.value, env)
        for target in targets:
            if isinstance(target, ast.Name):
                env[target.id] = value
                left.locals[target.id] = node.value
                continue
            if (
                not isinstance(target, ast.Attribute)
                or not isinstance(target.value, ast.Name)
                or target.value.id != self.receiver
                or not isinstance(value, Known)
            ):
                raise _UndecidedError("it assigns something else than a constant to the runner")
            name = target.attr
            absent = self.absence.state.get(name, _NOTHING)
            if absent == value.value or (absent == UNSET and value.value is None):
                left.settled[name] = value.value  # as it is without the adapter: saying so again does nothing
                continue
            left.statements.append(f"{self.receiver}.{name} = {value.value!r}")

    def _if(self, node: ast.If, env: Env, left: Left) -> None:
        truth = self.truth(node.test, env)
        if truth is not None:
            left.merge(self.block(node.body if truth else node.orelse, env))
            return
        self._no_effect(node.test, env)
        branches = [dict(env), dict(env)]
        lefts = [self.block(node.body, branches[0]), self.block(node.orelse, branches[1])]
        if any(branch.something for branch in lefts):
            raise _UndecidedError("a branch that the absence does not decide does something")
        for name in {*lefts[0].locals, *lefts[1].locals}:
            same = branches[0].get(name) == branches[1].get(name)
            env[name] = branches[0][name] if same else _Unknown()
            left.locals[name] = ast.Name(name, ast.Load())


@dataclass
class Left:
    """What is left of a block: assignments of constants to the runner, and how it returns."""

    statements: list[str] = field(default_factory=list)
    locals: dict[str, ast.expr] = field(default_factory=dict)
    settled: dict[str, object] = field(default_factory=dict)
    returned: bool = False
    result: ast.expr | None = None
    value: Value | None = None

    @property
    def something(self) -> bool:
        return bool(self.statements) or self.returned

    def merge(self, other: Left) -> None:
        self.statements.extend(other.statements)
        self.locals.update(other.locals)
        self.settled.update(other.settled)
        if other.returned:
            self.returned, self.result, self.value = True, other.result, other.value


def _instance_of(node: ast.expr) -> ast.expr | None:
    """`x` of `x.__class__` and of `type(x)`."""
    if isinstance(node, ast.Attribute) and node.attr == "__class__":
        return node.value
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "type" and len(node.args) == 1:
        return node.args[0]
    return None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _fold(operator: ast.cmpop, left: object, right: object) -> bool | None:
    if isinstance(operator, (ast.Is, ast.IsNot)) and (left is None or right is None or isinstance(left, bool)):
        return (left is right) == isinstance(operator, ast.Is)
    if isinstance(operator, (ast.Eq, ast.NotEq)):
        return (left == right) == isinstance(operator, ast.Eq)
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if isinstance(operator, ast.Gt):
            return left > right
        if isinstance(operator, ast.Lt):
            return left < right
        if isinstance(operator, ast.GtE):
            return left >= right
        if isinstance(operator, ast.LtE):
            return left <= right
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
        left = _Evaluator(absence, receiver).block(body, env)
    except _UndecidedError:
        return None
    return {name for name in left.locals if not isinstance(env.get(name), (Known, _Model))}


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
    names = argument_names(hook.args)
    receiver = names[1]
    env: Env = dict.fromkeys(aliases, MODEL)
    try:
        evaluator = _Evaluator(absence, receiver)
        left = evaluator.block(hook.body, env)
        lines = [f"{receiver}.{name} = {value!r}" for name, value in left.settled.items()] + left.statements
        if left.returned and left.result is not None:
            lines.append(f"return {_answer(left.result, env, set(names), evaluator)}")
        return lines
    except _UndecidedError:
        return None


def _answer(node: ast.expr, env: Env, parameters: set[str], evaluator: _Evaluator) -> str:
    """The source of an answer that is made of parameters and constants; raises _UndecidedError for anything else."""
    if isinstance(node, ast.Tuple):
        return ", ".join(_answer(element, env, parameters, evaluator) for element in node.elts)
    value = evaluator.value(node, env)
    if isinstance(value, Known):
        return repr(value.value)
    if isinstance(value, _Unknown) and isinstance(value.alias, ast.Name) and value.alias.id in parameters:
        return value.alias.id
    raise _UndecidedError("the answer is neither a parameter nor a constant")
