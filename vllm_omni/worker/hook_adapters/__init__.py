"""Adapters in the order in which they run: the model's own methods first, then what builds on them."""

from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter, ModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry

from vllm_omni.worker.hook_adapters import (  # isort: skip  (registration order)
    model_methods,
    mrope,
    qwen3_talker,
    glm_image,
    mimo_audio,
    hunyuan_vl,
)

__all__ = [
    "AdapterHost",
    "DefaultModelRunnerAdapter",
    "ModelAdapterRegistry",
    "ModelRunnerAdapter",
    "glm_image",
    "hunyuan_vl",
    "mimo_audio",
    "model_methods",
    "mrope",
    "qwen3_talker",
]
