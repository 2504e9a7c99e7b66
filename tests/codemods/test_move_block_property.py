"""A block moved from any method leaves a method that does the same: run before and after, and compared."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from random import Random

from generated_methods import CONSTRUCTS, constructs, generate
from hypothesis import given, note
from hypothesis import strategies as st
from running import outcomes

from codemods.blocks import first_line, parse_method
from codemods.move_block import Moved, move_block
from omni_migrate.facts.flow import Refusal


def test_share_of_refused_blocks_and_their_reasons(capsys):
    reasons: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    moved = 0
    for seed in range(200):
        rng = Random(seed)
        source = generate(rng)
        for first, last in blocks(source, rng, 4):
            result = move_block(source, first, last, "hook")
            if isinstance(result, Refusal):
                reasons[kind_of(result.reason)] += 1
            else:
                moved += 1
                covered.update(constructs(ast.parse(result.hook).body[0].body))
    refused = reasons.total()
    with capsys.disabled():
        print(f"\nblocks: {moved} moved, {refused} refused ({refused / (moved + refused):.1%})")
        for reason, count in reasons.most_common():
            print(f"  {count:4}  {reason}")
        print("  moved constructs:", ", ".join(f"{name} {count}" for name, count in sorted(covered.items())))
    assert not CONSTRUCTS - set(covered)
    assert refused / (moved + refused) < 0.2


@given(st.randoms(use_true_random=False))
def test_moved_block_behaves_the_same(rng):
    source = generate(rng)
    expected = outcomes(source)
    for first, last in blocks(source, rng, 3):
        note(f"{source}\nlines {first} to {last}")
        check(source, first, last, expected)


def check(source: str, first: int, last: int, expected: object) -> None:
    moved = move_block(source, first, last, "hook")
    if isinstance(moved, Refusal):
        return
    note(f"{moved.method}\n{moved.hook}")
    assert outcomes(moved.method, moved.hook) == expected
    assert comments(moved.method) + comments(moved.hook) == comments(source)
    lines, new = source.splitlines(), moved.method.splitlines()
    top = first - 1
    while lines[top - 1].strip() == "" or lines[top - 1].lstrip().startswith("#"):
        top -= 1
    while last < len(lines) and (lines[last].strip() == "" or lines[last].lstrip().startswith("#")):
        last += 1
    below = len(lines) - last
    assert new[:top] == lines[:top]
    assert below == 0 or new[-below:] == lines[-below:]
    check_again(moved, len(lines[:top]), len(new) - below, expected)


def check_again(moved: Moved, top: int, stop: int, expected: object) -> None:
    """The call that took the block's place is not moved again, unless into another hook."""
    body = next(b for b in bodies(moved.method) if any(top < first_line(node) <= stop for node in b))
    call = [node for node in body if top < first_line(node) <= stop]
    first, last = first_line(call[0]), call[-1].end_lineno
    assert isinstance(move_block(moved.method, first, last, "hook"), Refusal)
    again = move_block(moved.method, first, last, "hook2")
    if isinstance(again, Refusal):  # unpacking the answer may raise, as far as the analysis can tell
        assert again.reason.endswith("read where an exception leads")
        return
    assert outcomes(again.method, moved.hook, again.hook) == expected
    assert len(again.method.splitlines()) == len(moved.method.splitlines())


def blocks(source: str, rng: Random, count: int) -> Iterator[tuple[int, int]]:
    """Runs of statements, from any list of the method."""
    every = list(bodies(source))
    for _ in range(count):
        body = every[rng.randrange(len(every))]
        start = rng.randrange(len(body))
        stop = start + rng.randrange(len(body) - start)
        yield first_line(body[start]), body[stop].end_lineno or 0


def bodies(source: str) -> Iterator[list[ast.stmt]]:
    pending: list[ast.AST] = [parse_method(source)]
    while pending:
        node = pending.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            children = getattr(node, field, None) or []
            if children and isinstance(children[0], ast.stmt):
                yield children
            pending.extend(c for c in children if not isinstance(c, (ast.FunctionDef, ast.ClassDef)))


def comments(source: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def kind_of(reason: str) -> str:
    return re.sub(r"^\w+(, \w+)* (?=may|is)|(?<=rebinds )\w+", "", reason)
