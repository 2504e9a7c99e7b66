"""Text for a terminal, and for a pipe: there without colour, and each row on one line however long."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from omni_migrate.report.diff import unified_diff
from omni_migrate.report.findings import Finding, Report
from omni_migrate.report.output import count_lines, emit, place, printable, summary

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough that no row of a report is ever folded where there is no terminal to fold for.
_NO_FOLDING = 100_000
_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan", "create": "green", "modify": "yellow"}


def write_text(report: Report, *, diff: bool, stream: TextIO) -> None:
    """The diff first, if asked for, so that `git apply` takes the whole output; then findings, files and numbers."""
    patch = unified_diff(report.files) if diff else b""
    emit(stream, patch, _tables(report, stream))


def _tables(report: Report, stream: TextIO) -> str:
    from rich.console import Console

    terminal = stream.isatty()
    drawn = io.StringIO()
    console = Console(
        file=drawn,
        force_terminal=terminal,
        no_color=not terminal,
        color_system="auto" if terminal and not os.environ.get("NO_COLOR") else None,
        width=shutil.get_terminal_size().columns if terminal else _NO_FOLDING,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    ascii_only = not (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf8")
    _draw(console, report, ascii_only)
    if terminal:
        return drawn.getvalue()
    return "".join(line.rstrip() + "\n" for line in drawn.getvalue().split("\n")[:-1])


def _draw(console: Console, report: Report, ascii_only: bool) -> None:
    from rich.text import Text

    if report.findings:
        console.print(Text("Findings", style="bold"))
        for found in report.findings:
            _finding(console, found)
        console.print()
    for table in report.extra.get("tables", ()):
        _table(console, table["title"], table["columns"], table["rows"], ascii_only)
    files = [
        (change.action, change.path, count_lines(change.before), count_lines(change.after)) for change in report.files
    ]
    if files:
        _table(console, "Files", ("action", "path", "lines before", "lines after"), files, ascii_only)
    for title, named in (("Skipped", report.skipped), ("Failed", report.failed)):
        if named:
            _table(console, title, ("path", "reason"), named, ascii_only)
    version = f" ({report.source_version})" if report.source_version else ""
    console.print(printable(f"{report.command} {report.source_spec}{version}"), soft_wrap=True)
    numbers = ", ".join(f"{name} {value}" for name, value in summary(report).items())
    console.print(printable(numbers), soft_wrap=True)


def _one_line(cell: object) -> str:
    return " ".join(printable(cell).split("\n"))


def _finding(console: Console, found: Finding) -> None:
    """`path:line: severity rule: message`, as compilers write it, so that editors and grep know it."""
    from rich.text import Text

    severity = found.severity.value
    symbol = f" [{found.symbol}]" if found.symbol else ""
    line = Text(f"{printable(place(found))}: ")
    line.append(severity, style=_STYLES.get(severity, ""))
    line.append(f" {printable(found.rule)}: {_one_line(found.message)}{printable(symbol)}")
    console.print(line, soft_wrap=True)
    if found.hint:
        console.print(Text(f"    {_one_line(found.hint)}", style="dim"), soft_wrap=True)


def _table(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], ascii_only: bool
) -> None:
    from rich import box
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    style = box.ASCII if ascii_only else box.SIMPLE_HEAD
    table = Table(title=Text(printable(title), style="bold"), title_justify="left", box=style, pad_edge=False)
    for column in columns:
        table.add_column(Text(printable(column)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_one_line(cell), style=_STYLES.get(str(cell), "")) for cell in row))
    if Measurement.get(console, console.options.update(width=_NO_FOLDING), table).maximum <= console.width:
        console.print(table)
        return
    console.print(Text(printable(title), style="bold"))  # too wide: names are not folded, each row is a line
    for row in rows:
        console.print(Text("  ".join(filter(None, (_one_line(cell) for cell in row)))), soft_wrap=True)
    console.print()
