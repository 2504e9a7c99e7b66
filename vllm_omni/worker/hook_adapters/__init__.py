"""Adapters in the order in which they run: the model's own hooks first, then what builds on them."""

from vllm_omni.worker.hook_adapters.base import DefaultModelRunnerAdapter, ModelHookError, ModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry

from vllm_omni.worker.hook_adapters import (  # isort: skip  (registration order)
    model_hooks,
    mrope,
    qwen3_talker,
    glm_image,
    mimo_audio,
    hunyuan_vl,
)

__all__ = [
    "DefaultModelRunnerAdapter",
    "ModelAdapterRegistry",
    "ModelHookError",
    "ModelRunnerAdapter",
    "glm_image",
    "hunyuan_vl",
    "mimo_audio",
    "model_hooks",
    "mrope",
    "qwen3_talker",
]
