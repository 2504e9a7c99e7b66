"""Any method aligned with itself, reformatted, and with statements put in."""

from __future__ import annotations

import ast

from generated_methods import generate
from hypothesis import given, note
from hypothesis import strategies as st

from omni_migrate.facts.alignment import Text, align
from omni_migrate.facts.modules import Module
from omni_migrate.plan.workspace import decode

PLANTED = (
    "self.omni_payloads.flush(omni_now)",
    "if self.omni_state:\n    self.omni_state.advance(omni_step)",
    "omni_info = getattr(self.model, 'omni_info', None)",
)


def text(source: str) -> Text:
    module = Module("m.py", decode(source.encode()))
    return Text(module, "", module.tree.body[0])


@given(st.randoms(use_true_random=False))
def test_layout_makes_no_difference(rng):
    source = generate(rng)
    for other in (source, ast.unparse(ast.parse(source)) + "\n", source.replace("\n", "\r\n")):
        found = align(text(source), text(other))
        assert set(found.lines.values()) == {"upstream"}
        assert (found.changes, found.dropped, found.moved) == ((), (), ())


@given(st.randoms(use_true_random=False))
def test_planted_statements_are_omnis_and_nothing_else_is(rng):
    source = generate(rng)
    lines = source.splitlines()
    function = ast.parse(source).body[0]
    inner = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and node.col_offset and not lines[node.lineno - 1][: node.col_offset].strip()
    ]
    inner = [node for node in inner if not lines[node.lineno - 1].lstrip().startswith(("elif", "@"))]
    inner = [node for node in inner if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    node = rng.choice(inner)
    rows = [" " * node.col_offset + row for row in rng.choice(PLANTED).splitlines()]
    lines[node.lineno - 1 : node.lineno - 1] = rows
    ours = "\n".join(lines) + "\n"
    note(ours)
    found = align(text(ours), text(source))
    expected = set(range(node.lineno, node.lineno + len(rows)))
    assert {line for line, origin in found.lines.items() if origin == "omni"} == expected
    assert found.dropped == ()
    back = align(text(source), text(ours))
    assert set(back.lines.values()) == {"upstream"}
    assert sum(gone.last - gone.first + 1 for gone in back.dropped) == len(rows)
