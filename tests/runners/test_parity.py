"""The parity matrix says what the tests prove."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_parity_matrix_is_up_to_date_and_names_tests_that_exist():
    command = [sys.executable, "docs/generate_parity.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
