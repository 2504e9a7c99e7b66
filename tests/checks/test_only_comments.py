"""check-only-comments: what counts as a change of comment lines alone."""

from __future__ import annotations

import pytest

from omni_migrate.checks.only_comments import only_comments
from omni_migrate.report.findings import FileChange


def lets_pass(before: bytes, after: bytes) -> bool:
    return only_comments([FileChange("a.py", before, after)]) == []


@pytest.mark.parametrize(
    "after",
    [
        b"# x\na = 1\r\nb = 2",
        b"a = 1\r\n# x\r\nb = 2",
        b"a = 1\r\nb = 2\n# x",  # what was the last line has an end now
        b"a = 1\r\nb = 2\r\n# x\r\n",
    ],
)
def test_comment_lines(after):
    assert lets_pass(b"a = 1\r\nb = 2", after)


@pytest.mark.parametrize(
    "after",
    [
        b"a = 1\nb = 2",
        b"a = 1\r\nb = 2  # x",
        b"a = 1\r\nb = 3",
        b"a = 1\r\n\r\nb = 2",
        b"a = 1\r\n",
        b"",
        b"a = (\r\nb = 2",
    ],
)
def test_anything_else(after):
    assert not lets_pass(b"a = 1\r\nb = 2", after)
