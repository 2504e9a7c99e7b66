"""An override aligned, statement by statement, with the upstream method that it was copied from.

Statements are compared by what `ast` says of them, so comments, layout and line ends do not matter. Nested bodies are
aligned recursively; a body that one side wrapped in a statement of its own is found too.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.common_runs import common_runs
from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.modules import Module
from omni_migrate.facts.syntax import walk

Origin = Literal["upstream", "omni", "changed"]
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# How alike two statements of one kind must be to be the same one, edited.
ALIKE = 0.7
ALIKE_SAME_TARGET = 0.34
ALIKE_HEADER = 0.5
# How much of the smaller body must be shared, if the headers are the same and if they are not.
BODY_SAME_HEADER = 0.15
BODY_OTHER_HEADER = 0.4
# A copy shares so many code lines and this part of either side (FACTS: how copied methods are counted).
COPY_RULES = ((10, 0.35), (4, 0.7))
# Words and signs of a statement that may be found again, edited, at another place.
LONG = 24
# Lines by which one base must be better than another to be told apart.
MARGIN = 3

_WORD = re.compile(r"\w+|[^\w\s]")
_QUOTED_ANNOTATION = re.compile(r"(: |-> )'([^'=]*)'")
_TRIVIAL = (ast.Pass, ast.Break, ast.Continue)
_KINDS = {ast.AnnAssign: ast.Assign, ast.AsyncFor: ast.For, ast.AsyncWith: ast.With}


class Statement:
    """A statement without its bodies. `first` to `last` are the lines of its header, 1-based."""

    __slots__ = ("anchor", "bag", "first", "header", "key", "kind", "last", "node", "parts", "total", "weight", "words")
    total: float  # its weight and its bodies'

    def __init__(self, node: ast.AST, header: str, parts: dict[str, list[Statement]], first: int, last: int) -> None:
        self.node, self.header, self.parts, self.first, self.last = node, header, parts, first, last
        kind: type[ast.AST] = _KINDS.get(type(node), type(node))
        self.kind = kind
        self.words = _WORD.findall(header)
        self.bag = Counter(word for word in self.words if word[0].isalnum() or word[0] == "_")
        self.anchor = _anchor(node)
        self.weight = 0.5 if isinstance(node, _TRIVIAL) or header in ("return", "try") else 1 + len(self.words) / 4
        children = [child for body in parts.values() for child in body]
        self.total = self.weight + sum(child.total for child in children)
        self.key: tuple[object, ...] = (header, *((name, *(c.key for c in body)) for name, body in parts.items()))
        self.key = (hash(self.key), len(children), header)

    def children(self) -> list[Statement]:
        return [child for body in self.parts.values() for child in body]

    def walk(self) -> Iterator[Statement]:
        yield self
        for body in self.parts.values():
            for child in body:
                yield from child.walk()

    @property
    def end(self) -> int:
        """Its last line, bodies included."""
        return max(self.last, *(child.end for child in self.children())) if self.parts else self.last


def _anchor(node: ast.AST) -> str:
    """What a simple statement is about: what it assigns, or whom it calls."""
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        return ast.unparse(node.target)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.unparse(node.value.func)
    return ""


def statements(body: Sequence[ast.stmt]) -> list[Statement]:
    """The statements of a body; a docstring at its head is none."""
    rest = body[1:] if body and _is_docstring(body[0]) else body
    return [_statement(node) for node in rest]


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@lru_cache(maxsize=4096)
def statement_of(node: ast.stmt) -> Statement:
    """A statement with its bodies. Of one node it is always the same object."""
    return _statement(node)


def _statement(node: ast.stmt) -> Statement:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    header, bodies = _split(node)
    if not bodies:
        return Statement(node, header, {}, first, node.end_lineno or node.lineno)
    parts: dict[str, list[Statement]] = {}
    for name, body in bodies:
        parts[name] = [_case(part) if not isinstance(part, ast.stmt) else _statement(part) for part in body]
        if name == "body" and body and isinstance(node, Definition) and _is_docstring(body[0]):  # type: ignore[arg-type]
            del parts[name][0]
    start = min((getattr(part, "lineno", node.lineno) for part in bodies[0][1]), default=node.lineno)
    decorated = [d.lineno for d in getattr(bodies[0][1][0], "decorator_list", [])] if bodies[0][1] else []
    return Statement(node, header, parts, first, max(min([start, *decorated]) - 1, node.lineno))


def _case(node: ast.AST) -> Statement:
    """An except clause or a case of a match."""
    body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
    if isinstance(node, ast.ExceptHandler):
        header = f"except {ast.unparse(node.type) if node.type else ''} {node.name or ''}"
        first = node.lineno
    else:
        pattern: ast.AST = node.pattern  # type: ignore[attr-defined]
        guard: ast.expr | None = node.guard  # type: ignore[attr-defined]
        header = f"case {ast.unparse(pattern)} {ast.unparse(guard) if guard else ''}"
        first = pattern.lineno  # type: ignore[attr-defined]
    return Statement(node, header, {"body": [_statement(n) for n in body]}, first, max(body[0].lineno - 1, first))


def _split(node: ast.stmt) -> tuple[str, list[tuple[str, Sequence[ast.AST]]]]:
    """A statement's header as text, and its bodies."""
    text = ast.unparse
    if isinstance(node, (ast.If, ast.While)):
        word = "if" if isinstance(node, ast.If) else "while"
        return f"{word} {text(node.test)}", _bodies(node, "body", "orelse")
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return f"for {text(node.target)} in {text(node.iter)}", _bodies(node, "body", "orelse")
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return f"with {', '.join(map(text, node.items))}", _bodies(node, "body")
    if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
        return "try", _bodies(node, "body", "handlers", "orelse", "finalbody")
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        decorators = " ".join(f"@{text(d)}" for d in node.decorator_list)
        returns = f" -> {text(node.returns)}" if node.returns else ""
        header = f"{decorators} def {node.name}({text(node.args)}){returns}"
        return _QUOTED_ANNOTATION.sub(r"\1\2", header), _bodies(node, "body")
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}({', '.join(map(text, [*node.bases, *node.keywords]))})", _bodies(node, "body")
    if isinstance(node, ast.Match):
        return f"match {text(node.subject)}", _bodies(node, "cases")
    if isinstance(node, ast.AnnAssign):
        return _QUOTED_ANNOTATION.sub(r"\1\2", text(node), count=1), []
    return text(node), []


def _bodies(node: ast.AST, *names: str) -> list[tuple[str, Sequence[ast.AST]]]:
    return [(name, getattr(node, name)) for name in names if getattr(node, name, None)]


class Aligner:
    """Aligns bodies; scores of pairs of statements are remembered."""

    def __init__(self) -> None:
        self._scores: dict[tuple[int, int], float] = {}
        self.pairs: dict[Statement, Statement] = {}

    def align(self, ours: Sequence[Statement], theirs: Sequence[Statement]) -> None:
        """Fill `pairs` with what corresponds."""
        start, stop = _common_ends(ours, theirs)
        for a, b in zip(ours[:start], theirs[:start], strict=True):
            self._pair_equal(a, b)
        if stop:
            for a, b in zip(ours[-stop:], theirs[-stop:], strict=True):
                self._pair_equal(a, b)
        ours, theirs = ours[start : len(ours) - stop], theirs[start : len(theirs) - stop]
        left, right = 0, 0
        for i, j in [*self._best(ours, theirs), (len(ours), len(theirs))]:
            self._wrapped(ours[left:i], theirs[right:j])
            if i < len(ours):
                self._pair(ours[i], theirs[j])
            left, right = i + 1, j + 1

    def _pair_equal(self, a: Statement, b: Statement) -> None:
        for ours, theirs in zip(a.walk(), b.walk(), strict=True):
            self.pairs[ours] = theirs

    def _pair(self, a: Statement, b: Statement) -> None:
        if a.key == b.key:
            self._pair_equal(a, b)
            return
        self.pairs[a] = b
        for name in dict.fromkeys([*a.parts, *b.parts]):
            self.align(a.parts.get(name, []), b.parts.get(name, []))

    def _wrapped(self, ours: Sequence[Statement], theirs: Sequence[Statement]) -> None:
        """Between two pairs: a body that only one side has in a statement of its own (`if`, `with`, `try`, `elif`)."""
        if not ours or not theirs:
            return
        taken: set[Statement] = set()
        for wrapper, others, swapped in [*((w, theirs, False) for w in ours), *((w, ours, True) for w in theirs)]:
            if not wrapper.parts or wrapper in taken:
                continue
            scored = []
            for body in wrapper.parts.values():
                free = [s for s in others if s not in taken]
                score = self._body_score(free, body) if swapped else self._body_score(body, free)
                scored.append((score / max(min(sum(s.total for s in body), sum(s.total for s in free)), 0.5), body))
            for share, body in sorted(scored, key=lambda item: -item[0]):
                free = [s for s in others if s not in taken]
                if free and share > BODY_OTHER_HEADER:
                    self.align(free, body) if swapped else self.align(body, free)
                    taken.update(s for s in free if s in self.pairs or s in self.pairs.values())
                    taken.add(wrapper)

    def _best(self, ours: Sequence[Statement], theirs: Sequence[Statement]) -> list[tuple[int, int]]:
        """The pairs of places of the best alignment of two lists."""
        table = self._table(ours, theirs)
        i, j, found = 0, 0, []
        while i < len(ours) and j < len(theirs):
            if table[i][j] == table[i + 1][j]:
                i += 1
            elif table[i][j] == table[i][j + 1]:
                j += 1
            else:
                found.append((i, j))
                i, j = i + 1, j + 1
        return found

    def _table(self, ours: Sequence[Statement], theirs: Sequence[Statement]) -> list[list[float]]:
        """`[i][j]`: the best score of what is left from there."""
        table = [[0.0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
        for i in range(len(ours) - 1, -1, -1):
            row, below, mine = table[i], table[i + 1], ours[i]
            for j in range(len(theirs) - 1, -1, -1):
                best = below[j] if below[j] >= row[j + 1] else row[j + 1]
                if mine.kind is theirs[j].kind:
                    score = self.score(mine, theirs[j])
                    if score and below[j + 1] + score > best:
                        best = below[j + 1] + score
                row[j] = best
        return table

    def _body_score(self, ours: Sequence[Statement], theirs: Sequence[Statement]) -> float:
        return self._table(ours, theirs)[0][0] if ours and theirs else 0.0

    def _nested_score(self, ours: Sequence[Statement], theirs: Sequence[Statement]) -> float:
        """The same, or what a body shares with a body inside the other one, where that is more."""
        best = self._body_score(ours, theirs)
        for mine, others, swapped in ((ours, theirs, False), (theirs, ours, True)):
            if best or len(mine) != 1:
                break
            for body in mine[0].parts.values():
                best = max(best, self._body_score(others, body) if swapped else self._body_score(body, others))
        return best

    def score(self, a: Statement, b: Statement) -> float:
        """How much two statements share; 0 if they are not the same one."""
        if a.key == b.key:
            return a.total
        place = (id(a), id(b))
        if place not in self._scores:
            self._scores[place] = self._score(a, b)
        return self._scores[place]

    def _score(self, a: Statement, b: Statement) -> float:
        same = a.header == b.header
        alike = 1.0 if same else likeness(a, b)
        header = min(a.weight, b.weight) * alike * (1 if same else 0.8)
        if not a.parts:
            enough = ALIKE_SAME_TARGET if a.anchor and a.anchor == b.anchor else ALIKE
            if isinstance(a.node, (ast.Return, ast.Raise, ast.Assert)):
                enough = ALIKE_HEADER
            return header if alike >= enough else 0.0
        bodies = sum(self._nested_score(a.parts.get(name, []), b.parts.get(name, [])) for name in a.parts)
        share = bodies / max(min(a.total - a.weight, b.total - b.weight), 0.5)
        if isinstance(a.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            same = a.node.name == b.node.name  # type: ignore[attr-defined]
        if same or alike >= ALIKE:
            return header + bodies if share >= BODY_SAME_HEADER else 0.0
        return header + bodies if alike >= 0.2 and share >= BODY_OTHER_HEADER else 0.0


def _common_ends(ours: Sequence[Statement], theirs: Sequence[Statement]) -> tuple[int, int]:
    """How many equal statements the lists begin and end with."""
    most = min(len(ours), len(theirs))
    start = next((n for n in range(most) if ours[n].key != theirs[n].key), most)
    stop = next((n for n in range(most - start) if ours[-1 - n].key != theirs[-1 - n].key), most - start)
    return start, stop


def likeness(a: Statement, b: Statement) -> float:
    """The share of words that two headers have in common; of headers without words, whether they are the same."""
    total = sum(a.bag.values()) + sum(b.bag.values())
    return 2 * sum((a.bag & b.bag).values()) / total if total else float(a.header == b.header)


@dataclass(frozen=True)
class Place:
    """A definition: `cls` is the class that it stands in, "" at module level."""

    path: str
    cls: str
    name: str
    line: int

    @property
    def symbol(self) -> str:
        return f"{self.cls}.{self.name}" if self.cls else self.name


@dataclass(frozen=True)
class Change:
    """A statement that stands upstream too, but not word for word. Lines are 1-based, ends included."""

    first: int
    last: int
    upstream_first: int
    upstream_last: int
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class Dropped:
    """A statement of upstream that the override lacks. It would stand after `after`, a line of the override."""

    first: int
    last: int
    after: int
    text: str


@dataclass(frozen=True)
class Alignment:
    """An override and the upstream method of its name. `lines` has every code line of ours, docstrings excluded."""

    ours: Place
    upstream: Place
    lines: dict[int, Origin]
    changes: tuple[Change, ...]
    dropped: tuple[Dropped, ...]
    moved: tuple[tuple[int, int], ...]
    upstream_lines: int
    pairs: dict[Statement, Statement] = field(repr=False, compare=False)
    top: tuple[Statement, ...] = field(repr=False, compare=False)

    @property
    def shared(self) -> int:
        """Lines that stand upstream as they are."""
        return sum(origin == "upstream" for origin in self.lines.values())

    @property
    def is_copy(self) -> bool:
        """Whether it shares enough to have begun as upstream's text."""
        smaller = min(len(self.lines), self.upstream_lines) or 1
        return any(self.shared >= lines and self.shared >= share * smaller for lines, share in COPY_RULES)


@dataclass(frozen=True)
class Text:
    """A definition in its module. `cls` is "" at module level."""

    module: Module
    cls: str
    node: FunctionNode | ast.ClassDef

    @property
    def place(self) -> Place:
        return Place(self.module.path, self.cls, self.node.name, self.node.lineno)


def align(ours: Text, theirs: Text) -> Alignment:
    """Align two definitions of the same name."""
    mine, other = statement_of(ours.node), statement_of(theirs.node)
    aligner = Aligner()
    aligner.pairs[mine] = other
    aligner.align(mine.parts.get("body", []), other.parts.get("body", []))
    moved = _moved(mine, other, aligner.pairs)
    lines, changes = _lines(ours, theirs, mine, other, aligner.pairs)
    return Alignment(
        ours.place,
        theirs.place,
        lines,
        tuple(changes),
        tuple(_dropped(mine, other, aligner.pairs)),
        tuple(moved),
        len(code_lines(theirs.module, theirs.node)),
        aligner.pairs,
        tuple(mine.parts.get("body", [])),
    )


def _moved(mine: Statement, other: Statement, pairs: dict[Statement, Statement]) -> list[tuple[int, int]]:
    """Pair what upstream has word for word at another place: our first line -> theirs."""
    taken = set(pairs.values())
    left: dict[tuple[object, ...], list[Statement]] = {}
    for statement in other.walk():
        if statement not in taken and len(statement.words) > 4:
            left.setdefault(statement.key, []).append(statement)
    found: list[tuple[int, int]] = []

    def visit(statement: Statement) -> None:
        candidates = left.get(statement.key) if statement not in pairs else None
        free = next((c for c in candidates or () if c not in taken), None)
        if free is None:
            for child in statement.children():
                visit(child)
            return
        for a, b in zip(statement.walk(), free.walk(), strict=True):
            pairs[a] = b
            taken.add(b)
        found.append((statement.first, free.first))

    visit(mine)
    edited = [s for s in other.walk() if s not in taken and not s.parts and len(s.words) >= LONG]
    for statement in mine.walk():
        if edited and statement not in pairs and not statement.parts and len(statement.words) >= LONG:
            alike = [(likeness(statement, c), -n) for n, c in enumerate(edited) if c.kind is statement.kind]
            best, place = max(alike, default=(0.0, 0))
            if best >= ALIKE and edited[-place].anchor == statement.anchor:
                pairs[statement] = edited.pop(-place)
                found.append((statement.first, pairs[statement].first))
    return found


def _dropped(mine: Statement, other: Statement, pairs: dict[Statement, Statement]) -> Iterator[Dropped]:
    """What upstream has and we lack, outermost statements only."""
    back = {theirs: ours for ours, theirs in pairs.items()}
    after = mine.last

    def visit(statement: Statement) -> Iterator[Dropped]:
        nonlocal after
        if statement in back:
            after = back[statement].last
        elif not any(child in back for child in statement.walk()):
            yield Dropped(statement.first, statement.end, after, statement.header)
            return
        else:
            yield Dropped(statement.first, statement.last, after, statement.header)
        for child in statement.children():
            yield from visit(child)
        if statement in back:
            after = max(after, back[statement].end)

    yield from visit(other)


def _lines(
    ours: Text, theirs: Text, mine: Statement, other: Statement, pairs: dict[Statement, Statement]
) -> tuple[dict[int, Origin], list[Change]]:
    code = code_lines(ours.module, ours.node)
    lines: dict[int, Origin] = {}
    changes: list[Change] = []
    clause = {child: name for statement in other.walk() for name, body in statement.parts.items() for child in body}
    rank = {"upstream": 0, "changed": 1, "omni": 2}

    def say(line: int, origin: Origin) -> None:
        if line in code and (line not in lines or rank[origin] > rank[lines[line]]):
            lines[line] = origin

    for statement in mine.walk():
        theirs_statement = pairs.get(statement)
        if theirs_statement is None:
            for line in range(statement.first, statement.last + 1):
                say(line, "omni")
        elif theirs_statement.header == statement.header:
            for line in range(statement.first, statement.last + 1):
                say(line, "upstream")
        else:
            change, origins = _changed(ours.module, theirs.module, statement, theirs_statement)
            changes.append(change)
            for line, origin in origins.items():
                say(line, origin)
        for name, first, last in _clause_lines(statement):
            has = any(child in pairs and clause.get(pairs[child]) == name for child in statement.parts[name])
            for line in range(first, last + 1):
                say(line, "upstream" if has else "omni")
    return dict(sorted(lines.items())), changes


def _clause_lines(statement: Statement) -> Iterator[tuple[str, int, int]]:
    """Where `else:` and `finally:` stand, which belong to no statement of their own."""
    end = 0
    for name, body in statement.parts.items():
        if name in ("orelse", "finalbody") and body:
            yield name, end + 1, body[0].first - 1
        end = max(end, *(child.end for child in body)) if body else end


def code_lines(module: Module, node: FunctionNode | ast.ClassDef) -> set[int]:
    """The lines of a definition that hold code: no blank ones, comments or docstrings."""
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    found = set(range(first, (node.end_lineno or first) + 1))
    inside: set[int] = set()
    for child in walk(node):
        if isinstance(child, Definition) and _is_docstring(child.body[0]):
            found.difference_update(range(child.body[0].lineno, (child.body[0].end_lineno or 0) + 1))
        elif isinstance(child, (ast.Constant, ast.JoinedStr)) and child.end_lineno != child.lineno:
            inside.update(range(child.lineno + 1, (child.end_lineno or 0) + 1))
    lines = module.lines
    return {n for n in found if (text := lines[n - 1].strip()) and (n in inside or not text.startswith("#"))}


def _changed(ours: Module, theirs: Module, mine: Statement, other: Statement) -> tuple[Change, dict[int, Origin]]:
    """Which lines of an edited statement are upstream's."""
    a, b = _tokens(ours, mine), _tokens(theirs, other)
    kept: set[int] = set()
    gone = set(range(len(b)))
    for i, j, size in common_runs([t for t, _ in a], [t for t, _ in b]):
        kept.update(range(i, i + size))
        gone.difference_update(range(j, j + size))
    by_line: dict[int, list[bool]] = {}
    for place, (text, line) in enumerate(a):
        if text[0].isalnum() or text[0] in "_\"'":
            by_line.setdefault(line, []).append(place in kept)
        else:
            by_line.setdefault(line, [])
    origins: dict[int, Origin] = {}
    for line, same in by_line.items():
        origins[line] = "upstream" if all(same) else "changed" if any(same) or line == mine.first else "omni"
    if all(origin == "upstream" for origin in origins.values()):
        origins[mine.first] = "changed"  # something was taken out
    added = tuple(text for place, (text, _) in enumerate(a) if place not in kept and text[0] not in "()[]{},:")
    removed = tuple(b[place][0] for place in sorted(gone) if b[place][0][0] not in "()[]{},:")
    return Change(mine.first, mine.last, other.first, other.last, added, removed), origins


def _tokens(module: Module, statement: Statement) -> list[tuple[str, int]]:
    """A statement's tokens with their lines; an annotation in quotes is taken as its text."""
    annotated = isinstance(statement.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.AnnAssign))
    text = "".join(module.lines[statement.first - 1 : statement.last]).lstrip(" \t")
    found: list[tuple[str, int]] = []
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in skipped or not token.string.strip():
                continue
            line = statement.first + token.start[0] - 1
            if annotated and token.type == tokenize.STRING and found and found[-1][0] in (":", "->"):
                found += [(word, line) for word in _WORD.findall(token.string.strip("\"'"))]
            else:
                found.append((token.string, line))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # a header without its body, or one of several statements on a line: what was read serves
    return found


@dataclass(frozen=True)
class Choice:
    """The alignment with the base that shares most lines. `base` is its label, `margin` how many lines it is ahead.

    `undecided` has the labels of the bases that are as good, up to MARGIN lines: by text they can't be told apart.
    """

    alignment: Alignment
    base: str
    margin: int | None
    undecided: tuple[str, ...]
    lines: dict[int, Origin]  # as the alignment's, but what any of the bases has word for word is upstream's


def choose(candidates: Sequence[tuple[str, Alignment]], favourite: str = "") -> Choice:
    """The best of several bases; `favourite`, if it is as good as the best one, else the first."""
    best = max(candidates, key=lambda c: c[1].shared)
    near = [label for label, found in candidates if best[1].shared - found.shared < MARGIN]
    if favourite in near:
        best = next(c for c in candidates if c[0] == favourite)
    others = [found.shared for label, found in candidates if label != best[0]]
    margin = best[1].shared - max(others) if others else None
    rivals = [found.lines for _, found in candidates if found.is_copy]
    lines: dict[int, Origin] = {
        line: "upstream" if any(rival.get(line) == "upstream" for rival in rivals) else origin
        for line, origin in best[1].lines.items()
    }
    return Choice(best[1], best[0], margin, tuple(label for label in near if label != best[0]), lines)


@dataclass(frozen=True)
class Missed:
    """What a newer upstream has and the copy does not: "added", "changed", or "removed" and still in the copy.

    Lines are the newer upstream's, for "removed" the older's. `after` is the line of the copy that it follows.
    """

    kind: Literal["added", "changed", "removed"]
    first: int
    last: int
    after: int
    text: str


def missed(ours: Text, old: Text, new: Text) -> tuple[Missed, ...]:
    """Upstream's changes from `old` to `new` that the copy did not follow."""
    with_new, with_old, moved_on = align(ours, new), align(ours, old), align(new, old)
    followed = set(with_new.pairs.values())
    unchanged = {theirs.first for theirs, was in moved_on.pairs.items() if theirs.header == was.header}
    edited = {theirs.first for theirs, was in moved_on.pairs.items() if theirs.header != was.header}
    found = [
        Missed("changed" if d.first in edited else "added", d.first, d.last, d.after, d.text)
        for d in with_new.dropped
        if d.first not in unchanged
    ]
    for mine, theirs in with_new.pairs.items():
        if mine.header != theirs.header and theirs.first in edited and theirs in followed:
            found.append(Missed("changed", theirs.first, theirs.last, mine.last, theirs.header))
    gone = {d.first for d in moved_on.dropped}
    for mine, theirs in with_old.pairs.items():
        if theirs.first in gone and mine not in with_new.pairs and mine.header == theirs.header:
            found.append(Missed("removed", theirs.first, theirs.last, mine.last, theirs.header))
    return tuple(sorted(found, key=lambda m: (m.after, m.first)))


@dataclass(frozen=True)
class Override:
    """A method of a class of ours, or a class that stands beside it, and what it is of upstream's.

    `kind`: "copy" (its text began as upstream's), "override" (upstream has one of this name, the text is ours), "own".
    `choice` is None for what upstream does not have.
    """

    text: Text
    kind: Literal["copy", "override", "own"]
    choice: Choice | None
    upstream: Text | None = field(default=None, repr=False)

    @property
    def place(self) -> Place:
        return self.text.place

    def origins(self) -> dict[int, Origin]:
        """The origin of every code line. Of what is no copy every line is ours."""
        if self.kind == "copy" and self.choice is not None:
            return self.choice.lines
        return dict.fromkeys(sorted(code_lines(self.text.module, self.text.node)), "omni")


def align_classes(names: Sequence[str], bases: Sequence[tuple[str, ClassTree]], own: str) -> tuple[Override, ...]:
    """Every method of the classes, and every class beside them that upstream's module has too.

    `names` are qualified, `bases` are the same trees of ours over different upstream versions, with their labels,
    `own` is our top-level package: what stands elsewhere is upstream.
    """
    found: list[tuple[Text, list[tuple[str, Text, Alignment]]]] = []
    seen: set[tuple[str, str]] = set()
    for name in names:
        first = bases[0][1].find(name) if bases else None
        if first is None:
            continue
        for method, node in first.methods().items():
            ours = Text(first.module, first.short, node)
            found.append((ours, list(_candidates(ours, name, method, bases, own))))
        for short, cls in first.module.classes.items():
            if (first.module.path, short) not in seen and f"{first.module.name}.{short}" not in names:
                seen.add((first.module.path, short))
                ours = Text(first.module, "", cls)
                beside = list(_beside(ours, name, bases, own))
                if beside:
                    found.append((ours, beside))
    totals: Counter[str] = Counter()
    for _, candidates in found:
        for label, _, alignment in candidates:
            totals[label] += alignment.shared if alignment.is_copy else 0
    favourite = totals.most_common(1)[0][0] if totals else ""
    overrides = []
    for ours, candidates in found:
        if not candidates:
            overrides.append(Override(ours, "own", None))
            continue
        choice = choose([(label, alignment) for label, _, alignment in candidates], favourite)
        upstream = next(text for label, text, _ in candidates if label == choice.base)
        overrides.append(Override(ours, "copy" if choice.alignment.is_copy else "override", choice, upstream))
    return tuple(overrides)


def _candidates(
    ours: Text, name: str, method: str, bases: Sequence[tuple[str, ClassTree]], own: str
) -> Iterator[tuple[str, Text, Alignment]]:
    for label, tree in bases:
        for cls, node in tree.definitions(name, method):
            if cls.package != own:
                theirs = Text(cls.module, cls.short, node)
                yield label, theirs, align(ours, theirs)
                break


def _beside(
    ours: Text, name: str, bases: Sequence[tuple[str, ClassTree]], own: str
) -> Iterator[tuple[str, Text, Alignment]]:
    for label, tree in bases:
        for cls in tree.order(name):
            node = cls.module.classes.get(ours.node.name) if cls.package != own else None
            if node is not None:
                theirs = Text(cls.module, "", node)
                yield label, theirs, align(ours, theirs)
                break
