"""The models that are timed: one backbone without methods of omni's, with omni's keyword arguments, and as a talker."""

from __future__ import annotations

import torch
from engine_models import CODEBOOKS, TinyTalker
from vllm import ModelRegistry
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM

from vllm_omni.model_executor.models.output_templates import OmniOutput


class BenchPlain(Qwen2ForCausalLM):
    """Plain vLLM."""


class BenchNoop(Qwen2ForCausalLM):
    """No method of omni's, but the runner's keyword arguments."""

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds)


class BenchTalker(TinyTalker):
    """What a talker does at the least: embed, take the last hidden state and a text step, give and read codes."""

    def preprocess(self, input_ids, input_embeds=None, **info):
        embeds = self.embed_input_ids(input_ids)
        text, computed, span = info["text"]["states"], info["_omni_num_computed_tokens"], input_ids.shape[0]
        if info["_omni_is_prefill"] or span > 1:
            return input_ids, embeds + text[computed : computed + span], {"meta": {"prefilled": computed + span}}
        decoded = info["meta"].get("decoded", 0)
        step = text[(info["_omni_prompt_len"] + decoded) % text.shape[0]].reshape(1, -1)
        last = info["hidden_states"]["last"]
        return input_ids, embeds, {"mtp_inputs": (last, step), "meta": {"decoded": decoded + 1}}

    def talker_mtp(self, input_ids, inputs_embeds, last_talker_hidden, text_step, **kwargs):
        hidden, embeds, codes = last_talker_hidden + inputs_embeds, inputs_embeds, []
        for book in range(CODEBOOKS):
            code = (hidden @ self.code_head[book].T).argmax(-1)
            codes.append(code)
            hidden, embeds = hidden + self.code_emb[book][code], embeds + self.code_emb[book][code]
        return embeds + text_step, torch.stack(codes, -1)

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        hidden = Qwen2ForCausalLM.forward(self, input_ids, positions, intermediate_tensors, inputs_embeds)
        infos = kwargs.get("runtime_additional_information") or []
        none = torch.full((1, CODEBOOKS), -1)
        codes = [info.get("codes", {}).get("audio", none) for info in infos]
        return OmniOutput(hidden, {"codes": {"audio": codes}, "probe": hidden[:, :4].clone()} if infos else {})

    def postprocess(self, hidden_states, multimodal_outputs=None, **info):
        return {"hidden_states": {"last": hidden_states[-1:]}}


class BenchBatchedTalker(BenchTalker):
    """The same talker, which prepares all decode rows of a step in one call."""

    def preprocess_decode_batch(self, input_ids, req_infos):
        updates, steps = [], []
        for info in req_infos:
            decoded, text = info["meta"].get("decoded", 0), info["text"]["states"]
            steps.append(text[(info["_omni_prompt_len"] + decoded) % text.shape[0]])
            updates.append({"meta": {"decoded": decoded + 1}})
        last = torch.cat([info["hidden_states"]["last"] for info in req_infos])
        return input_ids, self.embed_input_ids(input_ids), last, torch.stack(steps), updates


def register() -> None:
    """Make them known to vLLM."""
    for model in (BenchPlain, BenchNoop, BenchTalker, BenchBatchedTalker):
        ModelRegistry.register_model(model.__name__, model)
