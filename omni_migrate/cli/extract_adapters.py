"""`omni-migrate extract-adapters`: RFC-003, model-specific code of the runners behind adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_migrate.cli.drawing import Drawing
from omni_migrate.cli.options import (
    AllowDirty,
    Branch,
    Check,
    Drawn,
    DryRun,
    Format,
    Output,
    ReportFile,
    SourceSpec,
    check_failed,
    parse_phases,
    refuse_contradictions,
)
from omni_migrate.errors import EXIT_CHECK_FAILED, EXIT_DONE


def extract_adapters(
    source: SourceSpec = None,
    dry_run: DryRun = False,
    output: Output = None,
    branch: Branch = None,
    allow_dirty: AllowDirty = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ADAPTER", help="Only this adapter; may be repeated.")
    ] = None,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="N|N-M|N,M", help="Only these phases of RFC-003.")
    ] = None,
    list_sites: Annotated[
        bool, typer.Option("--list-sites", help="List every model-specific site with its evidence.")
    ] = False,
    drawn_as: Drawn = Format.TEXT,
    report_file: ReportFile = None,
    check: Check = False,
) -> int:
    """Find every model-specific site of the runners and move it behind adapters (RFC-003).

    The checkout is changed in place, unless an option says otherwise.
    """
    refuse_contradictions(dry_run=dry_run, check=check, list_sites=list_sites, output=output, branch=branch)
    phases = parse_phases(phase)

    from omni_migrate.extract import run
    from omni_migrate.progress import TerminalProgress
    from omni_migrate.request import ExtractRequest

    with Drawing(drawn_as.value, report_file, diff=dry_run, output=output) as drawing:
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
                before_writing=drawing.prepare,
            )
        )
        drawing.finish(report)
    return EXIT_CHECK_FAILED if check and check_failed(report) else EXIT_DONE
