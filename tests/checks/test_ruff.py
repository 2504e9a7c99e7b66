"""What ruff may cost: a file that would take all of the machine's memory is one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omni_migrate.checks import ruff
from omni_migrate.checks.ruff import RuffError, run_ruff


def test_what_ruff_prints_is_returned(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n")
    assert b"F401" in run_ruff("check", "--isolated", "--exit-zero", "--output-format", "concise", ".", folder=tmp_path)


def test_a_refusal_is_ruffs_own_line(tmp_path: Path) -> None:
    with pytest.raises(RuffError, match=r"no such option|unexpected argument|For more information"):
        run_ruff("check", "--no-such-option", folder=tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on another process's memory is Linux's")
def test_more_memory_than_the_limit_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ruff keeps what each branch of a function may have bound: its memory grows with their square."""
    monkeypatch.setattr(ruff, "MEMORY_BYTES", 1 << 30)
    lines = "".join(f"    if a:\n        a = f(a, {number})\n" for number in range(20_000))
    (tmp_path / "a.py").write_text(f"def long(a, f):\n{lines}    return a\n")
    with pytest.raises(RuffError, match=r"within 1 GiB of memory .* move that into a file of its own") as error:
        run_ruff("check", "--isolated", "--select", "F821", ".", folder=tmp_path)
    assert "\n" not in str(error.value)
