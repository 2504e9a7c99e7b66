"""Payloads of a request on their way from the client to the runner, in a form that survives serialisation.

`SamplingParams.extra_args` and typed request fields cross a process boundary as msgpack; a tensor in `extra_args` does
not, so payloads travel as bytes with shape and dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import torch

EXTRA_ARGS_KEY = "omni_payload"


class PayloadError(ValueError):
    """A payload that cannot be encoded or decoded; the message names the key."""


class PromptEmbedsPayload(msgspec.Struct):
    """Prompt embeddings `[tokens, hidden]`: raw bytes in row-major order, shape, and torch's name of the dtype."""

    data: bytes
    shape: list[int]
    dtype: str


class AdditionalInformationEntry(msgspec.Struct):
    """One value: a tensor (`tensor_data`, `tensor_shape`, `tensor_dtype`), a list, or a scalar."""

    tensor_data: bytes | None = None
    tensor_shape: list[int] | None = None
    tensor_dtype: str | None = None
    list_data: list[Any] | None = None
    scalar_data: Any | None = None


class AdditionalInformationPayload(msgspec.Struct):
    """A dictionary of entries; nested dictionaries are joined with dots (`hidden_states.last`)."""

    entries: dict[str, AdditionalInformationEntry]


def tensor_to_bytes(tensor: torch.Tensor) -> tuple[bytes, list[int], str]:
    """The tensor's bytes in row-major order, its shape, and its dtype by torch's name."""
    data = tensor.detach().to("cpu").contiguous()
    raw = data.reshape(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b""
    return raw, list(data.shape), str(data.dtype).removeprefix("torch.")


def tensor_from_bytes(data: bytes, shape: list[int], dtype: str, key: str) -> torch.Tensor:
    """The tensor that `tensor_to_bytes` took apart, with storage of its own. Raises PayloadError naming `key`."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise PayloadError(f"payload {key!r}: {dtype!r} is not a torch dtype")
    count = 1
    for size in shape:
        count *= size
    if len(data) != count * kind.itemsize:
        raise PayloadError(f"payload {key!r}: {len(data)} bytes do not make a {dtype} tensor of shape {list(shape)}")
    if count == 0:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(shape)


def serialize_prompt_embeds(embeds: torch.Tensor) -> PromptEmbedsPayload:
    """The wire form of prompt embeddings `[tokens, hidden]`."""
    return PromptEmbedsPayload(*tensor_to_bytes(embeds))


def deserialize_prompt_embeds(payload: Any) -> torch.Tensor | None:
    """Prompt embeddings as a CPU tensor, from a tensor, a PromptEmbedsPayload, or its plain dict. PayloadError else."""
    if payload is None:
        return None
    if isinstance(payload, torch.Tensor):
        return payload.detach().to("cpu").contiguous()
    if isinstance(payload, dict):
        payload = convert(payload, PromptEmbedsPayload, "prompt_embeds")
    if not hasattr(payload, "data") or not hasattr(payload, "shape"):
        raise PayloadError(f"payload 'prompt_embeds': cannot decode a {type(payload).__name__}")
    return tensor_from_bytes(payload.data, list(payload.shape), payload.dtype, "prompt_embeds")


def serialize_additional_information(info: dict[str, Any] | None) -> AdditionalInformationPayload | None:
    """The wire form of a (nested) dict of tensors, lists and scalars; a dict without entries is None."""
    if not info:
        return None
    entries: dict[str, AdditionalInformationEntry] = {}
    for key, value in _flat(info, ""):
        if isinstance(value, torch.Tensor):
            data, shape, dtype = tensor_to_bytes(value)
            entries[key] = AdditionalInformationEntry(tensor_data=data, tensor_shape=shape, tensor_dtype=dtype)
        elif isinstance(value, list | tuple):
            if any(isinstance(item, torch.Tensor) for item in value):
                raise PayloadError(f"payload {key!r}: a list of tensors cannot be sent; stack it or name its entries")
            entries[key] = AdditionalInformationEntry(list_data=list(value))
        else:
            entries[key] = AdditionalInformationEntry(scalar_data=value)
    return AdditionalInformationPayload(entries)


def deserialize_additional_information(payload: Any) -> dict[str, Any]:
    """The nested dict of a payload, its plain dict form, or a dict that is already materialised. PayloadError else."""
    if payload is None:
        return {}
    if isinstance(payload, dict):
        if set(payload) != {"entries"} or not isinstance(payload["entries"], dict):
            return payload
        payload = convert(payload, AdditionalInformationPayload, "additional_information")
    if not hasattr(payload, "entries"):
        raise PayloadError(f"payload 'additional_information': cannot decode a {type(payload).__name__}")
    info: dict[str, Any] = {}
    for key, entry in payload.entries.items():
        if entry.tensor_data is not None:
            value = tensor_from_bytes(entry.tensor_data, entry.tensor_shape or [], entry.tensor_dtype or "", key)
        else:
            value = entry.list_data if entry.list_data is not None else entry.scalar_data
        *groups, name = key.split(".")
        inner = info
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = value
    return info


def to_extra_args(
    info: dict[str, Any] | None = None, prompt_embeds: torch.Tensor | None = None, **extra: Any
) -> dict[str, Any]:
    """`SamplingParams.extra_args` that carry a payload through an engine which has no field for it."""
    carried: dict[str, Any] = {}
    if (entries := serialize_additional_information(info)) is not None:
        carried["additional_information"] = msgspec.to_builtins(entries, builtin_types=(bytes,))
    if prompt_embeds is not None:
        carried["prompt_embeds"] = msgspec.to_builtins(serialize_prompt_embeds(prompt_embeds), builtin_types=(bytes,))
    return {**extra, EXTRA_ARGS_KEY: carried} if carried else dict(extra)


def convert(value: dict[str, Any], kind: type[Any], key: str) -> Any:
    """`value` as a struct of `kind`. Raises PayloadError naming `key`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise PayloadError(f"payload {key!r}: {error}") from error


def _flat(info: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in info.items():
        if not isinstance(key, str) or "." in key:
            raise PayloadError(f"payload {prefix}{key!r}: names are strings without a dot")
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
