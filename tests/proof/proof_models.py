"""Tiny models, each with the hooks and attributes that the published runners probe. Weights are seeded by name."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from proof_trace import PHASE, SEEN, record
from torch import nn
from vllm import ModelRegistry
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.dummy_loader import DummyModelLoader
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM
from vllm.v1.outputs import SamplerOutput

from vllm_omni.model_executor.models.output_templates import OmniOutput

CODEBOOKS, CODEBOOK_SIZE = 3, 16
RUNTIME_KWARGS = (
    "model_intermediate_buffer",
    "runtime_additional_information",
    "request_token_spans",
    "request_sample_eligible",
    "omni_query_start_loc",
    "sampling_extra_args",
    "seq_token_counts",
    "request_ids",
    "logits_index",
)


@register_model_loader("proof_seeded")
class SeededLoader(DummyModelLoader):
    """Random weights which depend on a parameter's name alone, so that every process has the same."""

    def load_weights(self, model: nn.Module, model_config: Any) -> None:
        for name, parameter in model.named_parameters():
            seed = int(hashlib.md5(name.encode()).hexdigest()[:8], 16)
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                if parameter.dim() < 2:
                    parameter.fill_(1.0 if "norm" in name else 0.0)
                else:
                    scale = 1.0 if "emb" in name else parameter.shape[-1] ** -0.5
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)


def runtime(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments which omni adds to a forward call, and what the sampler will know of past tokens."""
    history = getattr(kwargs.get("sampling_metadata"), "output_token_ids", None)
    return {"history": history, **{key: kwargs[key] for key in RUNTIME_KWARGS if key in kwargs}}


class TinyPlain(Qwen2ForCausalLM):
    """No hook at all."""

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        if positions.dim() == 2 and PHASE[0] != "load":
            SEEN["three position rows"] += 1
        record("forward", input_ids=input_ids, positions=positions, inputs_embeds=inputs_embeds, kwargs=runtime(kwargs))
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds)


class TinyHooks(Qwen2ForCausalLM):
    """Scalar `preprocess`, `postprocess` and multimodal outputs, phase-aware as the contract says; no talker."""

    has_preprocess = True
    has_postprocess = True
    have_multimodal_outputs = True

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        hidden = vllm_config.model_config.hf_config.hidden_size
        self.code_emb = nn.Parameter(torch.zeros(CODEBOOKS, CODEBOOK_SIZE, hidden))
        self.code_head = nn.Parameter(torch.zeros(CODEBOOKS, CODEBOOK_SIZE, hidden))

    def decode_row(self, input_ids, info):
        """The part that scalar and batched decode share: embedding, last hidden state, text step, update."""
        meta = info.get("meta", {})
        embeds = self.embed_input_ids(input_ids)
        last = info.get("hidden_states", {}).get("last")
        last = torch.zeros_like(embeds) if last is None else last.to(embeds).reshape(1, -1)
        decoded = meta.get("decoded", 0)
        text = info.get("text", {}).get("states")
        step = torch.zeros_like(embeds)
        if text is not None:
            step = text[(info["_omni_prompt_len"] + decoded) % text.shape[0]].to(embeds).reshape(1, -1)
        codes = info.get("codes", {}).get("audio")
        if codes is not None:
            SEEN["code read back"] += 1
            embeds = embeds + 0.01 * codes.to(embeds).sum()
        return embeds, last, step, {"meta": {"decoded": decoded + 1}}

    def preprocess(self, input_ids, input_embeds=None, **info):
        span, prompt_len = input_ids.shape[0], info["_omni_prompt_len"]
        computed, is_prefill = info["_omni_num_computed_tokens"], info["_omni_is_prefill"]
        # Rows without an overlay hold what the last step left in the buffer; that too must be the same.
        record("preprocess", input_ids=input_ids, input_embeds=input_embeds, info=info)
        if info.get("req_id") is not None:
            SEEN["request id attached"] += 1
        if info.get("mm_features"):
            SEEN["mm features attached"] += 1
        if info.get("cached_text") is not None:
            SEEN["cached infos merged"] += 1
        if not is_prefill and span == 1:
            SEEN["scalar decode"] += 1
            SEEN["decode hook"] += 1
            embeds, last, step, update = self.decode_row(input_ids, info)
            if getattr(self, "talker_mtp", None) is None:
                return input_ids, embeds + step, update
            return input_ids, embeds, {"mtp_inputs": (last, step), **update}
        embeds = self.embed_input_ids(input_ids)
        prompt_part = max(0, min(span, prompt_len - computed))
        if prompt_part < span:
            SEEN["recomputed past the prompt"] += 1
        text, overlay = info.get("text", {}).get("states"), info.get("overlay")
        if overlay is not None and prompt_part:
            if not torch.equal(input_embeds[:prompt_part], overlay[computed : computed + prompt_part]):
                raise AssertionError("the prompt embeddings were not laid over the buffer")
            SEEN["prompt embeds overlaid"] += 1
            embeds = torch.cat([embeds[:prompt_part] + input_embeds[:prompt_part], embeds[prompt_part:]])
        if text is not None and prompt_part:
            embeds = torch.cat([embeds[:prompt_part] + text[computed : computed + prompt_part], embeds[prompt_part:]])
        return input_ids, embeds, {"meta": {"prefilled": computed + span}, "trail": [embeds[-1:]]}

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        record("forward", input_ids=input_ids, positions=positions, inputs_embeds=inputs_embeds, kwargs=runtime(kwargs))
        hidden = self.backbone(input_ids, positions, intermediate_tensors, inputs_embeds)
        return self.envelope(hidden, kwargs.get("runtime_additional_information") or [])

    def backbone(self, input_ids, positions, intermediate_tensors, inputs_embeds):
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds)

    def envelope(self, hidden, infos):
        none = torch.full((1, CODEBOOKS), -1)
        codes = [info.get("codes", {}).get("audio", none) for info in infos]
        return OmniOutput(
            text_hidden_states=hidden, multimodal_outputs={"codes": {"audio": codes}, "probe": hidden[:, :4].clone()}
        )

    def postprocess(self, hidden_states, multimodal_outputs=None, **info):
        record("postprocess", hidden=hidden_states, outputs=multimodal_outputs, info=info)
        return {"hidden_states": {"last": hidden_states[-1:].clone()}}


class TinyTalker(TinyHooks):
    """The same with `talker_mtp`."""

    talker_mtp_output_key = ("codes", "audio")
    talker_mtp_graph_safe = False

    def talker_mtp(self, input_ids, inputs_embeds, last_talker_hidden, text_step, **kwargs):
        record(
            "talker_mtp",
            input_ids=input_ids,
            inputs_embeds=inputs_embeds,
            last=last_talker_hidden,
            text=text_step,
            kwargs=kwargs,
        )
        rows = input_ids.shape[0]
        if PHASE[0] == "dummy":
            SEEN["talker_mtp in a dummy run"] += 1
        elif PHASE[0] == "run" and rows > 1:
            SEEN["talker_mtp with several rows"] += 1
        noise = torch.zeros(rows, CODEBOOK_SIZE)
        if kwargs.get("generator") is not None:
            SEEN["talker_mtp with a generator"] += 1
            noise = torch.randn(rows, CODEBOOK_SIZE, generator=kwargs["generator"])
        for row, generator in enumerate(kwargs.get("generators") or ()):
            if generator is not None:
                SEEN["talker_mtp with a generator per row"] += 1
                noise[row] = torch.randn(CODEBOOK_SIZE, generator=generator)
        hidden, embeds, codes = last_talker_hidden + inputs_embeds, inputs_embeds, []
        for book in range(CODEBOOKS):
            code = (hidden @ self.code_head[book].T + noise).argmax(-1)
            codes.append(code)
            hidden, embeds = hidden + self.code_emb[book][code], embeds + self.code_emb[book][code]
        return embeds + text_step, torch.stack(codes, -1)


class TinyBatched(TinyTalker):
    """`preprocess_decode_batch` with MTP: five results."""

    def preprocess_decode_batch(self, *, input_ids, req_infos):
        record("preprocess_decode_batch", input_ids=input_ids, infos=req_infos)
        SEEN["decode hook"] += 1
        if len(req_infos) > 1:
            SEEN["decode batch"] += 1
        rows = [self.decode_row(input_ids[i : i + 1], info) for i, info in enumerate(req_infos)]
        embeds, last, step = (torch.cat([row[k] for row in rows]) for k in range(3))
        return input_ids + 1, embeds, last, step, [row[3] for row in rows]


class TinyBatchedNoMtp(TinyHooks):
    """`preprocess_decode_batch` without MTP: three results."""

    def preprocess_decode_batch(self, *, input_ids, req_infos):
        record("preprocess_decode_batch", input_ids=input_ids, infos=req_infos)
        SEEN["decode hook"] += 1
        rows = [self.decode_row(input_ids[i : i + 1], info) for i, info in enumerate(req_infos)]
        return input_ids.clone() + 1, torch.cat([row[0] + row[2] for row in rows]), [row[3] for row in rows]


class TinyNoPost(TinyTalker):
    """MTP without a postprocess hook, and hidden states left out of the payload."""

    has_postprocess = False
    omni_pooler_payload_include_hidden = False


class MiMoAudioForConditionalGeneration(TinyHooks):
    """Ours; the published runners test this class's name."""


class TinyMRope(TinyTalker):
    """Three rows of positions that aren't linear, for the prompt and, computed beforehand, for the decode part."""

    supports_mrope = True
    precomputed_mrope_decode = True

    def get_mrope_input_positions(
        self,
        input_tokens,
        mm_features=None,
        image_grid_thw=None,
        video_grid_thw=None,
        second_per_grid_ts=None,
        use_audio_in_video=False,
        target_h=None,
        target_w=None,
    ):
        record(
            "mrope positions asked",
            tokens=input_tokens,
            features=mm_features,
            images=image_grid_thw,
            videos=video_grid_thw,
            seconds=second_per_grid_ts,
            audio_in_video=use_audio_in_video,
            target=[target_h, target_w],
        )
        n = len(input_tokens)
        i = torch.arange(n + 30)
        return torch.stack([i, i // 2, i % 5 + 2 * (i >= n)]), 3

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        if positions.dim() == 2 and bool((positions[0] != positions[2]).any()) and PHASE[0] == "run":
            SEEN["precomputed positions used"] += 1
        return super().forward(input_ids, positions, intermediate_tensors, inputs_embeds, **kwargs)


class TinyMRopeLinear(TinyTalker):
    """M-RoPE with every keyword accepted and linear decode positions."""

    supports_mrope = True

    def get_mrope_input_positions(self, input_tokens, **kwargs):
        record("mrope positions asked", tokens=input_tokens, kwargs=kwargs)
        i = torch.arange(len(input_tokens))
        return torch.stack([i, i // 2, i // 3]), 1


class TinyXDRope(TinyTalker):
    """Four rows of positions, asked for as XD-RoPE or, by a later vLLM, as M-RoPE; the backbone takes the first."""

    supports_xdrope = True
    supports_mrope = True

    def get_xdrope_input_positions(self, input_tokens, mm_features=None):
        record("xdrope positions asked", tokens=input_tokens, features=mm_features)
        i = torch.arange(len(input_tokens))
        return torch.stack([i, i // 2, i // 3, i % 4])

    def get_mrope_input_positions(self, input_tokens, mm_features=None):
        return self.get_xdrope_input_positions(input_tokens, mm_features), 0

    def backbone(self, input_ids, positions, intermediate_tensors, inputs_embeds):
        return super().backbone(input_ids, positions[0].contiguous(), intermediate_tensors, inputs_embeds)


class TinyResident(TinyBatched):
    """Codes and the last hidden state stay on the device."""

    gpu_resident_buffer_keys = {("codes", "audio"), ("hidden_states", "last")}
    talker_mtp_validity_key = ("meta", "codes_valid")


class TinyPerRow(TinyTalker):
    """Takes one generator per row of an MTP batch, and the request infos."""

    talker_mtp_accepts_per_row_generators = True
    talker_mtp_accepts_req_infos = True


class TinySeparateTalker(TinyTalker):
    """MTP under another key, of another width's name, with a `talker` of its own: the dummy run calls it then."""

    talker_mtp_output_key = ("audio_codes", "current")
    talker_mtp_graph_safe = None

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        self.talker = nn.Identity()
        self.mtp_hidden_size = vllm_config.model_config.hf_config.hidden_size


class TinyGraphSafe(TinyBatched):
    """MTP that says it may be captured."""

    talker_mtp_graph_safe = True


class TinyEveryProbe(TinyTalker):
    """Every other attribute that a runner looks for on a model."""

    supports_omni_query_start_loc = True
    supports_omni_decode_step_metadata = True
    requires_request_sample_eligibility = True
    logitsprocs_need_output_token_ids = True
    postprocess_uses_multimodal_outputs = False
    enable_update_additional_information = True
    supports_sampled_token_ids_cpu_override = True

    def consume_sampled_token_ids_cpu_override(self, sampled_token_ids):
        record("consume_sampled_token_ids_cpu_override", sampled=sampled_token_ids)

    def preprocess_batch(self, **kwargs):
        record("preprocess_batch", **kwargs)

    def update_decode_step_metadata(self, **kwargs):
        record("update_decode_step_metadata", **kwargs)

    def prepare_runner_inputs(self, *, input_ids, positions, **kwargs):
        record("prepare_runner_inputs", input_ids=input_ids, positions=positions, **kwargs)
        return input_ids, positions

    def get_kv_transfer_metadata(self, req_id, num_computed_tokens=None):
        record("get_kv_transfer_metadata", req_id=req_id, computed=num_computed_tokens)
        return {"computed": num_computed_tokens} if num_computed_tokens % 2 else None

    def flush_pending_metadata(self, req_ids):
        record("flush_pending_metadata", req_ids=req_ids)

    def set_batch_req_ids(self, req_ids):
        record("set_batch_req_ids", req_ids=req_ids)

    def on_requests_finished(self, finished):
        record("on_requests_finished", finished=set(finished))

    def _clear_warmup_state(self):
        record("_clear_warmup_state")

    def get_runner_assisted_full_attention_metadata_request(self, **kwargs):
        record("get_runner_assisted_full_attention_metadata_request", **kwargs)

    def envelope(self, hidden, infos):
        return hidden if infos or PHASE[0] == "run" else super().envelope(hidden, infos)

    def make_omni_output(self, hidden, **kwargs):
        record("make_omni_output", hidden=hidden, kwargs=runtime(kwargs))
        return super().envelope(hidden, kwargs.get("runtime_additional_information") or [])


class TinyReplace(TinyTalker):
    """Each new payload replaces the request's info; postprocess sees neither hidden states nor infos; MTP is None."""

    talker_mtp = None
    replace_runtime_additional_information = True
    postprocess_uses_hidden_states = False
    postprocess_uses_req_infos = False

    def postprocess(self, hidden_states, multimodal_outputs=None, **info):
        record("postprocess", hidden=hidden_states, outputs=multimodal_outputs, info=info)
        return {"hidden_states": {"last": hidden_states[:1].clone()}}


class TinySampler(TinyTalker):
    """Prefers its own sampler, and declines every third call."""

    prefer_model_sampler = True
    model_sampler_wants_extra_args = True

    def sample(self, logits, sampling_metadata, per_req_extra_args=None):
        record("model sampler", logits=logits, history=sampling_metadata.output_token_ids)
        if SEEN["model sampler"] % 3 == 0:
            return None
        history = [len(row) for row in sampling_metadata.output_token_ids] or [0] * logits.shape[0]
        shift = torch.tensor(history).reshape(-1, 1)
        sampled = (logits.argmax(-1, keepdim=True) + shift) % logits.shape[-1]
        return SamplerOutput(sampled_token_ids=sampled.to(torch.int32), logprobs_tensors=None)


class TinyDuplexSampler(TinySampler):
    """Prepares its sampler for requests of a duplex data plane."""

    def prepare_duplex_sampling(self, logits, sampling_metadata, rows):
        record("prepare_duplex_sampling", logits=logits, rows=[repr(row) for row in rows])
        for row in rows:
            logits[row.row_idx, 7:11] += 100.0


class TinyPostSample(TinyHooks):
    """Makes its codes after sampling, for requests of a duplex data plane."""

    def post_sample_talker_mtp(self, *, input_ids, hidden_states, req_ids, req_infos):
        record("post_sample_talker_mtp", input_ids=input_ids, hidden=hidden_states, req_ids=req_ids, infos=req_infos)
        codes = [(hidden_states @ self.code_head[book].T).argmax(-1) for book in range(CODEBOOKS)]
        return torch.stack(codes, -1) + input_ids.reshape(-1, 1) % 2


class TinyCode2Wav(nn.Module):
    """A generation stage: no attention, no sampling; a waveform per request."""

    have_multimodal_outputs = True
    enable_update_additional_information = True

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.emb = nn.Parameter(torch.zeros(config.vocab_size, config.hidden_size))

    def embed_input_ids(self, input_ids):
        return self.emb[input_ids]

    def compute_logits(self, hidden_states):
        raise AssertionError("a generation stage has no logits")

    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None, **kwargs):
        record("forward", input_ids=input_ids, positions=positions, inputs_embeds=inputs_embeds, kwargs=runtime(kwargs))
        wave = (self.emb[input_ids] if inputs_embeds is None else inputs_embeds).cumsum(-1).tanh()
        counts = kwargs.get("seq_token_counts") or [wave.shape[0]]
        infos = kwargs.get("runtime_additional_information") or [{}] * len(counts)
        if any("cached_text" in info for info in infos):
            SEEN["cached infos merged"] += 1
        waves = [part.flatten() for part in wave[: sum(counts)].split(counts)]
        if PHASE[0] == "run":
            SEEN["generated"] += 1
        return OmniOutput(text_hidden_states=wave, multimodal_outputs=self.shape(waves))

    def shape(self, waves):
        raise AssertionError("abstract")


class TinyCode2WavTensor(TinyCode2Wav):
    def shape(self, waves):
        return torch.stack([wave.sum() for wave in waves])


class TinyCode2WavList(TinyCode2Wav):
    def shape(self, waves):
        return waves


class TinyCode2WavDict(TinyCode2Wav):
    def shape(self, waves):
        return {"audio": waves, "sr": torch.tensor([24000])}


class TinyCode2WavMRope(TinyCode2WavDict):
    """A generation stage that takes M-RoPE positions."""

    supports_mrope = True

    def get_mrope_input_positions(self, input_tokens, mm_features=None, image_grid_thw=None):
        record("mrope positions asked", tokens=input_tokens, features=mm_features, images=image_grid_thw)
        i = torch.arange(len(input_tokens))
        return torch.stack([i, i // 2, i // 3]), 1


class TinyCode2WavHooks(TinyCode2WavDict):
    """A generation stage with a preprocess hook, dummy infos and the request ids."""

    has_preprocess = True
    requires_request_ids = True
    requires_exact_input_shape = True

    def preprocess(self, input_ids, input_embeds=None, **info):
        record("preprocess", input_ids=input_ids, input_embeds=input_embeds, info=info)
        return input_ids, self.emb[input_ids] + 1.0, {"meta": {"seen": info["_omni_num_computed_tokens"]}}

    def get_dummy_runtime_additional_information(self, num_reqs):
        record("get_dummy_runtime_additional_information", num_reqs=num_reqs)
        return [{"dummy": True}] * num_reqs

    def on_requests_finished(self, finished):
        record("on_requests_finished", finished=set(finished))


MODELS = (
    TinyPlain,
    TinyHooks,
    TinyTalker,
    TinyBatched,
    TinyBatchedNoMtp,
    TinyNoPost,
    MiMoAudioForConditionalGeneration,
    TinyMRope,
    TinyMRopeLinear,
    TinyXDRope,
    TinyResident,
    TinyPerRow,
    TinySeparateTalker,
    TinyGraphSafe,
    TinyEveryProbe,
    TinyReplace,
    TinySampler,
    TinyDuplexSampler,
    TinyPostSample,
    TinyCode2WavTensor,
    TinyCode2WavList,
    TinyCode2WavDict,
    TinyCode2WavMRope,
    TinyCode2WavHooks,
)


def register() -> None:
    """Make the tiny models known to vLLM by their class names."""
    for model in MODELS:
        ModelRegistry.register_model(model.__name__, model)
