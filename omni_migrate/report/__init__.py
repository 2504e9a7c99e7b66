"""One findings model, and one module per output format."""

from __future__ import annotations

from typing import TextIO

from omni_migrate.errors import InputError
from omni_migrate.report.findings import Report

FORMATS = ("text", "json", "markdown")


def render(report: Report, format: str, *, diff: bool, stream: TextIO) -> None:
    """Draw the report in one of FORMATS on `stream`, with the unified diff of its files if `diff`.

    What the stream's encoding cannot hold is written as backslash escapes; the diff's bytes go out as they are. A
    closed pipe raises BrokenPipeError here. Raises InputError for an unknown format.
    """
    if format == "text":
        from omni_migrate.report.text import write_text

        write_text(report, diff=diff, stream=stream)
    elif format == "json":
        from omni_migrate.report.json import write_json

        write_json(report, diff=diff, stream=stream)
    elif format == "markdown":
        from omni_migrate.report.markdown import write_markdown

        write_markdown(report, diff=diff, stream=stream)
    else:
        raise InputError(f"no such format: {format}; one of {', '.join(FORMATS)}")
