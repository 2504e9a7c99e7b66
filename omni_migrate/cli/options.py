"""What the commands' options have in common."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omni_migrate.errors import InputError

if TYPE_CHECKING:
    from omni_migrate.report.findings import Report

EXIT_CODES = """\b
Exit codes:
  0  done, whatever was found
  1  --check: something would change, or a finding is an error
  2  usage or input: no such path, not vllm-omni, dirty tree, no network
  3  the tool's own verification failed; nothing was written
  130  interrupted; the tree is as it was
"""


class Format(str, Enum):
    """How a report is drawn."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


SourceSpec = Annotated[
    "str | None",
    typer.Argument(
        metavar="SOURCE",
        help="A directory, DIR@REF, a wheel or source archive, installed:vllm-omni, or a requirement such as "
        "vllm-omni==0.30.0. Default: the checkout around the current directory.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing; print the diff and the summary.")]
Output = Annotated[
    "Path | None",
    typer.Option("--output", metavar="DIR", help="Write the whole tree with the changes into this empty folder."),
]
Branch = Annotated[
    "str | None",
    typer.Option("--branch", metavar="NAME", help="Make one signed-off commit per phase on a new branch."),
]
AllowDirty = Annotated[bool, typer.Option("--allow-dirty", help="Run on a checkout with uncommitted changes.")]
Drawn = Annotated[Format, typer.Option("--format", help="How the report is drawn on standard output.")]
ReportFile = Annotated[
    "Path | None",
    typer.Option(
        "--report", metavar="FILE", help="Write the report also into a file; .json, .md and .txt say the format."
    ),
]
Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; exit 1 if anything would change or a finding is an error.")
]


def refuse_contradictions(
    *, dry_run: bool, check: bool, list_sites: bool, output: Path | None, branch: str | None
) -> None:
    """Raise InputError for options that ask for two places to write to, or to write and not to."""
    if branch == "":
        raise InputError("--branch: the name is empty; give the name of a new branch")
    if output is not None and branch is not None:
        raise InputError("--output and --branch exclude each other: write into a folder or into the checkout")
    for reading, wanted in (("--dry-run", dry_run), ("--check", check), ("--list-sites", list_sites)):
        for writing, target in (("--output", output), ("--branch", branch)):
            if wanted and target is not None:
                raise InputError(f"{reading} and {writing} exclude each other: with {reading} nothing is written")


def parse_phases(text: str | None) -> tuple[int, ...]:
    """`3`, `2-4`, `1,3` or a mix as sorted numbers; nothing is no number. Raises InputError."""
    if text is None:
        return ()
    phases: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        numbers = (first, last) if dash else (first, first)
        if not all(number.isascii() and number.isdigit() for number in numbers) or int(numbers[0]) > int(numbers[1]):
            raise InputError(f"--phase {text}: not a phase; give a number (3), a range (2-4) or a list (1,3)")
        phases.update(range(int(numbers[0]), min(int(numbers[1]), 99) + 1))
    return tuple(sorted(phases))


def check_failed(report: Report) -> bool:
    """What `--check` exits 1 for: a file would change, or a finding is an error."""
    return any(change.action != "unchanged" for change in report.files) or any(
        finding.severity.value == "error" for finding in report.findings
    )
