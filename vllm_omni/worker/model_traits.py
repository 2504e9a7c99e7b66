"""What a model says of itself: every question that the runner asks it, asked once, when it is loaded.

A missing attribute means the default. Which adapters a model gets is asked by the registry, in each adapter's words
(`requires`). A model method is a method of the model's own that the runner calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vllm_omni.worker.binding import TALKER_MTP_NAMES, TALKER_MTP_OUTPUT_KEY, first_attribute

ModelMethod = Callable[..., Any]
PayloadKey = str | tuple[str, str]
"""A key of a request's payload, or one of a nested dict."""


@dataclass(frozen=True)
class MtpTraits:
    """A talker's multi-token prediction, which the runner calls for decode rows."""

    method: ModelMethod
    hidden_size: int | None
    """None: the text configuration's."""
    output_key: PayloadKey
    """Where the codes go in a request's payload."""
    validity_key: tuple[str, str] | None
    """Where the payload says that there are codes, if the model wants it said."""
    graph_safe: bool
    takes_generator_per_row: bool
    takes_infos: bool
    """Whether it takes `req_ids` and the requests' payloads, `req_infos`."""

    @classmethod
    def of(cls, model: Any) -> MtpTraits | None:
        """None for a model without MTP."""
        method = first_attribute(model, TALKER_MTP_NAMES)
        if method is None:
            return None
        safe = getattr(model, "talker_mtp_graph_safe", None)
        return cls(
            method=method,
            hidden_size=getattr(model, "mtp_hidden_size", None) or None,
            output_key=getattr(model, "talker_mtp_output_key", "")
            or getattr(model, "mtp_output_key", TALKER_MTP_OUTPUT_KEY),
            validity_key=getattr(model, "talker_mtp_validity_key", None),
            graph_safe=bool(getattr(model, "talker", None) is not None if safe is None else safe),
            takes_generator_per_row=bool(getattr(model, "talker_mtp_accepts_per_row_generators", False)),
            takes_infos=bool(getattr(model, "talker_mtp_accepts_req_infos", False)),
        )


@dataclass(frozen=True)
class MRopeTraits:
    """How a model computes the rotary positions of a request."""

    method: ModelMethod
    accepts: frozenset[str] | None
    """Names of the method's parameters; None if it takes any keyword."""
    precomputes_decode: bool
    """Whether the positions go on beyond the prompt."""

    @classmethod
    def of(cls, model: Any) -> MRopeTraits | None:
        """None for a model that computes none."""
        method = getattr(model, "get_mrope_input_positions", None)
        if method is None:
            return None
        precomputes = bool(getattr(model, "precomputed_mrope_decode", False))
        return cls(method, None if _takes_any_keyword(method) else _parameters(method), precomputes)


@dataclass(frozen=True)
class ModelTraits:
    """The answers."""

    takes_kwargs: bool
    """Whether the forward takes the runner's keyword arguments."""
    wants_request_ids: bool
    wants_query_start: bool
    wants_eligibility: bool
    replaces_infos: bool
    """Whether an update of a request's payload takes its place instead of being merged."""
    resident_keys: frozenset[tuple[str, str]]
    """Entries of payloads that stay on the device."""
    on_requests_finished: ModelMethod | None
    dummy_information: ModelMethod | None
    """Gives payloads for a run without requests."""

    has_preprocess: bool
    preprocess_batch: ModelMethod | None
    """Called once before the rows of a step are prepared."""
    preprocess_decode_batch: ModelMethod | None
    """Prepares neighbouring decode rows together."""

    has_postprocess: bool
    postprocess_uses_hidden: bool
    """Whether it wants a row's own hidden states, not the step's."""
    postprocess_uses_outputs: bool
    postprocess_uses_infos: bool

    make_omni_output: ModelMethod | None
    """Makes the multimodal output out of what the forward returns."""
    has_outputs: bool
    includes_hidden: bool
    """Whether hidden states leave with the multimodal outputs."""

    asks_xdrope: bool
    mrope: MRopeTraits | None
    mtp: MtpTraits | None

    @classmethod
    def of(cls, model: Any) -> ModelTraits:
        """What the model answers."""

        def says(name: str, default: bool = False) -> bool:
            return bool(getattr(model, name, default))

        return cls(
            takes_kwargs=_takes_any_keyword(model.forward)
            or "runtime_additional_information" in _parameters(model.forward),
            wants_request_ids=says("requires_request_ids"),
            wants_query_start=says("supports_omni_query_start_loc"),
            wants_eligibility=says("requires_request_sample_eligibility"),
            replaces_infos=says("replace_runtime_additional_information"),
            resident_keys=frozenset(getattr(model, "gpu_resident_buffer_keys", None) or ()),
            on_requests_finished=_method(model, "on_requests_finished"),
            dummy_information=_method(model, "get_dummy_runtime_additional_information"),
            has_preprocess=says("has_preprocess"),
            preprocess_batch=_method(model, "preprocess_batch"),
            preprocess_decode_batch=_method(model, "preprocess_decode_batch"),
            has_postprocess=says("has_postprocess"),
            postprocess_uses_hidden=says("postprocess_uses_hidden_states", True),
            postprocess_uses_outputs=says("postprocess_uses_multimodal_outputs", True),
            postprocess_uses_infos=says("postprocess_uses_req_infos", True),
            make_omni_output=_method(model, "make_omni_output"),
            has_outputs=says("have_multimodal_outputs"),
            includes_hidden=says("omni_pooler_payload_include_hidden", True),
            asks_xdrope=_method(model, "get_xdrope_input_positions") is not None,
            mrope=MRopeTraits.of(model),
            mtp=MtpTraits.of(model),
        )


def _method(model: Any, name: str) -> ModelMethod | None:
    value = getattr(model, name, None)
    return value if callable(value) else None


def _parameters(method: ModelMethod) -> frozenset[str]:
    return frozenset(inspect.signature(method).parameters)


def _takes_any_keyword(method: ModelMethod) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(method).parameters.values())
