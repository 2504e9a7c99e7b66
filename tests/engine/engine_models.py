"""Tiny models of ours, one for each behaviour of the runners. Their weights depend on the parameters' names alone."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from engine_trace import record, see
from torch import nn
from vllm import ModelRegistry
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.dummy_loader import DummyModelLoader
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM

from vllm_omni.model_executor.models.output_templates import OmniOutput

CODEBOOKS, CODEBOOK_SIZE = 3, 16
FAULT: list[str] = []
"""Faults that the faulty models commit, by name; a scenario sets them."""


@register_model_loader("tiny_seeded")
class SeededLoader(DummyModelLoader):
    """The same random weights in every process."""

    def load_weights(self, model: nn.Module, model_config: Any) -> None:
        for name, parameter in model.named_parameters():
            generator = torch.Generator().manual_seed(int(hashlib.md5(name.encode()).hexdigest()[:8], 16))
            with torch.no_grad():
                if parameter.dim() < 2:
                    parameter.fill_(1.0 if "norm" in name else 0.0)
                else:
                    scale = 1.0 if "emb" in name else parameter.shape[-1] ** -0.5
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def who(info: dict[str, Any]) -> str:
    """The request's id as the runner tells it; the published V2 runner calls it `req_id`."""
    return info.get("request_id") or info.get("req_id", "")


class TinyPlain(Qwen2ForCausalLM):
    """A text model without any method of omni's."""


class TinyNoop(Qwen2ForCausalLM):
    """None either, but a forward that takes the runner's keyword arguments."""

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        see("runner kwargs", "request_token_spans" in kwargs)
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds)


class TinyThinker(Qwen2ForCausalLM):
    """An autoregressive stage with multimodal output and no method: per token, per request, shared, nested."""

    have_multimodal_outputs = True

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        hidden = super().forward(input_ids, positions, intermediate_tensors, inputs_embeds)
        spans = kwargs.get("request_token_spans", [])
        last = [hidden[end - 1 : end, :3].clone() for _, end in spans]
        outputs = {"probe": hidden[:, :4].clone(), "last": {"state": last}, "rate": torch.tensor([24000]), "unit": "x"}
        return OmniOutput(text_hidden_states=hidden, multimodal_outputs=outputs)


class TinyTalker(Qwen2ForCausalLM):
    """preprocess, MTP, postprocess and multimodal output, phase-aware as the contract says."""

    has_preprocess = True
    has_postprocess = True
    have_multimodal_outputs = True
    talker_mtp_output_key = ("codes", "audio")
    talker_mtp_graph_safe = False

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        hidden = vllm_config.model_config.hf_config.hidden_size
        self.code_emb = nn.Parameter(torch.zeros(CODEBOOKS, CODEBOOK_SIZE, hidden))
        self.code_head = nn.Parameter(torch.zeros(CODEBOOKS, CODEBOOK_SIZE, hidden))

    def decode_row(self, input_ids, info):
        """Embedding, last hidden state, text step and update of one decode row."""
        meta = info.get("meta", {})
        if meta.get("prefilled", 0) < info["_omni_prompt_len"]:
            raise AssertionError(f"decoded before the prompt was prepared: {meta}")
        decoded = meta.get("decoded", 0)
        embeds = self.embed_input_ids(input_ids)
        last = info["hidden_states"]["last"].to(embeds).reshape(1, -1)
        text = info.get("text", {}).get("states")
        step = torch.zeros_like(embeds)
        if text is not None:
            step = text[(info["_omni_prompt_len"] + decoded) % text.shape[0]].to(embeds).reshape(1, -1)
        if (codes := info.get("codes", {}).get("audio")) is not None:
            see("code read back")
            embeds = embeds + 0.01 * codes.to(embeds).sum()
        return embeds, last, step, {"meta": {"decoded": decoded + 1}}

    def preprocess(self, input_ids, input_embeds=None, **info):
        span, prompt_len = input_ids.shape[0], info["_omni_prompt_len"]
        computed, is_prefill = info["_omni_num_computed_tokens"], info["_omni_is_prefill"]
        if is_prefill != (computed < prompt_len):
            raise AssertionError("the phase key is not what the contract says")
        overlay = input_embeds if is_prefill and info.get("overlaid") else None
        meta = info.get("meta", {})
        record(who(info), "preprocess", computed, prompt_len, is_prefill, span, input_ids, overlay, meta)
        if not is_prefill and span == 1:
            see("scalar decode")
            embeds, last, step, update = self.decode_row(input_ids, info)
            if getattr(self, "talker_mtp", None) is None:
                return input_ids, embeds + step, update
            return input_ids, embeds, {"mtp_inputs": (last, step), **update}
        if computed + span > prompt_len:
            raise AssertionError("prefill and decode positions in one span")
        embeds = self.embed_input_ids(input_ids)
        if overlay is not None:
            see("prompt embeds overlaid")
            embeds = embeds + overlay
        if (text := info.get("text", {}).get("states")) is not None:
            embeds = embeds + text[computed : computed + span]
        return input_ids, embeds, {"meta": {"prefilled": computed + span, "decoded": 0}}

    def talker_mtp(self, input_ids, inputs_embeds, last_talker_hidden, text_step, **kwargs):
        see("mtp"), see("mtp with several rows", input_ids.shape[0] > 1), see("mtp rows", input_ids.shape[0])
        noise = torch.zeros(input_ids.shape[0], CODEBOOK_SIZE)
        if (generator := kwargs.get("generator")) is not None:
            see("mtp with a generator")
            noise = torch.randn(input_ids.shape[0], CODEBOOK_SIZE, generator=generator)
        for row, generator in enumerate(kwargs.get("generators") or ()):
            if generator is not None:
                see("mtp with a generator per row")
                noise[row] = torch.randn(CODEBOOK_SIZE, generator=generator)
        hidden, embeds, codes = last_talker_hidden + inputs_embeds, inputs_embeds, []
        for book in range(CODEBOOKS):
            code = ((hidden @ self.code_head[book].T) + noise).argmax(-1)
            codes.append(code)
            hidden, embeds = hidden + self.code_emb[book][code], embeds + self.code_emb[book][code]
        return embeds + text_step, torch.stack(codes, -1)

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        if positions.dim() == 2:
            see("positions off the line", bool((positions[0] != positions[2]).any()))
        hidden = super().forward(input_ids, positions, intermediate_tensors, inputs_embeds)
        infos = kwargs.get("runtime_additional_information") or []
        spans = kwargs.get("request_token_spans") or [(0, 0)] * len(infos)  # the published V2 runner gives none
        for (start, end), info in zip(spans, infos, strict=True):
            if info:
                record(
                    who(info),
                    "fed",
                    inputs_embeds[start:end],
                    input_ids[start:end],
                    info.get("generated_len"),
                )
        none = torch.full((1, CODEBOOKS), -1)
        codes = [info.get("codes", {}).get("audio", none) for info in infos]
        outputs = {"codes": {"audio": codes}, "probe": hidden[:, :4].clone()} if infos else {}
        return OmniOutput(text_hidden_states=hidden, multimodal_outputs=outputs)

    def postprocess(self, hidden_states, multimodal_outputs=None, **info):
        record(who(info), "postprocess", hidden_states.shape[0], sorted(multimodal_outputs or ()))
        return {"hidden_states": {"last": hidden_states[-1:].clone()}}


class TinyAlias(TinyTalker):
    """The same talker under the name that the published V2 runner wants, and a plain string as the codes' key."""

    talker_mtp = None
    talker_mtp_output_key = None
    mtp_output_key = "code_predictor_codes"

    def mtp(self, *args, **kwargs):
        return TinyTalker.talker_mtp(self, *args, **kwargs)

    def preprocess(self, input_ids, input_embeds=None, **info):
        span = input_ids.shape[0]
        if not info["_omni_is_prefill"] and span == 1:
            embeds, last, step, update = self.decode_row(input_ids, info)
            return input_ids, embeds, {"mtp_inputs": (last, step), **update}
        return super().preprocess(input_ids, input_embeds, **info)

    def forward(self, *args, **kwargs):
        for info in kwargs.get("runtime_additional_information") or []:
            if "code_predictor_codes" in info:
                info.setdefault("codes", {})["audio"] = info["code_predictor_codes"]
        return super().forward(*args, **kwargs)


class TinyBatched(TinyTalker):
    """preprocess_decode_batch with MTP: five results."""

    def preprocess_decode_batch(self, *, input_ids, req_infos):
        see("decode batch", len(req_infos) > 1)
        rows = []
        for i, info in enumerate(req_infos):
            if info["_omni_is_prefill"]:
                raise AssertionError("a prefill row in the decode batch")
            record(who(info), "preprocess_decode_batch", info["_omni_num_computed_tokens"], input_ids[i])
            rows.append(self.decode_row(input_ids[i : i + 1], info))
        embeds, last, step = (torch.cat([row[k] for row in rows]) for k in range(3))
        return input_ids + 1, embeds, last, step, [row[3] for row in rows]


class TinyBatchedNoMtp(TinyBatched):
    """preprocess_decode_batch without MTP: three results."""

    talker_mtp = None

    def preprocess_decode_batch(self, *, input_ids, req_infos):
        ids, embeds, _, step, updates = super().preprocess_decode_batch(input_ids=input_ids, req_infos=req_infos)
        return ids, embeds + step, updates


class TinyResident(TinyBatched):
    """Codes and the last hidden state stay on the device."""

    gpu_resident_buffer_keys = {("codes", "audio"), ("hidden_states", "last")}


class TinyPerRow(TinyTalker):
    """Takes one generator per row of an MTP batch."""

    talker_mtp_accepts_per_row_generators = True


class TinyMakeOutput(TinyTalker):
    """Returns plain hidden states; `make_omni_output` makes the rest of them."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        return output.text_hidden_states

    def make_omni_output(self, hidden, **kwargs):
        infos, spans = kwargs["runtime_additional_information"], kwargs["request_token_spans"]
        see("make_omni_output")
        ends = [hidden[end - 1 : end, :2].clone() for _, end in spans]
        none = torch.full((1, CODEBOOKS), -1)
        codes = [info.get("codes", {}).get("audio", none) for info in infos]
        return OmniOutput(text_hidden_states=hidden, multimodal_outputs={"ends": ends, "codes": {"audio": codes}})


class TinyMRope(TinyTalker):
    """Rotary positions off the line: for the prompt, and computed beforehand for the decode part."""

    supports_mrope = True
    precomputed_mrope_decode = True
    beyond = 30

    def get_mrope_input_positions(
        self, input_tokens, mm_features=None, image_grid_thw=None, second_per_grid_ts=None, target_h=None
    ):
        record("-", "positions", len(input_tokens), image_grid_thw, second_per_grid_ts, target_h)
        see("grid metadata", bool(image_grid_thw)), see("target size", target_h is not None)
        n = len(input_tokens)
        i = torch.arange(n + self.beyond)
        shift = sum(sum(grid) for grid in image_grid_thw or [])
        return torch.stack([i, i // 2 + shift % 3, i % 5 + 2 * (i >= n)]), 3


class TinyMRopeLinear(TinyTalker):
    """M-RoPE that takes any keyword and goes on along the line."""

    supports_mrope = True

    def get_mrope_input_positions(self, input_tokens, **kwargs):
        record("-", "positions", len(input_tokens), sorted(kwargs), kwargs.get("use_audio_in_video"))
        see("grid metadata", bool(kwargs.get("image_grid_thw")))
        i = torch.arange(len(input_tokens))
        return torch.stack([i, i // 2, i // 3]), 1


class TinyXDRope(TinyTalker):
    """Asks for XD-RoPE; a vLLM without it takes its M-RoPE positions."""

    supports_mrope = True

    def get_xdrope_input_positions(self, input_tokens, mm_features=None):
        raise AssertionError("this vLLM has no XD-RoPE for a model of three rotary sections")

    def get_mrope_input_positions(self, input_tokens, mm_features=None):
        i = torch.arange(len(input_tokens))
        return torch.stack([i, i // 2, i // 3]), 1


class TinyXDRopeFour(TinyTalker):
    """XD-RoPE of four dimensions, which vLLM computes up to 0.29."""

    supports_xdrope = True

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        for layer in self.model.layers:
            rotary = layer.self_attn.rotary_emb
            rotary._forward_method = rotary.forward_native  # the CPU kernel reads one row of positions, and crashes

    def get_xdrope_input_positions(self, input_tokens, mm_features=None):
        record("-", "positions", len(input_tokens))
        i = torch.arange(len(input_tokens))
        return torch.stack([i, i // 2, i // 3, i // 5])

    def forward(self, input_ids, positions, *args, **kwargs):
        see("four positions", positions.dim() == 2 and positions.shape[0] == 4)
        return super().forward(input_ids, positions, *args, **kwargs)


class MiMoAudioForConditionalGeneration(TinyTalker):
    """Ours, under the name that the registry knows: its `preprocess` wants the request's id and features."""

    talker_mtp = None

    def preprocess(self, input_ids, input_embeds=None, **info):
        see("request id attached", info.get("req_id") == info["request_id"])
        see("features attached", bool(info.get("mm_features")))
        return super().preprocess(input_ids, input_embeds, **info)


class TinyFinished(TinyTalker):
    """Hears of finished requests, and gets ids, boundaries and eligibility."""

    requires_request_ids = True
    supports_omni_query_start_loc = True
    requires_request_sample_eligibility = True

    def on_requests_finished(self, finished):
        see("on_requests_finished")

    def preprocess_batch(self, *, req_ids, model_intermediate_buffer, device):
        see("preprocess_batch", set(req_ids) == set(model_intermediate_buffer))

    def forward(self, *args, **kwargs):
        if "request_ids" in kwargs:
            eligible, starts = kwargs["request_sample_eligible"], kwargs["omni_query_start_loc"].tolist()
            spans = kwargs["request_token_spans"]
            see("boundaries", starts == [0, *(end for _, end in spans)])
            for req_id, may_sample in zip(kwargs["request_ids"], eligible, strict=True):
                record(req_id, "eligible", may_sample)
        return super().forward(*args, **kwargs)


class TinyDrafted(TinyTalker):
    """Decodes spans of several tokens, which speculative decoding makes; the next position is all it goes by."""

    def preprocess(self, input_ids, input_embeds=None, **info):
        if info["_omni_is_prefill"]:
            return super().preprocess(input_ids, input_embeds, **info)
        span, computed, prompt_len = input_ids.shape[0], info["_omni_num_computed_tokens"], info["_omni_prompt_len"]
        see("decode span of several", span > 1)
        record(who(info), "preprocess", computed, prompt_len, False, span)
        embeds = self.embed_input_ids(input_ids)
        return input_ids, embeds, {"mtp_inputs": (embeds * 0, embeds * 0)} if span == 1 else {}

    def talker_mtp(self, input_ids, inputs_embeds, last_talker_hidden, text_step, **kwargs):
        _, codes = super().talker_mtp(input_ids, inputs_embeds, last_talker_hidden, text_step, **kwargs)
        return inputs_embeds, codes


class TinyFaulty(TinyTalker):
    """Commits the faults that a scenario asks for, at request 1's third decode step."""

    def preprocess(self, input_ids, input_embeds=None, **info):
        ids, embeds, update = super().preprocess(input_ids, input_embeds, **info)
        if FAULT and who(info).startswith("1") and info.get("meta", {}).get("decoded", 0) == 2:
            fault = FAULT[0]
            if fault == "raises":
                raise RuntimeError("out of patience")
            if fault == "no mtp_inputs":
                update.pop("mtp_inputs")
            if fault == "arity":
                return ids, embeds
            if fault == "shape":
                return ids, embeds[:, :-1], update
        return ids, embeds, update

    def postprocess(self, hidden_states, multimodal_outputs=None, **info):
        if FAULT and FAULT[0] == "postprocess" and who(info).startswith("1"):
            raise RuntimeError("no afterthought")
        return super().postprocess(hidden_states, multimodal_outputs, **info)

    def talker_mtp(self, *args, **kwargs):
        embeds, codes = super().talker_mtp(*args, **kwargs)
        return (embeds[:0], codes) if FAULT and FAULT[0] == "mtp rows" else (embeds, codes)


class TinyRagged(TinyThinker):
    """A list with fewer entries than the batch has requests."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        if FAULT and len(kwargs.get("request_token_spans", ())) > 1:
            output.multimodal_outputs["last"]["state"].pop()
        return output


class TinyCode2Wav(nn.Module):
    """A generation stage: no attention, no sampling; the output is a waveform per request."""

    have_multimodal_outputs = True

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.emb = nn.Parameter(torch.zeros(vllm_config.model_config.hf_config.vocab_size, 8))

    def embed_input_ids(self, input_ids):
        return self.emb[input_ids]

    def compute_logits(self, hidden_states, sampling_metadata=None):
        raise AssertionError("a generation stage has no logits")

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        wave = (self.emb[input_ids] if inputs_embeds is None else inputs_embeds[:, :8]).cumsum(-1).tanh()
        counts = kwargs.get("seq_token_counts") or [wave.shape[0]]
        waves = [part.flatten() for part in wave[: sum(counts)].split(counts)]
        see("generated", len(waves))
        return OmniOutput(text_hidden_states=None, multimodal_outputs=self.shape(waves))

    def shape(self, waves):
        return {"audio": waves, "rate": torch.tensor([24000])}


class TinyCode2WavTensor(TinyCode2Wav):
    def shape(self, waves):
        return torch.stack([wave.sum() for wave in waves])


class TinyCode2WavList(TinyCode2Wav):
    def shape(self, waves):
        return waves


class TinyCode2WavHooks(TinyCode2Wav):
    """A generation stage with `preprocess` and the requests' ids."""

    has_preprocess = True
    requires_request_ids = True

    def preprocess(self, input_ids, input_embeds=None, **info):
        record(who(info), "preprocess", info["_omni_num_computed_tokens"], info["_omni_is_prefill"])
        embeds = nn.functional.pad(self.emb[input_ids] * 2.0, (0, input_embeds.shape[1] - 8))
        return input_ids, embeds, {"meta": {"seen": info["_omni_num_computed_tokens"]}}


class Guesses:
    """Drafts for speculative decoding: after an odd token that token twice, which is hardly ever right."""

    def __init__(self, vllm_config):
        pass

    def load_model(self, model):
        """There is none."""

    def propose(self, sampled_token_ids, *args, **kwargs):
        see("guessed", len(sampled_token_ids))
        return [[tokens[-1]] * 2 if tokens and tokens[-1] % 2 else [] for tokens in sampled_token_ids]


MODELS = (
    TinyPlain,
    TinyNoop,
    TinyThinker,
    TinyTalker,
    TinyAlias,
    TinyBatched,
    TinyBatchedNoMtp,
    TinyResident,
    TinyPerRow,
    TinyMakeOutput,
    TinyMRope,
    TinyMRopeLinear,
    TinyXDRope,
    TinyXDRopeFour,
    MiMoAudioForConditionalGeneration,
    TinyFinished,
    TinyDrafted,
    TinyFaulty,
    TinyRagged,
    TinyCode2Wav,
    TinyCode2WavTensor,
    TinyCode2WavList,
    TinyCode2WavHooks,
)


def name_as_published_v2() -> None:
    """Give the talkers the names that the published V2 runner looks for."""
    TinyTalker.mtp, TinyTalker.mtp_output_key = TinyTalker.talker_mtp, TinyTalker.talker_mtp_output_key


def register() -> None:
    """Make the tiny models known to vLLM by their class names."""
    from engine_vision import TinySeeingTalker, TinySeeingThinker

    for model in (*MODELS, TinySeeingThinker, TinySeeingTalker):
        ModelRegistry.register_model(model.__name__, model)
