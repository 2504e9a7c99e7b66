"""A sample of `make test-kills`: a writing run killed anywhere leaves a tree as before, as after, or one to recover."""

from __future__ import annotations

import shutil

import pytest
from kill_trees import COMMANDS
from killed_runs import MODES, killed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_that_is_killed_loses_nothing_and_leaves_nothing(command: str, mode: str) -> None:
    found = killed(command, mode, points=4, recoveries=1 if command == "audit-npu" else 0)
    assert found.broken == []
    assert found.points >= 4


@pytest.mark.skipif(shutil.which("strace") is None, reason="killing git at its own calls needs strace")
def test_git_that_is_killed_with_the_run_loses_nothing() -> None:
    found = killed("audit-npu", "branch", points=2, git=9)
    assert found.broken == []
    assert found.points > 4
