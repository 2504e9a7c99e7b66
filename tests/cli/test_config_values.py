"""A configuration on its way through the commands: a wrong one stops all three, a good one is kept to in the code."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_migrate.extract import run
from omni_migrate.plan.adapter_files import docstring
from omni_migrate.request import ExtractRequest

COMMANDS = [["extract-adapters", "--check"], ["port-v2", "--check"], ["audit-npu"]]
# The same cases as in tests/knowledge, which tests the schema alone.
CASES = Path(__file__).parents[1] / "knowledge" / "wrong_configurations.txt"
WRONG = [tuple(case.rsplit("\n=> ", 1)) for case in CASES.read_text(encoding="utf-8").strip().split("\n\n")]
RUNNER = """\
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class OmniGPUModelRunner(GPUModelRunner):
    def execute(self, codes):
        codes = super().execute(codes)
        if getattr(self.model, "trims_silence", False):
            codes = self.model.trim_silence(codes)
        return codes
"""
MODEL = "class Vocoder:\n    trims_silence = True\n\n    def trim_silence(self, codes):\n        return codes[1:]\n"
TREE = {
    "vllm_omni/__init__.py": "",
    "vllm_omni/worker/gpu_model_runner.py": RUNNER,
    "vllm_omni/model_executor/models/vocoder.py": MODEL,
}


@pytest.fixture
def refused(tree, command, capsys, monkeypatch) -> Callable[[str], None]:
    """All three commands refuse the tree in one line that begins as said."""
    root = tree("tree", TREE)
    monkeypatch.chdir(root)

    def refuse(said: str) -> None:
        for line in COMMANDS:
            code, printed = command(*line, str(root)), capsys.readouterr()
            assert (code, printed.out, printed.err.count("\n")) == (2, "", 1), printed.err
            assert printed.err.startswith(f"omni-migrate: error: {said}")

    return refuse


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said[:80] for _, said in WRONG])
def test_what_is_wrong_is_one_line_of_every_command(refused, tmp_path, text, said):
    file = tmp_path / "tree" / "omni-migrate.toml"
    file.write_text(text, encoding="utf-8")
    refused(f"{file}: {' '.join(said.split())}")


def test_two_configurations_are_one_too_many(refused, tmp_path):
    own, project = tmp_path / "tree" / "omni-migrate.toml", tmp_path / "tree" / "pyproject.toml"
    own.write_text("skip = []\n")
    project.write_text("[tool.omni-migrate]\nskip = []\n")
    refused(f"{own} and [tool.omni-migrate] of {project} both configure it: keep one of them")


def test_a_pattern_that_never_ends_is_stopped(tree, cli):
    npu = RUNNER.replace("vllm.v1.worker.gpu_model_runner import GPU", "vllm_ascend.worker.model_runner_v1 import NPU")
    npu = npu.replace("GPUModelRunner", "NPUModelRunner")
    root = tree("tree", TREE | {"vllm_omni/platforms/npu/worker/npu_runner.py": f"{npu}        # {'a' * 5000}!\n"})
    (root / "omni-migrate.toml").write_text("[[markers]]\nname = 'm'\nkind = 'line'\npattern = '# a*a*a*a*a*'\n")
    done = cli("audit-npu", str(root))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith(
        "omni-migrate: error: marker 'm': its pattern '# a*a*a*a*a*' takes more than a second"
    )


SUMMARIES = st.text(st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=60).filter(
    lambda text: text.isprintable() and text.strip()
) | st.sampled_from(['He said "no"', '"a"', '"' * 3, "\\", " @MODULE@ {x} @KEY@ %s", "'" * 3, "ends in \\", "\\N{x}"])


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(SUMMARIES)
def test_the_code_holds_the_summary_as_it_is_written(tmp_path_factory, summary):
    root = tmp_path_factory.mktemp("any")
    for path, text in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    written = json.dumps(summary, ensure_ascii=False)
    table = f'[[adapters]]\nname = "silence"\ncapabilities = ["trims_silence"]\nsummary = {written}\n'
    (root / "omni-migrate.toml").write_text(table, encoding="utf-8")
    report = run(ExtractRequest(source=str(root), cwd=root, dry_run=True))
    made = {change.path: change.after.decode() for change in report.files}
    module = ast.parse(made["vllm_omni/worker/adapters/silence.py"])
    (adapter_class,) = (node for node in module.body if isinstance(node, ast.ClassDef))
    test = ast.parse(made["tests/worker/adapters/test_adapter_silence.py"])
    for node, end in ((module, " (RFC-003)."), (adapter_class, "."), (test, " (RFC-003).")):
        assert ast.get_docstring(node, clean=False) == f"{summary}{end}"


@given(st.text(max_size=80))
def test_a_docstring_is_its_text(text):
    assert ast.literal_eval(docstring(text)) == text
