"""Request data from the scheduler to the runner, with omni's payloads."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput

from vllm_omni.engine.payloads import EXTRA_ARGS_KEY, AdditionalInformationPayload


@dataclass
class OmniNewRequestData(NewRequestData):
    """vLLM's new-request data with a payload.

    `additional_information` is a payload or a dict; `model_intermediate_buffer` a dict that goes into the runner's
    store as it is. `prefill_token_ids`, which the V2 runner needs, is vLLM's own field and is kept.
    """

    external_req_id: str | None = None
    additional_information: AdditionalInformationPayload | dict[str, Any] | None = None
    model_intermediate_buffer: dict[str, Any] | None = None

    @classmethod
    def from_base(cls, base: NewRequestData, request: Any = None) -> OmniNewRequestData:
        """`base` with the payload of its request, or, under vLLM's own engine, of its sampling parameters."""
        kept = {f.name: getattr(base, f.name) for f in fields(NewRequestData)}
        extra = getattr(base.sampling_params, "extra_args", None) or {}
        carried = extra.get(EXTRA_ARGS_KEY) or {}
        information = getattr(request, "additional_information", None) or carried.get("additional_information")
        return cls(
            **kept,
            external_req_id=getattr(request, "external_req_id", None),
            additional_information=information,
            model_intermediate_buffer=getattr(request, "model_intermediate_buffer", None),
        )


@dataclass
class OmniCachedRequestData(CachedRequestData):
    """vLLM's cached-request data with the payload updates of running requests (streaming input, async chunks)."""

    prompt_token_ids: dict[str, list[int]] = field(default_factory=dict)
    additional_information: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_base(cls, base: CachedRequestData, **omni: Any) -> OmniCachedRequestData:
        """`base` with omni's fields."""
        return cls(**{f.name: getattr(base, f.name) for f in fields(CachedRequestData)}, **omni)


@dataclass
class OmniSchedulerOutput(SchedulerOutput):
    """vLLM's scheduler output, and the finished requests whose KV blocks another stage wants.

    `finished_requests_needing_kv_transfer` maps a request id to `{"block_ids": [int], "num_tokens": int}`.
    """

    finished_requests_needing_kv_transfer: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_base(cls, base: SchedulerOutput, **omni: Any) -> OmniSchedulerOutput:
        """`base` with omni's fields."""
        return cls(**{f.name: getattr(base, f.name) for f in fields(SchedulerOutput)}, **omni)
