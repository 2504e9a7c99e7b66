"""JSON for programs: docs/json-schema/report.schema.json says what each key means."""

from __future__ import annotations

import json
from typing import Any, TextIO

from omni_migrate.report.diff import unified_diff
from omni_migrate.report.findings import Report
from omni_migrate.report.output import count_lines, emit, summary

SCHEMA = 1


def write_json(report: Report, *, diff: bool, stream: TextIO) -> None:
    """One JSON object and nothing else; with `diff` it also holds the patch, other bytes than UTF-8 as surrogates."""
    document = as_json(report)
    if diff:
        document["diff"] = unified_diff(report.files).decode("utf-8", "surrogateescape")
    emit(stream, json.dumps(document, indent=2) + "\n")


def as_json(report: Report) -> dict[str, Any]:
    """The report as DESIGN.md's JSON object, the command's own keys merged in.

    Raises ValueError if the command's own keys would hide one of the common ones.
    """
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "command": report.command,
        "source": {"spec": report.source_spec, "version": report.source_version},
        "summary": summary(report),
        "findings": [
            {
                "rule": finding.rule,
                "severity": finding.severity.value,
                "path": finding.path,
                "line": finding.line,
                "symbol": finding.symbol,
                "message": finding.message,
                "hint": finding.hint,
            }
            for finding in report.findings
        ],
        "files": [
            {
                "path": change.path,
                "action": change.action,
                "lines_before": count_lines(change.before),
                "lines_after": count_lines(change.after),
            }
            for change in report.files
        ],
        "skipped": [{"path": path, "reason": reason} for path, reason in report.skipped],
        "failed": [{"path": path, "reason": reason} for path, reason in report.failed],
    }
    hidden = sorted((document.keys() | {"diff"}) & report.extra.keys())
    if hidden:
        raise ValueError(f"{report.command}: extra keys would hide the report's own: {', '.join(hidden)}")
    return {**document, **report.extra}
