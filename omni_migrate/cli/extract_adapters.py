"""`omni-migrate extract-adapters`: RFC-003, model-specific code of the runners behind adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_migrate.cli.options import Format, check_failed, parse_phases, show
from omni_migrate.errors import EXIT_CHECK_FAILED, EXIT_DONE, InputError


def extract_adapters(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="A directory, DIR@REF, a wheel or source archive, installed:vllm-omni, or a requirement such as "
            "vllm-omni==0.30.0. Default: the checkout around the current directory.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; print the diff and the summary.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Write the whole tree with the changes into this empty folder."),
    ] = None,
    branch: Annotated[
        str | None,
        typer.Option("--branch", metavar="NAME", help="Make one signed-off commit per phase on a new branch."),
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Run on a checkout with uncommitted changes.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ADAPTER", help="Only this adapter; may be repeated.")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="N|N-M|N,M", help="Only these phases of RFC-003.")
    ] = None,
    list_sites: Annotated[
        bool, typer.Option("--list-sites", help="List every model-specific site with its evidence.")
    ] = False,
    drawn_as: Annotated[
        Format, typer.Option("--format", help="How the report is drawn on standard output.")
    ] = Format.TEXT,
    report_file: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write the report also into a file; .json, .md and .txt say the format.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 1 if anything would change or a finding is an error."),
    ] = False,
) -> int:
    """Find every model-specific site of the runners and move it behind adapters (RFC-003).

    The checkout is changed in place, unless an option says otherwise.
    """
    if branch == "":
        raise InputError("--branch: the name is empty; give the name of a new branch")
    if output is not None and branch is not None:
        raise InputError("--output and --branch exclude each other: write into a folder or into the checkout")
    for reading, wanted in (("--dry-run", dry_run), ("--check", check)):
        for writing, target in (("--output", output), ("--branch", branch)):
            if wanted and target is not None:
                raise InputError(f"{reading} and {writing} exclude each other: with {reading} nothing is written")
    phases = parse_phases(phase)

    from omni_migrate.extract import run
    from omni_migrate.progress import TerminalProgress
    from omni_migrate.request import ExtractRequest

    report = run(
        ExtractRequest(
            source=source,
            cwd=Path.cwd(),
            dry_run=dry_run,
            output=output,
            branch=branch,
            allow_dirty=allow_dirty,
            only=tuple(only or ()),
            phases=phases,
            list_sites=list_sites,
            check=check,
            progress=TerminalProgress(),
        )
    )
    show(report, drawn_as, report_file, diff=dry_run)
    return EXIT_CHECK_FAILED if check and check_failed(report) else EXIT_DONE
