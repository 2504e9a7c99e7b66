"""HunYuan-VL: rotary positions of four dimensions (XD-RoPE), which vLLM itself computes up to 0.29."""

from __future__ import annotations

from typing import Any

from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry


@ModelAdapterRegistry.register("HunYuanVLForConditionalGeneration")
class HunYuanVLAdapter(DefaultModelRunnerAdapter):
    """Says so where vLLM no longer has XD-RoPE (from 0.30): there such a model runs on its M-RoPE positions."""

    requires = ("get_xdrope_input_positions",)

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        if runner.traits.asks_xdrope and not runner.stage.has_xdrope:
            runner.warn_once(
                f"{type(model).__name__} asks for XD-RoPE, which this vLLM does not have; its M-RoPE positions are used"
            )
