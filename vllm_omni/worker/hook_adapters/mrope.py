"""M-RoPE: the metadata that a model's position method takes beyond vLLM's two arguments."""

from __future__ import annotations

from typing import Any

import torch

from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry
from vllm_omni.worker.model_errors import naming
from vllm_omni.worker.request_store import RequestState

GRIDS = ("image_grid_thw", "video_grid_thw")
PLAIN = ("second_per_grid_ts", "audio_feature_lengths")
FROM_SAMPLING = ("target_h", "target_w")


@ModelAdapterRegistry.register()
class MRopeAdapter(DefaultModelRunnerAdapter):
    """Lets `get_mrope_input_positions` have the grids, and remembers positions beyond the prompt.

    vLLM asks the model itself, in V1 and V2, with the tokens and the features; the method of this model instance is
    wrapped so that the keywords which the model accepts are added for the request at hand.
    """

    requires = ("get_mrope_input_positions",)

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        assert runner.traits.mrope is not None
        self.model, self.traits = model, runner.traits.mrope
        self.request: RequestState | None = None
        self.hf_config = getattr(runner.stage.vllm_config.model_config, "hf_config", None)
        model.get_mrope_input_positions = self.positions

    def init_request_positions(self, runner: AdapterHost, req_state: RequestState) -> None:
        self.request = req_state

    def positions(self, input_tokens: Any, mm_features: Any = None, **kwargs: Any) -> tuple[torch.Tensor, int]:
        """`[3, len(input_tokens)]` positions and the offset of linear decode positions, for vLLM."""
        state, self.request = self.request, None
        if state is not None and state.positions is not None:
            stored, delta = state.positions  # a resumed request: its outputs are among the tokens now
        else:
            given = {"mm_features": mm_features, **kwargs}
            if state is not None:
                given |= self.metadata(mm_features or [], state)
            if self.traits.accepts is not None:
                given = {name: value for name, value in given.items() if name in self.traits.accepts}
            with naming(self.model, "get_mrope_input_positions", state.req_id if state else "no request"):
                stored, delta = self.traits.method(input_tokens, **given)
            if state is not None and self.traits.precomputes_decode:
                state.positions = (stored, delta)
        missing = len(input_tokens) - stored.shape[1]
        if missing > 0:
            linear = torch.arange(stored.shape[1], len(input_tokens), dtype=stored.dtype) + delta
            stored = torch.cat([stored, linear.expand(stored.shape[0], missing)], 1)
        return stored[:, : len(input_tokens)], delta

    def metadata(self, mm_features: list[Any], state: RequestState) -> dict[str, Any]:
        """What the features and the request's sampling parameters say of grids, durations and target sizes."""
        found: dict[str, Any] = {name: [] for name in (*GRIDS, *PLAIN)}
        audio_in_video = False
        for feature in mm_features:
            if feature.data is None:
                continue
            data = feature.data.get_data()
            for name in GRIDS:
                if (value := data.get(name)) is not None:
                    found[name].append(value.tolist())
            for name in PLAIN:
                if (value := data.get(name)) is not None:
                    found[name].append(value)
            if (flag := data.get("use_audio_in_video")) is not None:
                audio_in_video = bool(flag.item())
        targets = {name: value for name in FROM_SAMPLING if (value := state.extra_arg(name)) is not None}
        return {**found, "use_audio_in_video": audio_in_video, "hf_config": self.hf_config, **targets}
