"""Puts marker comments around runs of omni statements that have none.

    def execute_model(self, scheduler_output):        def execute_model(self, scheduler_output):
        self._update_states(scheduler_output)             self._update_states(scheduler_output)
        self.hooks.begin(scheduler_output)       ->       # ---- Omni-new ----
        self.hooks.read_payloads()                        self.hooks.begin(scheduler_output)
        ids = self._prepare_inputs(scheduler_output)      self.hooks.read_payloads()
                                                          # ---- Omni-new ----
                                                          ids = self._prepare_inputs(scheduler_output)

Only whole statements of one body are enclosed, with the comment lines right above them; nothing but comment lines is
added. A statement that is omni's in part is left alone.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from codemods.blocks import first_line, is_divider
from omni_migrate.facts.modules import split_lines
from omni_migrate.facts.syntax import walk

DASHES = "-" * 38
MARKER = f"# {DASHES} Omni-new {DASHES}"


@dataclass(frozen=True)
class Run:
    """Whole statements of one body in a row: first and last line, 1-based, comments right above included."""

    first: int
    last: int
    indent: str


def mark_blocks(text: str, ours: Collection[int], marked: Collection[int] = ()) -> str:
    """The text with a marker line above and below every run of unmarked omni statements.

    `ours` are the lines of omni code, `marked` those that a pair of markers encloses already. Raises SyntaxError.
    """
    runs = runs_to_mark(text, ours, marked)
    before = ast.dump(ast.parse(text))
    if _keeps(before, result := _inserted(text, runs)):
        return result
    return _inserted(text, [run for run in runs if _keeps(before, _inserted(text, [run]))])


def runs_to_mark(text: str, ours: Collection[int], marked: Collection[int] = ()) -> list[Run]:
    """The runs of statements all of whose code lines are in `ours`, and none in `marked`."""
    return _Finder(text, ours, marked).runs()


def _keeps(before: str, after: str) -> bool:
    """Whether the code is the same; a comment after a backslash would break it."""
    try:
        return ast.dump(ast.parse(after)) == before
    except SyntaxError:
        return False


def _inserted(text: str, runs: Sequence[Run]) -> str:
    lines = split_lines(text)
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    for run in reversed(runs):
        marker = f"{run.indent}{MARKER}{newline}"
        if lines[run.last - 1].endswith(("\n", "\r")):
            lines.insert(run.last, marker)
        else:
            lines[run.last - 1] += newline
            lines.insert(run.last, marker.rstrip("\r\n"))
        lines.insert(run.first - 1, marker)
    return "".join(lines)


class _Finder:
    """One file: its lines, its comment lines and whose the rest is."""

    def __init__(self, text: str, ours: Collection[int], marked: Collection[int]) -> None:
        self.tree = ast.parse(text)
        self.lines = split_lines(text)
        self.comments: dict[int, str] = {}
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip() == "":
                self.comments[token.start[0]] = token.string
        self.code = {n for n, line in enumerate(self.lines, 1) if line.strip()} - self.comments.keys()
        self.free = (set(ours) - set(marked)) & self.code

    def runs(self) -> list[Run]:
        found: list[Run] = []
        for node in walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for body in _lists(node):
                    found += self._runs_of(body)
        outermost: list[Run] = []
        for run in sorted(set(found), key=lambda run: (run.first, -run.last)):
            if not outermost or run.first > outermost[-1].last:
                outermost.append(run)
        return outermost

    def _runs_of(self, body: Sequence[ast.stmt]) -> list[Run]:
        found: list[Run] = []
        taken: list[ast.stmt] = []
        for node in [*body, None]:
            good = node is not None and self._whole(node)
            if good and not (taken and self._divided(taken[-1], node)):  # type: ignore[arg-type]
                taken.append(node)  # type: ignore[arg-type]
                continue
            found += self._run(taken)
            taken = [node] if good and node is not None else []
        return found

    def _whole(self, node: ast.stmt) -> bool:
        """Whether a statement has its lines for itself and every code line of it is unmarked omni code."""
        first, last = first_line(node), node.end_lineno or node.lineno
        lines = range(first, last + 1)
        if not all(line in self.free for line in lines if line in self.code):
            return False
        if any(is_divider(self.comments[line]) for line in lines if line in self.comments):
            return False
        before = self.lines[first - 1].encode()[: node.col_offset].strip()
        after = self.lines[last - 1].encode()[node.end_col_offset :].strip()
        alone = before in (b"", b"@") and (not after or after.startswith(b"#"))
        return alone and not (isinstance(node, ast.If) and self.lines[first - 1].lstrip().startswith("elif"))

    def _divided(self, above: ast.stmt, below: ast.stmt) -> bool:
        between = range((above.end_lineno or 0) + 1, first_line(below))
        return any(is_divider(self.comments[line]) for line in between if line in self.comments)

    def _run(self, taken: Sequence[ast.stmt]) -> list[Run]:
        if not taken:
            return []
        first, last = first_line(taken[0]), taken[-1].end_lineno or taken[-1].lineno
        line = self.lines[first - 1]
        indent = line[: len(line) - len(line.lstrip())]
        while first - 1 in self.comments and not is_divider(self.comments[first - 1]):
            first -= 1
        above, below = self.comments.get(first - 1, ""), self.comments.get(last + 1, "")
        return [] if is_divider(above) and is_divider(below) else [Run(first, last, indent)]


def _lists(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    """Every list of statements below a node, without entering functions and classes inside."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        body = getattr(node, name, [])
        if not isinstance(body, list):
            continue
        if body and isinstance(body[0], ast.stmt):
            yield body
        for child in body:
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _lists(child)
