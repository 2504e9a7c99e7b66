"""Runs a method before and after, and says what can be told apart: result, exception, trace, attributes, arguments."""

from __future__ import annotations

import contextlib
import re
import types
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

INPUTS = ((0, 1, [1, 2]), (2, 3, [3]), (1, 0, [0, 4, 1]))


class Recorder:
    """Stands for a runner: whatever happens to it is in its trace."""

    def __init__(self) -> None:
        object.__setattr__(self, "trace", [])
        object.__setattr__(self, "fuel", 12)
        object.__setattr__(self, "n", 2)

    def __setattr__(self, name: str, value: Any) -> None:
        self.trace.append(("set", name, show(value)))
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self.trace.append(("del", name))
        object.__delattr__(self, name)

    def note(self, *values: Any, **named: Any) -> int:
        self.trace.append(("note", show(values), show(named)))
        return len(self.trace) % 4

    def risky(self, value: Any) -> Any:
        self.trace.append(("risky", show(value)))
        if len(self.trace) % 5 == 0:
            raise ValueError(value)
        return value

    def tick(self) -> bool:
        object.__setattr__(self, "fuel", self.fuel - 1)
        return self.fuel > 0

    def call(self, function: Callable[[], Any]) -> Any:
        self.trace.append("call")
        value = function()
        return value if isinstance(value, int) else 0

    def seen(self, error: Any) -> None:
        self.trace.append(("seen", _error(error)))

    @contextlib.contextmanager
    def cm(self, tag: int) -> Iterator[int]:
        self.trace.append(("enter", tag))
        try:
            yield tag
        except BaseException as error:
            self.trace.append(("failed", tag, _error(error)))
            raise
        finally:
            self.trace.append(("exit", tag))


def outcomes(method: str, *hooks: str) -> list[Any]:
    """What the method does on each of INPUTS, with these adapter methods (all sources dedented)."""
    namespace: dict[str, Any] = {"suppress": contextlib.suppress}
    exec(compile(method, "<method>", "exec"), namespace)
    functions = {}
    for hook in hooks:
        scope: dict[str, Any] = {"suppress": contextlib.suppress}
        exec(compile(hook, "<hook>", "exec"), scope)
        functions.update({k: v for k, v in scope.items() if isinstance(v, types.FunctionType)})
    adapter = type("Adapter", (), functions)
    runner = type("Runner", (Recorder,), {"method": namespace["method"]})
    return [_run(runner(), adapter(), a, b, [*xs]) for a, b, xs in INPUTS]


def _run(runner: Any, adapter: Any, a: Any, b: Any, xs: list[Any]) -> Any:
    object.__setattr__(runner, "_adapter", adapter)
    try:
        result = ("returned", settle(runner.method(a, b, xs)))
    except Exception as error:
        result = ("raised", _error(error), _error(error.__context__), _error(error.__cause__))
    state = {name: show(value) for name, value in vars(runner).items() if name not in ("_adapter", "trace")}
    return result, runner.trace, state, show(xs)


def settle(value: Any) -> Any:
    """A result with its functions called twice and its generators drained: shared variables show."""
    if isinstance(value, types.FunctionType):
        try:
            return ("function", settle(value()), settle(value()))
        except Exception as error:
            return ("function", _error(error))
    if isinstance(value, types.GeneratorType):
        try:
            return ("generator", [settle(item) for item in islice(value, 9)])
        except Exception as error:
            return ("generator", _error(error))
    if isinstance(value, (list, tuple)):
        return [settle(item) for item in value]
    return show(value)


def show(value: Any) -> Any:
    """A value as plain data, as it is now."""
    if isinstance(value, (list, tuple, set)):
        return [type(value).__name__, *(show(item) for item in list(value))]
    if isinstance(value, dict):
        return {key: show(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return type(value).__name__


def _error(error: Any) -> Any:
    if error is None or isinstance(error, int):
        return error
    if isinstance(error, NameError):
        return "NameError"
    return type(error).__name__, [
        re.sub(r"\w+\.<locals>\.", "", show(a)) if isinstance(a, str) else show(a) for a in error.args
    ]
