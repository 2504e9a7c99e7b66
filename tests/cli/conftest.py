"""A stand-in for the engine: the command line is tested by what it asks for and by how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from omni_migrate.cli import main
from omni_migrate.report.findings import FileChange, Finding, Report, Severity
from omni_migrate.request import ExtractRequest

CHANGED = FileChange("vllm_omni/worker/runner.py", b"x: list[int] = []\n", b"x: list[str] = []\n")
UNCHANGED = FileChange("vllm_omni/worker/runner.py", b"pass\n", b"pass\n")
ERROR = Finding("vllm_omni/worker/runner.py", 1, "model-probe", Severity.ERROR, "Runner.run", "told")
NOTE = Finding("vllm_omni/worker/runner.py", 1, "model-probe", Severity.NOTE, "Runner.run", "told")


def report(*, files: tuple[FileChange, ...] = (), findings: tuple[Finding, ...] = ()) -> Report:
    return Report("extract-adapters", "tree", "0.1", {"sites": len(findings)}, findings, files)


@dataclass
class Engine:
    """Notes what it is asked for; answers `report`, or does what `act` does."""

    report: Report = field(default_factory=report)
    act: Callable[[ExtractRequest], None] = lambda request: None
    requests: list[ExtractRequest] = field(default_factory=list)

    def run(self, request: ExtractRequest) -> Report:
        self.requests.append(request)
        self.act(request)
        return self.report


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in, engine = ModuleType("omni_migrate.extract"), Engine()
    stand_in.run = engine.run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "omni_migrate.extract", stand_in)
    return engine


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the command in this process and returns its exit code."""

    def run(*args: str) -> int:
        monkeypatch.setattr(sys, "argv", ["omni-migrate", *args])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0)

    return run
