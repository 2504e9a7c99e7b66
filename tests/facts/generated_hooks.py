"""Random adapter methods that probe a model, and running them with a model that answers no probe.

`generate(rng)` takes anything with the methods of `random.Random`, so that hypothesis can shrink what it draws.
Everything but the model answers whatever it is asked: only a probe of what is not there can raise.
"""

from __future__ import annotations

import ast
import types
from random import Random
from typing import Any

from omni_migrate.facts.absence import UNSET, Absence

SIGNATURE = "self, runner, model, a, b=None"

HELPERS = """
def _has(self, name):
    return hasattr(self.model, name)

def _flag(self, model, name, default=False, *, strict=None):
    if model is None:
        return strict
    value = getattr(model, name, default)
    return value

@staticmethod
def _static(model, name="cap"):
    return getattr(model, name, None)

def _global(self):
    return b

def _guarded(self):
    try:
        value = self.n[0]
    except KeyError:
        return True
    return None

def _effect(self, value=None):
    self.note(value)

def _resets(self):
    self.ready = False

def _starts(self):
    self.ready = True

def _yields(self):
    if hasattr(self.model, "cap"):
        yield 1

@decorated
def _decorated(self):
    return False

def _nested(self, default):
    return self._flag(self.model, "cap", default=default)
"""

_FUNCTIONS = {node.name: node for node in ast.parse(HELPERS).body if isinstance(node, ast.FunctionDef)}
ABSENCE = Absence(
    capabilities=frozenset({"cap", "batch_cap"}),
    class_names=frozenset({"Special", "Other"}),
    state={"ready": False, "buffer": UNSET},
    helpers=_FUNCTIONS,
)
ALIASES = frozenset({"model"})


def generate(rng: Random, statements: int = 7) -> str:
    """One `def hook(self, runner, model, a, b=None)`."""
    return _Writer(rng, statements).hook()


class _Writer:
    def __init__(self, rng: Random, statements: int) -> None:
        self.rng, self.left = rng, statements

    def hook(self) -> str:
        lines = ["x = a", "y = None", "m = runner.model", *self.block(0)]
        return f"def hook({SIGNATURE}):\n" + "".join(f"    {line}\n" for line in lines)

    def block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 3)):
            if self.left > 0:
                self.left -= 1
                lines += self.statement(depth)
        return lines or ["pass"]

    def inner(self, head: str, depth: int) -> list[str]:
        return [head, *(f"    {line}" for line in self.block(depth + 1))]

    def statement(self, depth: int) -> list[str]:
        kinds = ["assign", "assign", "set", "return", "expression", "if", "if", "if", "import", "define"]
        if depth < 3:
            kinds += ["if", "else", "for", "try", "finally", "elif"]
        kind = self.rng.choice(kinds)
        if kind == "assign":
            return [f"{self.name()} = {self.expression()}"]
        if kind == "set":
            constant = self.rng.choice(["None", "False", "True", "0", "x"])
            return [f"runner.{self.rng.choice(['ready', 'ready', 'buffer', 'other'])} = {constant}"]
        if kind == "return":
            return [f"return {self.rng.choice([self.expression, self.name, self.pair])()}"]
        if kind == "expression":
            return [self.expression()]
        if kind == "import":
            return ["import math as y"]
        if kind == "define":
            return (
                self.inner("def inner(p=1):", 3) if self.rng.random() < 0.5 else [f"inner = lambda p: {self.probe(1)}"]
            )
        if kind == "for":
            return self.inner(
                f"for {self.rng.choice('xyv')} in {self.rng.choice(['runner.items', 'a', self.probe(1)])}:", depth
            )
        if kind == "try":
            tried = self.inner("try:", depth)
            return [
                *tried,
                *self.inner(f"except {self.rng.choice(['AttributeError', 'Exception', 'Exception as x'])}:", depth),
            ]
        if kind == "finally":
            return [*self.inner("try:", depth), *self.inner("finally:", depth)]
        lines = self.inner(f"if {self.test()}:", depth)
        if kind == "elif":
            lines += self.inner(f"elif {self.test()}:", depth)
        if kind in ("else", "elif"):
            lines += self.inner("else:", depth)
        return lines

    def name(self) -> str:
        return self.rng.choice(["x", "y", "a", "b", "m", "model"])

    def pair(self) -> str:
        parts = [
            self.rng.choice([self.name(), "None", "'next'", "()", "(x, y)", "1.5"])
            for _ in range(self.rng.randint(1, 3))
        ]
        return f"({', '.join(parts)},)"

    def test(self) -> str:
        return self.rng.choice([self.probe(1), self.probe(1), self.expression()])

    def model(self) -> str:
        return self.rng.choice(["runner.model", "model", "m", 'getattr(runner, "model", None)', "runner.get_model()"])

    def probe(self, depth: int) -> str:
        model, name = self.model(), self.rng.choice(["cap", "cap", "batch_cap", "known"])
        value = self.expression(depth + 1)
        named = self.rng.choice([f"{model}.__class__.__name__", f"type({model}).__name__"])
        return self.rng.choice([
            f'hasattr({model}, "{name}")', f'getattr({model}, "{name}", False)', f'getattr({model}, "{name}", {value})',
            f'getattr({model}, "{name}")', f"{model}.{name}", f'callable(getattr({model}, "{name}", None))',
            f'hasattr({model}, "{name}") and {model}.{name}', f"{model}.{name}({value})",
            f'{named} == "Special"', f'{named} in ("Special", "Other")', f'{named} not in ["Special"]',
            f'"Other" != {named}', f'"l" in {named}', f'{named} in "Special"', f"isinstance({model}, Special)",
            f"isinstance({model}, (Special, dict))", "runner.ready", 'getattr(runner, "ready", True)',
            'hasattr(runner, "buffer")', f'getattr(runner, "buffer", {value})', "runner.buffer",
            f'runner._has("{name}")', f'runner._flag({model}, "{name}")',
            f'runner._flag({model}, name="{name}", default={value})',
            f'runner._flag({self.name()}, "{name}", strict={value})', f'runner._static({model})', "runner._global()",
            f'runner._flag(*[{model}, "{name}"])', "runner._guarded()", f"runner._effect({value})", "runner._resets()",
            "runner._starts()", "runner._yields()", "runner._decorated()", f"runner._nested({value})",
            f'runner._flag({model}, "{name}", **runner.named)',
        ])  # fmt: skip

    def expression(self, depth: int = 0) -> str:
        if depth > 2:
            return self.rng.choice(["None", "False", "0", "1", "x", "y", "a", "runner.n", '"cap"', "m"])
        one, two = (lambda: self.expression(depth + 1)), (lambda: self.expression(depth + 1))
        return self.rng.choice([
            lambda: self.expression(3), lambda: self.expression(3), lambda: self.probe(depth + 1),
            lambda: self.probe(depth + 1), lambda: f"(not {one()})", lambda: f"({one()} and {two()})",
            lambda: f"({one()} or {two()})", lambda: f"({one()} if {self.probe(depth + 1)} else {two()})",
            lambda: f"({one()} == {two()})", lambda: f"({one()} is None)", lambda: f"({self.name()} := {one()})",
            lambda: f"runner.note({one()})", lambda: f"[{one()} for v in runner.items if {two()}]",
            lambda: f"sorted(runner.items, key={self.rng.choice(['runner.note', 'lambda a: ' + one()])})",
            lambda: f"runner.d.get({one()}, {two()})", lambda: f"bool({one()})", lambda: f"({one()}, {two()})",
            lambda: f"isinstance({one()}, {self.rng.choice(['Special', 'object', '(Special, type(None))'])})",
            lambda: f"a.call({one()})", lambda: "runner.queue.get()", lambda: f"(runner.n < {one()} < {two()})",
            lambda: f"f'{{{self.rng.choice('xy')}}}'", lambda: f"a[{one()}]",
        ])()  # fmt: skip


class Thing:
    """A value that answers whatever it is asked; `truth` is what all of them are in a test."""

    truth = True

    def __init__(self, name: str, trace: list[Any]) -> None:
        self.__dict__.update(name_=name, trace_=trace)

    def __getattr__(self, name: str) -> Thing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing(f"{self.name_}.{name}", self.trace_)

    def __call__(self, *values: Any, **named: Any) -> Thing:
        if self.name_.endswith(".get") and values:
            return Thing(f"{self.name_}()", self.trace_)
        self.trace_.append((self.name_, show(values), show(named)))
        return Thing(f"{self.name_}()", self.trace_)

    def __getitem__(self, key: Any) -> Thing:
        return Thing(f"{self.name_}[{show(key)}]", self.trace_)

    def __iter__(self) -> Any:
        return iter([Thing(f"{self.name_}/1", self.trace_)])

    def __bool__(self) -> bool:
        return type(self).truth

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 0

    def __lt__(self, other: object) -> bool:
        return type(self).truth

    __gt__ = __lt__


class Plain:
    """The class of a model without an adapter."""

    known = 1


class Special:
    pass


def outcome(source: str, truth: bool) -> Any:
    """What an adapter method (`hook`) answers, and what it does to the runner and to its arguments."""
    trace: list[Any] = []
    Thing.truth = truth
    namespace: dict[str, Any] = {
        "Special": Special,
        "b": Thing("global b", trace),
        "decorated": lambda function: lambda self: True,
    }
    exec(
        "from __future__ import annotations\nclass Runner:\n"
        + "".join(f"    {line}\n" for line in HELPERS.splitlines()),
        namespace,
    )
    exec(source, namespace)
    runner = namespace["Runner"]()
    model = Plain()
    vars(runner).update(
        model=model, ready=False, n=Thing("n", trace), d=Thing("d", trace), queue=Thing("queue", trace), named={},
        items=[Thing("one", trace), Thing("two", trace)], get_model=lambda: model, note=Thing("note", trace),
    )  # fmt: skip
    result = namespace["hook"](None, runner, model, Thing("a", trace), Thing("b", trace))
    return show(result), trace, {name: show(value) for name, value in vars(runner).items()}


def show(value: Any) -> Any:
    """A value as plain data; functions, modules and generators by their kind."""
    if isinstance(value, Thing):
        return f"<{value.name_}>"
    if isinstance(value, (list, tuple, set)):
        return [type(value).__name__, *map(show, value)]
    if isinstance(value, dict):
        return {key: show(item) for key, item in value.items()}
    if isinstance(value, types.GeneratorType):
        return "generator"
    return (type(value).__name__, value) if isinstance(value, (bool, int, float, str)) else type(value).__name__
