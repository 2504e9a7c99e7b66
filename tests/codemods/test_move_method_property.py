"""A method that its adapter has and a delegate calls does what it did."""

from __future__ import annotations

from generated_methods import generate
from hypothesis import given, note
from hypothesis import strategies as st
from running import outcomes
from test_move_block_property import comments

from codemods.move_method import MovedMethod, move_method
from omni_migrate.facts.flow import Refusal


@given(st.randoms(use_true_random=False))
def test_moved_method_behaves_the_same(rng):
    source = "# above\n" + generate(rng)
    moved = move_method(source, "hook")
    assert isinstance(moved, MovedMethod), moved
    note(f"{source}\n{moved.delegate}\n{moved.hook}")
    assert outcomes(moved.delegate, moved.hook) == outcomes(source)
    assert comments(moved.delegate + moved.hook) == comments(source)
    assert isinstance(move_method(moved.delegate, "hook"), Refusal)
