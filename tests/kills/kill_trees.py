"""Small trees that the three writing commands have something to write to, and the runs that write it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
for folder in ("extract", "plan"):
    sys.path.append(str(TESTS / folder))

from mini_tree import FILES  # noqa: E402
from test_v2_port import TREE as V1_TREE  # noqa: E402

from omni_migrate import audit_npu, extract, port_v2, writing  # noqa: E402
from omni_migrate.plan.phases import Plan  # noqa: E402
from omni_migrate.request import AuditRequest, ExtractRequest, PortRequest, WriteRequest  # noqa: E402

V2_TREE = {
    **V1_TREE,
    "vllm_omni/worker/runner.py": "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n"
    + V1_TREE["vllm_omni/worker/runner.py"].replace("class OmniRunner:", "class OmniRunner(GPUModelRunner):"),
}
VLLM = {"vllm/__init__.py": "", "vllm/_version.py": "__version__ = '0.28.0'\n"}

_COPIED = """
    def prepare(self, batch):
        rows = len(batch.requests)
        width = self.width(rows)
        self.positions = [0] * width
        for row in range(rows):
            self.positions[row] = batch.requests[row].position
        self.note(rows, width)
{more}        return self.positions
"""
ASCEND = {
    "vllm_ascend/__init__.py": "",
    "vllm_ascend/worker/model_runner_v1.py": "class NPUModelRunner:\n" + _COPIED.format(more=""),
}
NPU_TREE = {
    "vllm_omni/__init__.py": "",
    "vllm_omni/platforms/npu/worker/npu_model_runner.py": (
        "from vllm_ascend.worker.model_runner_v1 import NPUModelRunner\n\n\nclass OmniNPUModelRunner(NPUModelRunner):\n"
        "    def load_model(self):\n        super().load_model()\n        self.talker = make_talker()\n"
        "        # ---- Omni-new ----\n" + _COPIED.format(more="        self.send_payload(batch)\n")
    ),
}
OTHERS = {"run.sh": "#!/bin/sh\n", "notes.txt": "not Python\n"}


@dataclass(frozen=True)
class Command:
    """One writing command on a tree of its own; `bases` are folders beside it that options name."""

    name: str
    engine: Any
    files: dict[str, str]
    bases: dict[str, dict[str, str]]
    kind: type[WriteRequest]

    def request(self, root: Path, beside: Path, **options: Any) -> WriteRequest:
        """In place, unless `output` or `branch` is given."""
        more: dict[str, Any] = {}
        if self.kind is PortRequest:
            more = {"vllm": str(beside / "vllm")}
        elif self.kind is AuditRequest:
            more = {"ascend": (str(beside / "ascend"),), "write": True, "mark": True, "fix_markers": True}
        return self.kind(str(root), beside, **more, **options)

    def plan(self, root: Path, beside: Path) -> Plan:
        """What the command would write, by running all of it but the writing."""
        plans: list[Plan] = []
        prepare = writing.Work.prepare

        def note(self: writing.Work, plan: Plan) -> writing.Writing:
            plans.append(plan)
            return writing.Writing(self.request)

        writing.Work.prepare = note  # type: ignore[method-assign]
        try:
            self.engine.run(self.request(root, beside))
        finally:
            writing.Work.prepare = prepare  # type: ignore[method-assign]
        return plans[0]


COMMANDS = {
    command.name: command
    for command in (
        Command("extract-adapters", extract, {**FILES, **OTHERS}, {}, ExtractRequest),
        Command("port-v2", port_v2, {**V2_TREE, **OTHERS}, {"vllm": VLLM}, PortRequest),
        Command("audit-npu", audit_npu, {**NPU_TREE, **OTHERS}, {"ascend": ASCEND}, AuditRequest),
    )
}


def write_files(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        (root / path).chmod(0o755 if path.endswith(".sh") else 0o644)
