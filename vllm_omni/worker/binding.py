"""The names and types of the package that these modules live in: the one seam to it.

`port-v2` copies the modules beside this one into another tree as they are, and writes that tree's own binding.
vLLM is imported where it is needed, so that the modules can be read and tested without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from vllm_omni.engine.payloads import (
    EXTRA_ARGS_KEY,
    deserialize_additional_information,
    deserialize_prompt_embeds,
)
from vllm_omni.model_executor.models.output_templates import OmniOutput
from vllm_omni.worker.step import flatten

__all__ = [
    "TALKER_MTP_NAMES",
    "TALKER_MTP_OUTPUT_KEY",
    "OmniOutput",
    "RequestPayload",
    "cached_payloads",
    "first_attribute",
    "flatten_outputs",
    "output_fields",
    "request_payload",
    "runner_output",
    "vllm_has_xdrope",
]

TALKER_MTP_NAMES = ("talker_mtp", "mtp")
"""What a model may call the method; the published V2 runner renamed it."""

TALKER_MTP_OUTPUT_KEY = ("codes", "audio")
"""Where the codes go in a request's payload, unless the model names a place: a key, or one of a nested dict."""


class RequestPayload(NamedTuple):
    """What came with a new request."""

    info: dict[str, Any]
    prompt_embeds: torch.Tensor | None


def first_attribute(model: Any, names: Sequence[str]) -> Any:
    """The first of these attributes that the model has and that is not None."""
    return next((value for name in names if (value := getattr(model, name, None)) is not None), None)


def request_payload(new_request: Any) -> RequestPayload:
    """The payload of a scheduler's new-request data: of its own fields, or carried by its sampling parameters.

    Raises PayloadError, which names the key, if it cannot be decoded.
    """
    extra = getattr(new_request.sampling_params, "extra_args", None) or {}
    carried = extra.get(EXTRA_ARGS_KEY) or {}
    information = getattr(new_request, "additional_information", None)
    info = deserialize_additional_information(
        carried.get("additional_information") if information is None else information
    )
    info = {**info, **(getattr(new_request, "model_intermediate_buffer", None) or {})}
    embeds = carried.get("prompt_embeds")
    return RequestPayload(
        info, deserialize_prompt_embeds(getattr(new_request, "prompt_embeds", None) if embeds is None else embeds)
    )


def cached_payloads(cached_requests: Any) -> dict[str, dict[str, Any]]:
    """Payload updates of running requests, by request id."""
    updates = getattr(cached_requests, "additional_information", None)
    if not updates:
        return {}
    return {req_id: deserialize_additional_information(update) for req_id, update in updates.items()}


def flatten_outputs(outputs: dict[str, Any]) -> dict[str, Any]:
    """A model's multimodal outputs by the names under which they leave: nested ones are joined with dots."""
    return flatten(outputs)


def output_fields(
    payloads: list[dict[str, Any]] | None, kv_extracted_req_ids: list[str] | None, generation: bool = False
) -> dict[str, Any]:
    """The package's names for what a step adds to vLLM's output.

    A generation stage keeps the token that vLLM sampled: vLLM's scheduler ends a request by it.
    """
    return {"multimodal_outputs": payloads, "kv_extracted_req_ids": kv_extracted_req_ids}


def vllm_has_xdrope() -> bool:
    """Whether this vLLM computes XD-RoPE positions; it did up to 0.29."""
    from vllm.model_executor.models import interfaces

    return hasattr(interfaces, "supports_xdrope")


def runner_output(base: Any, **fields: Any) -> Any:
    """The package's runner output: vLLM's, copied, with more fields."""
    from vllm_omni.outputs import OmniModelRunnerOutput

    return OmniModelRunnerOutput.from_base(base, **fields)
