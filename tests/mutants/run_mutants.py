"""Plants faults in copies of the runners and checks that the tests notice: python run_mutants.py [NAME …]

A fault of a runner-agnostic module must fail tests/runners; one of a mixin, which only an engine can run, must change
what a short engine run does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COMPARED = ("tokens", "outputs", "hooks", "left", "error")


class Mutant(NamedTuple):
    """One fault: in `file`, `old` becomes `new`. `engine` names a runner and a scenario that must notice."""

    name: str
    file: str
    old: str
    new: str
    engine: tuple[str, str] | None = None


HOST, INPUTS, OUTPUTS = "worker/adapter_host.py", "worker/step_inputs.py", "worker/step_outputs.py"
STEP, STORE = "worker/step.py", "worker/request_store.py"
METHODS, TALKER = "worker/hook_adapters/model_methods.py", "worker/hook_adapters/qwen3_talker.py"
V1, V2 = "worker/gpu_model_runner.py", "worker/gpu_model_runner_v2.py"

MUTANTS = (
    Mutant("tail taken for decode", STEP, "== 1 and self.computed >= self.prompt_len", "== 1"),
    Mutant("phase from the span", STEP, "return self.computed < self.prompt_len", "return self.end - self.start > 1"),
    Mutant("phase key off by one", STEP, "info[IS_PREFILL] = row.computed <", "info[IS_PREFILL] = row.computed <="),
    Mutant("replay ignored", STEP, "min(span, seen - done) if seen > done else 0", "0"),
    Mutant(
        "fresh part starts early", STEP, "computed=self.computed + n, replayed=0", "computed=self.computed, replayed=0"
    ),
    Mutant("split ignores replay", STEP, "value[row.start + row.replayed : row.end]", "value[row.start : row.end]"),
    Mutant("ragged list accepted", STEP, "if len(value) != n:", "if False:"),
    Mutant("payload survives the end", STORE, "self.pop(req_id, None)", "self.get(req_id)"),
    Mutant("resumed request taken for an update", STORE, "if req_id in self._preempted:", "if False:"),
    Mutant("resident key not cloned", STORE, "item.detach().clone()", "item.detach()"),
    Mutant("merge replaces groups", STORE, "if not isinstance(inner, dict):", "if True:"),
    Mutant(
        "record loses a row",
        STORE,
        "record.add_span(position, embeds[index]",
        "record.add_span(position + 1, embeds[index]",
    ),
    Mutant("stale phase keys win", HOST, "        set_phase(info, row)\n", ""),
    Mutant("wrong overlay offset", INPUTS, "part = embeds[row.computed : row.computed + n]", "part = embeds[:n]"),
    Mutant("fed embeddings not recorded", INPUTS, "self._record(input_ids, embeds)", "pass"),
    Mutant("progress not noted", OUTPUTS, "if end > state.prepared:", "if False:"),
    Mutant("drafts count as prepared", OUTPUTS, "end -= len(host.drafts.get(row.req_id, ()))", "pass"),
    Mutant(
        "replayed tokens put out again",
        OUTPUTS,
        "if row.replayed and row.start + row.replayed == row.end:",
        "if False:",
    ),
    Mutant("kv read after the step only", OUTPUTS, "self._kv_extracted = done or None", "self._kv_extracted = None"),
    Mutant("async copy aliases the step", OUTPUTS, "own=self._on_host)", "own=False)"),
    Mutant("generated_len counts the replay", INPUTS, "state.prepared + 1", "row.computed"),
    Mutant(
        "mtp for every row",
        METHODS,
        "runner.mtp_batch is not None and row.is_decode_step",
        "runner.mtp_batch is not None",
    ),
    Mutant(
        "decode group crosses a prefill row",
        METHODS,
        "            if group:\n                self._decode",
        "            if False:\n                self._decode",
    ),
    Mutant(
        "postprocess sees replayed tokens",
        METHODS,
        "hidden_states[start : row.end]",
        "hidden_states[row.start : row.end]",
    ),
    Mutant(
        "update of a spared prompt merged",
        METHODS,
        "new_ids, new_embeds, _ = self.model",
        "new_ids, new_embeds, u = self.model",
    ),
    Mutant(
        "mtp embeddings not written",
        TALKER,
        "inputs_embeds[first : first + n].copy_(embeds if embeds.shape[0] == n else embeds[:n])",
        "pass",
    ),
    Mutant("mtp embeddings in batch order", TALKER, "torch.tensor([row.start for row in rows])", "torch.arange(n)"),
    Mutant("codes of the neighbour", TALKER, "codes.unsafe_split(1)", "codes.flip(0).unsafe_split(1)"),
    Mutant("one generator for all", TALKER, "and not self.traits.takes_generator_per_row:", "and False:"),
    Mutant("generators never go", TALKER, "            for req_id in [", "            for req_id in [] and ["),
    Mutant("linear decode positions", "worker/hook_adapters/glm_image.py", "if first < last:", "if False:"),
    Mutant("v1: no postprocess", V1, "omni.process_model_output(state.hidden_states)", "pass", ("v1", "talker")),
    Mutant(
        "v1: positions not fixed",
        V1,
        "self.omni.host.fixup_decode_positions(self.mrope_positions.cpu)",
        "pass",
        ("v1", "mrope"),
    ),
    Mutant("v1: wrong progress", V1, "batch.num_computed_tokens_cpu[:n].tolist()", "[0] * n", ("v1", "talker")),
    Mutant(
        "v2: wrong slots",
        V2,
        "req_states.prompt_len.np[indices]",
        "req_states.prompt_len.np[: len(indices)]",
        ("v2", "crowded"),
    ),
    Mutant(
        "v2: outputs of the step lost",
        V2,
        "self.omni.get_model_runner_output(output, state.hidden_states)",
        "output",
        ("v2", "thinker"),
    ),
    Mutant(
        "v2: finished requests kept", V2, "omni.begin_step(scheduler_output)", "omni.host.end_step()", ("v2", "talker")
    ),
)


SPARED = (
    "            embeds[span].copy_(new_embeds)\n",
    "            runner.store.merge(row.req_id, u)\n            embeds[span].copy_(new_embeds)\n",
)


def plant(mutant: Mutant, folder: Path) -> Path:
    """A copy of the runners and their tests with the fault in it."""
    tree = folder / "tree"
    for name in ("vllm_omni", "tests/runners", "tests/engine"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = tree / "vllm_omni" / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(
            f"mutant {mutant.name!r}: {text.count(mutant.old)} places in {mutant.file} hold {mutant.old!r}"
        )
    text = text.replace(mutant.old, mutant.new)
    text = text.replace(*SPARED) if "new_embeds, u = " in text else text
    file.write_text(text)
    return tree


def engine_result(tree: Path, runner: str, scenario: str, folder: Path) -> dict[str, object]:
    """What a scenario does with a tree's runners."""
    out = folder / "out.json"
    command = [
        sys.executable,
        str(tree / "tests/engine/engine_run.py"),
        runner,
        str(out),
        str(folder / "work"),
        scenario,
    ]
    (folder / "work").mkdir(exist_ok=True)
    subprocess.run(command, capture_output=True, timeout=300)
    result = json.loads(out.read_text())["scenarios"][scenario]
    return {name: result.get(name) for name in COMPARED}


def caught(mutant: Mutant) -> bool:
    """Whether the tests notice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = plant(mutant, folder)
        if mutant.engine is None:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/runners"]
            ignored = [f"--ignore=tests/runners/test_{name}.py" for name in ("platforms_static", "parity")]
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run([*command, *ignored], cwd=tree, capture_output=True, text=True, env=environment)
            if done.returncode not in (0, 1):
                raise SystemExit(
                    f"mutant {mutant.name!r}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}"
                )
            return done.returncode == 1
        right, wrong = folder / "right", folder / "wrong"
        right.mkdir(), wrong.mkdir()
        return engine_result(ROOT, *mutant.engine, right) != engine_result(tree, *mutant.engine, wrong)


def main() -> int:
    if caught(Mutant("no fault", STEP, "def flatten(", "def flatten(")):
        raise SystemExit("tests/runners fails without any fault")
    chosen = [m for m in MUTANTS if not sys.argv[1:] or m.name in sys.argv[1:]]
    with ThreadPoolExecutor(int(os.environ.get("OMNI_ENGINE_JOBS", "2"))) as pool:
        results = list(pool.map(caught, chosen))
    for mutant, noticed in zip(chosen, results, strict=True):
        print(f"{'caught ' if noticed else 'MISSED '} {mutant.name} ({mutant.file})")
    print(f"{sum(results)} of {len(results)} faults caught")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
