"""Runs the scenarios once per session, V1 and V2 each in a process of its own, and hands out what happened."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_process import run_engine
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


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """`runs["v1" | "v2"][scenario]`: tokens, outputs, hidden states, calls of model methods, counters."""
    if given := os.environ.get("OMNI_ENGINE_RESULTS"):  # the results of an earlier run, while tests are written
        return {runner: json.loads((Path(given) / f"{runner}.json").read_text())["scenarios"] for runner in RUNNERS}
    folder = tmp_path_factory.mktemp("engine")
    names = [scenario.name for scenario in SCENARIOS]
    with ThreadPoolExecutor(int(os.environ.get("OMNI_ENGINE_JOBS", "2"))) as pool:
        results = list(pool.map(lambda runner: run_engine(runner, folder, names), RUNNERS))
    return dict(zip(RUNNERS, results, strict=True))
