"""Take away the imports that a move left without a use: only those that were used before, and only with proof."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from omni_migrate.facts.modules import Module
from omni_migrate.facts.syntax import walk
from omni_migrate.plan.method_text import margin, replace_lines

_NAME = re.compile(r"[A-Za-z_]\w*")
_ANNOTATION = re.compile(r"[A-Z_a-z][\w.]*(\[[\w.,| \[\]]*\])?( ?\| ?[\w.\[\], ]+)*")


def without_unused_imports(before: Module, after: Module, imported_elsewhere: Callable[[str], bool]) -> str:
    """`after`'s text without the imports that `before` used and `after` doesn't.

    An import in a try block and one that binds several names by `import a.b` stay; one that another module takes from
    here stays as a re-export, `from a import b as b`.
    """
    known: dict[str, set[str]] = {}
    used_before, used_after = _used(before, known), _used(after, known)
    text = after.text
    newline = after.file.newline
    for node in sorted(_removable(after.tree), key=lambda n: -n.lineno):
        left_over = [alias for alias in node.names if _is_left_over(alias, used_before, used_after)]
        if not left_over or _shares_a_line(after, node):
            continue
        comments = _comments(after, node)
        kept = [alias for alias in node.names if alias not in left_over]
        for alias in left_over:
            if imported_elsewhere(alias.asname or alias.name):  # written as the re-export that it has become
                kept.append(ast.alias(alias.name, alias.asname or alias.name))
        first, last = node.lineno, node.end_lineno or node.lineno
        if kept:
            text = replace_lines(text, first, last, comments + _written(node, kept, margin(after.lines, node)), newline)
            continue
        block = _only_statement_of(after.tree, node)
        if block is None:
            text = replace_lines(text, first, last, comments, newline)
        elif comments:
            text = replace_lines(text, first, last, f"{comments}{margin(after.lines, node)}pass\n", newline)
        elif not block.orelse and _used_once(after.tree, block):
            text = _without_block(text, after, block)
        else:
            text = replace_lines(text, first, last, f"{margin(after.lines, node)}pass\n", newline)
    return text


def _used(module: Module, known: dict[str, set[str]]) -> set[str]:
    """Names a module uses: as names, and as what a string annotation or an entry of __all__ may mean.

    `known` has those of whole lines that were looked at, before or after the change.
    """
    used: set[str] = set()
    for statement in module.tree.body:
        parts = [statement]
        if isinstance(statement, ast.ClassDef):  # method by method: most of them stay as they are
            parts = [ast.ClassDef("", statement.bases, statement.keywords, [], statement.decorator_list)]
            parts += statement.body
        for part in parts:
            lines = _lines_of(part)
            text = "".join(module.lines[lines[0] - 1 : lines[1]]) if lines is not None else ""
            if not text or ";" in text:
                used |= _used_in(part)
                continue
            if text not in known:
                known[text] = _used_in(part)
            used |= known[text]
    return used


def _lines_of(statement: ast.stmt) -> tuple[int, int] | None:
    """The lines of a statement with its decorators; None for one that was made here."""
    if not hasattr(statement, "lineno"):
        return None
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first, statement.end_lineno or first


def _used_in(statement: ast.stmt) -> set[str]:
    used: set[str] = set()
    for node in walk(statement):
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Store):
                used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _ANNOTATION.fullmatch(node.value):
            used.update(_NAME.findall(node.value))
    return used


def _removable(tree: ast.Module) -> list[ast.ImportFrom | ast.Import]:
    """Imports at module level and in type-checking blocks."""
    found: list[ast.ImportFrom | ast.Import] = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif (
            isinstance(node, ast.If)
            and (getattr(node.test, "id", "") or getattr(node.test, "attr", "")) == "TYPE_CHECKING"
        ):
            found.extend(n for n in node.body if isinstance(n, (ast.Import, ast.ImportFrom)))
    return [node for node in found if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]


def _is_left_over(alias: ast.alias, before: set[str], after: set[str]) -> bool:
    bound = alias.asname or alias.name
    return "." not in bound and alias.name != "*" and bound in before and bound not in after


def _shares_a_line(module: Module, node: ast.stmt) -> bool:
    return ";" in "".join(module.lines[node.lineno - 1 : node.end_lineno]).split("#")[0]


def _comments(module: Module, node: ast.stmt) -> str:
    """The comments of an import, each on a line of its own: they stay where they are."""
    lines = module.lines[node.lineno - 1 : node.end_lineno]
    found = (line[line.index("#") :].rstrip() for line in lines if "#" in line)
    return "".join(f"{margin(module.lines, node)}{comment}\n" for comment in found)


def _written(node: ast.ImportFrom | ast.Import, kept: list[ast.alias], indent: str = "") -> str:
    new = ast.ImportFrom(node.module, kept, node.level) if isinstance(node, ast.ImportFrom) else ast.Import(kept)
    line = indent + ast.unparse(new)
    if len(line) <= 120 or not isinstance(new, ast.ImportFrom):
        return line + "\n"
    names = "".join(f"{indent}    {ast.unparse(alias)},\n" for alias in kept)
    dots = "." * node.level if isinstance(node, ast.ImportFrom) else ""
    return f"{indent}from {dots}{new.module or ''} import (\n{names}{indent})\n"


def _only_statement_of(tree: ast.Module, node: ast.stmt) -> ast.If | None:
    return next((n for n in tree.body if isinstance(n, ast.If) and n.body == [node]), None)


def _used_once(tree: ast.Module, block: ast.If) -> bool:
    names = [n for n in walk(tree) if isinstance(n, ast.Name) and n.id == "TYPE_CHECKING"]
    return len(names) == 1 and any(name is block.test for name in names)


def _without_block(text: str, module: Module, block: ast.If) -> str:
    """An empty type-checking block goes with the import of TYPE_CHECKING itself."""
    last = block.end_lineno or block.lineno
    lines = module.lines
    while last < len(lines) and not lines[last].strip():
        last += 1
    text = replace_lines(text, block.lineno, last, "", module.file.newline)
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "typing":
            kept = [alias for alias in node.names if alias.name != "TYPE_CHECKING"]
            written = _written(node, kept) if kept else ""
            return replace_lines(text, node.lineno, node.end_lineno or 0, written, module.file.newline)
    return text
