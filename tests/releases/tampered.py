"""Trees that nobody published: a release's runners, changed at test time by their syntax tree and tokens.

A tampering is a function from the text of a file to another text, or from a tree to a changed tree. What it adds is
our own; what it changes comes from the release that the test fetched.
"""

from __future__ import annotations

import ast
import re
import shutil
import symtable
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent

RUNNER = "vllm_omni/worker/gpu_model_runner.py"
AR = "vllm_omni/worker/gpu_ar_model_runner.py"
GENERATION = "vllm_omni/worker/gpu_generation_model_runner.py"
RUNNERS = (RUNNER, AR, GENERATION)

# What neither a runner nor a model of the stages needs: left out, a tree is copied and counted faster.
UNRELATED = ("diffusion", "entrypoints", "assets", "benchmarks")

Edit = Callable[[str], str]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def copied(release: Path, target: Path) -> Path:
    """A copy of a release's Python files, without what is unrelated to runners and models."""
    for file in sorted(release.glob("vllm_omni/**/*.py")):
        path = file.relative_to(release)
        if path.parts[1] not in UNRELATED:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / path)
    return target


def read(root: Path, path: str) -> str:
    return (root / path).read_bytes().decode()


def edit(root: Path, path: str, change: Edit) -> None:
    """Change one file of a tree; raises AssertionError if nothing changed, for then nothing would be tested."""
    before = read(root, path)
    after = change(before)
    assert after != before, f"{path}: the tampering changed nothing"
    (root / path).write_bytes(after.encode())


def classes(text: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


def method(text: str, class_name: str, name: str) -> Function:
    return next(n for n in classes(text)[class_name].body if isinstance(n, Function) and n.name == name)


def _first(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def add_methods(class_name: str, source: str) -> Edit:
    """Methods at the end of a class."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        end = classes(text)[class_name].end_lineno or 0
        return "".join([*lines[:end], "\n", indent(dedent(source).strip("\n"), "    "), "\n", *lines[end:]])

    return change


def add_to_module(source: str) -> Edit:
    """Code before the first class of a module."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        first = _first(next(iter(classes(text).values())))
        return "".join([*lines[: first - 1], dedent(source).strip("\n"), "\n\n\n", *lines[first - 1 :]])

    return change


def rename_locals(class_name: str) -> Edit:
    """Every local of every method of a class gets another name, `x` becomes `x2`."""

    def change(text: str) -> str:
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        places = [place for node in _functions(classes(text)[class_name]) for place in _renamable(node, text)]
        for line, column, end in sorted(places, reverse=True):
            lines[line - 1] = lines[line - 1][:end] + b"2" + lines[line - 1][end:]
            assert column < end
        changed = b"".join(lines).decode()
        compile(changed, "<renamed>", "exec")
        return changed

    return change


def _functions(node: ast.ClassDef) -> Iterator[Function]:
    return (child for child in node.body if isinstance(child, Function))


def _renamable(function: Function, text: str) -> Iterator[tuple[int, int, int]]:
    """Where a method's own locals stand; those that a nested scope, a string or an import binds too are left out."""
    source = ast.unparse(ast.Module([function], []))
    table = symtable.symtable(source, "<method>", "exec").get_children()[0]
    names = {s.get_name() for s in table.get_symbols() if s.is_local() and not s.is_parameter() and not s.is_imported()}
    for nested in _tables(table):
        names -= {s.get_name() for s in nested.get_symbols() if s.is_local() or s.is_nonlocal()}
    for node in ast.walk(function):
        if isinstance(node, ast.ExceptHandler):
            names.discard(node.name or "")
        elif isinstance(node, (ast.JoinedStr, ast.Nonlocal, ast.Global)):
            names -= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)} | set(
                getattr(node, "names", ())
            )
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.discard(node.name)
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names:
            yield node.lineno, node.col_offset, node.end_col_offset or 0


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _tables(child)


def reverse_methods(class_name: str) -> Edit:
    """The methods of a class in the opposite order; a property stays before its setter."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        body = classes(text)[class_name].body
        starts = [index for index, node in enumerate(body) if isinstance(node, Function)]
        assert starts == list(range(starts[0], len(body))), "something else stands between the methods"
        cuts = [_after(lines, body[index - 1]) for index in starts[1:]]
        begin, end = _after(lines, body[starts[0] - 1]) if starts[0] else _first(body[0]) - 1, body[-1].end_lineno or 0
        pieces = ["".join(lines[a:b]).strip("\n") + "\n\n" for a, b in zip([begin, *cuts], [*cuts, end], strict=True)]
        groups: dict[str, str] = {}
        for node, piece in zip(body[starts[0] :], pieces, strict=True):
            name = node.name  # type: ignore[attr-defined]
            groups[name] = groups.get(name, "") + piece
        return "".join([*lines[:begin], *reversed(groups.values())]).rstrip("\n") + "\n" + "".join(lines[end:])

    return change


def _after(lines: list[str], node: ast.stmt) -> int:
    return node.end_lineno or 0


def with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def with_tabs(text: str) -> str:
    """Tabs for each four spaces of indentation, but not inside strings."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno != node.lineno:
            inside.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    changed = []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        depth = (len(line) - len(line.lstrip(" "))) // 4
        changed.append(line if number in inside else "\t" * depth + line[4 * depth :])
    return "".join(changed)


def in_latin_1(text: str) -> bytes:
    """The file with a coding line, and a comment that is no ASCII."""
    plain = text.encode("ascii", "replace").decode()
    return f"# -*- coding: latin-1 -*-\n# f\xfcr jedes Modell\n{plain}".encode("latin-1")


def rename_everywhere(root: Path, names: dict[str, str]) -> None:
    """Replace whole words (or dotted names) in every file of a tree."""
    pattern = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, names)) + r")(?!\w)")
    for file in root.glob("vllm_omni/**/*.py"):
        text = file.read_bytes().decode()
        changed = pattern.sub(lambda found: names[found[1]], text)
        if changed != text:
            file.write_bytes(changed.encode())


def rename_word(root: Path, path: str, name: str, alias: str) -> None:
    """An import of a name gets an alias, and the module uses that."""

    def change(text: str) -> str:
        used = re.sub(rf"\b{name}\b", alias, text)
        return re.sub(rf"(\bimport\b[^()\n]*?)\b{alias}\b", rf"\g<1>{name} as {alias}", used, count=1)

    edit(root, path, change)


def move_module(root: Path, old: str, new: str) -> None:
    """A module under another name, the imports of it mended."""
    (root / new).parent.mkdir(parents=True, exist_ok=True)
    if not (root / new).parent.joinpath("__init__.py").exists():
        (root / new).parent.joinpath("__init__.py").write_bytes(b"")
    (root / old).rename(root / new)
    dotted = {path: path.removesuffix(".py").replace("/", ".") for path in (old, new)}
    rename_everywhere(root, {dotted[old]: dotted[new]})
