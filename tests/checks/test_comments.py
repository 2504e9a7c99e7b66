"""check-comments: conserved as a multiset (ANCHORS.md traps 3 and 4)."""

from __future__ import annotations

from omni_migrate.checks.comments import comments
from omni_migrate.report.findings import FileChange


def change(path: str, before: str | None, after: str) -> FileChange:
    return FileChange(path, None if before is None else before.encode(), after.encode())


def found(*changes: FileChange, generated: frozenset[str] = frozenset()) -> list[tuple[str, int, str]]:
    return [(each.path, each.line, each.message) for each in comments(changes, generated)]


def test_a_comment_may_move_within_a_file_to_another_and_to_another_depth() -> None:
    assert found(change("a.py", "# x\na = 1\n", "a = 1\nif a:\n    # x\n    pass\n")) == []
    assert found(change("a.py", "# x\n#y\n", ""), change("b.py", None, "if 1:\n    # y\n    pass  #  x \n")) == []
    assert found(change("a.py", "a = 1\r\n# x\r\n", "# x\n")) == []


def test_text_in_a_string_is_no_comment() -> None:
    assert found(change("a.py", "a = '# x'\nb = '''\n# y\n'''\n", "a = ''\n")) == []


def test_a_lost_comment_is_named_where_it_was() -> None:
    before = "a = 1\n# Omni-new\nb = 2\n# Omni-new\n"
    assert found(change("a.py", before, "a = 1\n# Omni-new\n")) == [("a.py", 4, "the comment `# Omni-new` is lost")]


def test_a_comment_lost_in_one_of_two_files_is_named_in_that_one() -> None:
    changes = (change("a.py", "# x\n", "# x\n# z\n"), change("b.py", "1\n# x\n# z\n", ""))
    assert found(*changes) == [("b.py", 2, "the comment `# x` is lost")]


def test_a_string_that_holds_the_text_does_not_stand_in_for_the_comment() -> None:
    assert found(change("a.py", "# x\n", "a = '# x'\n")) == [("a.py", 1, "the comment `# x` is lost")]


def test_a_doubled_comment_is_an_error_unless_it_is_declared() -> None:
    doubled = change("a.py", "# x\n", "# x\n# x\n")
    assert found(doubled) == [("a.py", 2, "the comment `# x` is new or doubled")]
    assert found(doubled, generated=frozenset({"# x"})) == []


def test_a_declared_comment_does_not_replace_a_lost_one() -> None:
    lost = change("a.py", "# x\n", "# banner\n")
    assert found(lost, generated=frozenset({"# banner", "# x"})) == [("a.py", 1, "the comment `# x` is lost")]


def test_files_of_any_encoding_and_empty_ones() -> None:
    latin = b"# -*- coding: latin-1 -*-\n# caf\xe9\n"
    assert (
        comments([FileChange("a.py", latin, latin), FileChange("b.py", b"", b""), FileChange("c.py", None, b"")]) == []
    )
    assert len(comments([FileChange("a.py", latin, b"# -*- coding: latin-1 -*-\n")])) == 1
