"""What `move_method` makes of a method, before and after; what it leaves alone comes first."""

from __future__ import annotations

import pytest

from codemods.move_method import MovedMethod, move_method
from omni_migrate.facts.flow import Refusal

# -- left alone


@pytest.mark.parametrize(
    ("reason", "source"),
    [
        ("the function has no receiver, or takes it by position only", "def f():\n    pass\n"),
        ("the function has no receiver, or takes it by position only", "def f(self, /):\n    pass\n"),
        ("@staticmethod changes what the method is called on", "@staticmethod\ndef f(a):\n    pass\n"),
        ("@property changes what the method is called on", "@property\ndef f(self):\n    return 1\n"),
        ("@setter changes what the method is called on", "@f.setter\ndef f(self, x):\n    self.x = x\n"),
        ("it yields or awaits", "def f(self):\n    yield 1\n"),
        ("it yields or awaits", "async def f(self):\n    return 1\n"),
        ("it reads super, which means another class once it is moved", "def f(self):\n    super().f()\n"),
        ("__x is mangled with the name of its class", "def f(self):\n    return self.__x\n"),
        ("it rebinds self", "def f(self, a):\n    self = a\n"),
        ("it rebinds n of an outer scope", "def f(self):\n    global n\n    n = 1\n"),
        ("it already calls _adapter.hook", "def f(self, x):\n    return self._adapter.hook(self, x)\n"),
    ],
)
def test_refused(reason, source):
    refusal = move_method(source, "hook")
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason


def test_a_nested_generator_is_no_reason_to_refuse():
    assert isinstance(move_method("def f(self):\n    def g():\n        yield 1\n    return g\n", "hook"), MovedMethod)


# -- moved


def test_code_comments_decorators_and_annotations_go_and_a_delegate_stays():
    moved = move_method(
        '''\
# above

# and nearer
@torch.inference_mode()
# between
def talker(
    self: "Runner",
    ids: list[int],  # rows
    # a line of its own
    embeds=None,
) -> tuple:  # head
    """Runs the talker."""
    # lead
    with self.context(
        ids,  # inside
    ):
        return self.model.talker(ids, self=self)  # trailing
    # foot
# after
''',
        "hook",
    )
    assert (
        moved.delegate
        == """\
def talker(
    self: "Runner",
    ids: list[int],
    embeds=None,
) -> tuple:
    return self._adapter.hook(self, ids, embeds)
"""
    )
    assert (
        moved.hook
        == '''\
# above
# and nearer
@torch.inference_mode()
# between
def hook(
    self, runner: "Runner",
    ids: list[int],  # rows
    # a line of its own
    embeds=None,
) -> tuple:  # head
    """Runs the talker."""
    # lead
    with runner.context(
        ids,  # inside
    ):
        return runner.model.talker(ids, self=runner)  # trailing
    # foot
# after
'''
    )


@pytest.mark.parametrize(
    ("signature", "arguments"),
    [
        ("self", "self"),
        ("self, a, b=1", "self, a, b"),
        ("self, *args, **kwargs", "self, *args, **kwargs"),
        ("self, a, *, b, c=2", "self, a, b=b, c=c"),
        ("self, *args, b, **kwargs", "self, *args, b=b, **kwargs"),
    ],
)
def test_the_delegate_passes_every_argument_on(signature, arguments):
    moved = move_method(f"def f({signature}):\n    return 1\n", "hook")
    assert moved.delegate == f"def f({signature}):\n    return self._adapter.hook({arguments})\n"
    assert moved.hook == f"def hook({signature.replace('self', 'self, runner')}):\n    return 1\n"


def test_a_long_call_is_broken():
    moved = move_method("def f(self, first, second):\n    return 1\n", "hook", line_length=50)
    assert moved.delegate.endswith("    return self._adapter.hook(\n        self, first, second\n    )\n")


def test_names_that_are_taken_are_not_used_again():
    moved = move_method("def f(this, self, runner):\n    return this.g(self, runner)\n", "hook")
    assert moved.hook == "def hook(adapter, model_runner, self, runner):\n    return model_runner.g(self, runner)\n"


def test_line_ends_tabs_and_strings_are_kept():
    source = 'def f(self, größe):\r\n\tx = """ü\r\n self"""\r\n\tif x: return self.y\r\n'
    moved = move_method(source, "hook")
    assert moved.delegate == "def f(self, größe):\r\n\treturn self._adapter.hook(self, größe)\r\n"
    assert moved.hook == ('def hook(self, runner, größe):\r\n\tx = """ü\r\n self"""\r\n\tif x: return runner.y\r\n')
