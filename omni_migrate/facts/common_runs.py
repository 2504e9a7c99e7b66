"""What two sequences have in common, in order: difflib's answer, and for long ones an answer in reasonable time."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

Run = tuple[int, int, int]
"""Where equal items begin in the one and in the other, and how many they are."""

ORDINARY = 4_000_000  # pairs of items: two texts of 2000 lines
_GAP = 250_000  # between two anchors of long texts


def common_runs(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Run]:
    """Runs of equal items, in order.

    difflib takes time by the square of the length. Of long sequences only what stands between items that are in both
    just once is left to it, and a gap between those that is itself long counts as different.
    """
    if len(a) * len(b) <= ORDINARY:
        return _by_difflib(a, b)
    most = min(len(a), len(b))
    start = next((n for n in range(most) if a[n] != b[n]), most)
    stop = next((n for n in range(most - start) if a[-1 - n] != b[-1 - n]), most - start)
    end_a, end_b = len(a) - stop, len(b) - stop
    runs = [(0, 0, start)]
    left, right = start, start
    for i, j in [*_anchors(a, b, (start, end_a), (start, end_b)), (end_a, end_b)]:
        if 0 < (i - left) * (j - right) <= _GAP:
            runs += [(left + x, right + y, n) for x, y, n in _by_difflib(a[left:i], b[right:j])]
        if i < end_a:
            runs.append((i, j, 1))
        left, right = i + 1, j + 1
    return list(_joined([*runs, (end_a, end_b, stop)]))


def _by_difflib(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[Run]:
    if a == b:
        return [(0, 0, len(a))] if a else []
    blocks = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks if block.size]


def _anchors(
    a: Sequence[Hashable], b: Sequence[Hashable], in_a: tuple[int, int], in_b: tuple[int, int]
) -> list[tuple[int, int]]:
    """Places of items that stand once in both, in an order that holds for both: as many as there can be."""
    once = [Counter(side[first:stop]) for side, (first, stop) in ((a, in_a), (b, in_b))]
    places = {b[j]: j for j in range(*in_b) if once[1][b[j]] == 1}
    pairs = [(i, places[a[i]]) for i in range(*in_a) if once[0][a[i]] == 1 and a[i] in places]
    ends: list[int] = []  # the least place in b at which an order of that length can end
    last: list[int] = []
    before: list[int | None] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1], last[length : length + 1] = [j], [number]
    found: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _joined(runs: Sequence[Run]) -> Iterator[Run]:
    """Runs that follow each other at once are one."""
    known: Run | None = None
    for run in runs:
        if not run[2]:
            continue
        if known is not None and (known[0] + known[2], known[1] + known[2]) == run[:2]:
            known = (*known[:2], known[2] + run[2])
        else:
            if known is not None:
                yield known
            known = run
    if known is not None:
        yield known
