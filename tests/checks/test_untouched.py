"""check-untouched: what a plan does not declare, it has not changed (ANCHORS.md traps 6 and 13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_migrate.checks.untouched import only_added_to, untouched

BEFORE = b"a\nb\nc\nd\ne\n"


@pytest.mark.parametrize(
    "after, touched",
    [
        (BEFORE, []),
        (BEFORE, [(2, 3)]),
        (b"a\nd\ne\n", [(2, 3)]),
        (b"a\nX\nY\nZ\nd\ne\n", [(2, 3)]),
        (b"X\nb\nc\nd\n", [(1, 1), (5, 5)]),
        (b"a\nb\nNEW\nc\nd\ne\n", [(3, 2)]),
        (b"NEW\na\nb\nc\nd\ne\n", [(1, 0)]),
        (b"a\nc\nX\nc\ne\n", [(2, 2), (4, 4)]),
        (b"", [(1, 5)]),
    ],
)
def test_edits_within_the_declared_lines_pass(after: bytes, touched: list[tuple[int, int]]) -> None:
    assert untouched("a.py", BEFORE, after, touched) == []


@pytest.mark.parametrize(
    "after, touched, line",
    [
        (b"a\nb\nc\nd\nE\n", [], 5),
        (b"a\nb\nc\nd\ne", [], 6),
        (b"a\r\nb\nc\nd\ne\n", [(3, 3)], 1),
        (b"a\nX\nD\ne\n", [(2, 3)], 4),
        (b"a\nb\nNEW\nc\nd\ne\n", [(2, 1)], 2),
        (b"X\nc\nb\nX\n", [(1, 1), (4, 5)], 3),
        (b"X\nb\nX\n", [(1, 1), (4, 5)], 3),
        (b"a\nb\nc\nd\ne\nNEW\n", [(2, 2)], 5),
    ],
)
def test_anything_else_is_named_by_its_line(after: bytes, touched: list[tuple[int, int]], line: int) -> None:
    assert [found.line for found in untouched("a.py", BEFORE, after, touched)] == [line]


LINES = st.lists(st.sampled_from([b"", b"a", b"b", b"\r"]), max_size=8)


@given(st.lists(st.tuples(LINES, LINES, LINES), max_size=4), LINES)
def test_replacing_only_declared_stretches_always_passes(
    parts: list[tuple[list[bytes], list[bytes], list[bytes]]], tail: list[bytes]
) -> None:
    before: list[bytes] = []
    after: list[bytes] = []
    touched = []
    for kept, old, new in parts:
        before, after = before + kept, after + kept
        touched.append((len(before) + 1, len(before) + len(old)))
        before, after = before + old, after + new
    before, after = [*before, *tail, b""], [*after, *tail, b""]
    assert untouched("a.py", b"\n".join(before), b"\n".join(after), touched) == []


@given(LINES.filter(bool), st.data())
def test_one_changed_line_outside_never_passes(lines: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines) - 1))
    changed = [*lines[:at], b"other", *lines[at + 1 :]]
    touched = [(at + 2, at + 2)] if at + 1 < len(lines) else []
    assert untouched("a.py", b"\n".join(lines), b"\n".join(changed), touched) != []


GROWN = b"# ours\nROWS = [1, 2]\n\n\ndef test():\n    assert ROWS  # odd\n"


@pytest.mark.parametrize(
    ("after", "line"),
    [
        (GROWN, 0),
        (b"import a\n" + GROWN + b"\n# more\n", 0),
        (GROWN.replace(b"1, 2", b"\n    1,\n    2,\n    3,\n"), 0),
        (GROWN.replace(b"\n", b"\r\n"), 0),
        (GROWN.replace(b"# odd", b""), 6),
        (GROWN.replace(b"# ours\n", b""), 1),
        (GROWN.replace(b"1, 2", b"2, 1"), 2),
        (GROWN.replace(b"1, 2", b"1"), 2),
        (GROWN.replace(b"ROWS  #", b"rows  #"), 6),
        (b"", 1),
    ],
)
def test_of_a_file_that_is_only_added_to_no_token_goes(after: bytes, line: int) -> None:
    assert [finding.line for finding in only_added_to("a.py", GROWN, after, ())] == ([line] if line else [])


def test_what_may_be_replaced_may_go() -> None:
    after = GROWN.replace(b"assert ROWS  # odd", b"pass")
    assert only_added_to("a.py", GROWN, after, [(6, 6)]) == []
    assert only_added_to("a.py", GROWN, after, [(5, 5)]) != []
