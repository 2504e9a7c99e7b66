"""Runs scenarios on real vLLM, each tree of vllm_omni in a process of its own; writes what happened as JSON.

    python proof_engine.py JOBS

JOBS is a JSON list of `{"tree", "out", "work", "only", "reach", "against"}`: the folder that holds `vllm_omni`, the
file to write, a folder for the models' configurations, the scenarios to run, a folder of the package whose executed
lines are wanted ("" for none), and the results of another tree ("" for none): then the job ends at the first
difference. vLLM is imported once, before any vllm_omni; each job runs in a fork of that process.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import json
import logging
import os
import re
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from proof_compare import differences
from proof_scenarios import SCENARIOS

SCENARIO_BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
SCENARIO_SECONDS = 120
HIDDEN, BLOCK = 128, 32
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
}


def prepare(work: Path) -> None:
    """Set vLLM's switches, and give it a distribution named `vllm`, for which older releases look."""
    os.environ.update(SETTINGS)
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        version = importlib.metadata.version("vllm-cpu")
        info = work / f"vllm-{version}+cpu.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
        sys.path.append(str(work))


def trace_lines(root: Path) -> dict[str, set[int]]:
    """Note, from now on, the executed lines of the files below root."""
    lines: dict[str, set[int]] = {}
    prefix = str(root)

    def local(frame, event, _argument):
        lines[frame.f_code.co_filename].add(frame.f_lineno)
        return local

    def start(frame, _event, _argument):
        name = frame.f_code.co_filename
        if not name.startswith(prefix):
            return None
        lines.setdefault(name, set()).add(frame.f_lineno)
        return local

    threading.settrace(start)
    sys.settrace(start)
    return lines


class LogWatch(logging.Handler):
    """Warnings and errors of omni's code: many of its failures are logged and swallowed."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record):
        self.lines.append(f"{record.levelname}: {re.sub(r'0x[0-9a-f]+', '0x', str(record.msg))[:300]}")


def build_requests(scenario, round_index: int) -> tuple[list[dict[str, Any]], list[Any]]:
    """Prompts and sampling parameters; each request's payload goes to `PAYLOADS` under its id to be."""
    import torch
    from proof_runner import PAYLOADS, FakeFeature
    from vllm import SamplingParams

    prompts, parameters, first = [], [], round_index * len(scenario.lengths)
    for i, length in enumerate(scenario.lengths):
        generator = torch.Generator().manual_seed(100 + i)
        infos: dict[str, Any] = {"text": {"states": torch.randn(length + 5, HIDDEN, generator=generator)}}
        payload: dict[str, Any] = {"infos": infos, "as_buffer": scenario.model_buffer and i % 2 == 0}
        if scenario.prompt_embeds and i % 2 == 0:
            payload["prompt_embeds"] = torch.randn(length, HIDDEN, generator=generator)
            infos["overlay"] = payload["prompt_embeds"].clone()
        if scenario.mm_features:
            payload["mm_features"] = [FakeFeature.image(i), FakeFeature.image(i + 1)] if i % 3 else []
        if scenario.duplex:
            infos["duplex"] = {"data_plane": i % 3 != 0}
            payload["as_buffer"] = True
        extra = dict(scenario.extra_args) if i % 2 else {}
        if i in scenario.seeded:
            extra["tts_local_seed"] = 1000 + i
        PAYLOADS[str(first + i)] = payload
        prompts.append({"prompt_token_ids": [20 + i + j for j in range(length)]})
        tokens = scenario.max_tokens + (i if scenario.runner == "ar" else 0)
        parameters.append(
            SamplingParams(
                temperature=0.8 if length == 1 else 0,  # vLLM cannot rewind a CPU generator after a partial prefill
                seed=11 if length == 1 else None,
                max_tokens=tokens,
                ignore_eos=True,
                detokenize=False,
                extra_args=extra or None,
            )
        )
    return prompts, parameters


def engine_arguments(scenario, work: Path) -> dict[str, Any]:
    """The engine's keyword arguments; the model is a folder that holds its configuration alone."""
    folder = work / "models" / scenario.name
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": [scenario.arch],
        "model_type": "qwen2",
        "hidden_size": HIDDEN,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 512,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float32",
        **scenario.hf_config,
    }
    (folder / "config.json").write_text(json.dumps(config))
    worker = "ProofARWorker" if scenario.runner == "ar" else "ProofGenerationWorker"
    arguments: dict[str, Any] = {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "load_format": "proof_seeded",
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": BLOCK * (scenario.blocks - 1) if scenario.blocks else 512,
        "block_size": BLOCK,
        "num_gpu_blocks_override": scenario.blocks
        or 80,  # few: a cache of a gigabyte takes longer to clear than to use
        "max_num_seqs": scenario.max_seqs,
        "max_num_batched_tokens": 64,
        "enable_prefix_caching": scenario.prefix_caching,
        "worker_cls": f"proof_runner.{worker}",
    }
    if scenario.chunk:
        arguments["long_prefill_token_threshold"] = scenario.chunk
    return arguments


def run(scenario, work: Path) -> dict[str, Any]:
    """One scenario on a fresh engine."""
    import proof_runner as shim
    import proof_trace as trace
    import vllm.logger
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.platforms.cpu import CpuPlatform

    trace.reset()
    for name in ("debug", "info", "warning"):
        getattr(vllm.logger, f"_print_{name}_once").cache_clear()
    shim.STEPS.clear(), shim.PAYLOADS.clear(), shim.RUNNERS.clear()
    shim.CURRENT[:] = [scenario]
    original = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls, vllm_config):
        original(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = scenario.async_scheduling

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)
    watch, llm = LogWatch(), None
    logging.getLogger("vllm_omni").addHandler(watch)
    try:
        llm = LLM(**engine_arguments(scenario, work))
        if scenario.dummy_run:
            shim.dummy_run(shim.RUNNERS[-1])
        trace.PHASE[0] = "run"
        tokens = []
        for index in range(scenario.rounds):
            prompts, parameters = build_requests(scenario, index)
            outputs = llm.generate(prompts, parameters, use_tqdm=False)
            tokens += [[output.request_id, list(output.outputs[0].token_ids)] for output in outputs]
        shim.shut_down(shim.RUNNERS[-1])
        if scenario.runner == "ar" and trace.SEEN["scalar decode"] == 0:
            trace.SEEN["scalar decode never"] += 1
        return {
            "tokens": tokens,
            "codes": [step.pop("codes") for step in shim.STEPS],
            "outputs": [step.pop("outputs") for step in shim.STEPS],
            "hidden": [step.pop("hidden") for step in shim.STEPS],
            "state": [[step.pop("infos"), step.pop("mirror")] for step in shim.STEPS],
            "schedule": shim.STEPS[:],
            "hooks": list(trace.CALLS),
            "logs": watch.lines,
            "seen": dict(trace.SEEN),
        }
    finally:
        CpuPlatform.check_and_update_config = classmethod(original)
        logging.getLogger("vllm_omni").removeHandler(watch)
        del llm
        shim.RUNNERS.clear()
        gc.collect()
        cleanup_dist_env_and_memory()


def run_job(job: dict[str, Any], started: float) -> None:
    """Run one tree's scenarios; the process that calls this has imported no vllm_omni yet."""
    tree, work = Path(job["tree"]).resolve(), Path(job["work"]).resolve()
    sys.path.insert(0, str(tree))
    import vllm_omni

    package = Path(vllm_omni.__file__).resolve().parent
    if package != tree / "vllm_omni":
        raise SystemExit(f"imported {package}, not the tree under proof ({tree})")
    import proof_models
    import proof_runner
    import vllm

    for base in (proof_runner.GPUARModelRunner, proof_runner.GPUGenerationModelRunner):
        origin = sys.modules[base.__module__].__file__
        if not Path(origin).resolve().is_relative_to(package):
            raise SystemExit(f"{base.__name__} came from {origin}, not from {package}")
    proof_models.register()
    against = json.loads(Path(job["against"]).read_text())["scenarios"] if job["against"] else {}
    lines = trace_lines(package / job["reach"]) if job["reach"] else {}
    results: dict[str, Any] = {}
    for name in job["only"]:
        signal.alarm(SCENARIO_SECONDS)
        start = time.perf_counter()
        for seen in lines.values():
            seen.clear()
        try:
            result = run(SCENARIO_BY_NAME[name], work)
        except Exception as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        result["seconds"] = round(time.perf_counter() - start, 2)
        result["reached"] = {str(Path(f).relative_to(package)): sorted(n) for f, n in lines.items() if n}
        results[name] = json.loads(json.dumps(result))
        print(f"{name}: {result.get('error', 'ran')} ({result['seconds']} s)", flush=True)
        if against and differences(against[name], results[name]):
            break
    signal.alarm(0)
    seconds = round(time.perf_counter() - started, 2)
    report = {"package": str(package), "vllm": vllm.__version__, "seconds": seconds, "scenarios": results}
    Path(job["out"]).write_text(json.dumps(report))


def main() -> None:
    jobs = json.loads(Path(sys.argv[1]).read_text())
    prepare(Path(jobs[0]["work"]))
    import torch

    torch.set_num_threads(1)
    for module in ("entrypoints.llm", "v1.engine.core", "v1.worker.cpu_worker", "model_executor.models.qwen2"):
        importlib.import_module(f"vllm.{module}")
    if "vllm_omni" in sys.modules:
        raise SystemExit("vllm_omni was imported before the jobs began")
    for job in jobs:
        started = time.perf_counter()
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            code = 1
            try:
                run_job(job, started)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        print(f"{job['out']}: {'done' if status == 0 else f'ended with status {status}'}", flush=True)


if __name__ == "__main__":
    main()
