"""Imports go only if they were used before and are not any more."""

from __future__ import annotations

import pytest

from omni_migrate.facts.modules import Module
from omni_migrate.plan.unused_imports import without_unused_imports
from omni_migrate.plan.workspace import decode


def pruned(head: str, used: str, left: str = "pass\n", elsewhere: tuple[str, ...] = ()) -> str:
    """The head of a module after `used` in its body has become `left`."""
    before, after = (Module("pkg/mod.py", decode((head + body).encode())) for body in (used, left))
    text = without_unused_imports(before, after, lambda name: name in elsewhere)
    assert text.endswith(left)
    return text[: len(text) - len(left)]


@pytest.mark.parametrize(
    ("head", "used", "left"),
    [
        ("import a\n", "pass\n", "pass\n"),  # unused before
        ("import a\n", "a.x\n", "a.y\n"),
        ("import a.b\n", "a.b.x\n", "pass\n"),
        ("from a import *\n", "x\n", "pass\n"),
        ("from __future__ import annotations\n", "annotations\n", "pass\n"),
        ("try:\n    import a\nexcept ImportError:\n    a = None\n", "a.x\n", "pass\n"),
        ("import a; import b\n", "a, b\n", "b\n"),
        ("from a import b\n", "b\n", "x: 'b' = 1\n"),
        ("from a import b\n", "b\n", "x: 'list[b]' = 1\n"),
        ("from a import b\n", "b\n", "__all__ = ['b']\n"),
        ("from a import b\n", "b\n", "del b\n"),
        ("if x:\n    import a\n", "a\n", "pass\n"),
    ],
)
def test_stays(head, used, left):
    assert pruned(head, used, left) == head


@pytest.mark.parametrize(
    ("head", "used", "expected"),
    [
        ("import a\n", "a\n", ""),
        ("import a as b\n", "b\n", ""),
        ("from a import b, c\nimport d\n", "b\n", "from a import c\nimport d\n"),
        ("from a import (\n    b,\n    c,\n)\n", "b\n", "from a import c\n"),
        ("from .. import b, c as d\n", "b\n", "from .. import c as d\n"),
        ("import a, b\n", "a\n", "import b\n"),
        ("import a  # why\n", "a\n", "# why\n"),
        ("from a import (  # one\n    b,  # two\n    c,\n)\n", "b\n", "# one\n# two\nfrom a import c\n"),
        ("import a\r\nimport b\r\n", "a\n", "import b\r\n"),
        (
            "from typing import TYPE_CHECKING, Any\nif TYPE_CHECKING:\n    from a import B\nAny\n",
            "x: B\n",
            "from typing import Any\nAny\n",
        ),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B\nTYPE_CHECKING\n",
            "x: B\n",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nTYPE_CHECKING\n",
        ),
        (
            "import typing\nif typing.TYPE_CHECKING:\n    from a import B, C\n",
            "x: B\n",
            "import typing\nif typing.TYPE_CHECKING:\n    from a import C\n",
        ),
    ],
)
def test_goes(head, used, expected):
    left = "pass\r\n" if "\r\n" in head else "pass\n"
    assert pruned(head, used, left) == expected


def test_what_others_take_from_the_module_becomes_a_re_export():
    assert pruned("from a import b, c\n", "b, c\n", elsewhere=("b",)) == "from a import b as b\n"


def test_a_second_time_changes_nothing():
    head = pruned("from a import b, c\n", "b, c\n", elsewhere=("b",))
    assert pruned(head, "pass\n", elsewhere=("b",)) == head
