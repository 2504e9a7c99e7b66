"""check-comments: no comment is lost, none is doubled; comments may move between files."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator

from omni_migrate.report.findings import FileChange, Finding, Severity

RULE = "check-comments"


def comments(changes: Iterable[FileChange], generated: frozenset[str] = frozenset()) -> list[Finding]:
    """One finding for each comment that is in the old files and not in the new ones, or the other way round.

    Comments are compared without indentation and without the blanks after `#`, which a formatter may change.
    `generated` holds the comments that the tool writes itself: of these there may be more than before.
    """
    before, after = [], []
    for change in changes:
        if change.path.endswith(".py"):
            before += [(text, change.path, line) for text, line in comments_in(change.before or b"")]
            after += [(text, change.path, line) for text, line in comments_in(change.after)]
    allowed = {_text(comment) for comment in generated}
    lost = _surplus(before, after)
    added = [site for site in _surplus(after, before) if site[0] not in allowed]
    return [
        *(_finding(site, "is lost", "it must move with its statement") for site in lost),
        *(_finding(site, "is new or doubled", "comments that are generated must be declared") for site in added),
    ]


def _surplus(these: list[tuple[str, str, int]], those: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """The sites of `these` beyond what `those` have, sites in a file that has fewer of the text named first."""
    rest = Counter(text for text, _, _ in these)
    rest.subtract(text for text, _, _ in those)
    there = Counter((text, path) for text, path, _ in those)
    surplus, later = [], []
    for site in these:
        text, path, _ = site
        if there[text, path] > 0:
            there[text, path] -= 1
            later.append(site)
        elif rest[text] > 0:
            rest[text] -= 1
            surplus.append(site)
    for site in later:
        if rest[site[0]] > 0:
            rest[site[0]] -= 1
            surplus.append(site)
    return surplus


def comments_in(data: bytes) -> Iterator[tuple[str, int]]:
    """(text, line) of each comment; of a file that does not tokenize, those before the error."""
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT:
                yield _text(token.string), token.start[0]
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError):
        return


def _text(comment: str) -> str:
    return comment.strip().removeprefix("#").strip()


def _finding(site: tuple[str, str, int], what: str, hint: str) -> Finding:
    text, path, line = site
    return Finding(path, line, RULE, Severity.ERROR, "", f"the comment `# {text}` {what}", hint)
