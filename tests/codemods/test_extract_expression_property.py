"""An expression asked of the adapter gives what it gave in its place: any method run before and after."""

from __future__ import annotations

import ast
from collections import Counter
from random import Random

from generated_methods import generate
from hypothesis import given, note
from hypothesis import strategies as st
from running import outcomes
from test_move_block_property import comments, kind_of

from codemods.blocks import parse_method
from codemods.extract_expression import extract_expression, span_of
from omni_migrate.facts.flow import Refusal, walk_scope


def test_share_of_refused_expressions_and_their_reasons(capsys):
    reasons: Counter[str] = Counter()
    moved: Counter[str] = Counter()
    for seed in range(150):
        rng = Random(seed)
        source = generate(rng)
        for expression in expressions(source, rng, 6):
            result = extract_expression(source, span_of(expression), "hook")
            if isinstance(result, Refusal):
                reasons[kind_of(result.reason)] += 1
            else:
                moved[type(expression).__name__] += 1
    refused = reasons.total()
    share = refused / (moved.total() + refused)
    with capsys.disabled():
        print(f"\nexpressions: {moved.total()} moved, {refused} refused ({share:.1%}): {dict(reasons)}")
        print(f"  moved: {dict(moved)}")
    assert not {"Attribute", "BoolOp", "Call", "Compare", "IfExp", "Lambda", "ListComp", "Subscript"} - set(moved)
    assert share < 0.2


@given(st.randoms(use_true_random=False))
def test_extracted_expression_behaves_the_same(rng):
    source = generate(rng)
    expected = outcomes(source)
    for expression in expressions(source, rng, 3):
        note(f"{source}\n{ast.unparse(expression)} at {span_of(expression)}")
        check(source, expression, expected)


def check(source: str, expression: ast.expr, expected: object) -> None:
    moved = extract_expression(source, span_of(expression), "hook")
    if isinstance(moved, Refusal):
        return
    note(f"{moved.method}\n{moved.hook}")
    assert outcomes(moved.method, moved.hook) == expected
    assert comments(moved.method) + comments(moved.hook) == comments(source)
    lines, new = source.split("\n"), moved.method.split("\n")
    top, below = expression.lineno - 1, len(lines) - (expression.end_lineno or 0)
    assert new[:top] == lines[:top]
    assert new[-below:] == lines[-below:]
    for call in expressions(moved.method, Random(0), 0):
        if ast.unparse(call).startswith("self._adapter.hook("):
            assert isinstance(extract_expression(moved.method, span_of(call), "hook"), Refusal)


def expressions(source: str, rng: Random, count: int) -> list[ast.expr]:
    """Some expressions of the method's own scope that are read; all of them for a count of 0."""
    every = [
        node
        for node in walk_scope(parse_method(source).body)
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        if not isinstance(node, (ast.Starred, ast.Constant, ast.FormattedValue))
    ]
    return every if not count else [every[rng.randrange(len(every))] for _ in range(count) if every]
