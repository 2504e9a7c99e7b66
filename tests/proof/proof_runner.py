"""The published omni runners over vLLM's CPU runner, and workers that build them.

A tree's own code runs unchanged; what is added here is what a GPU platform and omni's engine would have given: a
platform object, a few fields of the model's configuration, the payloads of a new request.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from proof_scenarios import Scenario
from proof_trace import PHASE, SEEN, fingerprint, record
from vllm.compilation import monitor
from vllm.compilation.cuda_graph import CUDAGraphWrapper
from vllm.config import CUDAGraphMode
from vllm.distributed import parallel_state
from vllm.forward_context import get_forward_context, set_forward_context
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.outputs import AsyncModelRunnerOutput
from vllm.v1.worker import cpu_worker
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm_omni.engine.serialization import serialize_additional_information
from vllm_omni.platforms.interface import OmniPlatform, OmniPlatformEnum

import vllm_omni
import vllm_omni.platforms
from vllm_omni.engine import PromptEmbedsPayload


class EagerGraphWrapper(CUDAGraphWrapper):
    """Stands in for a device graph: notes the mode and batch that a graph would have been chosen by, and calls."""

    def __init__(self, runnable, vllm_config, runtime_mode):
        self.runnable, self.runtime_mode = runnable, runtime_mode

    def __call__(self, *args, **kwargs):
        context = get_forward_context()
        mode, batch = context.cudagraph_runtime_mode.name, repr(context.batch_descriptor)
        allowed = monitor.cudagraph_capturing_enabled
        record("graph wrapper", wrapped_for=self.runtime_mode.name, mode=mode, batch=batch, allowed=allowed)
        SEEN[f"graph wrapper in mode {mode}"] += 1
        return self.runnable(*args, **kwargs)


class CpuOmniPlatform(OmniPlatform, CpuPlatform):
    """omni publishes no CPU platform; the two runners ask theirs for these alone."""

    _omni_enum = OmniPlatformEnum.UNSPECIFIED

    @classmethod
    def get_graph_wrapper_cls(cls):
        return EagerGraphWrapper

    @classmethod
    def set_forward_context(cls, *args, **kwargs):
        return set_forward_context(*args, **kwargs)


vllm_omni.platforms._current_omni_platform = CpuOmniPlatform()

from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner  # noqa: E402  (asks for the platform on import)
from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner  # noqa: E402

CURRENT: list[Scenario] = []
PAYLOADS: dict[str, dict[str, Any]] = {}
STEPS: list[dict[str, Any]] = []
RUNNERS: list[ProofMixin] = []


class SizedPromptEmbeds(PromptEmbedsPayload):
    """omni's wire type, which vLLM's batch measures and slices as if it were a tensor.

    A slice is zeros: vLLM lays it over the buffer first, and the real values would hide a missing overlay of omni's.
    """

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> torch.Tensor:
        return torch.zeros(len(range(*rows.indices(self.shape[0]))), self.shape[1])


class FakeFeature(SimpleNamespace):
    """What the M-RoPE and MiMo code reads of a multimodal feature."""

    @classmethod
    def image(cls, index: int) -> FakeFeature:
        data = {"image_grid_thw": torch.tensor([1, 2, 2 + 2 * index]), "use_audio_in_video": torch.tensor(index % 2)}
        data |= {"second_per_grid_ts": 0.5 * index, "audio_feature_lengths": torch.tensor([3])}
        return cls(data=SimpleNamespace(get_data=lambda: data), identifier=f"image-{index}")


class KvTransferNotes:
    """In place of the manager that sends a finished request's KV to the next stage: notes what it is handed."""

    def handle_finished_requests_kv_transfer(self, *, finished_reqs, request_id_resolver, block_size, **_others):
        ids = {req_id: request_id_resolver(req_id) for req_id in finished_reqs}
        record("kv transfer", requests=finished_reqs, resolved=ids, block_size=block_size)
        SEEN["kv transfer of a request"] += len(finished_reqs)
        if any(data.get("custom_metadata") for data in finished_reqs.values()):
            SEEN["kv metadata merged"] += 1
        return list(ids)


class ProofMixin:
    """Over an omni runner and vLLM's CPU runner: sets up, hands in payloads, and writes down each step."""

    def __init__(self, vllm_config, device):
        scenario = CURRENT[0]
        defaults = {"async_chunk": False, "stage_id": 0, "model_stage": "talker"}
        settings = {**defaults, "engine_output_type": scenario.engine_output_type, **scenario.model_config}
        for name, value in settings.items():
            object.__setattr__(vllm_config.model_config, name, value)
        hf_config = vllm_config.model_config.hf_config
        if isinstance(getattr(hf_config, "vision_config", None), dict):
            hf_config.vision_config = SimpleNamespace(**hf_config.vision_config)
        compilation = vllm_config.compilation_config
        compilation.max_cudagraph_capture_size = compilation.max_cudagraph_capture_size or 0
        super().__init__(vllm_config, device)
        self._postprocess_tensors()
        RUNNERS.append(self)

    def load_model(self, *args, **kwargs):
        compilation, mode = self.compilation_config, self.compilation_config.cudagraph_mode
        if CURRENT[0].full_graphs:
            compilation.cudagraph_mode = CUDAGraphMode.FULL_DECODE_ONLY
        super().load_model(*args, **kwargs)
        compilation.cudagraph_mode = mode
        self._postprocess_tensors()  # the talker's buffers came after the CPU runner had joined its own

    def _update_states(self, scheduler_output):
        for request in scheduler_output.scheduled_new_reqs:
            payload = PAYLOADS.get(request.req_id, {})
            request.prompt_embeds = None
            if (embeds := payload.get("prompt_embeds")) is not None:
                raw = embeds.numpy().tobytes()
                request.prompt_embeds = SizedPromptEmbeds(data=raw, shape=list(embeds.shape), dtype="float32")
            if payload.get("as_buffer"):
                request.model_intermediate_buffer = payload["infos"]
                request.additional_information = None
            else:
                request.additional_information = serialize_additional_information(payload.get("infos"))
            if "mm_features" in payload:
                request.mm_features = payload["mm_features"]
        return super()._update_states(scheduler_output)

    def execute_model(self, scheduler_output, *args, **kwargs):
        self.proof_step = None
        if CURRENT[0].kv_transfer:
            self.kv_transfer_manager = KvTransferNotes()
            ended = sorted(scheduler_output.finished_req_ids & self.requests.keys())
            scheduler_output.finished_requests_needing_kv_transfer = {
                req_id: {"block_ids": [1], "seq_len": self.requests[req_id].num_computed_tokens} for req_id in ended
            }
        if scheduler_output.total_num_scheduled_tokens > 0:
            self._note_schedule(scheduler_output)
        return super().execute_model(scheduler_output, *args, **kwargs)

    def _note_schedule(self, scheduler_output):
        cached, rows = scheduler_output.scheduled_cached_reqs, {}
        if CURRENT[0].model_config.get("async_chunk"):
            cached.prompt_token_ids = {r: list(self.requests[r].prompt_token_ids) for r in cached.req_ids}
        if CURRENT[0].cached_infos:
            cached.additional_information = {
                req_id: {"cached_text": torch.full((2,), float(len(STEPS))), "meta": {"step": len(STEPS)}}
                for req_id in cached.req_ids
            }
        for request in scheduler_output.scheduled_new_reqs:
            rows[request.req_id] = (request.num_computed_tokens, len(request.prompt_token_ids))
            SEEN["prefix hit"] += request.num_computed_tokens > 0
        for req_id, computed in zip(cached.req_ids, cached.num_computed_tokens, strict=True):
            rows[req_id] = (computed, len(self.requests[req_id].prompt_token_ids))
        spans = scheduler_output.num_scheduled_tokens
        prefill = {r for r, (computed, prompt) in rows.items() if computed < prompt}
        tails = [r for r in prefill if rows[r][0] > 0 and spans[r] == 1 and rows[r][0] + 1 == rows[r][1]]
        SEEN["one-token tail"] += len(tails)
        SEEN["mixed batch"] += 0 < len(prefill) < len(rows)
        SEEN["preempted"] += len(scheduler_output.preempted_req_ids or ())
        SEEN["resumed"] += len(cached.resumed_req_ids)
        SEEN["async scheduling"] += bool(self.use_async_scheduling)
        self.proof_step = {"schedule": {r: [*rows[r], spans[r]] for r in sorted(rows)}}

    def sample_tokens(self, grammar_output):
        state, step, req_ids = self.execute_model_state, self.proof_step, list(self.input_batch.req_ids)
        hidden = getattr(state, "hidden_states", None)
        if hidden is not None:
            starts = [int(start) for start in self.query_start_loc.np[: len(req_ids) + 1]]
            hidden = {r: fingerprint(hidden[starts[i] : starts[i + 1]]) for i, r in enumerate(req_ids)}
        output = super().sample_tokens(grammar_output)
        if state is None or step is None:
            return output
        inner = output._model_runner_output if isinstance(output, AsyncModelRunnerOutput) else output
        self._finish(inner, req_ids)
        outputs = {f.name: fingerprint(getattr(inner, f.name)) for f in fields(inner)} if is_dataclass(inner) else {}
        infos = {r: fingerprint(info) for r, info in sorted(self.model_intermediate_buffer.items())}
        mirror = {r: fingerprint(getattr(s, "additional_information_cpu", None)) for r, s in self.requests.items()}
        codes = {r: self._codes(inner, i) for i, r in enumerate(req_ids)}
        step |= {"req_ids": req_ids, "hidden": hidden, "outputs": outputs, "infos": infos, "mirror": mirror}
        STEPS.append(step | {"codes": codes})
        return output

    def _codes(self, output, index):
        payloads = output.multimodal_outputs
        if not payloads or not payloads[index]:
            return None
        return {k: v.tolist() for k, v in payloads[index].items() if "codes" in k and isinstance(v, torch.Tensor)}

    def _finish(self, output, req_ids):
        """A hook for stages that sample nothing."""


class ProofARRunner(ProofMixin, GPUARModelRunner, CPUModelRunner):
    """The tree's AR runner on the CPU."""


class ProofGenerationRunner(ProofMixin, GPUGenerationModelRunner, CPUModelRunner):
    """The tree's generation runner on the CPU, under vLLM's own scheduler."""

    def _finish(self, output, req_ids):
        # omni's generation scheduler ends a request without a token; vLLM's needs one where the prompt ends.
        ends = [sum(self.proof_step["schedule"][r][0::2]) >= self.proof_step["schedule"][r][1] for r in req_ids]
        output.sampled_token_ids = [[7] if end else [] for end in ends]


class ProofARWorker(cpu_worker.CPUWorker):
    runner = ProofARRunner

    def init_device(self):
        with mock.patch.object(cpu_worker, "CPUModelRunner", self.runner):
            return super().init_device()


class ProofGenerationWorker(ProofARWorker):
    runner = ProofGenerationRunner


def dummy_run(runner: ProofMixin) -> None:
    """What a GPU worker does before the first request and an eager CPU worker doesn't: profile, capture graphs."""
    PHASE[0] = "dummy"
    runner._dummy_run(8)
    runner.profile_run()
    PHASE[0] = "capture"
    compilation = runner.compilation_config
    kept = compilation.cudagraph_capture_sizes, compilation.cudagraph_num_of_warmups
    if CURRENT[0].full_graphs:
        compilation.cudagraph_capture_sizes, compilation.cudagraph_num_of_warmups = [1, 2, 4], 1
    monitor.set_cudagraph_capturing_enabled(False)
    with mock.patch.object(parallel_state, "graph_capture", lambda device: nullcontext()):
        record("capture_model", result=runner.capture_model(), allowed=monitor.cudagraph_capturing_enabled)
    compilation.cudagraph_capture_sizes, compilation.cudagraph_num_of_warmups = kept


def shut_down(runner: ProofMixin) -> None:
    """Release the runner, and note what it leaves."""
    PHASE[0] = "shutdown"
    runner.shutdown()
    left = {name: getattr(runner, name, "absent") for name in ("model", "has_talker_mtp", "talker_mtp", "input_ids")}
    record("shutdown", left=left, infos=runner.model_intermediate_buffer)
