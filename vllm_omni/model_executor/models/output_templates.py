"""What an omni model's forward returns."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class OmniOutput(NamedTuple):
    """Hidden states for sampling, and the multimodal part that leaves the engine beside the tokens.

    `text_hidden_states` is `[tokens, hidden]`, or None in a generation stage. `multimodal_outputs` is a tensor, a list
    or a (nested) dict of them, per token or per request (see `worker.step.split_by_request`).
    """

    text_hidden_states: torch.Tensor | None
    multimodal_outputs: Any = None
    intermediate_tensors: Any = None
    next_token_id: torch.Tensor | None = None
