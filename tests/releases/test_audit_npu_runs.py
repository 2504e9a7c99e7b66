"""Whole runs of `audit-npu` on published releases."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

SCHEMA = Path(__file__).parents[2] / "docs" / "json-schema" / "report.schema.json"
WORKER = "vllm_omni/platforms/npu/worker"
pytestmark = pytest.mark.release


def report(done, code=0):
    """The JSON of a run that ended as it should."""
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    return document


def code_lines(file):
    return [line for line in file.read_bytes().splitlines(keepends=True) if not line.strip().startswith(b"#")]


@pytest.mark.parametrize(
    ("release", "lines", "pairs", "lone"),
    [
        ("0.14.0", 20, 11, 0),
        ("0.16.0", 24, 13, 0),
        ("0.20.0", 39, 20, 0),
        ("0.26.0", 51, 26, 0),
        ("0.30.0", 48, 24, 1),
    ],
)
def test_the_markers_of_a_release(cli, release, lines, pairs, lone):
    summary = report(cli("audit-npu", f"vllm-omni=={release}", "--format", "json"))["summary"]
    assert (summary["marker lines"], summary["pairs"], summary["lone"], summary["changed"]) == (lines, pairs, lone, 0)


def test_marking_mending_and_writing_once_is_enough(cli, tmp_path):
    wanted = ("--ascend", "0.25.1rc1", "--write", "--fix-markers", "--mark", "--format", "json")
    before = report(cli("audit-npu", "vllm-omni==0.30.0", "--ascend", "0.25.1rc1", "--format", "json"))["summary"]
    first = report(cli("audit-npu", "vllm-omni==0.30.0", *wanted, "--output", "tree"))
    assert {change["path"] for change in first["files"] if change["action"] != "unchanged"} == {
        "docs/npu-omni-blocks.md", f"{WORKER}/npu_ar_model_runner.py", f"{WORKER}/npu_generation_model_runner.py",
        f"{WORKER}/npu_model_runner.py",
    }  # fmt: skip
    assert first["summary"]["defects"] == 0 and first["summary"]["unmarked"] < before["unmarked"]
    assert first["summary"]["omni lines in copies"] == before["omni lines in copies"]
    second = report(cli("audit-npu", "tree", *wanted, "--dry-run"))
    assert second["summary"]["changed"] == 0 and second["diff"] == ""
    checked = report(cli("audit-npu", "tree", *wanted[:2], "--check", "--format", "json"))
    left = [found["rule"] for found in checked["findings"] if found["rule"].startswith(("catalogue", "marker"))]
    assert left == ["marker-twin"]  # upstream code within a marker: no mend is certain


def test_nothing_but_comment_lines_changes(cli, tmp_path):
    assert cli("audit-npu", "vllm-omni==0.30.0", "--output", "plain", "--write").returncode == 0
    marked = cli("audit-npu", "plain", "--ascend", "0.25.1rc1", "--fix-markers", "--mark", "--output", "marked")
    assert marked.returncode == 0, marked.stderr
    files = sorted((tmp_path / "plain" / WORKER).glob("*.py"))
    changed = [
        file.name for file in files if file.read_bytes() != (tmp_path / "marked" / WORKER / file.name).read_bytes()
    ]
    assert changed == ["npu_ar_model_runner.py", "npu_generation_model_runner.py", "npu_model_runner.py"]
    for file in files:
        assert code_lines(file) == code_lines(tmp_path / "marked" / WORKER / file.name)


def test_a_stale_catalogue_is_named_entry_by_entry_and_prose_stays(cli, tmp_path):
    assert cli("audit-npu", "vllm-omni==0.16.0", "--write", "--output", "tree").returncode == 0
    page = tmp_path / "tree" / "docs" / "npu-omni-blocks.md"
    fresh = page.read_text()
    first = next(line for line in fresh.splitlines() if line.startswith("### "))
    page.write_text(fresh.replace(first, f"{first}\n\nMind this one.", 1))
    runner = tmp_path / "tree" / WORKER / "npu_ar_model_runner.py"
    runner.write_text(runner.read_text().replace("kv_extracted_req_ids", "kv_taken_req_ids"))
    found = report(cli("audit-npu", "tree", "--check", "--format", "json"), 1)
    stale = {finding["message"] for finding in found["findings"] if finding["rule"] == "catalogue-stale"}
    assert any("KV" in message or "sample_tokens" in message for message in stale)
    assert cli("audit-npu", "tree", "--write", "--output", "again").returncode == 0
    again = (tmp_path / "again" / "docs" / "npu-omni-blocks.md").read_text()
    assert "Mind this one." in again and "kv_taken_req_ids" in again
