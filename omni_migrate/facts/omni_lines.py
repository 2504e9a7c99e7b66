"""Every line of an aligned runner by whose it is and whether a pair of markers encloses it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from omni_migrate.facts.alignment import Origin, Override

# A line comment beside code says the same of this line as a pair of markers.
INLINE = re.compile(r"#.*\bomni[- ]?(?:new|specific)\b|#\s*\[omni\]", re.IGNORECASE)

Class = Literal["marked", "unmarked", "upstream", "upstream-marked"]


class MarkedSpan(Protocol):
    """The lines between an opening and a closing marker of one scope, both excluded or included alike.

    `method` is "" for a pair at class level, which may enclose whole methods.
    """

    @property
    def path(self) -> str: ...
    @property
    def cls(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


@dataclass(frozen=True)
class Span:
    """A MarkedSpan and nothing more."""

    path: str
    cls: str
    method: str
    first: int
    last: int


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
    origins = override.origins()
    place, text = override.place, override.text.module.lines
    inside = {
        line
        for span in spans
        if span.path == place.path
        for line in range(span.first, span.last + 1)
        if line in origins
    }
    inside.update(line for line in origins if INLINE.search(text[line - 1]))
    return OmniLines(override, origins, frozenset(inside))


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
