"""Runs the scenarios once per session, V1 and V2 each in a process of its own, and hands out what happened."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_scenarios import SCENARIOS

HERE = Path(__file__).parent
RUNNERS = ("v1", "v2")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every test here needs vLLM; where it is not installed that is said, or, under `make test-engine`, an error."""
    here = [item for item in items if HERE in Path(item.fspath).parents]
    for item in here:
        item.add_marker(pytest.mark.engine)
    if here and importlib.util.find_spec("vllm") is None:
        if os.environ.get("OMNI_REQUIRE_ENGINE"):
            raise pytest.UsageError(f"{sys.executable} has no vllm")
        for item in here:
            item.add_marker(pytest.mark.skip(reason="needs vLLM on the CPU: make test-engine"))


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


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """`runs["v1" | "v2"][scenario]`: tokens, outputs, hidden states, hook calls, counters."""
    if given := os.environ.get("OMNI_ENGINE_RESULTS"):  # the results of an earlier run, while tests are written
        return {runner: json.loads((Path(given) / f"{runner}.json").read_text())["scenarios"] for runner in RUNNERS}
    folder = tmp_path_factory.mktemp("engine")
    names = [scenario.name for scenario in SCENARIOS]
    with ThreadPoolExecutor(int(os.environ.get("OMNI_ENGINE_JOBS", "1"))) as pool:
        results = list(pool.map(lambda runner: run_engine(runner, folder, names), RUNNERS))
    return dict(zip(RUNNERS, results, strict=True))
