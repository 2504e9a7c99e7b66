"""Marker comments around omni statements: whole statements only, and nothing but comment lines."""

from __future__ import annotations

import ast
import textwrap

import pytest
from generated_methods import generate
from hypothesis import given
from hypothesis import strategies as st

from codemods.mark_blocks import MARKER, mark_blocks, runs_to_mark


def marked(source: str, *omni: str) -> str:
    """`source` with its lines that contain one of `omni` marked; markers are shown as `# M`."""
    text = textwrap.dedent(source).lstrip("\n")
    ours = {n for n, line in enumerate(text.splitlines(), 1) if any(word in line for word in omni)}
    return mark_blocks(text, ours).replace(MARKER, "# M")


def test_code_without_omni_lines_is_left_alone():
    assert marked("def run(self):\n    self.step()\n") == "def run(self):\n    self.step()\n"


def test_a_statement_that_is_omnis_in_part_is_left_alone():
    source = "def run(self):\n    self.step(\n        omni=1,\n        size=2,\n    )\n"
    assert marked(source, "omni") == source


def test_an_elif_and_a_shared_line_are_left_alone():
    source = "def run(self):\n    if a:\n        b()\n    elif omni: omni()\n    x = 1; omni = 2\n"
    assert marked(source, "omni") == source


def test_lines_outside_of_functions_are_left_alone():
    assert marked("omni = 1\n\n\nclass A:\n    omni = 2\n", "omni") == "omni = 1\n\n\nclass A:\n    omni = 2\n"


def test_statements_in_a_row_get_one_pair_with_the_comment_above_them():
    assert marked(
        """
        def run(self):
            self.step()
            # why
            self.omni_begin()

            if self.omni:
                self.omni_go()
            self.end()
        """,
        "omni",
    ) == textwrap.dedent(
        """\
        def run(self):
            self.step()
            # M
            # why
            self.omni_begin()

            if self.omni:
                self.omni_go()
            # M
            self.end()
        """
    )


def test_a_branch_is_marked_inside_where_its_condition_is_upstreams():
    assert marked("def run(self):\n    if a:\n        omni()\n    else:\n        b()\n", "omni") == (
        "def run(self):\n    if a:\n        # M\n        omni()\n        # M\n    else:\n        b()\n"
    )


def test_what_markers_enclose_already_is_left_alone():
    source = "def run(self):\n    # --- Omni-new ---\n    omni()\n    # ------\n    a()\n"
    assert marked(source, "omni") == source


def test_a_run_does_not_reach_over_a_lone_marker():
    source = "def run(self):\n    omni_a()\n    # --- Omni-new ---\n    omni_b()\n"
    assert marked(source, "omni").count("# M") == 4


def test_a_hash_inside_a_string_is_no_comment():
    source = 'def run(self):\n    a = """\n    # text"""\n    omni()\n'
    assert marked(source, "omni") == 'def run(self):\n    a = """\n    # text"""\n    # M\n    omni()\n    # M\n'


def test_a_line_that_is_continued_by_a_backslash_is_not_parted():
    source = "def run(self):\n    \\\n    omni()\n    a()\n"
    assert ast.dump(ast.parse(marked(source, "omni"))) == ast.dump(ast.parse(source))


def test_the_last_line_may_lack_its_end():
    assert marked("def run(self):\n    omni()", "omni") == "def run(self):\n    # M\n    omni()\n    # M"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_are_kept(newline):
    text = newline.join(["def run(self):", "    a()", "    omni()", "    b()", ""])
    found = mark_blocks(text, {3})
    assert found.count("\n") == text.count("\n") + 2
    assert found.count("\r\n") == (found.count("\n") if newline == "\r\n" else 0)


@given(st.randoms(use_true_random=False), st.booleans())
def test_only_marker_lines_are_added_and_a_second_run_adds_none(rng, crlf):
    source = generate(rng)
    if crlf:
        source = source.replace("\n", "\r\n")
    count = len(source.splitlines())
    ours = {n for n in range(2, count + 1) if rng.random() < 0.7}
    result = mark_blocks(source, ours)
    kept = [line for line in result.splitlines(keepends=True) if line.strip() != MARKER]
    assert "".join(kept) == source
    assert ast.dump(ast.parse(result)) == ast.dump(ast.parse(source))

    moved_to: dict[int, int] = {}
    inside, old, enclosed = False, 0, set()
    for new, line in enumerate(result.splitlines(), 1):
        if line.strip() == MARKER:
            inside = not inside
            continue
        old += 1
        moved_to[old] = new
        if inside:
            enclosed.add(new)
    assert not inside
    again = {moved_to[n] for n in ours}
    assert mark_blocks(result, again, enclosed) == result
    code = {n for n, line in enumerate(source.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    assert {n for n in moved_to if moved_to[n] in enclosed} & code <= ours


@given(st.randoms(use_true_random=False))
def test_every_whole_statement_of_omni_is_enclosed(rng):
    source = generate(rng)
    function = ast.parse(source).body[0]
    body = [node for node in function.body if not ast.unparse(node).startswith("'")]
    node = rng.choice(body)
    alone = [n for n in function.body if n is not node and n.end_lineno >= node.lineno and n.lineno <= node.end_lineno]
    runs = runs_to_mark(source, range(node.lineno, node.end_lineno + 1))
    assert alone or any(run.first <= node.lineno and run.last >= node.end_lineno for run in runs)
