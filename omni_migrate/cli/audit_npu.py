"""`omni-migrate audit-npu`: omni's blocks in the NPU runners, their catalogue, and GPU/NPU parity."""

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
    refuse_contradictions,
)
from omni_migrate.errors import EXIT_CHECK_FAILED, EXIT_DONE


def audit_npu(
    source: SourceSpec = None,
    ascend: Annotated[
        list[str] | None,
        typer.Option(
            "--ascend",
            metavar="SPEC",
            help="The vllm-ascend that the NPU runners were copied from: a version, a requirement, a wheel, a source "
            "archive or a directory. May be repeated: each method's base is chosen among them; the last is the newest.",
        ),
    ] = None,
    vllm: Annotated[
        list[str] | None,
        typer.Option(
            "--vllm",
            metavar="SPEC",
            help="The vLLM of the GPU runners, to tell omni's statements from it. May be repeated, older ones first: "
            "what stands in any of them is not omni's.",
        ),
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option("--catalogue", metavar="FILE", help="The catalogue's file, relative to the tree's root."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Bring the catalogue up to date.")] = False,
    fix_markers: Annotated[bool, typer.Option("--fix-markers", help="Mend marker comments, where certain.")] = False,
    mark: Annotated[bool, typer.Option("--mark", help="Put markers around unmarked omni blocks.")] = False,
    dry_run: DryRun = False,
    output: Output = None,
    branch: Branch = None,
    allow_dirty: AllowDirty = False,
    drawn_as: Drawn = Format.TEXT,
    report_file: ReportFile = None,
    check: Check = False,
) -> int:
    """List omni's blocks in the NPU runners, what is omni's and unmarked, and what the GPU runners have beyond them.

    Nothing is written without --write, --fix-markers or --mark.
    """
    refuse_contradictions(dry_run=dry_run, check=check, list_sites=False, output=output, branch=branch)

    from omni_migrate.audit_npu import run
    from omni_migrate.progress import TerminalProgress
    from omni_migrate.request import AuditRequest

    with Drawing(drawn_as.value, report_file, diff=dry_run, output=output) as drawing:
        report = run(
            AuditRequest(
                source=source,
                cwd=Path.cwd(),
                dry_run=dry_run,
                output=output,
                branch=branch,
                allow_dirty=allow_dirty,
                check=check,
                progress=TerminalProgress(),
                before_writing=drawing.prepare,
                ascend=tuple(ascend or ()),
                vllm=tuple(vllm or ()),
                catalogue=catalogue,
                write=write,
                fix_markers=fix_markers,
                mark=mark,
            )
        )
        drawing.finish(report)
    return EXIT_CHECK_FAILED if check and check_failed(report) else EXIT_DONE
