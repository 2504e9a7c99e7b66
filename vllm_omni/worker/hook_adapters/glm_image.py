"""GLM-Image: decode positions that follow the image's grid instead of a line."""

from __future__ import annotations

from typing import Any

from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry


@ModelAdapterRegistry.register("GLMImageForConditionalGeneration", "GlmImageForConditionalGeneration")
class GLMImageAdapter(DefaultModelRunnerAdapter):
    """Puts the positions that the model computed beforehand over the linear ones of decode tokens."""

    requires = ("precomputed_mrope_decode",)

    def fixup_decode_positions(self, runner: AdapterHost, scheduler_output: Any) -> None:
        target = runner.positions
        if target is None:
            return
        for row in runner.rows:
            state = runner.store.get(row.req_id)
            if state is None or state.positions is None:
                continue
            stored = state.positions[0]
            first = max(row.computed, row.prompt_len)
            last = min(row.computed + row.end - row.start, stored.shape[1])
            if first < last:
                shift = row.start - row.computed
                target[:, shift + first : shift + last] = stored[:, first:last].to(target.device, target.dtype)
