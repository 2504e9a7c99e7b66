"""No line of the in-tree runners is copied from upstream, and the measure would see one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def copied_lines():
    spec = importlib.util.spec_from_file_location("copied_lines", BENCHMARKS / "copied_lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_three_lines_in_a_row_are_a_copy_whatever_stands_between_that_is_no_code(copied_lines):
    theirs = copied_lines.lines_of("a = 1\nb = 2\n# why\nc = 3\nif d:\n    e = 5\nelse:\n    pass\n")
    ours = copied_lines.lines_of("x = 0\nb = 2\nc = 3  \n\nif d:\n    f = 6\n")
    assert copied_lines.copied(ours, theirs) == 3
    assert copied_lines.copied(["a = 1", "b = 2", "if d:"], theirs) == 0


def test_a_copied_method_is_aligned_with_the_one_of_its_name(copied_lines):
    upstream = "class A:\n    def run(self):\n        a = 1\n        b = 2\n        return a + b\n"
    own = upstream.replace("a + b", "a - b") + "    def go(self):\n        a = 1\n"
    assert copied_lines.aligned(own, upstream) == (3, 6)


@pytest.mark.release
def test_ours_has_none_and_the_published_runners_have_many(copied_lines):
    _, runs = copied_lines.our_runs()
    assert runs == []
    figures = copied_lines.by_method()
    ours = {name: copied for name, (copied, _) in figures.items() if name.startswith("ours ")}
    assert ours == {"ours gpu_model_runner.py": 0, "ours gpu_model_runner_v2.py": 0}
    assert sum(copied for copied, _ in figures.values()) == 1357
