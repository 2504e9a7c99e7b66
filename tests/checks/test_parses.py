"""check-parses (ANCHORS.md trap 1)."""

from __future__ import annotations

import pytest

from omni_migrate.checks.parses import parses
from omni_migrate.report.findings import FileChange, Severity


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a = 1",
        b"a = 1\r\nif a:\r\n    b = 2\r\n",
        b"\xef\xbb\xbfa = 1\n",
        b"# -*- coding: latin-1 -*-\na = '\xe9'\n",
    ],
    ids=["empty", "no last newline", "crlf", "bom", "latin-1"],
)
def test_what_python_takes_passes(data: bytes) -> None:
    assert parses([FileChange("a.py", None, data)]) == []


@pytest.mark.parametrize(
    "data, line",
    [
        (b"a = 1\ndef f(:\n", 2),
        (b"a = 1\nreturn a\n", 2),
        (b"def f():\n    nonlocal x\n", 2),
        (b"a = '\xe9'\n", 0),
        (b"a = 1\n\0", 0),
    ],
    ids=["syntax", "return outside a function", "nonlocal without a scope", "not its encoding", "null byte"],
)
def test_what_python_refuses_is_an_error_at_its_line(data: bytes, line: int) -> None:
    (found,) = parses([FileChange("a.py", b"a = 1\n", data)])
    assert (found.path, found.severity, found.rule) == ("a.py", Severity.ERROR, "check-parses")
    assert not line or found.line == line
    assert found.message.startswith("does not compile after the change: ")


def test_unchanged_files_and_other_files_are_not_looked_at() -> None:
    assert parses([FileChange("a.py", b"def (", b"def ("), FileChange("a.txt", None, b"def (")]) == []
