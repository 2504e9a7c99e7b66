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
from collections.abc import Mapping

from codemods.blocks import parse_method


def rewire_calls(source: str, receiver: str, targets: Mapping[str, str], *, target: str | None = None) -> str:
    """`source` is one dedented method; `targets` maps a moved method to its adapter method.

    The adapter is `receiver._adapter`, or `target` (inside an adapter: `self`).
    """
    adapter = target or f"{receiver}._adapter"
    function = parse_method(source)
    edits: list[tuple[int, int, int, str]] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = node.func
        if called.attr not in targets or getattr(called.value, "id", None) != receiver:
            continue
        line, column = called.end_lineno or 0, called.end_col_offset or 0
        start = called.col_offset if called.lineno == line else column - len(called.attr.encode())
        edits.append((line, start, column, f"{adapter}.{targets[called.attr]}"))
        edits.append(_first_argument(node, receiver, line, column))
    lines = [line.encode() for line in io.StringIO(source, newline="")]
    for line, start, stop, text in sorted(edits, reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text.encode() + lines[line - 1][stop:]
    return b"".join(lines).decode()


def _first_argument(call: ast.Call, receiver: str, line: int, column: int) -> tuple[int, int, int, str]:
    """The edit that puts the receiver before the arguments; the parenthesis follows the method's name at once."""
    every: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not every:
        return line, column + 1, column + 1, receiver
    first = min(every, key=lambda argument: (argument.lineno, argument.col_offset))
    one_a_line = first.lineno > line and len(every) > 1 and len({argument.lineno for argument in every}) > 1
    gap = "\n" + " " * first.col_offset if one_a_line else " "
    return first.lineno, first.col_offset, first.col_offset, f"{receiver},{gap}"
