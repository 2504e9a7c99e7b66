"""The output of an omni model runner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from vllm.v1.outputs import ModelRunnerOutput


@dataclass
class OmniModelRunnerOutput(ModelRunnerOutput):
    """vLLM's output with the omni fields.

    `multimodal_outputs` has one dict of tensors and plain values per request, in the order of `req_ids`: names of
    nested payloads are joined with dots, `hidden` holds the hidden states of the request's new tokens. It is empty for
    a request whose tokens were all computed before (after a preemption). `kv_extracted_req_ids` names the finished
    requests whose KV blocks have been read, so that the scheduler may free them.
    """

    multimodal_outputs: list[dict[str, Any]] | None = None
    kv_extracted_req_ids: list[str] | None = None
    OMNI_DEFAULTS: ClassVar = {"multimodal_outputs": None, "kv_extracted_req_ids": None}

    @classmethod
    def from_base(cls, base: ModelRunnerOutput, **omni: Any) -> OmniModelRunnerOutput:
        """A copy of `base`, which may be vLLM's shared empty output, with omni's fields."""
        output = cls.__new__(cls)  # not through __init__: this runs in every step
        output.__dict__.update(cls.OMNI_DEFAULTS, **vars(base), **omni)
        return output
