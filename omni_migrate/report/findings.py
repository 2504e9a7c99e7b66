"""The findings model: what every command says, whatever format it is drawn in (DESIGN.md, "One pipeline")."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Severity(str, Enum):
    """How a finding bears on `--check`: only an error fails it."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, order=True)
class Finding:
    """One statement about one place. `path` is relative to the source's root, `line` is 1-based (0: whole file)."""

    path: str
    line: int
    rule: str
    severity: Severity = field(compare=False)
    symbol: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class FileChange:
    """What a run does to one file. `before` is None for a new file; bytes, so that line ends and BOM survive."""

    path: str
    before: bytes | None
    after: bytes

    @property
    def action(self) -> str:
        if self.before is None:
            return "create"
        return "unchanged" if self.before == self.after else "modify"


@dataclass(frozen=True)
class Report:
    """What a command found and did; every format draws this and nothing else.

    `files` has every file that the run looked at closely (created, modified or unchanged); `skipped` and `failed`
    name files with the reason. `extra` holds the command's own JSON keys (DESIGN.md, "JSON").
    """

    command: str
    source_spec: str
    source_version: str | None
    summary: dict[str, int | float | str]
    findings: tuple[Finding, ...]
    files: tuple[FileChange, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
