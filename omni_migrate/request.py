"""What a command is asked for, as the command line says it and the engine reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omni_migrate.progress import Progress, SilentProgress


@dataclass(frozen=True)
class WriteRequest:
    """A run that may write. `source` None is the checkout around `cwd`; empty `phases` is all."""

    source: str | None
    cwd: Path
    dry_run: bool = False
    output: Path | None = None
    branch: str | None = None
    allow_dirty: bool = False
    phases: tuple[int, ...] = ()
    check: bool = False
    progress: Progress = field(default_factory=SilentProgress)


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
