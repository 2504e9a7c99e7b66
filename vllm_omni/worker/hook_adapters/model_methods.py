"""The methods that a model declares for itself: `has_preprocess`, `has_postprocess`, `have_multimodal_outputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from vllm_omni.worker.binding import OmniOutput
from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry
from vllm_omni.worker.model_errors import ModelMethodError, method_error, naming
from vllm_omni.worker.step import IS_PREFILL, NUM_COMPUTED, PROMPT_LEN, Row

if TYPE_CHECKING:
    import numpy as np


@ModelAdapterRegistry.register()
class ModelMethodsAdapter(DefaultModelRunnerAdapter):
    """Calls the model's own methods, per row or batched, as the phase contract routes them.

    Each position of a request is prepared once. A row that is computed again after a preemption is fed what was fed
    the first time, and no method sees it; new tokens at its end are prepared as if they were a row of their own.
    """

    requires = ("has_preprocess", "has_postprocess", "have_multimodal_outputs", "make_omni_output")

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        self.model, self.traits = model, runner.traits

    # -- before the forward ------------------------------------------------------------------------------------------

    def preprocess(
        self,
        runner: AdapterHost,
        input_ids: torch.Tensor,
        inputs_embeds: torch.Tensor,
        scheduler_output: Any,
        num_scheduled_tokens_np: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        if not self.traits.has_preprocess:
            return input_ids, inputs_embeds, {}
        if self.traits.preprocess_batch is not None:
            req_ids = [row.req_id for row in runner.rows]
            with naming(self.model, "preprocess_batch", req_ids):
                self.traits.preprocess_batch(
                    req_ids=req_ids,
                    model_intermediate_buffer={req_id: runner.store[req_id].info for req_id in req_ids},
                    device=input_ids.device,
                )
        batched = self.traits.preprocess_decode_batch is not None
        group: list[tuple[Row, dict[str, Any]]] = []
        for row in runner.rows:
            if row.replayed:
                self._replay(runner, row, input_ids, inputs_embeds)
                row = row.fresh()
                if row.start == row.end:
                    continue
            info = runner.request_info(row)
            if batched and row.is_decode_step:
                group.append((row, info))
                continue
            if group:
                self._decode_batch(runner, group, input_ids, inputs_embeds)
                group = []
            self._one_row(runner, row, info, input_ids, inputs_embeds)
        if group:
            self._decode_batch(runner, group, input_ids, inputs_embeds)
        return input_ids, inputs_embeds, {}

    def _one_row(
        self, runner: AdapterHost, row: Row, info: dict[str, Any], ids: torch.Tensor, embeds: torch.Tensor
    ) -> None:
        start, end = row.start, row.end
        ids_in = ids[start:end]
        try:
            new_ids, new_embeds, update = self.model.preprocess(
                input_ids=ids_in, input_embeds=embeds[start:end], **info
            )
            if runner.mtp_batch is not None and row.is_decode_step:
                last_hidden, text_step = update.pop("mtp_inputs")
                runner.mtp_batch.add([row], new_ids, new_embeds, last_hidden, text_step)
            else:
                if new_embeds.shape[0] != end - start:
                    raise ValueError(f"{new_embeds.shape[0]} embeddings for {end - start} tokens")
                if not new_embeds.is_floating_point():
                    raise ValueError(f"embeddings are {new_embeds.dtype}")
                embeds[start:end].copy_(new_embeds)
            if new_ids is not ids_in and isinstance(new_ids, torch.Tensor) and new_ids.numel() == end - start:
                ids_in.copy_(new_ids.reshape(-1))
        except ModelMethodError:
            raise
        except KeyError as error:
            reason = "its update has no 'mtp_inputs'" if error.args == ("mtp_inputs",) else error
            raise method_error(self.model, "preprocess", row.req_id, reason) from error
        except Exception as error:
            raise method_error(self.model, "preprocess", row.req_id, error) from error
        runner.store.merge(row.req_id, update)

    def _decode_batch(
        self, runner: AdapterHost, group: list[tuple[Row, dict[str, Any]]], ids: torch.Tensor, embeds: torch.Tensor
    ) -> None:
        assert self.traits.preprocess_decode_batch is not None
        rows, infos = [row for row, _ in group], [info for _, info in group]
        starts = [row.start for row in rows]
        n, first = len(rows), starts[0]
        contiguous = starts[-1] - first == n - 1
        offsets = None if contiguous else torch.tensor(starts).to(ids.device, non_blocking=True)
        ids_in = ids[first : first + n] if contiguous else ids.index_select(0, offsets)
        with naming(self.model, "preprocess_decode_batch", [row.req_id for row in rows]):
            result = self.traits.preprocess_decode_batch(input_ids=ids_in, req_infos=infos)
            expected = 3 if runner.mtp_batch is None else 5
            if len(result) != expected:
                raise ValueError(f"{len(result)} results, not {expected}")
            new_ids, new_embeds, *mtp_inputs, updates = result
            if new_ids.numel() != n or new_embeds.shape[0] != n or len(updates) != n:
                raise ValueError(f"results for {new_ids.numel()}, {new_embeds.shape[0]} and {len(updates)} of {n} rows")
            if runner.mtp_batch is not None:
                runner.mtp_batch.add(rows, new_ids, new_embeds, *mtp_inputs)
            elif contiguous:
                embeds[first : first + n].copy_(new_embeds)
            else:
                embeds.index_copy_(0, offsets, new_embeds.to(embeds.dtype))
            if new_ids is not ids_in:
                if contiguous:
                    ids_in.copy_(new_ids.reshape(-1))
                else:
                    ids.index_copy_(0, offsets, new_ids.reshape(-1).to(ids.dtype))
        for row, update in zip(rows, updates, strict=True):
            runner.store.merge(row.req_id, update)

    def _replay(self, runner: AdapterHost, row: Row, ids: torch.Tensor, embeds: torch.Tensor) -> None:
        """Feed the leading tokens of a row what they were fed before; what is not known of them is prepared again."""
        position, end = row.computed, row.computed + row.replayed
        shift = row.start - row.computed
        for a, b, known_embeds, known_ids in runner.store[row.req_id].inputs.read(position, end):
            if position < a:
                self._prepare_again(runner, _part(row, position, a), ids, embeds)
            embeds[shift + a : shift + b].copy_(known_embeds)
            ids[shift + a : shift + b].copy_(known_ids)
            position = max(position, b)  # a position that held a rejected draft was recorded again
        if position < end:
            self._prepare_again(runner, _part(row, position, end), ids, embeds)

    def _prepare_again(self, runner: AdapterHost, row: Row, ids: torch.Tensor, embeds: torch.Tensor) -> None:
        """Prepare positions that a prefix cache had spared; the payload is past them, so the update is dropped."""
        info = {
            **runner.store[row.req_id].info,
            "request_id": row.req_id,
            PROMPT_LEN: row.prompt_len,
            NUM_COMPUTED: row.computed,
            IS_PREFILL: row.is_prefill,
        }
        span = slice(row.start, row.end)
        with naming(self.model, "preprocess", row.req_id):
            new_ids, new_embeds, _ = self.model.preprocess(input_ids=ids[span], input_embeds=embeds[span], **info)
            embeds[span].copy_(new_embeds)
            ids[span].copy_(new_ids.reshape(-1))

    # -- after the forward -------------------------------------------------------------------------------------------

    def extract_outputs(self, runner: AdapterHost, hidden_states: Any) -> tuple[Any, Any]:
        if type(hidden_states) is tuple and len(hidden_states) == len(OmniOutput._fields):
            hidden_states = OmniOutput(*hidden_states)  # a graph wrapper returns the fields as a plain tuple
        if isinstance(hidden_states, OmniOutput):
            return hidden_states.text_hidden_states, hidden_states.multimodal_outputs
        return super().extract_outputs(runner, hidden_states)

    def postprocess(
        self, runner: AdapterHost, hidden_states: torch.Tensor, multimodal_outputs: Any, scheduler_output: Any
    ) -> None:
        traits = self.traits
        if not traits.has_postprocess:
            return
        outputs = multimodal_outputs if traits.postprocess_uses_outputs else None
        method, store = self.model.postprocess, runner.store
        for row in runner.rows:
            start = row.start + row.replayed
            if start == row.end:
                continue
            kwargs = dict(store[row.req_id].info) if traits.postprocess_uses_infos else {}
            kwargs.pop("hidden_states", None)
            hidden = hidden_states[start : row.end] if traits.postprocess_uses_hidden else hidden_states
            try:
                update = method(hidden, multimodal_outputs=outputs, **kwargs)
            except Exception as error:
                raise method_error(self.model, "postprocess", row.req_id, error) from error
            store.merge(row.req_id, update)


def _part(row: Row, position: int, end: int) -> Row:
    """The tokens of a row at positions `position` to `end`."""
    shift = row.start - row.computed
    return Row(row.req_id, shift + position, shift + end, position, row.prompt_len)
