"""Runs engine_run.py in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def run_engine(
    runner: str, folder: Path, names: list[str], environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """The results of scenarios under one runner, from a process of its own."""
    out, work = folder / f"{runner}.json", folder / runner
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(HERE / "engine_run.py"), runner, str(out), str(work), *names]
    log = folder / f"{runner}.log"
    with log.open("w") as stream:
        done = subprocess.run(
            command, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
    if done.returncode or not out.exists():
        pytest.fail(f"the engine process of {runner} ended with {done.returncode}:\n{log.read_text()[-3000:]}")
    return json.loads(out.read_text())["scenarios"]
