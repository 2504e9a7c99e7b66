"""Whole runs of `port-v2` on published releases."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMA = Path(__file__).parents[2] / "docs" / "json-schema" / "report.schema.json"
pytestmark = pytest.mark.release
MODULES, WORKERS, MATRIX = 29, 2, 1
"""Files that a whole port of 0.28.0 writes."""


def report(done):
    """The JSON of a run that ended well."""
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    return document


def files(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_second_run_changes_nothing_and_phases_may_be_run_one_by_one(cli, tmp_path):
    whole = report(cli("port-v2", "vllm-omni==0.28.0", "--output", "whole", "--format", "json"))
    assert whole["summary"]["changed"] == MODULES + WORKERS + MATRIX
    again = report(cli("port-v2", "whole", "--vllm", "0.28.0", "--dry-run", "--format", "json"))
    assert again["summary"]["changed"] == 0 and again["diff"] == ""
    source = "vllm-omni==0.28.0"
    for phase in "12345":
        report(cli("port-v2", source, "--vllm", "0.28.0", "--phase", phase, "--output", phase, "--format", "json"))
        source = phase
    one_by_one, at_once = files(tmp_path / "5"), files(tmp_path / "whole")
    matrix = "docs/model_runner_v2_parity.md"  # its title has the version, which a folder without metadata has not
    assert one_by_one.pop(matrix).partition(b"\n")[2] == at_once.pop(matrix).partition(b"\n")[2]
    assert one_by_one == at_once


@pytest.mark.parametrize("vllm", ["0.28.0", "0.30.0", "0.31.0", "0.32.0"])
def test_every_claim_is_proven_on_the_vllm_that_the_runners_are_for(cli, vllm):
    found = report(cli("port-v2", "vllm-omni==0.28.0", "--vllm", vllm, "--dry-run", "--format", "json"))
    relied_on = [proof for proof in found["proofs"] if proof["relied_on"]]
    assert len(relied_on) > 90 and [proof for proof in relied_on if not proof["holds"]] == []
    errors = [finding for finding in found["findings"] if finding["rule"] == "extension-point"]
    assert [finding for finding in errors if finding["severity"] == "error"] == []


def test_on_an_old_vllm_what_does_not_hold_is_said(cli):
    found = report(cli("port-v2", "vllm-omni==0.16.0", "--dry-run", "--format", "json"))
    missing = {finding["symbol"] for finding in found["findings"] if finding["rule"] == "extension-point"}
    assert "vllm.v1.worker.gpu.model_states.interface.ModelState.prepare_inputs" in missing
    assert cli("port-v2", "vllm-omni==0.16.0", "--check").returncode == 1


def test_a_port_of_the_tree_s_own_is_read_and_left(cli):
    found = report(cli("port-v2", "vllm-omni==0.30.0", "--dry-run", "--format", "json"))
    assert found["files"] == [] and found["diff"] == ""
    rules = {finding["rule"] for finding in found["findings"] if finding["path"].startswith("vllm_omni/worker_v2/")}
    assert rules >= {
        "v2-no-overlay", "v2-mrope-kwargs", "v2-renamed-capability", "v2-lost-on-preemption", "v2-phase-by-length",
        "v2-forward-kwargs", "v2-refused", "v2-hook-missing",
    }  # fmt: skip
    assert {hook["on_v2"] for hook in found["hooks"] if hook["sites"]} == {"ported", "different", "missing"}


def test_the_mapping_document_says_what_changed_under_the_hooks(cli, tmp_path):
    done = cli("port-v2", "vllm-omni==0.28.0", "--track", "0.28.0..0.32.0", "--report", "mapping.md")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mapping.md").read_text() == done.stdout
    assert done.stdout.startswith("# V1 to V2 mapping")
    row = next(line for line in done.stdout.splitlines() if "`ModelState.capture_inner_cudagraphs`" in line)
    assert "new" in row


def test_nothing_is_written_where_a_worker_does_not_parse(cli, tmp_path):
    assert cli("port-v2", "vllm-omni==0.28.0", "--phase", "1", "--output", "tree").returncode == 0
    (tmp_path / "tree" / "vllm_omni" / "worker" / "gpu_ar_worker.py").write_text("def init_device(self.model_runner:\n")
    done = cli("port-v2", "tree", "--vllm", "0.28.0", "--output", "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "vllm_omni/worker/gpu_ar_worker.py" in done.stderr and not (tmp_path / "out").exists()
