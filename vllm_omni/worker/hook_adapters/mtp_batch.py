"""The rows of a step that go through a talker's MTP together."""

from __future__ import annotations

import torch

from vllm_omni.worker.step import Row


class MtpBatch:
    """The decode rows of a step that MTP runs for, gathered while the rows are prepared."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[Row] = []
        self.ids: list[torch.Tensor] = []
        self.embeds: list[torch.Tensor] = []
        self.last_hidden: list[torch.Tensor] = []
        self.text_step: list[torch.Tensor] = []

    def add(
        self,
        rows: list[Row],
        ids: torch.Tensor,
        embeds: torch.Tensor,
        last_hidden: torch.Tensor,
        text_step: torch.Tensor,
    ) -> None:
        """Add `n` rows with `[n]` ids and three `[n, width]` tensors; the shapes may have extra ones."""
        n = len(rows)
        shape = (n, self.width)
        self.ids.append(ids if ids.shape == (n,) else ids.reshape(n))
        self.embeds.append(embeds if embeds.shape == shape else embeds.reshape(shape))
        self.last_hidden.append(last_hidden if last_hidden.shape == shape else last_hidden.reshape(shape))
        self.text_step.append(text_step if text_step.shape == shape else text_step.reshape(shape))
        self.rows.extend(rows)

    def clear(self) -> None:
        """Forget the step."""
        for part in (self.rows, self.ids, self.embeds, self.last_hidden, self.text_step):
            part.clear()
