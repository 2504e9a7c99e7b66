"""check-stable: a second run changes nothing (ANCHORS.md trap 3)."""

from __future__ import annotations

from omni_migrate.checks.stable import stable
from omni_migrate.report.findings import FileChange


def test_a_second_run_that_changes_nothing_passes() -> None:
    assert stable(lambda: []) == []
    assert stable(lambda: [FileChange("a.py", b"a\n", b"a\n")]) == []


def test_each_file_that_changes_again_is_named_with_its_first_line() -> None:
    again = [
        FileChange("a.py", b"a\nb\n", b"a\n\nb\n"),
        FileChange("b.py", None, b"a\n"),
        FileChange("c.py", b"a\n", b"a\nb"),
    ]
    assert [(found.path, found.line) for found in stable(lambda: again)] == [("a.py", 2), ("b.py", 0), ("c.py", 2)]
