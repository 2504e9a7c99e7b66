"""The V2 runner: where in vLLM's V2 step each hook is called."""

from __future__ import annotations

from abc import ABC
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from vllm.distributed.parallel_state import get_pp_group
from vllm.v1.worker.gpu.model_runner import GPUModelRunner

from vllm_omni.worker.adopt import adopt
from vllm_omni.worker.binding import vllm_has_xdrope
from vllm_omni.worker.hooks import OmniHooks
from vllm_omni.worker.kv_transfer import KVTransferManager
from vllm_omni.worker.stage import Stage

if TYPE_CHECKING:
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner as Upstream
    from vllm.v1.worker.gpu.model_states.interface import ModelState as UpstreamState
else:
    Upstream, UpstreamState = object, ABC  # as vLLM's ModelState is, so that `adopt` finds the same layout


class OmniModelStateMixin(UpstreamState):
    """Over whichever `ModelState` vLLM resolves for the model."""

    omni: OmniHooks

    def add_request(self, req_index: int, new_req_data: Any) -> None:
        self.omni.init_request_positions(new_req_data.req_id)
        super().add_request(req_index, new_req_data)

    def prepare_inputs(self, input_batch: Any, req_states: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        inputs: dict[str, Any] = super().prepare_inputs(input_batch, req_states, *args, **kwargs)
        omni = self.omni
        padded = input_batch.num_tokens_after_padding
        if omni.host.is_dummy_step:
            return {**inputs, **self._dummy_embeds(padded)}
        if not omni.needs_rows:
            return inputs
        indices = input_batch.idx_mapping_np
        starts = input_batch.query_start_loc_np[: len(input_batch.req_ids) + 1]
        spans = starts[1:] - starts[:-1]
        omni.host.set_rows(
            input_batch.req_ids,
            spans.tolist(),
            req_states.num_computed_tokens_np[indices].tolist(),
            req_states.prompt_len.np[indices].tolist(),
        )
        if omni.host.fixes_positions and "positions" in inputs:
            omni.host.fixup_decode_positions(inputs["positions"])
        omni.outputs.begin_forward()
        if not get_pp_group().is_first_rank:
            return {**inputs, **omni.build_extra_kwargs()}
        ids, extra = input_batch.input_ids[:padded], {}
        embeds = omni.prepare_prefill_embeds(ids, self._own_embeds(padded))
        if embeds is not None:
            inputs = {**inputs, "inputs_embeds": embeds}
        if omni.traits.has_preprocess:
            extra = omni.inputs.preprocess(ids, embeds, spans)
            inputs["input_ids"] = ids
        return {**inputs, **omni.build_extra_kwargs(), **extra}

    def _own_embeds(self, num_tokens: int) -> torch.Tensor | None:
        """vLLM's embeddings of this step, where the model takes embeddings anyway."""
        stage = self.omni.host.stage
        return stage.embeds_buffer[:num_tokens] if stage.vllm_embeds else None

    def prepare_dummy_inputs(self, num_reqs: int, num_tokens: int) -> dict[str, Any]:
        return {**super().prepare_dummy_inputs(num_reqs, num_tokens), **self._dummy_embeds(num_tokens)}

    def _dummy_embeds(self, num_tokens: int) -> dict[str, Any]:
        if not self.omni.traits.has_preprocess:
            return {}
        return {"inputs_embeds": self.omni.host.stage.embeds_buffer[:num_tokens]}


@cache
def omni_model_state_class(base: type[object]) -> type[object]:
    """The mixin over a class of model states."""
    return type(f"Omni{base.__name__}", (OmniModelStateMixin, base), {})


def vllm_embeds_buffer(state: Any) -> torch.Tensor | None:
    """The persistent embeddings of a model state, if it has any."""
    if state.supports_mm_inputs:
        return state.encoder_runner.inputs_embeds
    return getattr(state, "inputs_embeds", None)


class OmniModelRunnerV2Mixin(Upstream):
    """Over `vllm.v1.worker.gpu.model_runner.GPUModelRunner` or a platform's class that derives from it."""

    generation: ClassVar[bool] = False
    kv_transfer: KVTransferManager | None = None
    execute_model_state: Any

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        state = self.model_state
        buffer = vllm_embeds_buffer(state)
        has_own = buffer is not None
        if buffer is None:
            shape = (state.max_num_tokens, state.inputs_embeds_size)
            buffer = torch.zeros(shape, dtype=state.dtype, device=state.device)
        stage = Stage(
            model=self.get_model(),
            vllm_config=self.vllm_config,
            device=self.device,
            dtype=state.dtype,
            embeds_buffer=buffer,
            max_num_reqs=state.max_num_reqs,
            generation=self.generation,
            v2=True,
            vllm_embeds=has_own,
            has_xdrope=vllm_has_xdrope(),
            kv_transfer=self.kv_transfer,
        )
        self.omni = OmniHooks(stage)
        state.omni = self.omni
        adopt(state, omni_model_state_class(state.__class__))

    @torch.inference_mode()
    def execute_model(self, scheduler_output: Any, *args: Any, dummy_run: bool = False, **kwargs: Any) -> Any:
        omni = self.omni
        if dummy_run:
            omni.host.begin_dummy_step()
            return super().execute_model(scheduler_output, *args, dummy_run=True, **kwargs)
        omni.outputs.extract_kv(scheduler_output, self.kv_caches)
        omni.begin_step(scheduler_output)
        omni.on_new_requests(scheduler_output)
        output = super().execute_model(scheduler_output, *args, **kwargs)
        state = self.execute_model_state
        if state is None:
            return omni.outputs.finish_idle_step(output)
        if omni.host.rows and state.hidden_states is not None:
            try:
                omni.process_model_output(state.hidden_states)
            except Exception:
                self.execute_model_state = None  # vLLM would refuse the next step
                raise
        return output

    def sample_tokens(self, grammar_output: Any) -> Any:
        state = self.execute_model_state
        output = super().sample_tokens(grammar_output)
        if state is None or state.hidden_states is None:
            return output
        return self.omni.get_model_runner_output(output, state.hidden_states)

    def capture_model(self, *args: Any, **kwargs: Any) -> Any:
        result = super().capture_model(*args, **kwargs)
        self.omni.capture_graphs()
        return result


class OmniGPUModelRunnerV2(OmniModelRunnerV2Mixin, GPUModelRunner):
    """vLLM's V2 GPU runner with the omni hooks; CUDA, ROCm and MUSA run it."""
