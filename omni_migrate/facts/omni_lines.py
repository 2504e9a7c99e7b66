"""Every line of an aligned runner by whose it is and whether a pair of markers encloses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from omni_migrate.facts.alignment import Origin, Override

Class = Literal["marked", "unmarked", "upstream", "upstream-marked"]


class MarkedSpan(Protocol):
    """Lines that a marker says are omni's, the first and the last included: a pair of markers, or a single line's."""

    @property
    def path(self) -> str: ...
    @property
    def first_line(self) -> int: ...
    @property
    def last_line(self) -> int: ...


@dataclass(frozen=True)
class Block:
    """Lines of one kind in a row, blank and comment lines between them not counted: first and last, 1-based."""

    first: int
    last: int
    lines: int


@dataclass(frozen=True)
class OmniLines:
    """The code lines of one definition: line -> its origin, and whether it is marked."""

    override: Override
    origins: dict[int, Origin]
    marked: frozenset[int]

    def of(self, kind: Class) -> list[int]:
        """The lines of a kind. A line that upstream has in another form counts as omni's."""
        upstream, marked = kind.startswith("upstream"), kind in ("marked", "upstream-marked")
        return [
            line
            for line, origin in self.origins.items()
            if (origin == "upstream") == upstream and (line in self.marked) == marked
        ]

    def blocks(self, kind: Class) -> list[Block]:
        """The same, in runs."""
        order = {line: place for place, line in enumerate(self.origins)}
        runs: list[list[int]] = []
        for line in self.of(kind):
            if runs and order[line] == order[runs[-1][-1]] + 1:
                runs[-1].append(line)
            else:
                runs.append([line])
        return [Block(run[0], run[-1], len(run)) for run in runs]


def classify(override: Override, spans: Iterable[MarkedSpan]) -> OmniLines:
    """The lines of an override, by origin and by the pairs of markers of its file."""
    origins, path = override.origins(), override.place.path
    marked = {
        line for span in spans if span.path == path for line in range(span.first_line, span.last_line + 1)
    } & origins.keys()
    return OmniLines(override, origins, frozenset(marked))


@dataclass(frozen=True)
class Figures:
    """Code lines of copied methods: omni's (`changed` ones included) and upstream's, with and without a marker."""

    omni: int
    unmarked: int
    upstream: int
    upstream_marked: int
    copies: int


def figures(found: Sequence[OmniLines], kinds: Collection[str] = ("copy",)) -> Figures:
    """Sums over the definitions of the given kinds (Override.kind)."""
    of = [lines for lines in found if lines.override.kind in kinds]

    def count(kind: Class) -> int:
        return sum(len(lines.of(kind)) for lines in of)

    omni, upstream = count("marked") + count("unmarked"), count("upstream") + count("upstream-marked")
    return Figures(omni, count("unmarked"), upstream, count("upstream-marked"), len(of))
