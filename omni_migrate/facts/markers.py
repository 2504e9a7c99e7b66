"""Marker comments: which lines of a platform's runners are said to be omni's, and which markers are broken.

Comments are found with tokenize, so never in strings, and each belongs to the suite that its column says. Markers pair
within one suite: over a whole file, one lone line would turn every later block inside out.
"""

from __future__ import annotations

import ast
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from omni_migrate.facts.modules import Module
from omni_migrate.knowledge import read_toml
from omni_migrate.limits import cpu_seconds, shown
from omni_migrate.report.findings import Finding, Severity

RULES = ("marker-lone", "marker-indent", "marker-inverted", "marker-nested", "marker-cut", "marker-empty")
# What a way of pairing costs: a block with nothing in it is less likely than a marker without its other half.
_LONE, _EMPTY = 10, 15
_CLAUSES = frozenset({"else", "elif", "except", "finally"})
_LAYOUT = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True)
class Style:
    """One way to write a marker; the keys are described in knowledge/markers.toml."""

    name: str
    kind: str
    pattern: re.Pattern[str]
    own: bool = False  # the project's

    def matches(self, comment: str) -> bool:
        """Whether a whole comment is such a marker. Raises InputError if a project's pattern takes too long for it."""
        if not self.own:
            return self.pattern.fullmatch(comment) is not None
        slow = (
            f"marker {self.name!r}: its pattern {shown(self.pattern.pattern)} takes more than a second for the comment "
            f"{shown(comment)}: write it plainly"
        )
        with cpu_seconds(1.0, slow):
            return self.pattern.fullmatch(comment) is not None


def marker_styles(extra: Iterable[Mapping[str, Any]] = ()) -> tuple[Style, ...]:
    """The project's styles, as the configuration's schema checked them, then the package's."""
    own = [Style(table["name"], table["kind"], re.compile(table["pattern"]), own=True) for table in extra]
    ours = read_toml("markers.toml")["style"]
    return (*own, *(Style(table["name"], table["kind"], re.compile(table["pattern"])) for table in ours))


@dataclass(frozen=True)
class Pair:
    """A marked block: `first_line` and `last_line` are its two marker lines, `comments` the own-line ones in it.

    `scope` is "Class.method", or "Class" for a pair around whole methods; `nested` if another pair encloses it.
    """

    path: str
    scope: str
    first_line: int
    last_line: int
    style: str
    indent: int
    comments: tuple[str, ...]
    nested: bool = False


@dataclass(frozen=True)
class MarkedLine:
    """A one-line marker at `line`, outside every pair, and the lines that it marks; `inline` behind code."""

    path: str
    scope: str
    line: int
    first_line: int
    last_line: int
    style: str
    inline: bool
    comment: str


@dataclass(frozen=True)
class CommentEdit:
    """Replace the comment line `line` by `text`, delete it (None), or insert `text` before it."""

    line: int
    text: str | None
    insert: bool = False


@dataclass(frozen=True)
class Defect:
    """What is wrong with a marker; `mend` is the likely mend as edits, empty if there is none to propose."""

    finding: Finding
    certain: bool
    mend: tuple[CommentEdit, ...]


@dataclass(frozen=True)
class Markers:
    """The markers of a file. `dividers` are the lines that open or close a block, lone ones included."""

    path: str
    pairs: tuple[Pair, ...] = ()
    lines: tuple[MarkedLine, ...] = ()
    dividers: tuple[int, ...] = ()
    lone: tuple[int, ...] = ()
    defects: tuple[Defect, ...] = ()

    def marked(self) -> set[int]:
        """The lines that some marker says are omni's, the markers' own included."""
        ranges = [(p.first_line, p.last_line) for p in self.pairs]
        ranges += [(min(m.line, m.first_line), m.last_line) for m in self.lines]
        return {line for first, last in ranges for line in range(first, last + 1)}


@dataclass(eq=False)
class _Suite:
    """An indented body, or the inside of a bracket; `first` and `last` are how many code tokens precede its ends."""

    scope: str
    column: int
    parent: _Suite | None
    first: int = 0
    is_body: bool = False  # of a class or a function
    in_brackets: bool = False
    last: int = 0


@dataclass(eq=False)
class _Comment:
    line: int
    column: int
    text: str
    style: Style | None
    inline: bool
    position: int  # code tokens before it
    suites: tuple[_Suite, ...] = ()  # where it may belong, outermost first
    suite: _Suite = field(init=False)
    before_clause: bool = False


@dataclass(frozen=True)
class _Logical:
    """A logical line: a simple statement, or the header of a compound one."""

    first: int
    last: int
    start: int  # code tokens before it
    suite: _Suite


def find_markers(module: Module, styles: Sequence[Style] | None = None) -> Markers:
    """The markers of a parsed module, in order of lines."""
    styles = marker_styles() if styles is None else styles
    comments, logical = _scan(module.lines, styles)
    pairs: list[tuple[_Comment, _Comment]] = []
    lone: list[_Comment] = []
    suites: dict[int, list[_Comment]] = {}
    for comment in comments:
        if comment.style is not None and comment.style.kind != "line" and not comment.inline:
            suites.setdefault(id(comment.suite), []).append(comment)
    for group in suites.values():
        paired, left = _pair(group)
        pairs += paired
        lone += left
    pairs.sort(key=lambda pair: pair[0].line)
    lone.sort(key=lambda comment: comment.line)
    around = _Around([(first.line, last.line) for first, last in pairs])
    places = [comment.line for comment in comments]
    found = []
    for first, last in pairs:
        inside = comments[bisect_right(places, first.line) : bisect_left(places, last.line)]
        found.append(_as_pair(module.path, (first, last), around, inside))
    return Markers(
        module.path,
        tuple(found),
        tuple(_marked_lines(module, comments, found, logical)),
        tuple(sorted(c.line for group in suites.values() for c in group if _style(c).kind != "dashes")),
        tuple(comment.line for comment in lone),
        tuple(_Defects(module, comments, pairs, lone).find()),
    )


def _style(comment: _Comment) -> Style:
    assert comment.style is not None
    return comment.style


def _scan(lines: Sequence[str], styles: Sequence[Style]) -> tuple[list[_Comment], list[_Logical]]:
    """Every comment with the suite that it belongs to, and every logical line."""
    top = _Suite("", 0, None)
    stack = [top]
    brackets: list[_Suite] = []
    comments: list[_Comment] = []
    waiting: list[_Comment] = []  # own-line comments since the last logical line
    logical: list[_Logical] = []
    position = 0
    header: list[str] = []  # the first words of the logical line under way
    start = first_line = 0

    def place(depths: Sequence[_Suite], words: str) -> None:
        for comment in waiting:
            comment.suites = tuple(depths)
            comment.suite = next((s for s in reversed(depths) if s.column <= comment.column), depths[0])
            comment.before_clause = words in _CLAUSES and comment.suite is depths[0]
        waiting.clear()

    before = list(stack)
    plain = (line.rstrip("\r\n") + "\n" for line in lines)
    for token in tokenize.generate_tokens(lambda: next(plain, "")):
        kind, word = token.type, token.string
        if kind == tokenize.COMMENT:
            prefix, word = lines[token.start[0] - 1][: token.start[1]], word.rstrip()
            style = next((s for s in styles if s.matches(word)), None)
            inline = bool(prefix.strip())
            comment = _Comment(token.start[0], len(prefix.expandtabs(8)), word, style, inline, position)
            comments.append(comment)
            if brackets or inline:
                comment.suite = brackets[-1] if brackets else stack[-1]
                comment.suites = (comment.suite,)
            else:
                waiting.append(comment)
        elif kind == tokenize.INDENT:
            name = _defined(header)
            scope = f"{stack[-1].scope}.{name}".lstrip(".") if name else stack[-1].scope
            stack.append(_Suite(scope, len(word.expandtabs(8)), stack[-1], position, is_body=bool(name)))
        elif kind == tokenize.DEDENT:
            stack.pop().last = position
        elif kind == tokenize.NEWLINE:
            logical.append(_Logical(first_line, token.start[0], start, stack[-1]))
            before, first_line = list(stack), 0
        elif kind == tokenize.ENDMARKER:
            place(before, "")
        elif kind not in _LAYOUT:
            if not first_line:
                first_line, start, header = token.start[0], position, []
                place(stack[-1:] if len(stack) > len(before) else before[len(stack) - 1 :], word)
            if len(header) < 3:
                header.append(word)
            position += 1
            if kind == tokenize.OP and word in "([{":
                brackets.append(_Suite(stack[-1].scope, 0, stack[-1], position, in_brackets=True))
            elif kind == tokenize.OP and word in ")]}" and brackets:
                brackets.pop().last = position - 1
    top.last = position
    return comments, logical


def _defined(header: Sequence[str]) -> str:
    """The name of the class or function that a header defines, else ""."""
    words = header[1:] if header[:1] == ["async"] else header
    return words[1] if len(words) > 1 and words[0] in ("class", "def") else ""


def _pair(group: list[_Comment]) -> tuple[list[tuple[_Comment, _Comment]], list[_Comment]]:
    """The cheapest way to pair the markers of one suite; of equal ones, that which closes blocks first."""
    # (cost, pairs, lone) by the marker that is open, or None
    states: dict[_Comment | None, tuple[int, _Chain, _Chain]] = {None: (0, None, None)}
    for comment in group:
        kind = _style(comment).kind
        following: dict[_Comment | None, tuple[int, Any, Any]] = {}

        def offer(key: _Comment | None, value: tuple[int, Any, Any], into: dict[Any, Any] = following) -> None:
            if key not in into or value[0] < into[key][0]:
                into[key] = value

        for opened, (cost, pairs, lone) in states.items():
            if opened is not None and kind in ("divider", "closer", "dashes"):
                empty = _EMPTY if comment.position == opened.position else 0
                offer(None, (cost + empty, ((opened, comment), pairs), lone))
            if opened is None and kind in ("divider", "opener"):
                offer(comment, (cost, pairs, lone))
            if kind == "dashes":
                offer(opened, (cost, pairs, lone))
            else:
                offer(opened, (cost + _LONE, pairs, (comment, lone)))
        # an open marker that costs more than to leave it and its other half alone is never paired
        most = following[None][0] + _LONE
        states = {key: value for key, value in following.items() if key is None or value[0] <= most}
    ends = [
        (cost + _LONE, pairs, (opened, lone)) if opened is not None else (cost, pairs, lone)
        for opened, (cost, pairs, lone) in states.items()
    ]
    _, pairs, lone = min(ends, key=lambda end: end[0])
    return _unchained(pairs), _unchained(lone)


_Chain = tuple[Any, Any] | None
"""What was found last, and the chain of what was found before it: many ways share their beginning."""


def _unchained(chain: _Chain) -> list[Any]:
    found = []
    while chain is not None:
        last, chain = chain
        found.append(last)
    return found[::-1]


class _Around:
    """Which of some stretches of lines, sorted by their first, stands around another: asked often, so by bisection."""

    def __init__(self, stretches: Sequence[tuple[int, int]]) -> None:
        self._numbers: list[int] = []  # of those that reach further down than any before them
        self._first: list[int] = []
        self._last: list[int] = []
        for number, (first, last) in enumerate(stretches):
            if not self._last or last > self._last[-1]:
                self._numbers.append(number)
                self._first.append(first)
                self._last.append(last)

    def find(self, first: int, last: int) -> int | None:
        """The number of the first stretch that begins before line `first` and ends after line `last`."""
        at = bisect_right(self._last, last)
        return self._numbers[at] if at < len(self._last) and self._first[at] < first else None


def _as_pair(path: str, pair: tuple[_Comment, _Comment], around: _Around, comments: Sequence[_Comment]) -> Pair:
    first, last = pair
    inside = [comment.text for comment in comments if not comment.inline]
    return Pair(
        path,
        first.suite.scope,
        first.line,
        last.line,
        _style(first).name,
        first.column,
        tuple(inside),
        around.find(first.line, last.line) is not None,
    )


def _marked_lines(
    module: Module, comments: list[_Comment], pairs: list[Pair], logical: list[_Logical]
) -> Iterator[MarkedLine]:
    own_lines = {comment.line for comment in comments if not comment.inline}
    around = _Around([(pair.first_line, pair.last_line) for pair in pairs])
    starts = [item.start for item in logical]
    ends = [item.last for item in logical]
    for comment in comments:
        if comment.style is None or not (
            comment.style.kind == "line" or (comment.inline and comment.style.kind != "dashes")
        ):
            continue
        if around.find(comment.line, comment.line) is not None:
            continue
        if comment.inline:
            first, last = _inline_range(comment.line, logical, bisect_left(ends, comment.line))
        else:
            below = islice(logical, bisect_left(starts, comment.position), None)
            first, last = _range_below(module, comment, own_lines, below)
        if last:
            scope, style = comment.suite.scope, comment.style.name
            yield MarkedLine(module.path, scope, comment.line, first, last, style, comment.inline, comment.text)


def _inline_range(line: int, logical: Sequence[_Logical], at: int) -> tuple[int, int]:
    """The whole statement, the `at`th, if the comment stands behind its first or last line, else the one line."""
    if at < len(logical) and line in (logical[at].first, logical[at].last):
        return logical[at].first, logical[at].last
    return line, line


def _range_below(
    module: Module, comment: _Comment, own_lines: set[int], logical: Iterable[_Logical]
) -> tuple[int, int]:
    """The statements right below a comment, up to a blank line, another comment, or the end of the suite."""
    if comment.suite.in_brackets:
        return comment.line + 1, comment.line + 1
    first = last = 0
    for item in logical:
        if item.first <= comment.line:
            continue
        if not _within(item.suite, comment.suite):
            break
        if item.suite is comment.suite and last and (item.first > last + 1 or item.first - 1 in own_lines):
            break
        if not first and any(not module.lines[n - 1].strip() for n in range(comment.line + 1, item.first)):
            break
        first = first or item.first
        last = item.last
    return first, last


def _within(suite: _Suite | None, other: _Suite) -> bool:
    while suite is not None and suite is not other:
        suite = suite.parent
    return suite is other


class _Defects:
    def __init__(
        self, module: Module, comments: list[_Comment], pairs: list[tuple[_Comment, _Comment]], lone: list[_Comment]
    ) -> None:
        self.module, self.comments, self.pairs, self.lone = module, comments, pairs, lone

    def find(self) -> list[Defect]:
        found: list[Defect] = []
        around = _Around([(first.line, last.line) for first, last in self.pairs])
        for first, last in self.pairs:
            number = around.find(first.line, last.line)
            outer = self.pairs[number] if number is not None else None
            if first.position == last.position:
                message = f"the block up to line {last.line} has nothing in it"
                mend = (CommentEdit(first.line, None), CommentEdit(last.line, None))
                found.append(self._defect("marker-empty", first, message, "remove both lines", mend))
            elif last.before_clause and not first.before_clause:
                message = f"the block up to line {last.line} ends inside a statement: its other branches are left out"
                found.append(self._defect("marker-cut", first, message, "move the closer behind the statement"))
            if outer is not None:
                message = f"the block up to line {last.line} stands within that of lines {outer[0].line}"
                message += f" to {outer[1].line}"
                hint = "remove the inner pair, or close the outer one before it"
                mend = (CommentEdit(first.line, None), CommentEdit(last.line, None))
                found.append(self._defect("marker-nested", first, message, hint, mend, severity=Severity.NOTE))
        told: set[_Comment] = set()
        for look in (self._differently_indented, self._upside_down, self._doubled):
            for comment in self.lone:
                if comment not in told and (seen := look(comment)) is not None:
                    found.append(seen[0])
                    told.update(seen[1])
        found += [self._without_other_half(comment) for comment in self.lone if comment not in told]
        return sorted(found, key=lambda defect: (defect.finding.line, defect.finding.rule))

    def _differently_indented(self, comment: _Comment) -> tuple[Defect, tuple[_Comment, ...]] | None:
        for other in self.lone:
            if other.line > comment.line and other.suite.scope == comment.suite.scope:
                edit = self._reindented(comment, other)
                if edit is not None:
                    text = edit.text or ""
                    message = f"its other half at line {other.line} is indented differently"
                    hint = f"indent line {edit.line} by {len(text) - len(text.lstrip())}"
                    certain = self._only(comment, other)
                    defect = self._defect("marker-indent", comment, message, hint, (edit,), certain)
                    return defect, (comment, other)
        return None

    def _upside_down(self, comment: _Comment) -> tuple[Defect, tuple[_Comment, ...]] | None:
        closer = self._above(comment)
        if closer is None:
            return None
        message = f"the closer at line {closer.line} stands above it: the pair is upside down"
        hint = f"exchange lines {closer.line} and {comment.line}"
        mend = (CommentEdit(closer.line, self._line(comment)), CommentEdit(comment.line, self._line(closer)))
        certain = self._at_end(comment) and self._only(comment, closer)
        return self._defect("marker-inverted", comment, message, hint, mend, certain), (comment, closer)

    def _doubled(self, comment: _Comment) -> tuple[Defect, tuple[_Comment, ...]] | None:
        ends = (end for pair in self.pairs for end in pair)
        if not any(comment.position == end.position and comment.suite is end.suite for end in ends):
            return None
        message = "the marker is doubled: the one next to it says the same"
        mend = (CommentEdit(comment.line, None),)
        certain = self._at_end(comment) or comment.position == comment.suite.first
        hint = "remove the line" if certain else "remove the line, or write the other half of its block"
        return self._defect("marker-lone", comment, message, hint, mend, certain), (comment,)

    def _without_other_half(self, comment: _Comment) -> Defect:
        others = [c.line for pair in self.pairs for c in pair if c.suite is comment.suite]
        others += [c.line for c in self.lone if c.suite is comment.suite and c is not comment]
        which = f"; with lines {', '.join(map(str, sorted(others)))} their number is odd" if others else ""
        divider = _style(comment).kind == "divider"
        opens = _style(comment).kind == "opener" or (divider and not self._at_end(comment))
        message = (
            "nothing closes the block that this opens" if opens else "this closes a block that nothing opens"
        ) + which
        function = self._method(comment)
        call = _upstream_call(function)
        if divider and function is not None and call:
            last = function.end_lineno or 0
            above = any(self._is_code(line) for line in range(call + 1, comment.line))
            below = any(self._is_code(line) for line in range(comment.line + 1, last + 1))
            certain = not others and not any(_within(pair[0].suite, comment.suite) for pair in self.pairs)
            if opens and below and not above:
                hint = f"close it at the end of the method, behind line {last}"
                mend = (CommentEdit(last + 1, self._line(comment), insert=True),)
                return self._defect("marker-lone", comment, message, hint, mend, certain)
            if not opens and above:
                hint = f"open the block behind the call of the upstream method, at line {call}"
                mend = (CommentEdit(call + 1, self._line(comment), insert=True),)
                return self._defect("marker-lone", comment, message, hint, mend, certain)
        hint = "close it behind" if opens else "open it above"
        return self._defect(
            "marker-lone", comment, message, f"{hint} the {'last' if opens else 'first'} line of omni's"
        )

    def _is_code(self, line: int) -> bool:
        text = self.module.lines[line - 1].strip()
        return bool(text) and not text.startswith("#")

    def _defect(
        self,
        rule: str,
        comment: _Comment,
        message: str,
        hint: str,
        mend: tuple[CommentEdit, ...] = (),
        certain: bool = False,
        severity: Severity = Severity.WARNING,
    ) -> Defect:
        hint += " (--fix-markers does)" if certain else ""
        path = self.module.path
        return Defect(Finding(path, comment.line, rule, severity, comment.suite.scope, message, hint), certain, mend)

    def _line(self, comment: _Comment) -> str:
        return self.module.lines[comment.line - 1].rstrip("\r\n")

    def _at_end(self, comment: _Comment) -> bool:
        return comment.position >= comment.suite.last

    def _only(self, *comments: _Comment) -> bool:
        """No other marker of that class or function lacks its other half."""
        scope = comments[0].suite.scope
        return all(other in comments for other in self.lone if other.suite.scope == scope)

    def _reindented(self, one: _Comment, other: _Comment) -> CommentEdit | None:
        """The edit that makes these two a pair by the indentation of one of them, if just one does."""
        first, last = sorted((one, other), key=lambda comment: comment.line)
        kinds = (_style(first).kind, _style(last).kind)
        if kinds[0] == "closer" or kinds[1] == "opener" or first.position == last.position:
            return None
        edits = []
        for moved, target in ((first, last), (last, first)):
            if target.suite in moved.suites and moved.suite is not target.suite:
                indent = self._line(target)[: len(self._line(target)) - len(self._line(target).lstrip())]
                edits.append(CommentEdit(moved.line, indent + self._line(moved).lstrip()))
        return edits[0] if len(edits) == 1 else None

    def _above(self, comment: _Comment) -> _Comment | None:
        """The closer that nothing opened and that stands above this one in its suite, with code between them."""
        if _style(comment).kind not in ("divider", "opener"):
            return None
        paired = {c.line for pair in self.pairs for c in pair}
        above = [
            c
            for c in self.comments
            if c.suite is comment.suite and c.style is not None and c.line < comment.line and c.line not in paired
            if c.style.kind in ("closer", "dashes") and not c.inline and c.position < comment.position
        ]
        if not above or any(above[-1].line < line < comment.line for line in paired):
            return None
        return above[-1]

    def _method(self, comment: _Comment) -> ast.FunctionDef | None:
        """The method in whose own body the comment stands; of two with one name, the last that begins above it."""
        found = [
            node
            for name, definition in self.module.classes.items()
            for node in definition.body
            if isinstance(node, ast.FunctionDef) and f"{name}.{node.name}" == comment.suite.scope
        ]
        above = [node for node in found if node.lineno < comment.line]
        return above[-1] if above and comment.suite.is_body else None


def _upstream_call(function: ast.FunctionDef | None) -> int:
    """The last line of the call of the method's own upstream version, if the body begins with it; else 0."""
    if function is None:
        return 0
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return (body[0].end_lineno or 0) if body and calls_upstream(body[0], function.name) else 0


def calls_upstream(statement: ast.stmt, method: str) -> bool:
    """`super().method(...)` or `Base.method(self, ...)`, alone, assigned or returned."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != method:
        return False
    owner = value.func.value
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id[:1].isupper()
