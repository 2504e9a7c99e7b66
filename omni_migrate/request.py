"""What a command is asked for, as the command line says it and the engine reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from omni_migrate.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from omni_migrate.report.findings import Report


@dataclass(frozen=True)
class WriteRequest:
    """A run that may write. `source` None is the checkout around `cwd`; empty `phases` is all.

    `before_writing` gets the report, and the folder that its paths are relative to, before anything is written; what
    it raises ends the run.
    """

    source: str | None
    cwd: Path
    dry_run: bool = False
    output: Path | None = None
    branch: str | None = None
    allow_dirty: bool = False
    phases: tuple[int, ...] = ()
    check: bool = False
    progress: Progress = field(default_factory=SilentProgress)
    before_writing: Callable[[Report, Path], None] = lambda report, root: None


@dataclass(frozen=True)
class ExtractRequest(WriteRequest):
    """One `extract-adapters` run. Empty `only` is every adapter."""

    only: tuple[str, ...] = ()
    list_sites: bool = False


@dataclass(frozen=True)
class PortRequest(WriteRequest):
    """One `port-v2` run. `vllm` None is the vLLM that the release is for."""

    vllm: str | None = None
    list_sites: bool = False


@dataclass(frozen=True)
class AuditRequest(WriteRequest):
    """One `audit-npu` run, which writes what `write`, `fix_markers` and `mark` ask for and nothing else.

    `ascend` and `vllm` are the bases, the newest last. `catalogue` is relative to the root; None is the one found.
    """

    ascend: tuple[str, ...] = ()
    vllm: tuple[str, ...] = ()
    catalogue: Path | None = None
    write: bool = False
    fix_markers: bool = False
    mark: bool = False
