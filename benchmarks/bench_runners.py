"""What the thin V1 runner costs a decode step, next to vLLM's own V1 CPU runner.

    python benchmarks/bench_runners.py [--batches 4] [--rounds 15] [--steps 100] [--json FILE] [--published TREE]
    python benchmarks/bench_runners.py --calls [--batches 4]

CPU time of the process, one thread; all engines live in one process and take turns in every round, so that each figure
is a ratio to plain vLLM in the same round. With `--published`, the runners of a published vllm_omni take the place of
ours (a process of its own: importing it changes vLLM). `--calls` counts Python calls per decode step instead, which
other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "engine")]
PROMPT, HIDDEN = 8, 128


def build(arch: str, worker: str | None, batch: int, steps: int, work: Path) -> Any:
    """An engine over one of the bench models."""
    from engine_run import engine_arguments
    from engine_scenarios import Scenario
    from vllm import LLM

    scenario = Scenario(f"{arch}-{worker}", arch, max_seqs=batch, chunk=0)
    arguments = engine_arguments(scenario, work) | {
        "max_num_batched_tokens": max(64, batch * PROMPT),
        "num_gpu_blocks_override": max(24, batch * (-(-(PROMPT + steps) // 32) + 1) + 8),
        "max_model_len": 512,
    }
    arguments.pop("worker_cls")
    if worker:
        arguments["worker_cls"] = worker
    return LLM(**arguments)


def requests(batch: int, steps: int, info: bool) -> tuple[list[Any], list[Any]]:
    """Prompts and parameters of a full batch that decodes for `steps` steps."""
    import torch
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": list(range(10, 10 + PROMPT))} for _ in range(batch)]
    parameters = []
    for i in range(batch):
        extra = None
        if info:
            generator = torch.Generator().manual_seed(100 + i)
            extra = carry({"text": {"states": torch.randn(PROMPT + 5, HIDDEN, generator=generator)}})
        parameters.append(
            SamplingParams(temperature=0, max_tokens=steps, ignore_eos=True, detokenize=False, extra_args=extra)
        )
    return prompts, parameters


def carry(info: dict[str, Any]) -> dict[str, Any]:
    """The extra arguments that carry a payload: ours, or what the shim of the published runner reads."""
    if PUBLISHED:
        return {"additional_information": info}
    from vllm_omni.engine.payloads import to_extra_args

    return to_extra_args(info)


def measure(engines: dict[str, Any], batch: int, steps: int, rounds: int) -> dict[str, list[float]]:
    """CPU milliseconds per step, for each engine and round."""
    cost: dict[str, list[float]] = {name: [] for name in engines}
    for turn in range(rounds + 1):
        for name, llm in engines.items():
            prompts, parameters = requests(batch, steps, "talker" in name)
            start = time.process_time()
            llm.generate(prompts, parameters, use_tqdm=False)
            if turn:  # the first is to warm up
                cost[name].append((time.process_time() - start) / steps * 1e3)
    return cost


def calls_per_step(llm: Any, batch: int, info: bool) -> tuple[float, float]:
    """Python calls of a decode step, and those of our own functions: what 60 steps more take, divided by 60."""

    def count(steps: int) -> tuple[int, int]:
        counted = [0, 0]

        def note(frame: Any, event: str, _: Any) -> None:
            if event == "call":
                counted[0] += 1
                counted[1] += "vllm_omni" in frame.f_code.co_filename

        prompts, parameters = requests(batch, steps, info)
        sys.setprofile(note)
        try:
            llm.generate(prompts, parameters, use_tqdm=False)
        finally:
            sys.setprofile(None)
        return counted[0], counted[1]

    count(100)  # to warm up
    less, more = count(30), count(90)
    return (more[0] - less[0]) / 60, (more[1] - less[1]) / 60


def dispatch_us(llm: Any, batch: int) -> float:
    """What calling adapters takes of a decode step, in microseconds: the same calls, of functions that do nothing."""
    from vllm_omni.worker.hook_adapters.base import overriding

    core = llm.llm_engine.engine_core.engine_core
    hooks = core.model_executor.driver_worker.worker.model_runner.omni
    methods = ("fixup_decode_positions", "preprocess", "postprocess", "enrich_request_info")
    calls = {name: [_nothing] * len(overriding(hooks.adapters, name)) for name in methods}
    start, times = time.perf_counter(), 20_000
    for _ in range(times):
        for name in ("fixup_decode_positions", "preprocess", "postprocess"):
            for call in calls[name]:
                call(None, None, None, None, None)
        for _ in range(batch):
            for call in calls["enrich_request_info"]:
                call(None, None, None, None, None)
    return (time.perf_counter() - start) / times * 1e6


def _nothing(*_: Any) -> None:
    pass


def growth(report: dict[str, Any]) -> None:
    """What a row more costs (least squares over the batches), and the largest batch to the smallest."""
    sizes = [int(size) for size in report["batches"]]
    for name in ("plain", "no methods", "talker", "talker, batched"):
        cost = [report["batches"][str(size)][name]["ms"][0] for size in sizes]
        added = [report["batches"][str(size)][name]["added_us"][0] for size in sizes]
        slope = statistics.linear_regression(sizes, added).slope
        print(f"{name:15s} adds {slope:6.2f} us a row; batch {sizes[-1]} to {sizes[0]}: {cost[-1] / cost[0]:.2f} times")


def quartiles(values: list[float]) -> list[float]:
    """Median, first and third quartile."""
    low, middle, high = statistics.quantiles(values, n=4)
    return [round(middle, 4), round(low, 4), round(high, 4)]


def timed(engines: dict[str, Any], batch: int, steps: int, rounds: int) -> dict[str, Any]:
    """What each engine takes a step, next to plain vLLM in the same round."""
    cost = measure(engines, batch, steps, rounds)
    figures: dict[str, Any] = {}
    for name, values in cost.items():
        ratios = [base / value for base, value in zip(cost["plain"], values, strict=True)]
        added = [(value - base) * 1e3 for base, value in zip(cost["plain"], values, strict=True)]
        figures[name] = {"ms": quartiles(values), "speed": quartiles(ratios), "added_us": quartiles(added)}
        print(
            f"batch {batch:4d} {name:15s} ms/step {figures[name]['ms']} to plain {figures[name]['speed']} "
            f"added us {figures[name]['added_us']}",
            flush=True,
        )
    if not PUBLISHED:
        figures["dispatch_us"] = dispatch_us(engines["talker"], batch)
        share = figures["dispatch_us"] / figures["talker"]["added_us"][0]
        print(f"batch {batch:4d} adapter dispatch {figures['dispatch_us']:.2f} us, {share:.1%} of what a talker adds")
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--batches", type=int, nargs="+", default=[4])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--json", type=Path)
    options.add_argument("--published", type=Path)
    options.add_argument("--calls", action="store_true")
    given = options.parse_args()
    work = Path(tempfile.mkdtemp(prefix="bench-"))
    import engine_run

    engine_run.prepare("v1", work)
    PUBLISHED.extend([given.published] if given.published else [])
    sys.path.insert(0, str(given.published or ROOT))
    import torch

    torch.set_num_threads(1)
    worker = "vllm_omni.platforms.cpu.worker.workers.CPUARWorker"
    if PUBLISHED:
        import published_shim  # noqa: F401  (its import sets up the published package)

        worker = "published_shim.PublishedARWorker"
    import bench_models
    import engine_models
    import vllm

    engine_models.register(), bench_models.register()
    report: dict[str, Any] = {"vllm": vllm.__version__, "rounds": given.rounds, "steps": given.steps, "batches": {}}
    for batch in given.batches:
        engines = {
            "plain": build("BenchPlain", None, batch, given.steps, work),
            "no methods": build("BenchNoop", worker, batch, given.steps, work),
            "talker": build("BenchTalker", worker, batch, given.steps, work),
            "talker, batched": build("BenchBatchedTalker", worker, batch, given.steps, work),
        }
        if not PUBLISHED:
            engines["no omni"] = build("BenchPlain", worker, batch, given.steps, work)
        if given.calls:
            for name, llm in engines.items():
                every, ours = calls_per_step(llm, batch, "talker" in name)
                print(f"batch {batch:4d} {name:15s} {every:.1f} Python calls a step, {ours:.1f} of them ours")
            continue
        figures = timed(engines, batch, given.steps, given.rounds)
        report["batches"][str(batch)] = figures
        del engines
    if len(given.batches) > 1 and not given.calls:
        growth(report)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report, indent=1))


PUBLISHED: list[Path] = []

if __name__ == "__main__":
    main()
