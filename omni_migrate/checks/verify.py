"""Holds a plan to every check before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from omni_migrate.background import begin
from omni_migrate.checks.comments import comments
from omni_migrate.checks.names import names
from omni_migrate.checks.parses import parses
from omni_migrate.checks.resolves import resolves
from omni_migrate.checks.stable import stable
from omni_migrate.checks.untouched import only_added_to, untouched
from omni_migrate.errors import VerificationError
from omni_migrate.plan.phases import Plan
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.findings import FileChange, Finding

Touched = Callable[[str, bytes], list[tuple[int, int]]]


def verify(
    plan: Plan,
    before: Workspace,
    after: Workspace,
    *,
    generated_comments: frozenset[str],
    edited: Mapping[str, Touched],
    added_to: Mapping[str, Touched],
    again: Callable[[], Iterable[FileChange]],
) -> None:
    """Raise VerificationError, naming the rule and the place, if a check fails.

    `generated_comments` come with files that the tool writes. `edited` maps a file that was there before to what says
    which of its lines may differ, `added_to` one that may only grow to what says which lines it may lose. `again` gives
    what a second run would change.
    """
    changes = plan.net_changes()
    found = parses(changes)
    if not found:
        resolved = begin(lambda: resolves(before, after, [change.path for change in changes]))
        found = [
            *names(changes),
            *comments(changes, generated_comments),
            *_untouched(changes, edited),
            *_only_added_to(changes, added_to),
            *stable(again),
            *resolved(),
        ]
    if found:
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise VerificationError(
            f"{first.rule}: {first.path}:{first.line}: {first.message}{more}; nothing was written. "
            "This is a fault of omni-migrate: please report it"
        )


def _untouched(changes: Iterable[FileChange], edited: Mapping[str, Touched]) -> list[Finding]:
    found: list[Finding] = []
    for change in changes:
        if change.before is not None and change.path in edited:
            touched = edited[change.path](change.path, change.before)
            found.extend(untouched(change.path, change.before, change.after, touched))
    return found


def _only_added_to(changes: Iterable[FileChange], added_to: Mapping[str, Touched]) -> list[Finding]:
    found: list[Finding] = []
    for change in changes:
        if change.before is not None and change.path in added_to:
            replaced = added_to[change.path](change.path, change.before)
            found.extend(only_added_to(change.path, change.before, change.after, replaced))
    return found
