"""The runners of a published vllm_omni over vLLM's CPU runners, in a process that has that package on its path.

What is added is what a GPU platform and omni's engine would have given: a platform object, a few fields of the model's
configuration, and the payloads of new requests.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from vllm.compilation.cuda_graph import CUDAGraphWrapper
from vllm.forward_context import set_forward_context
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.worker import cpu_worker
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
from vllm_omni.platforms.interface import OmniPlatform, OmniPlatformEnum

import vllm_omni.platforms


class CpuOmniPlatform(OmniPlatform, CpuPlatform):
    """omni publishes no CPU platform; the runners ask theirs for these alone."""

    _omni_enum = OmniPlatformEnum.UNSPECIFIED

    @classmethod
    def get_graph_wrapper_cls(cls) -> Any:
        return CUDAGraphWrapper

    @classmethod
    def set_forward_context(cls, *args: Any, **kwargs: Any) -> Any:
        return set_forward_context(*args, **kwargs)


vllm_omni.platforms._current_omni_platform = CpuOmniPlatform()

from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner  # noqa: E402  (asks for the platform on import)
from vllm_omni.worker.gpu_generation_model_runner import GPUGenerationModelRunner  # noqa: E402

STAGE = {"engine_output_type": "audio", "async_chunk": False, "stage_id": 0, "model_stage": "talker"}


def configure(vllm_config: Any) -> None:
    """The fields that omni's own configuration has."""
    for name, value in STAGE.items():
        object.__setattr__(vllm_config.model_config, name, value)
    compilation = vllm_config.compilation_config
    compilation.max_cudagraph_capture_size = compilation.max_cudagraph_capture_size or 0


def hand_in(scheduler_output: Any) -> None:
    """Put the payloads that came in `extra_args` where omni's engine would have."""
    for request in scheduler_output.scheduled_new_reqs:
        extra = getattr(request.sampling_params, "extra_args", None) or {}
        request.additional_information = extra.get("additional_information")


class PublishedV1Mixin:
    """Over a published V1 runner and vLLM's CPU runner."""

    def __init__(self, vllm_config: Any, device: Any) -> None:
        configure(vllm_config)
        super().__init__(vllm_config, device)
        self._postprocess_tensors()

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        self._postprocess_tensors()  # the talker's buffers came after the CPU runner had joined its own

    def _update_states(self, scheduler_output: Any) -> Any:
        hand_in(scheduler_output)
        return super()._update_states(scheduler_output)


class PublishedARRunner(PublishedV1Mixin, GPUARModelRunner, CPUModelRunner):
    """The published AR runner on the CPU."""


class PublishedGenerationRunner(PublishedV1Mixin, GPUGenerationModelRunner, CPUModelRunner):
    """The published generation runner on the CPU, under vLLM's own scheduler, which wants a token at the end."""

    def execute_model(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        self.spans = dict(scheduler_output.num_scheduled_tokens)
        return super().execute_model(scheduler_output, *args, **kwargs)

    def sample_tokens(self, grammar_output: Any) -> Any:
        output = super().sample_tokens(grammar_output)
        batch = self.input_batch
        ends = []
        for index, req_id in enumerate(output.req_ids):
            done = int(batch.num_computed_tokens_cpu[index]) + self.spans[req_id]
            ends.append([0] if done >= int(batch.num_prompt_tokens[index]) else [])
        output.sampled_token_ids = ends
        return output


def published_v2_runner() -> tuple[Any, type[Any]]:
    """The module whose global the worker reads, and the published V2 AR runner on the CPU."""
    from vllm.v1.worker.cpu import model_runner as module
    from vllm_omni.worker_v2.omni_ar_model_runner import OmniARModelRunner

    class PublishedV2Runner(OmniARModelRunner, module.CPUModelRunner):
        """As the worker wants it."""

        def __init__(self, vllm_config: Any, device: Any) -> None:
            configure(vllm_config)
            super().__init__(vllm_config, device)

        def add_requests(self, scheduler_output: Any) -> Any:
            hand_in(scheduler_output)
            return super().add_requests(scheduler_output)

        def sample_tokens(self, grammar_output: Any) -> Any:
            state = self.execute_model_state
            output = super().sample_tokens(grammar_output)
            if state is None:
                return output
            inner = output.get_output

            def get_output() -> Any:
                result = inner()
                result.multimodal_outputs = (
                    result.multimodal_outputs or result.inter_stage_outputs or result.pooler_output
                )
                result.pooler_output = None  # vLLM's output processor would take it for a pooling request
                return result

            output.get_output = get_output
            return output

    return module, PublishedV2Runner


class PublishedARWorker(cpu_worker.CPUWorker):
    """Builds the published AR runner, V1 or V2."""

    runner = PublishedARRunner

    def init_device(self) -> Any:
        with mock.patch.object(cpu_worker, "CPUModelRunner", self.runner):
            if getattr(self, "use_v2_model_runner", False):
                module, runner = published_v2_runner()
                with mock.patch.object(module, "CPUModelRunner", runner):
                    return super().init_device()
            return super().init_device()


class PublishedGenerationWorker(PublishedARWorker):
    """Builds the published generation runner."""

    runner = PublishedGenerationRunner
