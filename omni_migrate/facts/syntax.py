"""Walking syntax trees: as `ast.walk` does, in a third of its time, and once for a tree that is asked about often.

Contexts (`Load`, `Store`) and operators are left out: they are fields of their nodes, and nobody looks for them alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

# Fields that never hold a node, or only one that is left out.
_NO_NODES = {
    *("arg", "asname", "attr", "col_offset", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level"),
    *("lineno", "module", "name", "op", "ops", "rest", "simple", "str", "tag", "type_comment", "type_ignores"),
}
MAX_DEPTH = 150  # a hundred blocks are Python's own limit; a recursive analysis takes five calls a level, of a thousand
_WITH_BLOCKS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_WITHOUT_NODES = (ast.Constant, ast.Global, ast.Nonlocal, ast.MatchSingleton)


def _fields() -> dict[type[ast.AST], tuple[str, ...]]:
    """The fields of each kind of node in which nodes may stand, in order."""
    kinds = [kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.AST)]
    found = {kind: tuple(field for field in kind._fields if field not in _NO_NODES) for kind in kinds}
    alias = getattr(ast, "TypeAlias", None)  # since Python 3.12; its name is a node
    return {
        **found,
        **dict.fromkeys(_WITHOUT_NODES, ()),
        **({alias: ("name", *found[alias])} if alias is not None else {}),
    }


_FIELDS = _fields()


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, in the order of its fields."""
    found: list[ast.AST] = []
    for field in _FIELDS[node.__class__]:
        value = getattr(node, field, None)
        if value.__class__ is list:
            found += [item for item in value if item is not None]
        elif value is not None:
            found.append(value)
    return found


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and everything below it, level by level."""
    found = [root]
    for node in found:  # it grows on the way
        found += children(node)
        yield node


def below(root: ast.AST) -> list[ast.AST]:
    """Everything below a node, level by level, looked up once: not for a tree that is changed afterwards."""
    known: list[ast.AST] | None = getattr(root, "_below", None)
    if known is None:
        known = []
        for node in (root,):
            known += children(node)
        for node in known:
            known += children(node)
        root._below = known  # type: ignore[attr-defined]
    return known


@lru_cache(maxsize=2048)
def parse(source: str | bytes) -> ast.Module:
    """`ast.parse`, for trees that are not so deep that a recursive analysis fails on them.

    Of one text it is always the same tree, until a run's end: it is not to be changed.

    Raises SyntaxError for those too, and for what is too much for Python's own parser; ValueError for null bytes.
    """
    try:
        tree = ast.parse(source)
    except (RecursionError, MemoryError) as error:
        raise SyntaxError("it is nested too deep for Python's parser") from error
    line = _too_deep(tree)
    if line is not None:
        raise SyntaxError(f"more than {MAX_DEPTH} expressions, blocks or elifs inside each other", ("", line, 0, ""))
    return tree


def _too_deep(tree: ast.Module) -> int | None:
    """The line of a statement with something in it that is deeper than MAX_DEPTH, None if there is none."""
    level: list[ast.AST] = list(tree.body)
    for depth in range(1, MAX_DEPTH + 1):
        if not level:
            return None
        inner: list[ast.AST] = []
        for node in level:
            for child in children(node):
                if isinstance(child, _WITH_BLOCKS):
                    inner.append(child)
                elif isinstance(child, ast.expr) and _may_hold(child, MAX_DEPTH - depth) and _deeper(child, depth):
                    return child.lineno
        level = inner
    return getattr(level[0], "lineno", 1) if level else None


def _may_hold(node: ast.expr, levels: int) -> bool:
    """Whether an expression is long enough: a level of it takes a character, and a line has a hundred or so."""
    lines = (node.end_lineno or 0) - node.lineno
    return lines > 0 or (node.end_col_offset or 0) - node.col_offset > levels


def _deeper(node: ast.AST, depth: int) -> bool:
    level = [node]
    while level and depth <= MAX_DEPTH:
        level = [child for node in level for child in children(node)]
        depth += 1
    return bool(level)
