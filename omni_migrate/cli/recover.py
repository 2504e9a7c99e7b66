"""`omni-migrate recover`: puts back what an interrupted run left half written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def recover(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="A folder of the checkout. Default: the current one."),
    ] = None,
) -> int:
    """Put back what an interrupted run left half written in a checkout.

    Commands that write do so by themselves; commands that read refuse such a checkout.
    """
    from omni_migrate.cli.guard import closed_pipe_is_fine
    from omni_migrate.errors import InputError
    from omni_migrate.writing import put_back

    place = folder or Path.cwd()
    if not place.is_dir():
        raise InputError(f"{place}: no such folder; give one of the checkout")
    said = put_back(place)
    with closed_pipe_is_fine():
        typer.echo(said)
    return 0
