"""check-only-comments: a change of marker comments changes nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from omni_migrate.report.findings import FileChange, Finding, Severity

RULE = "check-only-comments"


def only_comments(changes: Iterable[FileChange]) -> list[Finding]:
    """One finding for each Python file in which more than comment lines differs."""
    found = []
    for change in changes:
        before = change.before or b""
        if _code_lines(before) != _code_lines(change.after) or not _same_code(before, change.after):
            found.append(Finding(change.path, 0, RULE, Severity.ERROR, "", "more than comment lines would change"))
    return found


def _code_lines(data: bytes) -> list[bytes]:
    """Lines of code with their ends; the last one's end is left out, as a comment below it gives it one."""
    lines = [line for line in data.splitlines(keepends=True) if not line.strip().startswith(b"#")]
    return [*lines[:-1], lines[-1].rstrip(b"\r\n")] if lines else []


def _same_code(before: bytes, after: bytes) -> bool:
    try:
        return ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
    except SyntaxError:
        return False
