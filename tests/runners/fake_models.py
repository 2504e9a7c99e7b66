"""Fake models: they record what the runner gives them."""

from __future__ import annotations

from typing import Any

import torch


class Quiet:
    """No method of omni's, and a forward that takes nothing of it."""

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None):
        return torch.ones(input_ids.shape[0], 4)

    def embed_input_ids(self, input_ids):
        return input_ids[:, None].float().expand(-1, 4)


class Talker:
    """Scalar methods and MTP; embeddings are the token id everywhere, MTP adds 100."""

    has_preprocess = True
    has_postprocess = True
    have_multimodal_outputs = True

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.mtp_ids: list[list[int]] = []

    def preprocess(self, input_ids, input_embeds, **info):
        self.calls.append({"ids": input_ids.tolist(), **info})
        embeds = input_ids[:, None].float().expand(-1, 4)
        if info["_omni_is_prefill"] or input_ids.shape[0] > 1:
            return input_ids, embeds, {"meta": {"prefilled": info["_omni_num_computed_tokens"] + input_ids.shape[0]}}
        return input_ids, embeds, {"mtp_inputs": (torch.ones(1, 4), torch.zeros(1, 4)), "meta": {"decoded": True}}

    def talker_mtp(self, input_ids, inputs_embeds, last_talker_hidden, text_step, **kwargs):
        self.mtp_ids.append(input_ids.tolist())
        self.mtp_kwargs = kwargs
        return inputs_embeds + 100 * last_talker_hidden, input_ids[:, None] + torch.arange(3)

    def forward(self, input_ids=None, positions=None, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        from vllm_omni.model_executor.models.output_templates import OmniOutput

        self.kwargs = kwargs
        return OmniOutput(inputs_embeds + 0.5, {"probe": inputs_embeds[:, :1].clone()})

    def postprocess(self, hidden_states, multimodal_outputs=None, **info):
        self.postprocessed = [*getattr(self, "postprocessed", []), hidden_states.shape[0]]
        return {"hidden_states": {"last": hidden_states[-1:]}}


class Batched(Talker):
    """A batched decode method, five results."""

    def preprocess_decode_batch(self, *, input_ids, req_infos):
        n = len(req_infos)
        self.batches = [*getattr(self, "batches", []), [info["request_id"] for info in req_infos]]
        self.phases = [info["_omni_is_prefill"] for info in req_infos]
        embeds = input_ids[:, None].float().expand(-1, 4)
        return input_ids.clone(), embeds, torch.ones(n, 4), torch.zeros(n, 4), [{"meta": {"decoded": True}}] * n


class BatchedNoMtp(Batched):
    """Three results."""

    talker_mtp = None

    def preprocess_decode_batch(self, *, input_ids, req_infos):
        ids, embeds, _, _, updates = super().preprocess_decode_batch(input_ids=input_ids, req_infos=req_infos)
        return ids, embeds, updates
