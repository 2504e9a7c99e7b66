"""What `extract_expression` makes of a method, before and after; what it leaves alone comes first."""

from __future__ import annotations

import pytest
from running import outcomes

from codemods.extract_expression import Span, extract_expression
from codemods.move_block import Moved
from omni_migrate.facts.flow import Refusal


def span_between(source: str) -> tuple[str, Span]:
    """The source without its two `$`, and what stood between them."""
    first, last = source.index("$"), source.index("$", source.index("$") + 1)
    places = []
    for text in (source[:first], source[:last].replace("$", "")):
        lines = text.replace("\r\n", "\n").split("\n")
        places += [len(lines), len(lines[-1].encode())]
    return source.replace("$", ""), (places[0], places[1], places[2], places[3])


def extract(source: str, **options: str) -> Moved | Refusal:
    return extract_expression(*span_between(source), "hook", **options)


# -- left alone


@pytest.mark.parametrize(
    ("reason", "source"),
    [
        ("the function has no receiver", "def f():\n    return $g()$\n"),
        ("the function has no receiver", "@staticmethod\ndef f(x):\n    return $g(x)$\n"),
        ("no expression stands there", "def f(self):\n    return self$.g$\n"),
        ("it binds a name, yields or awaits", "def f(self):\n    return ($x := 1$)\n"),
        ("it binds a name, yields or awaits", "def f(self):\n    x = ($yield$)\n"),
        ("it is assigned to", "def f(self):\n    $self.x$ = 1\n"),
        ("it stands in an f-string", "def f(self):\n    return f'{$self.x$}'\n"),
        ("it already calls _adapter.hook", "def f(self):\n    return $self._adapter.hook(self)$\n"),
        ("a call cannot stand in its place", "def f(self, a):\n    return a[$1:2$]\n"),
        ("a call cannot stand in its place", "def f(self, a):\n    return self.g($*a$)\n"),
        (
            "a call cannot stand in its place",
            "def f(self, a):\n    match a:\n        case $self.X$:\n            pass\n",
        ),
        ("the method rebinds self", "def f(self, a):\n    self = a\n    return $self.x$\n"),
        ("x may be unbound where the expression stands", "def f(self, a):\n    if a: x = 1\n    return $self.g(x)$\n"),
        (
            "x is rebound by a nested function",
            "def f(self):\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    return $self.h(g(), x)$\n",
        ),
        (
            "x is shared with a function that outlives the expression",
            "def f(self):\n    x = 1\n    g = $lambda: x$\n    x = 2\n    return g\n",
        ),
        (
            "x may be unbound where the expression stands",
            "def f(self, x):\n    return lambda: $self.g(x)$\n",
        ),
        (
            "y may be unbound where the expression stands",
            "def f(self):\n    def g(y):\n        del y\n        return $self.h(y)$\n    return g\n",
        ),
        (
            "y may be unbound where the expression stands",
            "def f(self):\n    return lambda x: [y for y in x if $self.h(y)$]\n",
        ),
        (
            "self is something else in the nested function",
            "def f(self):\n    return lambda self: $self.x$\n",
        ),
        (
            "it reads super, which means another class once it is moved",
            "def f(self):\n    return $super().f()$\n",
        ),
    ],
)
def test_refused(reason, source):
    refusal = extract(source)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason


# -- moved


@pytest.mark.parametrize(
    ("source", "method", "hook"),
    [
        pytest.param(
            "def f(self):\n    if a: b()\n    elif $getattr(self.model, 'has_mtp', False)$:  # why\n        c()\n",
            "def f(self):\n    if a: b()\n    elif self._adapter.hook(self):  # why\n        c()\n",
            "def hook(self, runner):\n    return getattr(runner.model, 'has_mtp', False)\n",
            id="a probe",
        ),
        pytest.param(
            "def f(self, b, a):\n    return self.g($a + b$)\n",
            "def f(self, b, a):\n    return self.g(self._adapter.hook(self, b, a))\n",
            "def hook(self, runner, b, a):\n    return a + b\n",
            id="locals in the order of the signature",
        ),
        pytest.param(
            "def f(self, xs):\n    return [$self.g(i, xs)$ for i in xs]\n",
            "def f(self, xs):\n    return [self._adapter.hook(self, xs, i) for i in xs]\n",
            "def hook(self, runner, xs, i):\n    return runner.g(i, xs)\n",
            id="the target of a comprehension",
        ),
        pytest.param(
            "def f(self, x):\n    return lambda y: x + y if $hasattr(self.model, y)$ else x\n",
            "def f(self, x):\n    return lambda y: x + y if self._adapter.hook(self, y) else x\n",
            "def hook(self, runner, y):\n    return hasattr(runner.model, y)\n",
            id="in a lambda",
        ),
        pytest.param(
            "def f(self):\n    x = 1\n    def g():\n        nonlocal x\n        if $self.model.a$:\n"
            "            x = 2\n",
            "def f(self):\n    x = 1\n    def g():\n        nonlocal x\n        if self._adapter.hook(self):\n"
            "            x = 2\n",
            "def hook(self, runner):\n    return runner.model.a\n",
            id="in a nested function",
        ),
        pytest.param(
            "def f(self, größe):\n    é = 'ü' + $self.g(größe)$ + 'ö'\n",
            "def f(self, größe):\n    é = 'ü' + self._adapter.hook(self, größe) + 'ö'\n",
            "def hook(self, runner, größe):\n    return runner.g(größe)\n",
            id="columns after text that is not ASCII",
        ),
        pytest.param(
            "def f(self, a):\n    x = '\x0c\u2028'\n    return $self.g(a)$\n",
            "def f(self, a):\n    x = '\x0c\u2028'\n    return self._adapter.hook(self, a)\n",
            "def hook(self, runner, a):\n    return runner.g(a)\n",
            id="characters that split lines for str but not for Python",
        ),
        pytest.param(
            "def f(self, a):\n    if (\n        $self.b  # one\n        and a$  # two\n    ):\n        pass\n",
            "def f(self, a):\n    if (\n        self._adapter.hook(self, a)  # two\n    ):\n        pass\n",
            "def hook(self, runner, a):\n    return (runner.b  # one\n        and a)\n",
            id="several lines, with a comment inside",
        ),
        pytest.param(
            "def f(self, xs):\n    return any$(self.g(i) for i in xs)$\n",
            "def f(self, xs):\n    return any(self._adapter.hook(self, xs))\n",
            "def hook(self, runner, xs):\n    return (runner.g(i) for i in xs)\n",
            id="a generator that shares its parentheses with the call",
        ),
        pytest.param(
            "def f(self, a):\n    if$[a]$:\n        return 1\n",
            "def f(self, a):\n    if(self._adapter.hook(self, a)):\n        return 1\n",
            "def hook(self, runner, a):\n    return [a]\n",
            id="no space before it",
        ),
        pytest.param(
            "def f(self, a):\n    return $a, self.b$\n",
            "def f(self, a):\n    return self._adapter.hook(self, a)\n",
            "def hook(self, runner, a):\n    return a, runner.b\n",
            id="a tuple without parentheses",
        ),
        pytest.param(
            'def f(self):\r\n    if a: return $self.g("""x\r\ny""")$\r\n    return 1\r\n',
            "def f(self):\r\n    if a: return self._adapter.hook(self)\r\n    return 1\r\n",
            'def hook(self, runner):\r\n    return (runner.g("""x\r\ny"""))\r\n',
            id="CRLF, a string of two lines, a suite on the line of its header",
        ),
        pytest.param(
            "def f(self, runner):\n\tx = runner; y = $self.g(runner, self=self)$\n",
            "def f(self, runner):\n\tx = runner; y = self._adapter.hook(self, runner)\n",
            "def hook(self, model_runner, runner):\n    return model_runner.g(runner, self=model_runner)\n",
            id="a tab, two statements of a line, a local named runner",
        ),
    ],
)
def test_extracted(source, method, hook):
    moved = extract(source)
    assert isinstance(moved, Moved), moved
    assert (moved.method, moved.hook) == (method, hook)


def test_the_docstring_says_what_is_asked():
    moved = extract("def f(self):\n    return $self.x$\n", docstring="Whether it is so.")
    assert moved.hook == 'def hook(self, runner):\n    """Whether it is so."""\n    return runner.x\n'


@pytest.mark.parametrize(
    "source",
    [
        "def method(self, a, b, xs):\n    i = 7\n    return [$i + a$ for i in xs], i\n",
        "def method(self, a, b, xs):\n    return [j for i in xs for j in $range(i + b)$ if j]\n",
        "def method(self, a, b, xs):\n    return [[$i + j$ for j in xs] for i in xs]\n",
        "def method(self, a, b, xs):\n    x = 1\n    g = ($x + i$ for i in xs)\n    x = 5\n    return g\n",
        "def method(self, a, b, xs):\n    return a and $self.risky(b)$ or self.note(a)\n",
        "def method(self, a, b, xs):\n    while $self.tick() and a < 9$:\n        a += 1\n    return a\n",
    ],
)
def test_it_is_evaluated_when_and_as_often_as_before(source):
    moved = extract(source)
    assert isinstance(moved, Moved), moved
    assert outcomes(moved.method, moved.hook) == outcomes(source.replace("$", ""))
