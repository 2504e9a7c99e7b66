"""How long work tells that it goes on: a bar on a terminal, silence anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

DELAY_SECONDS = 1.0

Unit = Literal["files", "bytes"]
Advance = Callable[[int], None]


class Progress(Protocol):
    """Shows one piece of work at a time."""

    def task(self, label: str, total: int | None = None, unit: Unit = "files") -> AbstractContextManager[Advance]:
        """Begin a piece of work of `total` units (None: unknown); call the result with the units done since."""
        ...


class SilentProgress:
    """Shows nothing."""

    @contextmanager
    def task(self, label: str, total: int | None = None, unit: Unit = "files") -> Iterator[Advance]:
        yield lambda amount: None


class TerminalProgress:
    """A bar on standard error, drawn only if that is a terminal and only once the work has taken a second."""

    @contextmanager
    def task(self, label: str, total: int | None = None, unit: Unit = "files") -> Iterator[Advance]:
        if not sys.stderr.isatty():
            yield lambda amount: None
            return
        started = time.monotonic()
        done = 0
        bar: RichProgress | None = None

        def advance(amount: int) -> None:
            nonlocal bar, done
            done += amount
            with suppress(OSError):  # a terminal that went away ends no run
                if bar is None and time.monotonic() - started >= DELAY_SECONDS:
                    bar = _bar(unit)
                    bar.add_task(label, total=total)
                    bar.start()
                if bar is not None:
                    bar.update(bar.task_ids[0], completed=done)

        try:
            yield advance
        finally:
            if bar is not None:
                with suppress(OSError):
                    bar.stop()


def _bar(unit: Unit) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
