"""The inputs of a step: the embeddings that the model is fed, and the keyword arguments of its forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from vllm_omni.worker.adapter_host import RunnerHost
from vllm_omni.worker.hook_adapters.base import ModelRunnerAdapter, overriding
from vllm_omni.worker.request_store import RequestState
from vllm_omni.worker.step import Row

if TYPE_CHECKING:
    import numpy as np


class StepInputs:
    """Made of the host's rows; what is fed is recorded, for the case of a preemption."""

    def __init__(self, host: RunnerHost, adapters: Sequence[ModelRunnerAdapter]) -> None:
        self.host = host
        self._preprocessing = overriding(adapters, "preprocess")
        config = host.stage.vllm_config.model_config
        self._wants_sampling_args = bool(getattr(config, "has_sampling_extra_args", False))

    # -- embeddings --------------------------------------------------------------------------------------------------

    def prepare_prefill_embeds(self, input_ids: torch.Tensor, embeds: torch.Tensor | None) -> torch.Tensor | None:
        """The embeddings for the forward, prompt embeddings laid over those of prefill tokens.

        `embeds` are vLLM's own, which lie in the persistent buffer, or None where the model embeds its tokens; so is
        the result.
        """
        host = self.host
        rows, buffer = host.rows, host.stage.embeds_buffer
        if not rows:
            return embeds
        if not host.traits.has_preprocess:
            if not any(row.is_prefill and host.store[row.req_id].prompt_embeds is not None for row in rows):
                return embeds
            if embeds is None:
                n = rows[-1].end
                buffer[:n].copy_(host.stage.model.embed_input_ids(input_ids[:n]))
        self._lay_prompt_embeds()
        return buffer[: input_ids.shape[0]]

    def preprocess(
        self, input_ids: torch.Tensor, embeds: torch.Tensor, num_scheduled_tokens_np: np.ndarray
    ) -> dict[str, Any]:
        """Have the step's tokens prepared, ids and embeddings in place; extra keyword arguments of the forward."""
        host = self.host
        extra: dict[str, Any] = {}
        if not host.rows:
            return extra
        if host.mtp_batch is not None:
            host.mtp_batch.clear()
        ids, result = input_ids, embeds
        for adapter in self._preprocessing:
            ids, result, kwargs = adapter.preprocess(host, ids, result, host.scheduler_output, num_scheduled_tokens_np)
            extra.update(kwargs)
        if result is not embeds:
            embeds.copy_(result)
        if ids is not input_ids:
            input_ids.copy_(ids)
        self._record(input_ids, embeds)
        return extra

    def _lay_prompt_embeds(self) -> None:
        store, buffer = self.host.store, self.host.stage.embeds_buffer
        for row in self.host.rows:
            if row.computed >= row.prompt_len:
                continue
            embeds = store[row.req_id].prompt_embeds
            if embeds is not None:
                n = min(row.end - row.start, row.prompt_len - row.computed)
                part = embeds[row.computed : row.computed + n]
                if part.shape != (n, buffer.shape[1]):
                    raise ValueError(
                        f"request {row.req_id}: prompt embeddings of shape {list(embeds.shape)} for a prompt of "
                        f"{row.prompt_len} tokens and a hidden size of {buffer.shape[1]}"
                    )
                buffer[row.start : row.start + n].copy_(part)

    def _record(self, ids: torch.Tensor, embeds: torch.Tensor) -> None:
        """Remember what is fed: one snapshot for all decode rows."""
        store = self.host.store
        single: list[Row] = []
        for row in self.host.rows:
            start = row.start + row.replayed
            if row.end - start == 1:
                single.append(row)
            elif row.end > start:
                inputs = store[row.req_id].inputs
                inputs.add_span(
                    row.computed + row.replayed, embeds[start : row.end].clone(), ids[start : row.end].clone()
                )
        if not single:
            return
        first, n = single[0].end - 1, len(single)
        if single[-1].end - 1 - first == n - 1:
            fed_embeds, fed_ids = embeds[first : first + n].clone(), ids[first : first + n].clone()
        else:
            offsets = torch.tensor([row.end - 1 for row in single]).to(ids.device, non_blocking=True)
            fed_embeds, fed_ids = embeds.index_select(0, offsets), ids.index_select(0, offsets)
        records = [store[row.req_id].inputs for row in single]
        store.fed.add(records, [row.computed + row.end - row.start - 1 for row in single], fed_embeds, fed_ids)

    # -- keyword arguments -------------------------------------------------------------------------------------------

    def build_extra_kwargs(self) -> dict[str, Any]:
        """Keyword arguments which the model's forward gets beside vLLM's."""
        host = self.host
        rows, traits, store = host.rows, host.traits, host.store
        if not traits.takes_kwargs or not rows:
            return {}
        states = [store[row.req_id] for row in rows]
        infos = self._infos(rows, states)
        kwargs: dict[str, Any] = {
            "model_intermediate_buffer": infos,
            "runtime_additional_information": infos,
            "request_token_spans": [(row.start, row.end) for row in rows],
        }
        if host.stage.generation:
            kwargs["seq_token_counts"] = [row.end - row.start for row in rows]
        if traits.wants_request_ids:
            kwargs["request_ids"] = [row.req_id for row in rows]
        if traits.wants_query_start:
            starts = torch.tensor([row.start for row in rows] + [rows[-1].end], dtype=torch.int32)
            kwargs["omni_query_start_loc"] = starts.to(host.stage.device, non_blocking=True)
        if traits.wants_eligibility:
            kwargs["request_sample_eligible"] = [
                row.computed + row.end - row.start >= max(row.prompt_len, state.prepared)
                for row, state in zip(rows, states, strict=True)
            ]
        if self._wants_sampling_args:
            kwargs["sampling_extra_args"] = [
                getattr(state.sampling_params, "extra_args", None) or {} for state in states
            ]
        return kwargs

    def _infos(self, rows: list[Row], states: list[RequestState]) -> list[dict[str, Any]]:
        """The payload of each row, with the number of tokens sampled so far, also in a replay."""
        drafts = self.host.drafts
        infos: list[dict[str, Any]] = []
        for row, state in zip(rows, states, strict=True):
            info = state.info
            if not info:
                infos.append({})
                continue
            whole_replay = row.replayed and row.start + row.replayed == row.end
            fed = state.prepared + 1 if whole_replay else row.computed + row.end - row.start
            if drafts:
                fed -= len(drafts.get(row.req_id, ()))
            info["generated_len"] = max(0, fed - row.prompt_len)
            infos.append(info)
        return infos

    def dummy_kwargs(self, positions: torch.Tensor | None) -> dict[str, Any]:
        """What a generation model's forward gets in a run without requests, with `[…, tokens]` positions."""
        traits = self.host.traits
        if not traits.takes_kwargs or positions is None:
            return {}
        extra: dict[str, Any] = {"seq_token_counts": [positions.shape[-1]]}
        if traits.dummy_information is not None:
            infos = traits.dummy_information(1)
            extra["runtime_additional_information"] = extra["model_intermediate_buffer"] = infos
        return extra
