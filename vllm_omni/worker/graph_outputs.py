"""Multimodal outputs of forwards that run as a captured graph, in which none of our code runs."""

from __future__ import annotations

from typing import Any

import torch


class GraphOutputs:
    """What each captured forward put out, by its number of tokens; static: a replay writes the same tensors again."""

    def __init__(self) -> None:
        self._captured: dict[int, Any] = {}

    def keep(self, hidden_states: torch.Tensor, multimodal_outputs: Any) -> None:
        """Keep the outputs of a forward if it is being captured."""
        if _is_capturing(hidden_states.device):
            self._captured[hidden_states.shape[0]] = multimodal_outputs

    def replayed(self, num_tokens: int) -> Any:
        """The outputs of the graph for that many tokens, padding included; None if there is none."""
        return self._captured.get(num_tokens)


def _is_capturing(device: torch.device) -> bool:
    """Whether the current stream of the device is being captured into a graph."""
    if device.type == "cpu":
        return False
    capturing = getattr(torch.get_device_module(device), "is_current_stream_capturing", None)
    return capturing is not None and capturing()
