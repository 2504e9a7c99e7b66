"""What all formats share: how bytes reach a stream, and the counters that every report shows."""

from __future__ import annotations

from typing import TextIO

from omni_migrate.report.findings import Finding, Report


def emit(stream: TextIO, *pieces: str | bytes) -> None:
    """Write text in the stream's encoding and bytes as they are, then flush.

    Past the stream's own text layer where it has a binary one, so that line ends and a diff's bytes survive.
    """
    binary = getattr(stream, "buffer", None)
    stream.flush()
    for piece in pieces:
        if binary is None:
            stream.write(piece if isinstance(piece, str) else piece.decode("utf-8", "surrogateescape"))
        else:
            encoding = stream.encoding or "utf-8"
            binary.write(piece if isinstance(piece, bytes) else piece.encode(encoding, "backslashreplace"))
    if binary is not None:
        binary.flush()
    stream.flush()


def counters(report: Report) -> dict[str, int]:
    """How many files the run changed, left as they are, skipped and failed on."""
    changed = sum(change.action != "unchanged" for change in report.files)
    return {
        "changed": changed,
        "unchanged": len(report.files) - changed,
        "skipped": len(report.skipped),
        "failed": len(report.failed),
    }


def summary(report: Report) -> dict[str, int | float | str]:
    """The command's own numbers, after the counters that every report has."""
    own = {name: value for name, value in report.summary.items() if name not in counters(report)}
    return {**counters(report), **own}


def count_lines(data: bytes | None) -> int:
    """Lines of a file, the last one counted even without a line end; 0 for a file that is not there."""
    if not data:
        return 0
    return data.count(b"\n") + (not data.endswith(b"\n"))


def place(finding: Finding) -> str:
    """`path:line`, or the path alone for a finding about the whole file; one line, whatever is in the path."""
    path = printable(finding.path).replace("\n", "\\n")
    return f"{path}:{finding.line}" if finding.line else path


def printable(value: object) -> str:
    """Text for a terminal or a table: control characters, an escape sequence's included, as backslash escapes."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode("ascii")
        for char in str(value)
    )
