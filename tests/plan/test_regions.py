"""What goes with a site: the block around it, the whole method, or the expression that asks."""

from __future__ import annotations

import ast

import pytest

from omni_migrate.facts.absence import Absence
from omni_migrate.plan.regions import Block, MethodView

ABSENCE = Absence(frozenset({"cap", "more"}), frozenset({"Special"}), {"ready": False, "buffer": "unset"})


def region(body: str) -> str | list[int]:
    """The best region for the site that the comment `# site` marks: its lines, "whole", or the expression's text."""
    source = "def method(self, a, b):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    function = ast.parse(source).body[0]
    lines = source.splitlines(keepends=True)
    line = next(number for number, text in enumerate(lines, start=1) if "# site" in text)
    view = MethodView(function, lines, frozenset({"model"}))
    best = next(view.regions(_site_on(function, line), ABSENCE))
    if isinstance(best, Block):
        return "whole" if best.whole else [number - 1 for number in range(best.first, best.last + 1)]
    return ast.unparse(best.node)


def _site_on(function: ast.AST, line: int) -> ast.AST:
    nodes = [node for node in ast.walk(function) if getattr(node, "lineno", 0) == line]
    asking = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") in ("hasattr", "getattr")]
    reading = [n for n in nodes if isinstance(n, ast.Attribute) and n.attr in ("cap", "ready")]
    return [*asking, *reading, *(n for n in nodes if isinstance(n, ast.Compare))][0]


BLOCKS = [
    ("x = 1\nif hasattr(self.model, 'cap'):  # site\n    self.note()\nreturn x", [2, 3]),
    ("x = 1\nif hasattr(self.model, 'cap'):\n    if a:\n        self.model.cap()  # site\nreturn x", [2, 3, 4]),
    ("if a:\n    if hasattr(self.model, 'cap'):  # site\n        self.note()\nreturn a", [1, 2, 3]),
    (
        "self.note()\nfor x in a:\n    self.note(x)\n    if hasattr(self.model, 'cap'):  # site\n        self.note()",
        [4, 5],
    ),
    ("self.note()\nfor x in a:\n    if hasattr(self.model, 'cap'):  # site\n        self.note(x)", [2, 3, 4]),
    ("self.note()\nwith a:\n    if hasattr(self.model, 'cap'):  # site\n        self.note()", [3, 4]),
    ("self.note()\ntry:\n    self.note()\nfinally:\n    if self.ready:  # site\n        self.note()", [5, 6]),
    ("self.note()\ntry:\n    self.note()\nexcept E:\n    if self.ready:  # site\n        self.note()", [5, 6]),
    # a probe goes with what uses its answer, and with what only prepares it
    ("self.note()\nf = getattr(self.model, 'cap', None)  # site\nif f is not None:\n    f(a)\nreturn a", [2, 3, 4]),
    ("self.note()\nx = a.x\nif hasattr(self.model, 'cap'):  # site\n    self.note(x)\nreturn a", [2, 3, 4]),
    ("self.note()\nx = a.x\nif hasattr(self.model, 'cap'):  # site\n    self.note(x)\nreturn x", [3, 4]),
    ("self.note()\nmodel = self.model\nif hasattr(model, 'cap'):\n    model.cap()  # site\nreturn a", [2, 3, 4]),
    # the whole method
    ("if hasattr(self.model, 'cap'):  # site\n    self.note()", "whole"),
    ("'''Doc.'''\nif hasattr(self.model, 'cap'):  # site\n    self.note()", "whole"),
    ("if not hasattr(self.model, 'cap'):  # site\n    return a\nself.note()\nreturn b", "whole"),
    ("return getattr(self.model, 'cap', None)  # site", "whole"),
    # a guard in the middle takes all that follows it
    ("self.note()\nif not hasattr(self.model, 'cap'):  # site\n    return a\nself.note()\nreturn b", [2, 3, 4, 5]),
    ("@a\ndef inner():\n    pass\nif hasattr(self.model, 'cap'):  # site\n    self.note()", [4, 5]),
    ("self.note()\n# about it\nif hasattr(self.model, 'cap'):  # site\n    self.note()\nreturn a", [3, 4]),
    ("self.note()\nif type(self.model).__name__ == 'Special':  # site\n    self.note()\nreturn a", [2, 3]),
]

EXPRESSIONS = [
    ("self.note(hasattr(self.model, 'cap'))  # site", "hasattr(self.model, 'cap')"),
    ("self.note(getattr(self.model, 'cap', None) is not None)  # site", "getattr(self.model, 'cap', None) is not None"),
    ("self.note(hasattr(model, 'cap') and model.cap)  # site", "hasattr(model, 'cap') and model.cap"),
    ("self.note(bool(getattr(self.model, 'cap', 0)))  # site", "bool(getattr(self.model, 'cap', 0))"),
    ("if a and hasattr(self.model, 'cap'):  # site\n    self.note()\nelse:\n    self.note(1)",
     "hasattr(self.model, 'cap')"),
    ("if hasattr(self.model, 'cap'):  # site\n    self.note()\nelse:\n    self.note(1)", "hasattr(self.model, 'cap')"),
    ("if a:\n    self.note()\nelif hasattr(self.model, 'cap'):  # site\n    self.note(1)\nelse:\n    self.note(2)",
     "hasattr(self.model, 'cap')"),
    ("while hasattr(self.model, 'cap'):  # site\n    self.note()", "hasattr(self.model, 'cap')"),
    ("self.note(self.model.cap(a)[0])  # site", "self.model.cap(a)[0]"),
    ("def inner():\n    return hasattr(self.model, 'cap')  # site\nself.note(inner)", "hasattr(self.model, 'cap')"),
    ("self.note(lambda: hasattr(self.model, 'cap'))  # site", "hasattr(self.model, 'cap')"),
    ("self.note([x for x in a if hasattr(self.model, 'cap')])  # site", "hasattr(self.model, 'cap')"),
    ("self.note(self.ready)  # site", "self.ready"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), BLOCKS)
def test_the_block_that_goes_with_a_site(body, expected):
    assert region(body) == expected


@pytest.mark.parametrize(("body", "expected"), EXPRESSIONS)
def test_the_expression_where_the_block_is_not_the_adapter_s(body, expected):
    assert region(body) == expected


def test_every_candidate_holds_the_site():
    source = "def method(self, a):\n    for x in a:\n        if hasattr(self.model, 'cap'):\n            self.note()\n"
    function = ast.parse(source).body[0]
    view = MethodView(function, source.splitlines(keepends=True), frozenset())
    regions = list(view.regions(_site_on(function, 3), ABSENCE))
    assert len(regions) > 1
    for found in regions:
        first, last = (
            (found.first, found.last) if isinstance(found, Block) else (found.node.lineno, found.node.end_lineno)
        )
        assert first <= 3 <= last
