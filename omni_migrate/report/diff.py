"""A unified diff of file changes, in exactly the form that `git apply` takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from omni_migrate.facts.common_runs import ORDINARY, common_runs
from omni_migrate.report.findings import FileChange

_NO_NEWLINE = b"\\ No newline at end of file\n"


def unified_diff(changes: Iterable[FileChange]) -> bytes:
    """The changes as one patch in git's format, in the order given; files that stay the same are left out.

    Bytes, because a patch must carry CRLF, a BOM and text in any encoding as they are. Lines end at LF only, as git
    reads them.
    """
    return b"".join(piece for change in changes for piece in _file_diff(change))


def _file_diff(change: FileChange) -> Iterator[bytes]:
    if change.before == change.after:
        return
    old, new = _quoted("a/" + change.path), _quoted("b/" + change.path)
    yield b"diff --git " + old + b" " + new + b"\n"
    if change.before is None:
        yield b"new file mode 100644\n"
    hunks = list(_hunks(_lines(change.before or b""), _lines(change.after)))
    if hunks:
        yield b"--- " + (b"/dev/null" if change.before is None else _terminated(old)) + b"\n"
        yield b"+++ " + _terminated(new) + b"\n"
        yield from hunks


def _hunks(before: list[str], after: list[str]) -> Iterator[bytes]:
    matcher = difflib.SequenceMatcher(None, before, after)
    if len(before) * len(after) > ORDINARY:
        ends = difflib.Match(len(before), len(after), 0)
        matcher.matching_blocks = [*(difflib.Match(*run) for run in common_runs(before, after)), ends]  # type: ignore[attr-defined]
    for group in matcher.get_grouped_opcodes(3):
        (_, first, _, first_after, _), (_, _, last, _, last_after) = group[0], group[-1]
        yield f"@@ -{_range(first, last)} +{_range(first_after, last_after)} @@\n".encode()
        for tag, old, old_end, new, new_end in group:
            sides = [(" ", before[old:old_end])] if tag == "equal" else [("-", before[old:old_end])]
            sides += [("+", after[new:new_end])] if tag != "equal" else []
            yield from (_line(sign + line) for sign, lines in sides for line in lines)


def _range(start: int, stop: int) -> str:
    """Lines of a hunk as a patch names them: the first one and, unless it is one, how many."""
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + bool(length)},{length}"


def _line(text: str) -> bytes:
    data = text.encode("latin-1")
    return data if data.endswith(b"\n") else data + b"\n" + _NO_NEWLINE


def _lines(data: bytes) -> list[str]:
    """Lines with their ends; latin-1 maps each byte to one character, so that difflib can take any file."""
    lines = [line + "\n" for line in data.decode("latin-1").split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _quoted(path: str) -> bytes:
    """The path as git writes it: plain, or C-quoted if it holds quotes, backslashes, control or non-ASCII bytes."""
    raw = path.encode("utf-8", "surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in b'"\\' for byte in raw):
        return raw
    escapes = {ord('"'): b'\\"', ord("\\"): b"\\\\", 9: b"\\t", 10: b"\\n", 13: b"\\r"}
    return (
        b'"'
        + b"".join(escapes.get(byte) or (bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte) for byte in raw)
        + b'"'
    )


def _terminated(path: bytes) -> bytes:
    """A name with a space needs a tab after it, or the reader would end it at the space."""
    return path + b"\t" if b" " in path and not path.startswith(b'"') else path
