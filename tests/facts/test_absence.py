"""What a hook does for a model without the adapter: decided where it is proved, left to the hook where it is not."""

from __future__ import annotations

import ast
from random import Random

import pytest
from generated_hooks import ABSENCE, ALIASES, SIGNATURE, generate, outcome
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from omni_migrate.facts.absence import default_body, does_nothing, ends_method, folds

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of generated code: "is" with a literal


def body_of(code: str) -> list[str] | None:
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    function = ast.parse(f"def hook({SIGNATURE}):\n{lines}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return default_body(function, ABSENCE, ALIASES)


# (hook, its default: None where the absence does not decide it)
PROBES = [
    ("if hasattr(runner.model, 'cap'):\n    runner.note()", []),
    ("if getattr(model, 'cap', False):\n    runner.note()", []),
    ("if getattr(runner.get_model(), 'cap', None) is not None:\n    runner.note()", []),
    ("m = getattr(runner, 'model', None)\nif m is not None and hasattr(m, 'cap'):\n    runner.note()", []),
    ("if hasattr(model, 'cap') and model.cap:\n    runner.note()", []),
    ("if not hasattr(model, 'cap') or not model.cap:\n    return a\nrunner.note()\nreturn b", ["return a"]),
    ("if a and getattr(model, 'cap', None):\n    runner.note()", []),
    ("if callable(getattr(model, 'cap', None)):\n    runner.note()", []),
    ("return bool(getattr(model, 'cap', 0))", ["return False"]),
    ("return getattr(model, 'cap', a)", ["return a"]),
    ("f = getattr(model, 'cap', None)\nreturn f(a) if f is not None else b", ["return b"]),
    ("if (f := getattr(model, 'cap', None)) is not None:\n    return f(a)\nreturn f", ["return None"]),
    # a read that would raise is not decided, wherever it stands
    ("return model.cap", None),
    ("return getattr(model, 'cap')", None),
    ("if a and model.cap:\n    runner.note()", None),
    ("if model.cap and hasattr(model, 'cap'):\n    runner.note()", None),
    ("model.cap(a)", None),
    ("try:\n    a = model.cap\nexcept AttributeError:\n    runner.note()", None),
    ("for x in a:\n    model = model.cap", None),
    ("model = a\nreturn getattr(model, 'cap')", None),
    # neither is what another adapter answers for
    ("if hasattr(model, 'other'):\n    runner.note()", None),
    ("if hasattr(a, 'cap'):\n    runner.note()", None),
    # nor the model's name once it holds something else
    ("model = a\nif hasattr(model, 'cap'):\n    runner.note()", None),
    ("for m in [a]:\n    pass\nif hasattr(m, 'cap'):\n    runner.note()", None),
]

CLASS_TESTS = [
    ("if model.__class__.__name__ == 'Special':\n    runner.note()", []),
    ("if type(runner.model).__name__ in ('Special', 'Other'):\n    runner.note()", []),
    ("if 'Special' != type(model).__name__:\n    return a\nrunner.note()", ["return a"]),
    ("name = type(model).__name__\nif name not in ['Other']:\n    return a\nrunner.note()", ["return a"]),
    # one of the names is another adapter's
    ("if type(model).__name__ in ('Special', 'Third'):\n    runner.note()", None),
    # a subclass has another name
    ("if isinstance(model, Special):\n    runner.note()", None),
    ("if isinstance(model, (Special, models.Other)):\n    runner.note()", None),
    # part of a name is other classes' too
    ("if 'Special' in type(model).__name__:\n    runner.note()", None),
    ("if type(model).__name__ in 'Special':\n    runner.note()", None),
    ("if type(model).__name__.startswith('Special'):\n    runner.note()", None),
    ("if type(model).__name__ > 'Special':\n    runner.note()", None),
]

STATE = [
    ("if runner.ready:\n    runner.note()", []),
    ("if getattr(runner, 'ready', True):\n    runner.note()", []),
    ("if hasattr(runner, 'buffer'):\n    runner.note()", []),
    ("return getattr(runner, 'buffer', None)", ["return None"]),
    ("return runner.buffer", None),
    # what the hook sets is set by the default too, in order, and read as set
    ("runner.ready = False\nif hasattr(model, 'cap'):\n    runner.ready = True", ["runner.ready = False"]),
    ("runner.ready = True\nrunner.ready = False", ["runner.ready = True", "runner.ready = False"]),
    ("runner.ready = True\nif runner.ready:\n    runner.note()", None),
    ("runner.buffer = None\nif hasattr(runner, 'buffer'):\n    runner.note()", None),
    ("runner.buffer = None\nreturn runner.buffer", ["runner.buffer = None", "return None"]),
    ("if a:\n    runner.ready = False", None),
    ("for x in a:\n    runner.ready = False", None),
    ("runner.ready = a", None),
    ("return getattr(runner, 'ready', runner.note())", None),
    ("return getattr(runner, 'ready', model.cap)", None),
    ("runner.model = None", None),
]

ANSWERS = [
    ("return", []),
    ("pass", []),
    ("return None", ["return None"]),
    ("return -1", ["return -1"]),
    ("return 1e999", ["return 1e309"]),
    ("return a, b", ["return a, b"]),
    ("return ()", ["return ()"]),
    ("return a,", ["return a,"]),
    ("return 'next', ()", ["return 'next', ()"]),
    ("return (a, (b,)), None", ["return (a, (b,)), None"]),
    ("return [a]", None),
    ("return a.x", None),
    ("return runner", ["return runner"]),
    # a parameter that was given another value is not the parameter
    ("a = a + 1\nreturn a", None),
    ("a = b\nreturn a", ["return b"]),
    ("x = a\na = None\nreturn x, a", ["return a, None"]),
    ("if b:\n    a = 0\nelse:\n    a = False\nreturn a", None),
    ("if b and (a := 1):\n    pass\nreturn a", None),
    ("if b:\n    if (a := 1):\n        pass\nreturn a", None),
    ("x = (a := 1) if b else 0\nreturn a", None),
    ("x = b < 1 < (a := 1)\nreturn a", None),
    ("for a in b:\n    pass\nreturn a", None),
    ("x = [(a := c) for c in b]\nreturn a", None),
    ("import math as a\nreturn a", None),
    ("try:\n    return a\nfinally:\n    a = 1", ["return a"]),
    ("try:\n    x = b.c\nexcept ValueError:\n    a = None\nreturn a", None),
    ("try:\n    x = b.c\nexcept ValueError as a:\n    pass\nreturn a", None),
]

EFFECTS = [
    ("runner.note()", None),
    ("a.append(1)", None),
    ("x = runner.queue.get()", None),
    ("x = a.get('key', None)", []),
    ("x = sorted(a, key=runner.note)", None),
    ("x = getattr(model, 'cap', runner.note())", None),
    ("if runner.note() and hasattr(model, 'cap'):\n    pass", None),
    ("a[0] = 1", None),
    ("a += 1", None),
    ("del a", None),
    ("global g\ng = 1", None),
    ("raise ValueError", None),
    ("assert a", None),
    ("assert not hasattr(model, 'cap')", []),
    ("with a:\n    pass", None),
    ("while a:\n    pass", None),
    ("for x in a:\n    runner.note()", None),
    ("for x in a:\n    if hasattr(model, 'cap'):\n        runner.note()", []),
    ("last = None\nfor x in a:\n    if last is not None:\n        runner.note()\n    last = x", None),
    ("for x in a:\n    return x", None),
    ("if a:\n    return b", None),
    ("x = lambda: runner.note()", []),
    ("def inner():\n    runner.note()", []),
    ("def inner(x=runner.note()):\n    pass", None),
    ("@runner.note\ndef inner():\n    pass", None),
    ("class Inner:\n    runner.note()", None),
    ("def len(x):\n    runner.note()\nx = len(a)", None),
    ("x = yield", None),
    ("return [runner.note() if hasattr(model, 'cap') else 0 for model in a]", None),
    # it raises, always or maybe
    ("x = None\nx = x[0]", None),
    ("x = None + a", None),
    ("x = None < a", None),
    ("x = a in None", None),
    ("x = len(None)", None),
    ("x = [c for c in None]", None),
    ("for x in None:\n    pass", None),
    ("x = (*None,)", None),
    ("x = None\nx = x.y", None),
    ("try:\n    x = int(a)\nexcept ValueError:\n    runner.note()", None),
    ("try:\n    x = a.b\n    runner.other = 1\nexcept ValueError:\n    pass", None),
    ("try:\n    x = a.b\nexcept ValueError:\n    return b", None),
    ("try:\n    x = a.b\nexcept ValueError:\n    raise", None),
    ("try:\n    if hasattr(model, 'cap'):\n        runner.note()\nexcept ValueError:\n    runner.note()", []),
    ("try:\n    pass\nfinally:\n    runner.note()", None),
    ("return isinstance(None, object)", None),
    ("return isinstance(None, (dict, type(None)))", None),
    ("return isinstance(None, dict)", ["return False"]),
]

HELPERS = [
    ("if runner._has('cap'):\n    runner.note()", []),
    ("if runner._has('other'):\n    runner.note()", None),
    ("return runner._flag(model, 'cap')", ["return False"]),
    ("return runner._flag(model, 'cap', a)", ["return a"]),
    ("return runner._flag(name='cap', default=a, model=model)", ["return a"]),
    ("return runner._flag(None, 'cap', strict=b)", ["return b"]),
    ("return runner._static(model)", ["return None"]),
    ("return runner._nested(a)", ["return a"]),
    # a helper's global has nothing to do with a parameter of that name
    ("return runner._global()", None),
    # arguments that have an effect, or that cannot be placed
    ("return runner._flag(model, 'cap', strict=runner.note())", None),
    ("return runner._flag(*a)", None),
    ("return runner._flag(model, 'cap', **a)", None),
    ("return runner._flag(model, 'cap', a, b)", None),
    ("return runner._flag(model, 'cap', unknown=a)", None),
    # helpers that do something, or that aren't what their body says
    ("return runner._guarded()", None),
    ("return runner._effect()", None),
    ("return runner._resets()", None),
    ("return runner._starts()", None),
    ("return runner._yields()", None),
    ("return runner._decorated()", None),
]


@pytest.mark.parametrize(("hook", "default"), PROBES + CLASS_TESTS + STATE + ANSWERS + EFFECTS + HELPERS)
def test_default_of_a_hook(hook, default):
    assert body_of(hook) == default


@pytest.mark.parametrize("hook", ["async def hook(self, runner):\n    pass", "def hook(self, runner):\n    yield"])
def test_coroutines_and_generators_have_no_default(hook):
    assert default_body(ast.parse(hook).body[0], ABSENCE) is None


def test_a_list_of_the_runner_is_not_answered_with_an_equal_one():
    absence = type(ABSENCE)(ABSENCE.capabilities, state={"queue": []})
    assert default_body(ast.parse("def hook(self, runner):\n    return runner.queue").body[0], absence) is None


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_default_does_what_the_hook_does_for_a_model_without_the_adapter(rng, truth):
    hook = generate(rng)
    note(hook)
    lines = default_body(ast.parse(hook).body[0], ABSENCE, ALIASES)
    assume(lines is not None)
    default = f"def hook({SIGNATURE}):\n" + ("".join(f"    {line}\n" for line in lines) or "    pass\n")
    note(default)
    try:
        expected = outcome(hook, truth)
    except TypeError:
        assume(False)  # it adds up things that don't add up, whatever the model is
    assert outcome(default, truth) == expected


def test_share_of_generated_hooks_that_have_a_default():
    hooks = [ast.parse(generate(Random(seed), 4)).body[0] for seed in range(300)]
    decided = sum(default_body(hook, ABSENCE, ALIASES) is not None for hook in hooks)
    assert decided > len(hooks) / 4


@pytest.mark.parametrize(
    ("block", "values"),
    [
        ("if hasattr(self.model, 'cap'):\n    self.note()", set()),
        ("x = getattr(self.model, 'cap', None)", set()),
        ("x = self.n", {"x"}),
        ("self.ready = False", set()),
        ("self.other = 0", set()),
        ("for last in self.items:\n    pass", {"last"}),
        ("import math", {"math"}),
        ("def inner():\n    pass", {"inner"}),
        ("if hasattr(self.model, 'cap'):\n    x = self.n", set()),
        ("if self.n:\n    x = None", {"x"}),
        ("self.note()", None),
        ("return self.n", set()),
    ],
)
def test_locals_that_a_block_gives_a_value_that_is_not_constant(block, values):
    assert does_nothing(ast.parse(block).body, "self", ABSENCE) == values


@pytest.mark.parametrize(
    ("block", "ends"),
    [
        ("if not hasattr(self.model, 'cap'):\n    return None", True),
        ("if hasattr(self.model, 'cap'):\n    return None", False),
        ("x = 1", False),
    ],
)
def test_guard_that_returns_without_the_adapter(block, ends):
    assert ends_method(ast.parse(block).body, "self", ABSENCE) is ends


@pytest.mark.parametrize(
    ("expression", "decided"),
    [
        ("hasattr(self.model, 'cap')", True),
        ("self.n and hasattr(self.model, 'cap')", True),
        ("self.n or hasattr(self.model, 'cap')", False),
        ("self.model.cap", False),
        ("self.ready", True),
    ],
)
def test_expressions_that_the_absence_decides(expression, decided):
    assert folds(ast.parse(expression, mode="eval").body, "self", ABSENCE) is decided
