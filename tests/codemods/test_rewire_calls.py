"""Calls of a moved method go to the adapter; whatever else mentions it stays."""

from __future__ import annotations

import pytest

from codemods.rewire_calls import rewire_calls

TARGETS = {"_moved": "hook"}


def rewired(body: str, **options) -> str:
    return rewire_calls(f"def method(self, a):\n    {body}\n", "self", TARGETS, **options).split("\n", 1)[1].strip()


@pytest.mark.parametrize(
    "body",
    [
        "return a",
        "return self._moved",
        "call(self._moved)",
        "super()._moved(a)",
        "other._moved(a)",
        "self.other._moved(a)",
        "self._adapter._moved(a)",
        "_moved(a)",
        "self._moved.cache(a)",
    ],
)
def test_stays(body):
    assert rewired(body) == body


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self._moved()", "self._adapter.hook(self)"),
        ("self._moved( )", "self._adapter.hook(self )"),
        ("self._moved(a)", "self._adapter.hook(self, a)"),
        ("self._moved(a, b=1)", "self._adapter.hook(self, a, b=1)"),
        ("self._moved(b=1)", "self._adapter.hook(self, b=1)"),
        ("self._moved(*a)", "self._adapter.hook(self, *a)"),
        ("self._moved(**a)", "self._adapter.hook(self, **a)"),
        ("self._moved(b=1, *a)", "self._adapter.hook(self, b=1, *a)"),
        ("self._moved(self._moved(a))", "self._adapter.hook(self, self._adapter.hook(self, a))"),
        ("self._moved(x for x in a)", "self._adapter.hook(self, (x for x in a))"),
        ("self._moved((a))", "self._adapter.hook(self, (a))"),
        ("self._moved((yield))", "self._adapter.hook(self, (yield))"),
        ("self._moved(\n        a,  # why\n    )", "self._adapter.hook(\n        self, a,  # why\n    )"),
        ("x = self._moved(a).y[self._moved()]", "x = self._adapter.hook(self, a).y[self._adapter.hook(self)]"),
        ("'größe', self._moved(a)", "'größe', self._adapter.hook(self, a)"),
        ("(self\n     ._moved(a))", "(self._adapter\n     .hook(self, a))"),
        ("(self._moved)(a)", "(self._adapter.hook)(self, a)"),
        ("self._moved (a)", "self._adapter.hook (self, a)"),
        ("self._moved(  # why\n    )", "self._adapter.hook(self  # why\n    )"),
    ],
)
def test_goes_to_the_adapter(before, after):
    assert rewired(before) == after


def test_inside_an_adapter_the_adapter_is_self():
    source = "def hook(self, runner):\n    runner._moved(1)\n"
    assert (
        rewire_calls(source, "runner", TARGETS, target="self") == "def hook(self, runner):\n    self.hook(runner, 1)\n"
    )


def test_line_ends_stay():
    source = "def method(self):\r\n    self._moved(\r\n        1,\r\n    )\r\n"
    assert rewire_calls(source, "self", TARGETS) == source.replace("self._moved", "self._adapter.hook").replace(
        "        1", "        self, 1"
    )


def test_a_second_time_changes_nothing():
    once = rewire_calls("def method(self, a):\n    return self._moved(a)\n", "self", TARGETS)
    assert rewire_calls(once, "self", TARGETS) == once
