"""Tiny models that take images: a processor that needs no tokenizer, an encoder, and vLLM's own multimodal path."""

from __future__ import annotations

import hashlib

import torch
from engine_models import TinyTalker, TinyThinker
from engine_trace import see
from torch import nn
from transformers import BatchFeature
from vllm.inputs import mm_input
from vllm.model_executor.models.interfaces import SupportsMultiModal
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalKwargsItems, PlaceholderRange
from vllm.multimodal.processing import BaseDummyInputsBuilder, BaseMultiModalProcessor, BaseProcessingInfo

IMAGE_TOKEN, CHANNELS, WIDTH = 511, 3, 8
"""An image `[CHANNELS, rows, WIDTH]` stands in the prompt as one token, and becomes one per row."""


class Info(BaseProcessingInfo):
    def get_supported_mm_limits(self):
        return {"image": None}

    def get_mm_max_tokens_per_item(self, seq_len, mm_counts):
        return {"image": 16}


class Dummies(BaseDummyInputsBuilder):
    def get_dummy_text(self, mm_counts):
        return ""

    def get_dummy_mm_data(self, seq_len, mm_counts, mm_options):
        return {"image": [torch.zeros(CHANNELS, 16, WIDTH)] * mm_counts.get("image", 0)}


class Processor(BaseMultiModalProcessor):
    requires_tokenizer = False

    def _get_mm_fields_config(self, hf_inputs, hf_processor_mm_kwargs):
        return {"pixels": MultiModalFieldConfig.batched("image")}

    def _get_prompt_updates(self, mm_items, hf_processor_mm_kwargs, out_mm_kwargs):
        return []

    def apply(self, inputs, timing_ctx):
        images = list(inputs.mm_data_items["image"]) if "image" in inputs.mm_data_items else []
        left, ids, ranges = iter(images), [], []
        for token in inputs.prompt:
            if token == IMAGE_TOKEN:
                rows = next(left).shape[1]
                ranges.append(PlaceholderRange(offset=len(ids), length=rows))
                ids += [IMAGE_TOKEN] * rows
            else:
                ids.append(token)
        data = BatchFeature({"pixels": images})
        kwargs = MultiModalKwargsItems.from_hf_inputs(data, self._get_mm_fields_config(data, {}))
        hashes = [hashlib.sha1(image.numpy().tobytes()).hexdigest() for image in images]
        return mm_input(
            prompt_token_ids=ids, mm_kwargs=kwargs, mm_hashes={"image": hashes}, mm_placeholders={"image": ranges}
        )


class Sees:
    """Over a tiny model: the encoder, and embeddings in which its results take the place of image tokens."""

    def __init__(self, *, vllm_config, prefix=""):
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        hidden = vllm_config.model_config.hf_config.hidden_size
        self.encoder_emb = nn.Parameter(torch.zeros(CHANNELS * WIDTH, hidden))

    def get_language_model(self):
        return self

    def embed_multimodal(self, pixels=(), **kwargs):
        see("encoded", len(pixels))
        return [(image.permute(1, 0, 2).flatten(1).to(self.encoder_emb) @ self.encoder_emb).tanh() for image in pixels]

    def embed_input_ids(self, input_ids, multimodal_embeddings=None, *, is_multimodal=None, **kwargs):
        embeds = super().embed_input_ids(input_ids)
        if multimodal_embeddings is not None and len(multimodal_embeddings):
            see("images embedded")
            embeds[is_multimodal] = torch.cat(list(multimodal_embeddings)).to(embeds)
        return embeds


registered = MULTIMODAL_REGISTRY.register_processor(Processor, info=Info, dummy_inputs=Dummies)


@registered
class TinySeeingThinker(Sees, TinyThinker, SupportsMultiModal):
    """No method before the forward: what vLLM embeds is what is fed."""


@registered
class TinySeeingTalker(Sees, TinyTalker, SupportsMultiModal):
    """A talker whose `preprocess` builds on the embeddings that vLLM made of the images."""
