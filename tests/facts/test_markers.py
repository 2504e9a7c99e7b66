"""Markers: which lines they mark, what is wrong with them, and how sure a mend is."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from marked_code import OWN_STYLES, marked_class

from omni_migrate.facts.markers import find_markers, marker_styles
from omni_migrate.facts.modules import Module
from omni_migrate.plan.workspace import decode

M = "# ---- Omni-new ----"
DASHES = "# ------------------"


def markers(source: str, styles=None):
    text = textwrap.dedent(source).replace("DASHES", DASHES).replace("MARK", M)
    return find_markers(Module("runner.py", decode(text.encode())), styles)


def pairs(source: str):
    return [(pair.scope, pair.first_line, pair.last_line) for pair in markers(source).pairs]


def method(body: str, head: str = "class Runner(Base):\n    def step(self):\n") -> str:
    return head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        (M, M),
        ("#  ------ Omni-new ------", "# ------Omni-new------"),
        ("# --- omni-new", "#---Omni-New---"),
        (M, DASHES),
    ],
)
def test_a_pair_however_it_is_written(opener, closer):
    assert pairs(method(f"{opener}\na = 1\n{closer}\nb = 2")) == [("Runner.step", 3, 5)]


def test_comments_and_strings_that_are_no_markers():
    found = markers(
        method(
            f'''
            {DASHES}
            # in _model_forward stands what is Omni-specific
            a = """
            # ---- Omni-new ----
            """
            # --- Omni-newer ---
            # -- Omni-new --
            b = "# [Omni]"
            '''
        )
    )
    assert (found.pairs, found.lines, found.defects) == ((), (), ())


def test_a_trailing_comment_belongs_to_the_suite_that_its_column_says():
    source = """
    class Runner(Base):
        MARK
        def step(self):
            MARK
            if a:
                MARK
                b()
                MARK
            c()
            MARK
        MARK

        def other(self):
            pass
    """
    assert pairs(source) == [("Runner", 3, 12), ("Runner.step", 5, 11), ("Runner.step", 7, 9)]


def test_each_branch_has_its_own_markers():
    source = method(f"if a:\n    {M}\n    b()\n    {M}\nelse:\n    {M}\n    c()\n    {M}")
    assert pairs(source) == [("Runner.step", 4, 6), ("Runner.step", 8, 10)]


def test_a_pair_within_brackets():
    assert pairs(method(f"call(\n    a,\n    {M}\n    b,\n    {M}\n)")) == [("Runner.step", 5, 7)]


def test_a_divider_of_dashes_within_a_block_is_none_of_its_ends():
    assert pairs(method(f"{M}\na = 1\n{DASHES}\nb = 2\n{M}\nc = 3")) == [("Runner.step", 3, 7)]


def test_the_comments_of_a_block():
    (pair,) = markers(method(f"{M}\n# [Omni] first\na = 1  # trailing\n# second\n{M}")).pairs
    assert pair.comments == ("# [Omni] first", "# second")


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("# [Omni] why\na = 1\nb = 2\n\nc = 3", (3, 4, 5, False)),
        ("# Omni-specific: why\nif a:\n    b = 2\n\nc = 3", (3, 4, 5, False)),
        ("# Omni-new\na = 1\n# why\nb = 2", (3, 4, 4, False)),
        ("# Omni: why\na = 1", (3, 4, 4, False)),
        ("a(\n    b,  # Omni-Specific\n    c,\n)", (4, 4, 4, True)),
        ("a(\n    b,\n)  # Omni-new", (5, 3, 5, True)),
        (f"a = 1  {M}", (3, 3, 3, True)),
        ("call(\n    # [Omni] why\n    a,\n    b,\n)", (4, 5, 5, False)),
    ],
)
def test_a_one_line_marker_and_what_it_marks(body, marked):
    (line,) = markers(method(body)).lines
    assert (line.line, line.first_line, line.last_line, line.inline) == marked
    assert line.scope == "Runner.step"


def test_one_line_markers_within_a_block_say_nothing_more():
    assert markers(method(f"{M}\n# [Omni] why\na = 1  # Omni-new\n{M}")).lines == ()


def test_marked_lines_are_those_of_pairs_and_of_one_line_markers():
    assert markers(method(f"{M}\na = 1\n{M}\nb = 1\nc = 1  # Omni-new")).marked() == {3, 4, 5, 7}


def test_windows_line_ends_and_yapf_disable_change_nothing():
    source = "# yapf: disable\n" + method(f"{M}\na = 1\n{M}\nb = 2  # Omni-new")
    unix, windows = (
        find_markers(Module("a.py", decode(text.encode()))) for text in (source, source.replace("\n", "\r\n"))
    )
    assert unix == windows
    assert len(unix.pairs) == len(unix.lines) == 1


def test_a_projects_own_markers():
    styles = marker_styles(OWN_STYLES)
    found = markers(method(f"# BEGIN OMNI\na = 1\n# END OMNI\n{M}\nb = 1\n{M}"), styles)
    assert [(pair.first_line, pair.last_line, pair.style) for pair in found.pairs] == [
        (3, 5, "begin"),
        (6, 8, "omni-new"),
    ]


CALL = "super().step()"


@pytest.mark.parametrize(
    ("body", "rule", "line", "certain"),
    [
        # a method that begins with the call of the upstream one: the rest is omni's
        (f"{CALL}\na = 1\n{M}", "marker-lone", 5, True),
        (f"Base.step(self)\na = 1\n{M}", "marker-lone", 5, True),
        (f"x = {CALL}\n{M}\na = 1", "marker-lone", 4, True),
        (f"a = 1\n{CALL}\n{M}", "marker-lone", 5, False),
        (f"{CALL}\na = 1\n{M}\nb = 2", "marker-lone", 5, False),
        (f"{CALL}\n{M}\na = 1\n{M}\nb = 1\n{M}", "marker-lone", 8, False),
        (f"super().other()\na = 1\n{M}", "marker-lone", 5, False),
        (f"{CALL}\n{M}", "marker-lone", 4, False),
        (f"{CALL}\nif a:\n    {M}\n    b = 1\n    {M}\nc = 1\n{M}", "marker-lone", 9, False),
        # otherwise nobody can tell where the other half belongs
        (f"a = 1\n{M}\nb = 2", "marker-lone", 4, False),
        (f"{M}\na = 1", "marker-lone", 3, False),
        # doubled lines
        (f"{M}\n{M}\na = 1\n{M}\nb = 1", "marker-lone", 4, True),
        (f"a = 0\n{M}\na = 1\n{M}\n{M}", "marker-lone", 7, True),
        (f"a = 0\n{M}\na = 1\n{M}\n{M}\nb = 1", "marker-lone", 7, False),
        # upside down
        (f"a = 1\n{DASHES}\nb = 1\n{M}", "marker-inverted", 6, True),
        (f"a = 1\n{DASHES}\nb = 1\n{M}\nc = 1", "marker-inverted", 6, False),
        # one half indented differently
        (f"{M}\nif a:\n    b = 1\n    {M}\nc = 1", "marker-indent", 3, True),
        (f"if a:\n    b = 1\n    {M}\nc = 1\n{M}", "marker-indent", 5, True),
        (f"if a:\n    {M}\n    b = 1\n{M}\nc = 1", "marker-indent", 4, True),
        (f"if a:\n    {M}\n    b = 1\n{M}\nc = 1\nif d:\n    {M}\n    e = 1", "marker-indent", 4, False),
        # blocks that say too much or too little
        (f"a = 1\n{M}\n{M}\nb = 1", "marker-empty", 4, False),
        (f"{M}\nif a:\n    {M}\n    b = 1\n    {M}\n{M}", "marker-nested", 5, False),
        (f"{M}\nif a:\n    b = 1\n{M}\nelse:\n    c = 1", "marker-cut", 3, False),
    ],
)
def test_a_defect(body, rule, line, certain):
    defects = markers(method(body)).defects
    first = next(defect for defect in defects if defect.finding.rule == rule)
    assert (first.finding.line, first.certain) == (line, certain)
    assert first.finding.symbol == "Runner.step"
    assert first.finding.hint
    assert ("--fix-markers" in first.finding.hint) == certain


def test_the_other_half_of_a_projects_marker_is_not_made_up():
    body = f"{CALL}\na = 1\n# END OMNI"
    (defect,) = markers(method(body), marker_styles(OWN_STYLES)).defects
    assert (defect.finding.line, defect.certain, defect.mend) == (5, False, ())


def test_of_two_methods_of_one_name_the_one_that_the_marker_is_in():
    source = method("super().step()\na = 1") + method(f"b = 1\n{M}", "    @step.setter\n    def step(self):\n")
    (defect,) = markers(source).defects
    assert (defect.finding.line, defect.certain) == (8, False)


@pytest.mark.parametrize(
    "body",
    [
        f"{M}\na = 1\n{M}\n{M}\nb = 1\n{M}",
        f"a = 1\n{M}\nif b:\n    c = 1\nelse:\n    d = 1\n{M}",
        f"if a:\n    b = 1\n{M}\nelif c:\n    d = 1\n{M}\nelse:\n    e = 1",
    ],
)
def test_no_defect(body):
    assert markers(method(body)).defects == ()


def test_a_lone_line_does_not_turn_the_later_blocks_inside_out():
    source = method(f"{CALL}\na = 1\n{M}") + method(f"{M}\nb = 1\n{M}", "    def later(self):\n")
    found = markers(source)
    assert found.lone == (5,)
    assert [(pair.scope, pair.first_line, pair.last_line) for pair in found.pairs] == [("Runner.later", 7, 9)]


@settings(deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.sampled_from(["\n", "\r\n"]))
def test_planted_markers_are_found_again_exactly(rng, newline):
    planted = marked_class(rng)
    note(planted.source)
    module = Module("a.py", decode(planted.source.replace("\n", newline).encode()))
    found = find_markers(module, marker_styles(OWN_STYLES))
    assert [(pair.scope, pair.first_line, pair.last_line) for pair in found.pairs] == planted.pairs
    assert [(m.scope, m.line, m.first_line, m.last_line) for m in found.lines] == sorted(
        planted.lines, key=lambda m: m[1]
    )
    assert found.defects == ()
