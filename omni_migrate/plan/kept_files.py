"""Adding to a Python file that people may have edited: what stands there stays, or the file is refused by name."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from omni_migrate.errors import InputError
from omni_migrate.facts.modules import Module

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LAYOUT = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})
_INDENT = "    "


@dataclass(frozen=True, order=True)
class Insertion:
    """`text` (lines end at LF) goes in front of the character at `offset` of a module's text."""

    offset: int
    text: str


def apply(module: Module, insertions: Iterable[Insertion]) -> str:
    """The module's text with the insertions, in its own line ends; those of one place in the order given."""
    text = module.text
    for insertion in sorted(insertions, key=lambda one: one.offset)[::-1]:
        new = insertion.text.replace("\n", module.file.newline)
        text = text[: insertion.offset] + new + text[insertion.offset :]
    return text


def bindings(module: Module) -> dict[str, list[ast.AST]]:
    """What binds each of a module's global names: statements and targets, those in blocks included, in their order."""
    found: dict[str, list[ast.AST]] = {}
    pending: list[ast.AST] = list(module.tree.body)
    while pending:
        node = pending.pop(0)
        names: Sequence[str] = ()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names = [node.id]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names = [node.name]
        for name in names:
            found.setdefault(name, []).append(node)
        if not isinstance(node, _SCOPES):
            pending[:0] = ast.iter_child_nodes(node)
    return found


def same_import(module: Module, name: str, source: str) -> bool:
    """Whether a module imports `name` from `source` (or is it, `import pytest`) already.

    Raises InputError if it means something else by that name.
    """
    bound = bindings(module).get(name, [])
    if not bound:
        return False
    imported = module.imports.get(name)
    found = (imported.module, imported.name) if imported is not None else None
    if len(bound) > 1 or found not in ((source, name), (source, None)):
        raise InputError(
            f"{module.path}:{getattr(bound[-1], 'lineno', 0)} {name} is not the one of {source}, which what moves now "
            "needs there: give that one another name"
        )
    return True


def plain_list(module: Module, name: str, why: str) -> ast.List | ast.Dict | None:
    """The list or dict that a module assigns to `name`, None if it has no such name.

    Raises InputError if it is anything else, or not the only one; `why` says what it is needed for.
    """
    bound = bindings(module).get(name, [])
    if not bound:
        return None
    given = [
        node.value
        for node in module.tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)])
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and target is bound[0]
    ]
    value = given[0] if given and len(bound) == 1 else None
    if isinstance(value, ast.List) and not any(isinstance(element, ast.Starred) for element in value.elts):
        return value
    if isinstance(value, ast.Dict) and None not in value.keys:
        return value
    more = f" (and line {getattr(bound[1], 'lineno', 0)})" if len(bound) > 1 else ""
    raise InputError(
        f"{module.path}:{getattr(bound[0], 'lineno', 0)}{more} {name} is no plain list or dict, given once, any more, "
        f"and {why}: make it one again"
    )


def into_list(
    module: Module, display: ast.List | ast.Dict, rows: Sequence[str], in_order: bool = False
) -> list[Insertion]:
    """What adds the rows (`key: value` to a dict) that it lacks, at its end or, `in_order`, among sorted ones."""
    elements = display.elts if isinstance(display, ast.List) else [key for key in display.keys if key is not None]
    have = {ast.unparse(element) for element in elements}
    rows = [row for row in rows if _key(display, row) not in have]
    if not rows:
        return []
    if in_order and (placed := _in_order(module, elements, rows)):
        return placed
    offsets = _line_offsets(module)
    close = _offset(module, offsets, display.end_lineno, display.end_col_offset) - 1
    tokens = [(start, end, text) for start, end, text in _tokens(module, offsets) if start < close]
    _, end, last = tokens[-1]
    line = offsets[(display.end_lineno or 1) - 1]
    bare = last in "[{"
    if module.text[line:close].strip():  # the bracket stands on the line of what is before it
        before = "" if bare else " " if last == "," else ", "
        return [Insertion(end, before + ", ".join(rows) + ("," if last == "," else ""))]
    indent = module.text[line:close] + _INDENT if bare or not elements else _margin(module, elements[-1])
    lines = "".join(f"{indent}{row},\n" for row in rows)
    return [*([] if bare or last == "," else [Insertion(end, ",")]), Insertion(line, lines)]


def after_imports(module: Module, statements: Sequence[str]) -> Insertion:
    """Import statements below those that the module begins with."""
    body = module.tree.body
    head = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))]
    code = next((n.lineno for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))), len(module.lines) + 1)
    top = [node for node in head if node.lineno < code] or body[: ast.get_docstring(module.tree) is not None]
    last = max((node.end_lineno or 0 for node in top), default=0)
    while longer := [n.end_lineno for n in body if n.lineno <= last and (n.end_lineno or 0) > last]:
        last = longer[0] or 0  # `import a; b = [` and its other lines
    return below_line(module, last, "".join(f"{statement}\n" for statement in statements))


def below_line(module: Module, line: int, text: str) -> Insertion:
    """`text` below a line (1-based; 0 is the top), also if that is the last and has no line end."""
    offset = _line_offsets(module)[line]
    unended = line > 0 and not module.lines[line - 1].endswith(("\n", "\r"))
    return Insertion(offset, f"\n{text}" if unended else text)


def _key(display: ast.List | ast.Dict, row: str) -> str:
    """What tells a row from the others: all of it, or its key."""
    if isinstance(display, ast.List):
        return ast.unparse(ast.parse(row, mode="eval").body)
    pair = ast.parse(f"{{{row}}}", mode="eval").body
    return ast.unparse(pair.keys[0]) if isinstance(pair, ast.Dict) and pair.keys[0] is not None else row


def _in_order(module: Module, elements: Sequence[ast.expr], rows: Sequence[str]) -> list[Insertion]:
    """Rows of text among such elements, if those are plain and sorted; none for a row that goes to the end."""
    texts = [element.value if isinstance(element, ast.Constant) else None for element in elements]
    names = [text for text in texts if isinstance(text, str)]
    if len(names) != len(texts) or names != sorted(names):
        return []
    found = []
    offsets = _line_offsets(module)
    tokens = list(_tokens(module, offsets))
    starts = {start: place for place, (start, _, _) in enumerate(tokens)}
    for row in rows:
        place = next((n for n, text in enumerate(names) if text > ast.literal_eval(row)), None)
        if place is None:
            return []
        start = _offset(module, offsets, elements[place].lineno, elements[place].col_offset)
        if tokens[starts[start] - 1][2] not in "[,":
            return []  # in parentheses of its own
        line = offsets[elements[place].lineno - 1]
        own_line = not module.text[line:start].strip()
        found.append(Insertion(start, f"{row},\n{module.text[line:start]}" if own_line else f"{row}, "))
    return found


def _margin(module: Module, element: ast.expr) -> str:
    line = module.lines[element.lineno - 1]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _line_offsets(module: Module) -> list[int]:
    offsets = [0]
    for line in module.lines:
        offsets.append(offsets[-1] + len(line))
    return offsets


def _offset(module: Module, offsets: Sequence[int], line: int | None, column: int | None) -> int:
    """Where a place of the syntax tree, whose columns count bytes, is in the text."""
    text = module.lines[(line or 1) - 1].encode()
    return offsets[(line or 1) - 1] + len(text[: column or 0].decode())


def _tokens(module: Module, offsets: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of each token that is no layout."""
    for token in tokenize.generate_tokens(io.StringIO(module.text, newline="").readline):
        if token.type not in _LAYOUT:
            (line, column), (end_line, end_column) = token.start, token.end
            end = offsets[end_line - 1] + end_column if end_line <= len(module.lines) else len(module.text)
            start = offsets[line - 1] + column if line <= len(module.lines) else len(module.text)
            yield start, end, token.string


def bound_once(module: Module, names: Iterable[str], kinds: tuple[type[ast.AST], ...]) -> None:
    """Raises InputError if a module has one of these names and it is not one definition of such a kind."""
    found = bindings(module)
    for name in names:
        bound = found.get(name, [])
        if len(bound) > 1 or not all(isinstance(node, kinds) for node in bound):
            raise InputError(
                f"{module.path}:{getattr(bound[-1], 'lineno', 0)} {name} is not the one that omni-migrate wrote, which "
                "the rows of what moves now belong to: give yours another name"
            )
