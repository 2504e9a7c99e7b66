"""A stand-in for the engine: the command line is tested by what it asks for and by how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

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
