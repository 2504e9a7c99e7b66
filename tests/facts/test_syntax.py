"""Walking of syntax trees: everything that `ast.walk` finds, and a file that is nested too deep is refused."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.syntax import MAX_DEPTH, below, parse, walk
from omni_migrate.plan.workspace import Workspace

LEFT_OUT = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.type_ignore)
SOURCES = sorted(Path(ast.__file__).parent.glob("[a-d]*.py"))
EVERY_KIND = """
async def f(a, /, b: int = 1, *c, d=None, e, **g) -> {**h}:
    global i
    del j[k:l:m], n.o
    async with p as (q, *r): pass
    match s:
        case {"t": U(v, w=None), **x} | [y, *z] | 1 | -2: await a
        case None if lambda: (yield): return f"{b!r:>{c}}"
    raise d from (e := {g for h in i if j not in k async for l in m})
"""


def deep(kind: str, depth: int) -> str:
    chains = {
        "elif": "if a:\n    b\n" + "elif a:\n    b\n" * depth,
        "sum": "a = " + "b + " * depth + "b\n",
        "sum on many lines": "a = (" + "b +\n" * depth + "b)\n",
        "calls": "a" + ".b()" * (depth // 2) + "\n",
        "signs": "a = " + "-" * depth + "b\n",
        "choices": "a = " + "b if c else " * depth + "d\n",
        "function": "def f():\n    def g():\n        return " + "b + " * depth + "b\n",
    }
    return chains[kind]


KINDS = ("elif", "sum", "sum on many lines", "calls", "signs", "choices", "function")


@pytest.mark.parametrize("source", [EVERY_KIND, *(path.read_text(encoding="utf-8") for path in SOURCES)])
def test_every_node_is_found_in_the_order_of_ast_walk(source: str) -> None:
    tree = ast.parse(source)
    expected = [node for node in ast.walk(tree) if not isinstance(node, LEFT_OUT)]
    assert list(walk(tree)) == expected
    assert [tree, *below(tree)] == expected
    assert below(tree) is below(tree)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [MAX_DEPTH + 10, 900, 5_000, 100_000])
def test_what_is_nested_too_deep_is_an_error_of_syntax(kind: str, depth: int) -> None:
    with pytest.raises(SyntaxError, match=r"nested too deep|inside each other|too many nested|too complex"):
        parse(deep(kind, depth))


@pytest.mark.parametrize("kind", KINDS)
def test_what_python_code_has_in_practice_is_not_too_deep(kind: str) -> None:
    assert ast.dump(parse(deep(kind, 100))) == ast.dump(ast.parse(deep(kind, 100)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_nested_too_deep_is_unreadable(kind: str, tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(deep(kind, 5_000))
    modules = Modules(Workspace(tmp_path))
    assert modules.get("deep.py") is None
    assert modules.unreadable["deep.py"].startswith("cannot be parsed: ")
