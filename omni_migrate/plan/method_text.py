"""A method's source, cut out of its file and put back: indentation changes, the inside of strings doesn't."""

from __future__ import annotations

import ast
import io
import tokenize

from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.modules import split_lines
from omni_migrate.facts.syntax import walk


def method_span(function: FunctionNode) -> tuple[int, int]:
    """First and last line of a method, decorators included (1-based)."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return first, function.end_lineno or function.lineno


def cut(lines: list[str], function: FunctionNode) -> str:
    """The method's source, dedented."""
    first, last = method_span(function)
    return shift("".join(lines[first - 1 : last]), -function.col_offset)


def margin(lines: list[str], node: ast.stmt) -> str:
    """What a statement that begins its line is indented by."""
    line = lines[node.lineno - 1]
    return line[: len(line) - len(line.lstrip(" \t"))]


def with_spaces(source: str) -> str:
    """Code with four spaces for each tab that it is indented by; lines inside multi-line strings stay as they are."""
    inside = _string_lines(source, 0)
    expanded = []
    for number, line in enumerate(split_lines(source), start=1):
        code = line.lstrip(" \t")
        before = line[: len(line) - len(code)]
        expanded.append(line if number in inside else before.replace("\t", "    ") + code)
    return "".join(expanded)


def shift(source: str, columns: int, unit: str = " ") -> str:
    """Indent (or, negative, dedent) code by a number of columns; lines inside multi-line strings stay as they are."""
    lines = split_lines(source)
    inside = _string_lines(source if columns >= 0 else f"if 1:\n{source}", 0 if columns >= 0 else 1)
    shifted = []
    for number, line in enumerate(lines, start=1):
        if number in inside or not line.strip():
            shifted.append(line)
        elif columns >= 0:
            shifted.append(unit * columns + line)
        else:
            shifted.append(line[-columns:] if not line[:-columns].strip() else line.lstrip(" "))
    return "".join(shifted)


def _string_lines(source: str, offset: int) -> set[int]:
    """Lines that begin inside a string (or f-string)."""
    inside: set[int] = set()
    if '"""' not in source and "'''" not in source and "\\\n" not in source and "\\\r" not in source:
        return inside  # no string here can have a line end
    starts: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
            name = tokenize.tok_name[token.type]
            if name in ("FSTRING_START", "TSTRING_START"):
                starts.append(token.start[0])
            elif name in ("FSTRING_END", "TSTRING_END"):
                inside.update(range(starts.pop() + 1, token.end[0] + 1))
            elif name == "STRING":
                inside.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, IndentationError):
        pass  # a fragment that ends early: what was seen so far holds
    return {line - offset for line in inside}


def signature_end(source: str, function: FunctionNode) -> tuple[int, int]:
    """The line (1-based) and the column behind the colon that ends a function's signature."""
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
        if token.start[0] < function.lineno or token.type != tokenize.OP:
            continue
        depth += (token.string in "([{") - (token.string in ")]}")
        if token.string == ":" and depth == 0:
            return token.end
    raise ValueError("no signature")


def replace_lines(text: str, first: int, last: int, new: str, newline: str) -> str:
    """Replace lines `first` to `last` (1-based); `new` gets the file's line ends."""
    lines = split_lines(text)
    if new and first == len(lines) + 1 and lines and not lines[-1].endswith(("\n", "\r")):
        new = f"\n{new}"  # after a last line without a line end
    if newline != "\n":
        new = new.replace("\r\n", "\n").replace("\n", newline)
    return "".join([*lines[: first - 1], new, *lines[last:]])


def find_class(tree: ast.Module, name: str) -> ast.ClassDef | None:
    """A class of a module by name."""
    return next((node for node in walk(tree) if isinstance(node, ast.ClassDef) and node.name == name), None)
