"""A worker gets the choice between V1 and V2: two lines of its guard and the construction change, nothing else."""

from __future__ import annotations

import difflib
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemods.choose_runner import V2Choice, choose_runner
from omni_migrate.facts.flow import Refusal

CHOICE = V2Choice("pkg.worker.ar_v2", "ARRunnerV2")
TRANSFER = V2Choice("pkg.worker.ar_v2", "ARRunnerV2", "Transfer")

GUARD = """\
        if self.use_v2_model_runner:
            # why V1
            logger.warning("ARWorker forces V1.")  # said once
            self.use_v2_model_runner = False  # so
"""
CHOSEN_GUARD = """\
        if self.use_v2_model_runner and (reason := v1_reason(self.vllm_config)):
            # why V1
            logger.warning("OMNI ARWorker forces v1 model runner: %s", reason)  # said once
            self.use_v2_model_runner = False  # so
"""


def worker(body: str) -> str:
    head = '"""Doc."""\n\nlogger = init_logger(__name__)\n\n\nclass ARWorker(Base):\n    def init_device(self):\n'
    return head + body


def test_a_guard_asks_for_a_reason_and_the_construction_becomes_a_branch():
    before = worker(
        f"{GUARD}\n        # Construct the model runner\n"
        "        self.model_runner = ARRunner(self.vllm_config, self.device)  # V1\n\n        after()\n"
    )
    assert choose_runner(before, "ARWorker", CHOICE) == worker(
        f"{CHOSEN_GUARD}\n        # Construct the model runner\n"
        "        if self.use_v2_model_runner:\n"
        "            from pkg.worker.ar_v2 import ARRunnerV2\n\n"
        "            self.model_runner = ARRunnerV2(self.vllm_config, self.device)\n"
        "        else:\n"
        "            self.model_runner = ARRunner(self.vllm_config, self.device)  # V1\n\n        after()\n"
    )


def test_a_worker_without_a_guard_gets_one_before_the_comment_of_the_construction():
    before = worker("        # Construct it\n        self.model_runner = ARRunner(self.vllm_config, self.device)\n")
    assert choose_runner(before, "ARWorker", TRANSFER) == worker(
        "        if self.use_v2_model_runner and (reason := v1_reason(self.vllm_config)):\n"
        '            logger.warning("OMNI ARWorker forces v1 model runner: %s", reason)\n'
        "            self.use_v2_model_runner = False\n\n"
        "        # Construct it\n"
        "        if self.use_v2_model_runner:\n"
        "            from pkg.worker.ar_v2 import ARRunnerV2\n\n"
        "            self.model_runner = ARRunnerV2(self.vllm_config, self.device)\n"
        "            self.model_runner.kv_transfer = Transfer(self.model_runner)\n"
        "        else:\n"
        "            self.model_runner = ARRunner(self.vllm_config, self.device)\n"
    )


@pytest.mark.parametrize(
    "construction",
    [
        "self.model_runner = self.model_runner_cls(self.vllm_config, self.device)",
        "self.model_runner: ARRunner = ARRunner(self.vllm_config, self.device)",
        "self.model_runner = ARRunner(\n            self.vllm_config,\n            self.device,\n        )",
    ],
)
def test_the_v1_construction_moves_into_the_else_branch_as_it_is_written(construction):
    after = choose_runner(worker(f"{GUARD}        {construction}\n"), "ARWorker", CHOICE)
    assert f"        else:\n{textwrap.indent(f'        {construction}', '    ')}\n" in after


REFUSED = [
    ("        pass\n", "in no places"),
    ("        self.model_runner = A(self.vllm_config, self.device)\n" * 2, "in 2 places"),
    (f"{GUARD}        self.model_runner = A(self.vllm_config)\n", "other arguments"),
    (f"{GUARD}        self.model_runner = A(self.vllm_config, self.device, x=1)\n", "other arguments"),
    (f"{GUARD}        self.model_runner = A(self.vllm_config, self.device); after()\n", "shares its line"),
    (
        "        log(self.use_v2_model_runner)\n        self.model_runner = A(self.vllm_config, self.device)\n",
        "not known",
    ),
    (
        GUARD.replace("            self.use_v2_model_runner = False  # so\n", "            other()\n")
        + "        self.model_runner = A(self.vllm_config, self.device)\n",
        "not known",
    ),
    (f"{GUARD}        between()\n        self.model_runner = A(self.vllm_config, self.device)\n", "not known"),
    (
        GUARD.replace('V1.")', 'V1: %s", x)') + "        self.model_runner = A(self.vllm_config, self.device)\n",
        "not known",
    ),
    (
        GUARD.replace("use_v2_model_runner:", "use_v2_model_runner and x:")
        + "        self.model_runner = A(self.vllm_config, self.device)\n",
        "not known",
    ),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_an_unknown_shape_is_refused_with_its_line(body, reason):
    refusal = choose_runner(worker(body), "ARWorker", CHOICE)
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert 1 < refusal.line <= len(worker(body).splitlines())


def test_a_worker_that_is_not_there_is_refused():
    assert isinstance(choose_runner("x = 1\n", "ARWorker", CHOICE), Refusal)


def test_a_worker_without_a_logger_is_refused():
    before = worker("        self.model_runner = A(self.vllm_config, self.device)\n").replace("logger", "log")
    assert "no logger" in choose_runner(before, "ARWorker", CHOICE).reason


def test_a_worker_that_chooses_already_stays():
    chosen = worker(
        "        if self.use_v2_model_runner:\n"
        "            from elsewhere import Other\n\n"
        "            self.model_runner = Other(self.vllm_config, self.device)\n"
        "        else:\n"
        "            self.model_runner = A(self.vllm_config, self.device)\n"
    )
    assert choose_runner(chosen, "ARWorker", CHOICE) == chosen


LINES = st.lists(
    st.sampled_from(["        # a comment", "        x = 1  # so", "", "        call('é',\t1)"]), max_size=4
)


@given(
    guarded=st.booleans(),
    before=LINES,
    after=LINES,
    crlf=st.booleans(),
    unit=st.sampled_from(["    ", "\t", "  "]),
    receiver=st.sampled_from(["self", "this"]),
    final=st.booleans(),
)
def test_any_worker_keeps_its_other_lines_and_changes_once(guarded, before, after, crlf, unit, receiver, final):
    """Comments, line ends, indentation and every line outside the edit stay; a second run changes nothing."""
    body = "\n".join(
        [*before, *(GUARD.splitlines() if guarded else []), "        # build",
         "        self.model_runner = A(self.vllm_config, self.device)", *after]
    )  # fmt: skip
    text = worker(body + ("\n" if final else "")).replace("self", receiver)
    text = re.sub(r"^( {4})+", lambda margin: unit * (len(margin[0]) // 4), text, flags=re.MULTILINE)
    text = text.replace("\n", "\r\n") if crlf else text
    result = choose_runner(text, "ARWorker", CHOICE)
    assert isinstance(result, str)
    compile(result, "worker.py", "exec")
    assert not [line for line in result.splitlines() if re.match(r" +", line) and unit == "\t"]
    assert choose_runner(result, "ARWorker", CHOICE) == result
    assert sorted(line.partition("#")[2] for line in result.splitlines() if "#" in line) == sorted(
        line.partition("#")[2] for line in text.splitlines() if "#" in line
    )
    if crlf:
        assert "\n" not in result.replace("\r\n", "")
    gone = [line[2:] for line in difflib.ndiff(text.splitlines(), result.splitlines()) if line.startswith("- ")]
    changed = ("model_runner", "logger.warning")
    assert all(any(word in line for word in changed) for line in gone), gone
