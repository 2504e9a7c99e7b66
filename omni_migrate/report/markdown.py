"""GitHub-flavoured Markdown, for a pull request or a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TextIO

from omni_migrate.report.diff import unified_diff
from omni_migrate.report.findings import Report
from omni_migrate.report.output import count_lines, emit, place, printable, summary

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def write_markdown(report: Report, *, diff: bool, stream: TextIO) -> None:
    """Numbers, findings, the command's tables and files; the diff last, in a fence that its text cannot close."""
    version = f" ({report.source_version})" if report.source_version else ""
    parts = [f"# {_escaped(report.command)} {_code(report.source_spec)}{_escaped(version)}\n"]
    parts.append(_table("Summary", ("what", "count"), list(summary(report).items())))
    findings = [
        (found.severity.value, _code(found.rule), _code(place(found)), _code(found.symbol), found.message, found.hint)
        for found in report.findings
    ]
    if findings:
        parts.append(_table("Findings", ("severity", "rule", "place", "symbol", "message", "hint"), findings))
    for table in report.extra.get("tables", ()):
        parts.append(_table(table["title"], table["columns"], table["rows"]))
    files = [
        (change.action, _code(change.path), count_lines(change.before), count_lines(change.after))
        for change in report.files
    ]
    if files:
        parts.append(_table("Files", ("action", "path", "lines before", "lines after"), files))
    for title, named in (("Skipped", report.skipped), ("Failed", report.failed)):
        if named:
            parts.append(_table(title, ("path", "reason"), [(_code(path), reason) for path, reason in named]))
    emit(stream, "\n".join(parts))
    patch = unified_diff(report.files) if diff else b""
    if patch:
        fence = b"`" * max(3, 1 + max((len(run) for run in re.findall(rb"`+", patch)), default=0))
        emit(stream, b"\n" + fence + b"diff\n" + patch + fence + b"\n")


class _Code(str):
    """A cell that is a code span already."""


def _code(text: str) -> _Code:
    """A code span, whatever backticks are in the text; a pipe must be escaped in a table even there."""
    text = printable(text).replace("\n", " ").replace("|", "\\|")
    if not text:
        return _Code("")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return _Code(f"{ticks}{space}{text}{space}{ticks}")


def _escaped(value: object) -> str:
    return _SPECIAL.sub(r"\\\1", printable(value)).replace("\n", "<br>")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"## {_escaped(title)}\n", _row([_escaped(column) for column in columns]), _row(["---"] * len(columns))]
    lines += [_row([cell if isinstance(cell, _Code) else _escaped(cell) for cell in row]) for row in rows]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
