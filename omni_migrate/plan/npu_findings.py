"""What the alignment and the parity of a platform's runners say, as findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from omni_migrate.facts.alignment import MARGIN, Missed, Override
from omni_migrate.facts.omni_lines import OmniLines
from omni_migrate.facts.platform_parity import Item
from omni_migrate.report.findings import Finding, Severity

RULES = (
    "parity-base",
    "parity-method",
    "parity-probe",
    "parity-call",
    "parity-statement",
    "parity-keyword",
    "parity-field",
    "parity-arity",
    "omni-unmarked",
    "marked-upstream",
    "copy-dropped",
    "copy-missed",
    "base-undecided",
)
_WHAT = {
    "base": "does not extend {name}",
    "method": "lacks {name}",
    "probe": "does not ask the model for {name}",
    "call": "does not call {name}",
    "statement": "lacks `{name}`",
    "keyword": "does not take {name}",
    "field": "has no field {name}",
    "arity": "disagrees on what {name} returns",
}
_LONGEST = 80


def parity_findings(items: Iterable[Item]) -> Iterator[Finding]:
    """One finding for each thing that a platform lacks. What is certain to fail at run time is an error."""
    for item in items:
        if item.state != "lacks":
            continue
        severity = Severity.NOTE if item.sure == "unsure" or item.kind == "statement" else Severity.WARNING
        if item.sure == "certain" and item.kind in ("method", "arity"):
            severity = Severity.ERROR
        what = _WHAT[item.kind].format(name=_short(item.name))
        there = f"{PurePosixPath(item.gpu.path).name}:{item.gpu.line}"
        yield Finding(
            item.place.path,
            item.place.line,
            f"parity-{item.kind}",
            severity,
            item.place.symbol if item.place.cls else item.platform_class,
            f"{item.platform_class} {what}, which {item.gpu.symbol} has ({there}): {item.why} ({item.sure})",
            f"compare {item.gpu.path}:{item.gpu.line}",
        )


def line_findings(lines: Iterable[OmniLines]) -> Iterator[Finding]:
    """Runs of omni's lines without a marker, and of upstream's within one, in copied methods."""
    for found in lines:
        if found.override.kind != "copy" or found.override.choice is None:
            continue
        place, base = found.override.place, found.override.choice.base
        upstream = found.override.choice.alignment.upstream.symbol
        for block in found.blocks("unmarked"):
            message = (
                f"{_lines(block.lines)} from {block.first} to {block.last}: not in {upstream} of {base}, no marker"
            )
            hint = "--mark puts markers around whole statements"
            yield Finding(place.path, block.first, "omni-unmarked", Severity.WARNING, place.symbol, message, hint)
        for block in found.blocks("upstream-marked"):
            message = f"{_lines(block.lines)} from {block.first} to {block.last}: marked, and in {upstream} of {base}"
            hint = "move the marker, so that it encloses what is omni's"
            yield Finding(place.path, block.first, "marked-upstream", Severity.NOTE, place.symbol, message, hint)


def copy_findings(overrides: Iterable[Override]) -> Iterator[Finding]:
    """What copies lack of the upstream version that they began as, and where that version can't be told."""
    for override in overrides:
        choice = override.choice
        if override.kind != "copy" or choice is None:
            continue
        place = override.place
        for gone in choice.alignment.dropped:
            message = f"dropped `{_short(gone.text)}` of {choice.alignment.upstream.symbol} in {choice.base}"
            where = f"it stands in lines {gone.first} to {gone.last} of {choice.alignment.upstream.path}"
            yield Finding(place.path, gone.after, "copy-dropped", Severity.NOTE, place.symbol, message, where)
        if choice.undecided:
            message = f"began as {choice.base} or {', '.join(choice.undecided)}: fewer than {MARGIN} lines differ"
            yield Finding(place.path, place.line, "base-undecided", Severity.NOTE, place.symbol, message)


def missed_findings(override: Override, upstream: str, missed: Iterable[Missed]) -> Iterator[Finding]:
    """Changes of `upstream`, a version's label, that the copy does not have."""
    place = override.place
    for change in missed:
        verb = {"added": "does not have", "changed": "has an older form of", "removed": "still has"}[change.kind]
        message = f"{verb} `{_short(change.text)}`, {change.kind} in {upstream} (line {change.first})"
        yield Finding(place.path, change.after, "copy-missed", Severity.NOTE, place.symbol, message)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _lines(count: int) -> str:
    return f"{count} line{'s' * (count > 1)}"
