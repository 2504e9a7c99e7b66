"""check-untouched: outside the regions that a plan declares, a file is byte for byte the same, in the same order.

A file that the tool writes and people edit may be laid out anew, so of it the tokens are compared, not the lines.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from omni_migrate.report.findings import Finding, Severity

RULE = "check-untouched"


def untouched(path: str, before: bytes, after: bytes, touched: Iterable[tuple[int, int]]) -> list[Finding]:
    """A finding for the first line outside `touched` that `after` has lost, changed or moved; else none.

    `touched` are 1-based, inclusive line ranges of `before`; (n, n - 1) is the gap before line n, where text may only
    be inserted. Lines end at LF. What stands in place of a touched range is free.
    """
    old, new = before.split(b"\n"), after.split(b"\n")
    kept = _kept(len(old), touched)
    position = 0
    for number, (start, end) in enumerate(kept):
        segment = old[start:end]
        if number == len(kept) - 1:
            at = len(new) - len(segment)
            same = _common(reversed(new[position:]), reversed(segment))
            line = end - same
            fits = same == len(segment) and (number > 0 or at == 0)
        elif number == 0:
            at = 0
            same = _common(new, segment)
            line = start + same + 1
            fits = same == len(segment)
        else:
            at, same = _find(new, segment, position)
            line = start + same + 1
            fits = same == len(segment)
        if not fits:
            message = "this line is outside the planned edit, but is not there unchanged afterwards"
            return [Finding(path, max(line, 1), RULE, Severity.ERROR, "", message)]
        position = at + len(segment)
    return []


def _kept(total: int, touched: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches between the touched ranges, half-open and 0-based; empty ones hold the ends in place."""
    kept, position = [], 0
    for first, last in sorted(touched):
        kept.append((position, max(position, first - 1)))
        position = max(position, last, first - 1)
    return [*kept, (position, max(position, total))]


def _common(these: Iterable[bytes], those: Iterable[bytes]) -> int:
    """How many lines agree from the start on."""
    count = 0
    for this, that in zip(these, those, strict=False):
        if this != that:
            break
        count += 1
    return count


def _find(lines: Sequence[bytes], segment: Sequence[bytes], position: int) -> tuple[int, int]:
    """(where `segment` first stands from `position` on, how many of its lines do): the longest start if none fits."""
    best = (position, 0)
    for at in range(position, len(lines)):
        same = _common(lines[at : at + len(segment)], segment)
        if same == len(segment):
            return at, same
        best = max(best, (at, same), key=lambda found: found[1])
    return best


def only_added_to(path: str, before: bytes, after: bytes, replaced: Iterable[tuple[int, int]]) -> list[Finding]:
    """A finding for the first token or comment of Python code that `after` does not have in the same order; else none.

    Lines within `replaced` (1-based, inclusive) may go. Commas, parentheses and line breaks are a formatter's.
    """
    free = {line for first, last in replaced for line in range(first, last + 1)}
    there = (word for _, word in _words(after))
    for line, word in _words(before):
        if line not in free and all(other != word for other in there):
            message = f"`{word.splitlines()[0]}` is not there, or elsewhere, in a file that was only to be added to"
            return [Finding(path, line, RULE, Severity.ERROR, "", message)]
    return []


def _words(data: bytes) -> Iterator[tuple[int, str]]:
    for token in tokenize.tokenize(io.BytesIO(data).readline):
        if token.type != tokenize.ENCODING and token.string.strip() and token.string not in (",", "(", ")"):
            yield token.start[0], token.string.rstrip()
