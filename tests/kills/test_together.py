"""Runs that start together: one writes, the others are refused, and the tree is as after one run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from kill_trees import COMMANDS
from killed_runs import MODES, Run, forked, workplace

ROUNDS = 4


def _together(run: Run, place: Path, count: int) -> Counter[int]:
    """The exit codes of `count` runs that start at the same moment."""
    start, go = os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(start, 1)
            os._exit(forked(lambda: run.write(place)))
        children.append(child)
    os.close(start)
    os.close(go)
    return Counter(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


@pytest.mark.parametrize("mode", MODES)
def test_of_runs_that_start_together_one_writes(mode: str) -> None:
    with workplace() as folder:
        run = Run(folder, COMMANDS["audit-npu"], mode)
        for count in (2, 5) * ROUNDS:
            place = run.fresh()
            assert _together(run, place, count) == {0: 1, 2: count - 1}
            assert run.state(place) == run.after
            assert run.left(place) == []
            shutil.rmtree(place)
