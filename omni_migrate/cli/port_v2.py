"""`omni-migrate port-v2`: RFC-005, from hook sites on vLLM's V1 runner to V2 runners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omni_migrate.cli.drawing import Drawing, show_document
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
from omni_migrate.errors import EXIT_CHECK_FAILED, EXIT_DONE, InputError


def port_v2(
    source: SourceSpec = None,
    vllm: Annotated[
        str | None,
        typer.Option(
            "--vllm",
            metavar="SPEC",
            help="The vLLM to prove the V2 extension points against: a version, a requirement or a directory. "
            "Default: the one that the release is for.",
        ),
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            "--track",
            metavar="FROM..TO",
            help="Write nothing but the V1 to V2 mapping document: what changed between two vLLM under the hooks.",
        ),
    ] = None,
    dry_run: DryRun = False,
    output: Output = None,
    branch: Branch = None,
    allow_dirty: AllowDirty = False,
    phase: Annotated[
        str | None, typer.Option("--phase", metavar="N|N-M|N,M", help="Only these phases of RFC-005.")
    ] = None,
    list_sites: Annotated[bool, typer.Option("--list-sites", help="List every hook site on V1.")] = False,
    drawn_as: Drawn = Format.TEXT,
    report_file: ReportFile = None,
    check: Check = False,
) -> int:
    """Find the omni hooks on V1, prove their way to vLLM's V2 runner, and write the V2 runners (RFC-005).

    The checkout is changed in place, unless an option says otherwise.
    """
    refuse_contradictions(dry_run=dry_run, check=check, list_sites=list_sites, output=output, branch=branch)
    phases = parse_phases(phase)

    from omni_migrate.port_v2 import mapping, run
    from omni_migrate.progress import TerminalProgress
    from omni_migrate.request import PortRequest

    with Drawing(drawn_as.value, report_file, diff=dry_run, output=output) as drawing:
        request = PortRequest(
            source=source,
            cwd=Path.cwd(),
            dry_run=dry_run,
            output=output,
            branch=branch,
            allow_dirty=allow_dirty,
            phases=phases,
            check=check,
            progress=TerminalProgress(),
            before_writing=drawing.prepare,
            vllm=vllm,
            list_sites=list_sites,
        )
        if track is not None:
            if drawn_as is Format.JSON or output is not None or branch is not None:
                raise InputError(
                    "--track: it only prints the mapping document, as Markdown; leave the other options out"
                )
            show_document(mapping(request, track), report_file)
            return EXIT_DONE
        report = run(request)
        drawing.finish(report)
    return EXIT_CHECK_FAILED if check and check_failed(report) else EXIT_DONE
