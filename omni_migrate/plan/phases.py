"""A plan: the RFC's phases in order, each with the files it changes and what it moves."""

from __future__ import annotations

from dataclasses import dataclass

from omni_migrate.report.findings import FileChange


@dataclass(frozen=True)
class Phase:
    """One phase of an RFC's migration plan: becomes one commit with `--branch`.

    `moves` are the lines of the commit message's body, e.g. "load_model: talker MTP buffers -> Qwen3TalkerAdapter".
    """

    number: int
    title: str
    changes: tuple[FileChange, ...]
    moves: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """Phases in the order in which they apply; a later phase's `before` is the earlier phase's `after`."""

    rfc: str
    phases: tuple[Phase, ...]

    def net_changes(self) -> tuple[FileChange, ...]:
        """The change of each file over all phases, sorted by path; a file that ends as it began is left out."""
        first: dict[str, bytes | None] = {}
        last: dict[str, bytes] = {}
        for phase in self.phases:
            for change in phase.changes:
                first.setdefault(change.path, change.before)
                last[change.path] = change.after
        return tuple(FileChange(path, first[path], last[path]) for path in sorted(last) if first[path] != last[path])
