"""The two runners of a ported tree over vLLM's CPU runners: the V1 runner that it was published with, and the V2 one.

Stands in for published_shim.py in tests/engine/engine_run.py. Both runners get the same requests, with payloads in each
form that the release has: encoded, as a dict, and as the runner's own buffer. Both give their outputs as the tree does.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

import engine_scenarios
import published_shim
import torch
from engine_scenarios import CHUNKED, CROWDED, MTP, RESUMED, Scenario
from published_shim import PublishedARRunner, PublishedGenerationRunner
from vllm.v1.worker import cpu_worker
from vllm_omni.engine.serialization import serialize_additional_information

from vllm_omni.core.sched.output import OmniNewRequestData
from vllm_omni.engine import PromptEmbedsPayload

HAS_BUFFER = "model_intermediate_buffer" in {field.name for field in fields(OmniNewRequestData)}
FORMS = ("encoded", "dict", "buffer")
EXTRA = (
    Scenario("text-thinker", "TinyThinker", CHUNKED),
    Scenario("text-talker", "TinyTalker", (*CHUNKED, *MTP), prompt_embeds=True),
    Scenario("noop-crowded", "TinyNoop", (*RESUMED, "runner kwargs"), text=False, **CROWDED),
)
"""Stages whose output is text alone, and preemption of a model that no published V1 runner treats wrongly."""
KV: list[dict[str, Any]] = []
"""What the KV transfer managers were handed."""


def configure(vllm_config: Any, _configure: Any = published_shim.configure) -> None:
    """The fields that omni's own configuration has; a scenario `text-…` is a stage that gives text."""
    _configure(vllm_config)
    config = vllm_config.model_config
    if Path(config.model).name.startswith("text-"):
        object.__setattr__(config, "engine_output_type", "text")


class SizedPromptEmbeds(PromptEmbedsPayload):
    """The wire type, which vLLM's V1 batch measures and slices as if it were a tensor; a slice is zeros."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> torch.Tensor:
        return torch.zeros(len(range(*rows.indices(self.shape[0]))), self.shape[1])


def hand_in(scheduler_output: Any) -> None:
    """Put payloads where omni's engine would have."""
    for request in scheduler_output.scheduled_new_reqs:
        extra = getattr(request.sampling_params, "extra_args", None) or {}
        info, form = extra.get("additional_information"), FORMS[int(request.req_id) % (3 if HAS_BUFFER else 2)]
        if info:
            info = {**info, "global_request_id": f"global-{request.req_id}"}
        request.additional_information = request.model_intermediate_buffer = None
        if form == "buffer":
            request.model_intermediate_buffer = dict(info) if info else None
        elif info:
            request.additional_information = serialize_additional_information(info) if form == "encoded" else dict(info)
        if (embeds := extra.get("prompt_embeds")) is not None:
            raw = embeds.numpy().tobytes()
            request.prompt_embeds = SizedPromptEmbeds(data=raw, shape=list(embeds.shape), dtype="float32")


class Transfers:
    """In place of the manager that sends KV blocks on: notes what it is handed, the blocks' content included."""

    def handle_finished_requests_kv_transfer(
        self, finished_reqs: Any, kv_caches: Any, block_size: int, cache_dtype: str, request_id_resolver: Any
    ) -> list[str]:
        from engine_trace import fingerprint

        for req_id, data in sorted((finished_reqs or {}).items()):
            blocks = torch.as_tensor(data["block_ids"])
            caches = [cache.transpose(0, 1) if cache.shape[0] == 2 else cache for cache in kv_caches]
            content = [fingerprint(cache[blocks]) for cache in caches]
            resolved = request_id_resolver(req_id)
            KV.append({"req_id": req_id, "resolved": resolved, "content": content, "rest": [block_size, cache_dtype]})
        return list(finished_reqs or {})


class Steps:
    """What both runners of a tree need of the scheduler's output, whichever one it is."""

    def execute_model(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.get("dummy_run"):
            hand_in(scheduler_output)
            self.note(scheduler_output)
        return super().execute_model(scheduler_output, *args, **kwargs)

    def note(self, scheduler_output: Any) -> None:
        """Remember blocks and progress; ask for the KV of every other request that has finished."""
        if not hasattr(self, "blocks"):
            self.blocks: dict[str, list[int]] = {}
            self.done: dict[str, list[int]] = {}
        finished = sorted(req_id for req_id in scheduler_output.finished_req_ids if req_id in self.blocks)
        scheduler_output.finished_requests_needing_kv_transfer = {
            req_id: {"block_ids": self.blocks[req_id][:1], "seq_len": self.done[req_id][0]}
            for req_id in finished
            if int(req_id) % 2
        }
        for req_id in finished:
            del self.blocks[req_id]
        for request in scheduler_output.scheduled_new_reqs:
            self.blocks[request.req_id] = list(request.block_ids[0]) if request.block_ids else []
            self.done[request.req_id] = [request.num_computed_tokens, len(request.prompt_token_ids)]
        cached = scheduler_output.scheduled_cached_reqs
        for req_id, blocks, computed in zip(
            cached.req_ids, cached.new_block_ids, cached.num_computed_tokens, strict=True
        ):
            if req_id in cached.resumed_req_ids:
                self.blocks[req_id] = []
            self.blocks[req_id] += list(blocks[0]) if blocks else []
            self.done[req_id][0] = computed
        for req_id, span in scheduler_output.num_scheduled_tokens.items():
            self.done[req_id][0] += span

    def sample_tokens(self, grammar_output: Any) -> Any:
        output = super().sample_tokens(grammar_output)
        ends = dict(self.done)
        if not self.ends_prompts or output is None:
            return output
        if hasattr(output, "get_output"):
            inner = output.get_output
            output.get_output = lambda: end_prompts(inner(), ends)
            return output
        return end_prompts(output, ends)


def end_prompts(output: Any, done: dict[str, list[int]]) -> Any:
    """vLLM's scheduler wants a token where a prompt ends; omni's generation stages give none."""
    if output.sampled_token_ids != []:
        raise AssertionError(f"a generation stage gave tokens: {output.sampled_token_ids}")
    output.sampled_token_ids = [[0] if done[req_id][0] >= done[req_id][1] else [] for req_id in output.req_ids]
    return output


class V1ARRunner(Steps, PublishedARRunner):
    """The tree's V1 runner."""

    ends_prompts = False

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        self.kv_transfer_manager = Transfers()


class V1GenerationRunner(Steps, PublishedGenerationRunner):
    """The tree's V1 generation runner; published_shim ends its prompts."""

    ends_prompts = False


def v2_runner(kind: str) -> tuple[Any, type[Any]]:
    """The module whose global the CPU worker reads, and the V2 runner that port-v2 wrote, on the CPU."""
    from vllm.v1.worker.cpu import model_runner as module

    from vllm_omni.worker.binding import FinishedKVTransfer
    from vllm_omni.worker.gpu_ar_model_runner_v2 import GPUARModelRunnerV2
    from vllm_omni.worker.gpu_generation_model_runner_v2 import GPUGenerationModelRunnerV2

    written = GPUARModelRunnerV2 if kind == "AR" else GPUGenerationModelRunnerV2

    class V2Runner(Steps, written, module.CPUModelRunner):
        """As the worker wants it."""

        ends_prompts = kind != "AR"

        def __init__(self, vllm_config: Any, device: Any) -> None:
            configure(vllm_config)
            super().__init__(vllm_config, device)

        def load_model(self, *args: Any, **kwargs: Any) -> None:
            if kind == "AR":
                self.kv_transfer = FinishedKVTransfer(self)  # as the written worker does
                self.kv_transfer._manager = Transfers()
            super().load_model(*args, **kwargs)

    return module, V2Runner


class PublishedARWorker(cpu_worker.CPUWorker):
    """Builds the tree's V1 runner or, where vLLM chooses V2 and the binding has no reason against it, the V2 one."""

    kind, runner = "AR", V1ARRunner

    def init_device(self) -> Any:
        KV.clear()
        with mock.patch.object(cpu_worker, "CPUModelRunner", self.runner):
            if getattr(self, "use_v2_model_runner", False):
                from vllm_omni.worker.binding import v1_reason

                configure(self.vllm_config)
                if reason := v1_reason(self.vllm_config):
                    raise AssertionError(f"the worker would run V1: {reason}")
                module, runner = v2_runner(self.kind)
                with mock.patch.object(module, "CPUModelRunner", runner):
                    return super().init_device()
            return super().init_device()


class PublishedGenerationWorker(PublishedARWorker):
    """Builds the tree's generation runner."""

    kind, runner = "Generation", V1GenerationRunner


engine_scenarios.BY_NAME.update((scenario.name, scenario) for scenario in EXTRA)
published_shim.configure = configure
published_shim.hand_in = lambda scheduler_output: None  # it is done in `Steps`, for both runners
