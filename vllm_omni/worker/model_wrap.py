"""The methods of the model instance that are replaced when it is loaded; vLLM calls them in its own step."""

from __future__ import annotations

from typing import Any

from vllm_omni.worker.step_inputs import StepInputs
from vllm_omni.worker.step_outputs import StepOutputs

NARROW_VOCABULARY = 8
"""Width of the zero logits of a generation stage; its sampler picks a token that nobody reads."""


def wrap_model(inputs: StepInputs, outputs: StepOutputs) -> None:
    """Give the model's forward plain hidden states to return, which vLLM's runners expect."""
    host = inputs.host
    stage, model, has_preprocess = host.stage, host.stage.model, host.traits.has_preprocess
    inner = model.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        ids = kwargs.get("input_ids")
        if has_preprocess and ids is not None and kwargs.get("inputs_embeds") is None:
            kwargs["inputs_embeds"] = stage.embeds_buffer[: ids.shape[0]]  # dummy runs and captures
        if stage.generation and not host.rows:
            kwargs.update(inputs.dummy_kwargs(kwargs.get("positions")))
        return outputs.split_output(inner(*args, **kwargs), kwargs)

    model.forward = forward
    if stage.generation:
        model.compute_logits = lambda hidden, *args, **kwargs: hidden.new_zeros(hidden.shape[0], NARROW_VOCABULARY)
