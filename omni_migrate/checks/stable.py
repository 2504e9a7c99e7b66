"""check-stable: a second run on the result changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from omni_migrate.report.findings import FileChange, Finding, Severity

RULE = "check-stable"


def stable(again: Callable[[], Iterable[FileChange]]) -> list[Finding]:
    """A finding for each file that a second run, which `again` makes on the result, plans to create or modify."""
    return [
        Finding(
            change.path,
            _first_difference(change),
            RULE,
            Severity.ERROR,
            "",
            "a second run would change this file again",
        )
        for change in again()
        if change.before != change.after
    ]


def _first_difference(change: FileChange) -> int:
    """The first line that differs, 1-based; 0 for a new file."""
    if change.before is None:
        return 0
    before, after = change.before.split(b"\n"), change.after.split(b"\n")
    pairs = enumerate(zip(before, after, strict=False), start=1)
    return next((number for number, (old, new) in pairs if old != new), min(len(before), len(after)))
