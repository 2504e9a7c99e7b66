"""Send the calls of a moved method to the adapter.

Before:
    self._init_mrope_positions(req_state)

After:
    self._adapter.init_request_positions(self, req_state)

Only calls on the receiver itself change; a reference that is not a call (a callback, a `super()` call) stays.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Mapping, Sequence

from codemods.blocks import parse_method
from omni_migrate.facts.syntax import walk


def rewire_calls(source: str, receiver: str, targets: Mapping[str, str], *, target: str | None = None) -> str:
    """`source` is one dedented method; `targets` maps a moved method to its adapter method.

    The adapter is `receiver._adapter`, or `target` (inside an adapter: `self`).
    """
    adapter = target or f"{receiver}._adapter"
    lines = [line.encode() for line in io.StringIO(source, newline="")]
    edits: list[tuple[int, int, int, str]] = []
    for node in walk(parse_method(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called, owner = node.func, node.func.value
        if called.attr not in targets or not isinstance(owner, ast.Name) or owner.id != receiver:
            continue
        line, column = called.end_lineno or 0, called.end_col_offset or 0
        edits.append((owner.lineno, owner.col_offset, owner.end_col_offset or 0, adapter))
        edits.append((line, column - len(called.attr.encode()), column, targets[called.attr]))
        edits += _first_argument(node, receiver, lines)
    for line, start, stop, text in sorted(edits, reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text.encode() + lines[line - 1][stop:]
    return b"".join(lines).decode()


def _first_argument(call: ast.Call, receiver: str, lines: Sequence[bytes]) -> Iterator[tuple[int, int, int, str]]:
    """The edits that put the receiver before the arguments."""
    line, column = _after_opening(call, lines)
    if not call.args and not call.keywords:
        yield line, column, column, receiver
        return
    first = call.args[0] if call.args else None
    if isinstance(first, ast.GeneratorExp) and (first.lineno, first.col_offset) == (line, column - 1):
        end = (call.end_col_offset or 0) - 1  # alone, a generator has the call's parentheses for its own
        yield line, column, column, f"{receiver}, ("
        yield call.end_lineno or 0, end, end, ")"
        return
    while not lines[line - 1][column:].split(b"#")[0].strip(b" \t\r\n\\"):
        line, column = line + 1, 0
    column += len(lines[line - 1][column:]) - len(lines[line - 1][column:].lstrip())
    yield line, column, column, f"{receiver}, "


def _after_opening(call: ast.Call, lines: Sequence[bytes]) -> tuple[int, int]:
    """Where the arguments of a call begin: what stands between the function and its parenthesis holds no other one."""
    line, column = call.func.end_lineno or 0, call.func.end_col_offset or 0
    while True:
        code = lines[line - 1][column:].split(b"#")[0]
        if b"(" in code:
            return line, column + code.index(b"(") + 1
        line, column = line + 1, 0
