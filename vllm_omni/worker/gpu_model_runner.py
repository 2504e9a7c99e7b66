"""The V1 runner: where in vLLM's V1 step each hook is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from vllm.distributed.parallel_state import get_pp_group
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from vllm_omni.worker.binding import vllm_has_xdrope
from vllm_omni.worker.hooks import OmniHooks
from vllm_omni.worker.kv_transfer import KVTransferManager
from vllm_omni.worker.stage import Stage

if TYPE_CHECKING:
    import numpy as np
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner as Upstream
else:
    Upstream = object


class OmniModelRunnerMixin(Upstream):
    """Over `vllm.v1.worker.gpu_model_runner.GPUModelRunner` or a platform's class that derives from it."""

    generation: ClassVar[bool] = False
    kv_transfer: KVTransferManager | None = None
    execute_model_state: Any

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        stage = Stage(
            model=self.get_model(),
            vllm_config=self.vllm_config,
            embeds_buffer=self.inputs_embeds.gpu,
            device=self.device,
            dtype=self.dtype,
            max_num_reqs=self.max_num_reqs,
            generation=self.generation,
            has_xdrope=vllm_has_xdrope(),
            kv_transfer=self.kv_transfer,
        )
        self.omni = OmniHooks(stage)
        self._omni_kwargs: dict[str, Any] = {}

    def _update_states(self, scheduler_output: Any) -> Any:
        omni = self.omni
        omni.begin_step(scheduler_output)
        omni.on_new_requests(scheduler_output)
        result = super()._update_states(scheduler_output)
        if omni.needs_rows:
            batch, spans = self.input_batch, scheduler_output.num_scheduled_tokens
            req_ids = batch.req_ids
            n = len(req_ids)
            omni.host.set_rows(
                req_ids,
                [spans[req_id] for req_id in req_ids],
                batch.num_computed_tokens_cpu[:n].tolist(),
                batch.num_prompt_tokens[:n].tolist(),
            )
        return result

    def _init_mrope_positions(self, req_state: Any) -> None:
        self.omni.init_request_positions(req_state.req_id)
        super()._init_mrope_positions(req_state)

    def _calc_mrope_positions(self, scheduler_output: Any) -> None:
        super()._calc_mrope_positions(scheduler_output)
        if self.omni.host.fixes_positions:
            self.omni.host.fixup_decode_positions(self.mrope_positions.cpu)

    def _preprocess(self, scheduler_output: Any, num_input_tokens: int, *args: Any, **kwargs: Any) -> Any:
        result = super()._preprocess(scheduler_output, num_input_tokens, *args, **kwargs)
        omni = self.omni
        rows = omni.host.rows
        if not rows or not omni.feeds_model or not get_pp_group().is_first_rank:
            return result
        ids, embeds, *rest = result
        token_ids = self.input_ids.gpu[:num_input_tokens]
        embeds = omni.prepare_prefill_embeds(token_ids, embeds)
        if omni.traits.has_preprocess:
            ids = token_ids
            self._omni_kwargs = omni.inputs.preprocess(ids, embeds, self.query_lens_np(len(rows)))
        return (ids, embeds, *rest)

    def query_lens_np(self, num_reqs: int) -> np.ndarray:
        """`[num_reqs]` scheduled tokens in batch order."""
        starts = self.query_start_loc.np
        return starts[1 : num_reqs + 1] - starts[:num_reqs]

    def _model_forward(self, *args: Any, **kwargs: Any) -> Any:
        omni = self.omni
        if omni.host.rows:
            omni.outputs.begin_forward()
            if omni.traits.takes_kwargs:
                kwargs.update(omni.build_extra_kwargs())
        kwargs.update(self._omni_kwargs)
        return super()._model_forward(*args, **kwargs)

    def execute_model(self, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        omni = self.omni
        omni.outputs.extract_kv(scheduler_output, self.kv_caches)
        self._omni_kwargs = {}
        output = super().execute_model(scheduler_output, *args, **kwargs)
        state = self.execute_model_state
        if state is None:
            return omni.outputs.finish_idle_step(output)
        if omni.host.rows:
            try:
                omni.process_model_output(state.hidden_states)
            except Exception:
                self.execute_model_state = None  # vLLM would refuse the next step
                raise
        return output

    def sample_tokens(self, grammar_output: Any) -> Any:
        state = self.execute_model_state
        output = super().sample_tokens(grammar_output)
        return output if state is None else self.omni.get_model_runner_output(output, state.hidden_states)

    def capture_model(self, *args: Any, **kwargs: Any) -> Any:
        result = super().capture_model(*args, **kwargs)
        self.omni.capture_graphs()
        return result


class OmniGPUModelRunner(OmniModelRunnerMixin, GPUModelRunner):
    """vLLM's V1 GPU runner with the omni hooks; CUDA, ROCm and MUSA run it."""
