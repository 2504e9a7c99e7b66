"""The `omni-migrate` command. One module per command; a command imports its engine only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from omni_migrate.cli import audit_npu, explain, extract_adapters, list_knowledge, port_v2, recover
from omni_migrate.cli.commands import Command, Commands
from omni_migrate.cli.options import EXIT_CODES

app = typer.Typer(
    cls=Commands,
    help="Move vLLM-Omni's model runners onto adapters (RFC-003) and vLLM's V2 runner (RFC-005).",
    epilog=EXIT_CODES,
    # Rich help costs more to import than the rest of the start-up.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    add_completion=False,
)
app.command("extract-adapters", cls=Command, epilog=EXIT_CODES)(extract_adapters.extract_adapters)
app.command("port-v2", cls=Command, epilog=EXIT_CODES)(port_v2.port_v2)
app.command("audit-npu", cls=Command, epilog=EXIT_CODES)(audit_npu.audit_npu)
app.command("recover", cls=Command, epilog=EXIT_CODES)(recover.recover)
app.command("explain", cls=Command)(explain.explain)
app.command("list", cls=Command)(list_knowledge.list_knowledge)


def _print_version(wanted: bool) -> None:
    if wanted:
        from omni_migrate import __version__

        typer.echo(f"omni-migrate {__version__}")
        raise typer.Exit


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The console script: runs the command and ends the process with its exit code."""
    from omni_migrate.cli.guard import closed_pipe_is_fine, exit_code_of, keep_standard_streams

    keep_standard_streams()

    def run() -> int:
        code: object = 0
        with closed_pipe_is_fine():
            try:
                app(prog_name="omni-migrate")
            except SystemExit as stop:
                code = stop.code
        return code if isinstance(code, int) else 0

    # Outside a command, printing its help can still fail.
    raise SystemExit(exit_code_of(run))
