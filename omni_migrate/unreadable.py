"""Files that cannot be read or parsed: named in every report, and a reason not to write where they may matter."""

from __future__ import annotations

from collections.abc import Mapping

from omni_migrate.errors import InputError
from omni_migrate.report.findings import Finding, Severity

_HINT = "mend it, or list it under `skip` in [tool.omni-migrate]"


def refuse_unreadable(files: Mapping[str, str], what: str) -> None:
    """Raise InputError for the first of `files` (path -> reason), which may have `what`, if there is any."""
    for path, reason in sorted(files.items()):
        raise InputError(f"{path} {reason}: it may {what}, so nothing is written; {_HINT}")


def unreadable_findings(files: Mapping[str, str]) -> list[Finding]:
    """An error for each of `files`, path -> reason."""
    return [Finding(path, 0, "unreadable-file", Severity.ERROR, "", reason, _HINT) for path, reason in files.items()]
