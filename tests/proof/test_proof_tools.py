"""The parts of the proof that need no vLLM: what counts as a difference, and what a planted fault alters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from proof_compare import QUANTITIES, differences, first_difference
from proof_faults import choose, faults_of, plant

MODULE = '''"""A module docstring with 1 + 2 in it."""

LIMIT = 3 + 4


class Adapter:
    flag = True

    def hook(self, buffer, rows, start):
        """A docstring."""
        logger.info("never altered: %d", start + 1)
        if start < len(rows):
            buffer[start : start + 1].copy_(rows[0])
        self.ready = True
        return buffer
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "before" / "vllm_omni"
    package.mkdir(parents=True)
    (package / "adapter.py").write_text(MODULE)
    (package / "other.py").write_text("OTHER = 1\n")
    return tmp_path / "before"


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ({"a": [1, 2]}, {"a": [1, 2]}, None),
        ({"a": [1, 2]}, {"a": [1, 3]}, ".a[1]: 2 != 3"),
        ({"a": [1, 2]}, {"a": [1]}, ".a: 2 entries != 1"),
        ({"a": 1}, {"b": 1}, ".a: only before"),
        ({}, {"b": 1}, ".b: only after"),
        (1, True, ": 1 != True"),
        ("", None, ": '' != None"),
    ],
)
def test_the_first_difference_is_exact_and_named(before: object, after: object, where: str | None) -> None:
    assert first_difference(before, after) == where


def test_a_tree_that_fails_differs_from_one_that_runs() -> None:
    ran = dict.fromkeys(QUANTITIES, 0)
    assert differences(ran, {"error": "boom"}) == {"error": "ran != boom"}
    assert differences(ran, ran) == {}


def test_each_quantity_is_compared() -> None:
    ran = dict.fromkeys(QUANTITIES, 0)
    for name in QUANTITIES:
        assert list(differences(ran, {**ran, name: 1})) == [name]


def test_faults_are_of_every_kind_and_only_inside_functions(tree: Path) -> None:
    faults = faults_of(tree, "vllm_omni/adapter.py")
    assert {fault.kind for fault in faults} == {
        "bound moved",
        "call dropped",
        "condition negated",
        "number moved",
        "offset turned",
        "result lost",
        "slice moved",
        "truth swapped",
    }
    assert {fault.function for fault in faults} == {"Adapter.hook"}
    assert not any("logger" in fault.text for fault in faults)


def test_a_planted_fault_alters_one_file_of_the_copy_and_nothing_of_the_tree(tree: Path, tmp_path: Path) -> None:
    for fault in faults_of(tree, "vllm_omni/adapter.py"):
        copy = tmp_path / f"copy-{fault.index}"
        plant(tree, copy, fault)
        altered = (copy / "vllm_omni" / "adapter.py").read_text()
        assert ast.dump(ast.parse(altered)) != ast.dump(ast.parse(MODULE)), fault
        assert (copy / "vllm_omni" / "other.py").read_text() == "OTHER = 1\n"
        assert (tree / "vllm_omni" / "adapter.py").read_text() == MODULE


def test_a_choice_of_faults_is_spread_over_kinds_and_always_the_same(tree: Path) -> None:
    faults = faults_of(tree, "vllm_omni/adapter.py")
    chosen = choose(faults, 8)
    assert len({fault.kind for fault in chosen}) == 8
    assert choose(list(reversed(faults)), 8) == chosen
