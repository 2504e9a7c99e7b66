"""Markers are mended where the mend is certain, and nothing but comment lines changes."""

from __future__ import annotations

import io
import tokenize

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from marked_code import OWN_STYLES, marked_class, spoiled

from codemods.fix_markers import fix_markers
from omni_migrate.facts.markers import marker_styles
from omni_migrate.facts.modules import Module
from omni_migrate.plan.workspace import decode

M = "# ---- Omni-new ----"
DASHES = "# ------------------"
HEAD = "class Runner(Base):\n    def step(self):\n"


def fixed(text: str) -> str:
    return fix_markers(Module("a.py", decode(text.encode()))).text


def method(*lines: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize(
    "lines",
    [
        ("a = 1", M, "b = 1", M),
        ("a = 1", M, "b = 1"),  # where it ends is not known
        (M, "if a:", f"    {M}", "    b = 1", f"    {M}", M),
        ("a = 1", DASHES, "b = 1", M, "c = 1"),
    ],
)
def test_left_alone(lines):
    assert fixed(method(*lines)) == method(*lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("super().step()", "a = 1", M), ("super().step()", M, "a = 1", M)),
        (("super().step()", M, "a = 1"), ("super().step()", M, "a = 1", M)),
        (("a = 1", DASHES, "b = 1", M), ("a = 1", M, "b = 1", DASHES)),
        ((M, "if a:", "    b = 1", f"    {M}", "c = 1"), (M, "if a:", "    b = 1", M, "c = 1")),
        ((M, M, "a = 1", M, "b = 1"), (M, "a = 1", M, "b = 1")),
    ],
)
def test_mended(before, after):
    assert fixed(method(*before)) == method(*after)
    crlf = method(*before).replace("\n", "\r\n")
    assert fixed(crlf) == method(*after).replace("\n", "\r\n")


def test_a_closer_at_the_end_of_a_file_without_a_last_line_end():
    before = method("super().step()", M, "a = 1").rstrip("\n")
    assert fixed(before) == method("super().step()", M, "a = 1", M).rstrip("\n")


def test_what_is_mended_and_what_is_left_is_told():
    source = method("super().step()", "a = 1", M) + f"    def other(self):\n        {M}\n        b = 1\n"
    result = fix_markers(Module("a.py", decode(source.encode())))
    assert [(defect.finding.line, defect.certain) for defect in result.mended] == [(5, True)]
    assert [(defect.finding.symbol, defect.certain) for defect in result.left] == [("Runner.other", False)]


def code(text: str) -> list[tuple[int, str]]:
    """The tokens that are no comment and no layout of one."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.type, token.string) for token in tokens if token.type not in (tokenize.COMMENT, tokenize.NL)]


def not_comments(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#")]


@given(st.randoms(use_true_random=False), st.sampled_from(["\n", "\r\n"]))
def test_nothing_but_comment_lines_changes_and_a_second_run_changes_nothing(rng, newline):
    text = spoiled(rng, marked_class(rng))
    note(text)
    styles = marker_styles(OWN_STYLES)
    module = Module("a.py", decode(text.replace("\n", newline).encode()))
    result = fix_markers(module, styles)
    note(result.text)
    assert code(result.text) == code(module.text)
    assert not_comments(result.text) == not_comments(module.text)
    assert result.text.count("\n") == result.text.count(newline)
    again = fix_markers(Module("a.py", decode(result.text.encode())), styles)
    assert (again.text, again.mended) == (result.text, ())
    assert not any(defect.certain for defect in result.left)
