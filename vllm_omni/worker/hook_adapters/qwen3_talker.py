"""Talkers (Qwen3-TTS, Qwen3-Omni and like): the runner makes each decode row's embedding with the model's MTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from vllm_omni.worker.binding import TALKER_MTP_NAMES
from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter
from vllm_omni.worker.hook_adapters.mtp_batch import MtpBatch
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry
from vllm_omni.worker.model_errors import naming
from vllm_omni.worker.stage import Stage
from vllm_omni.worker.step import Row

if TYPE_CHECKING:
    import numpy as np

    from vllm_omni.worker.model_traits import MtpTraits


@ModelAdapterRegistry.register(
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3TTSForConditionalGeneration",
    "Qwen3TTSTalkerForConditionalGeneration",
)
class Qwen3TalkerAdapter(DefaultModelRunnerAdapter):
    """Runs MTP once for all decode rows of a step, writes the embeddings, and stores the codes per request.

    Prefill rows, one-token tails among them, never enter: the rows come from `ModelMethodsAdapter`, by the contract's
    phase. The inputs lie in buffers that keep their place, for graphs.
    """

    requires = TALKER_MTP_NAMES

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        self.generators: dict[str, torch.Generator] = {}
        if runner.traits.mtp is None:
            return
        self.model = model
        self.traits: MtpTraits = runner.traits.mtp
        config = runner.stage.vllm_config.model_config
        hidden = int(self.traits.hidden_size or config.hf_text_config.hidden_size)
        self.buffers = _buffers(runner.stage, hidden)
        """Token ids, embeddings, last hidden states and text steps, of which graphs read the first rows."""
        sampling = getattr(config, "subtalker_sampling_params", None)
        sampling = sampling if isinstance(sampling, dict) else {}
        self.sampling = {name: sampling.get(name) for name in ("do_sample", "temperature", "top_k", "top_p")}
        runner.gather_mtp(hidden)
        self.mtp = self.traits.method
        self.graph_sizes: tuple[int, ...] = ()
        if self.traits.graph_safe:
            self.mtp, self.graph_sizes = runner.wrap_in_graphs(self.mtp)

    def preprocess(
        self,
        runner: AdapterHost,
        input_ids: torch.Tensor,
        inputs_embeds: torch.Tensor,
        scheduler_output: Any,
        num_scheduled_tokens_np: np.ndarray,
    ) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
        batch = runner.mtp_batch
        if batch is None or not batch.rows:
            return input_ids, inputs_embeds, {}
        rows = list(batch.rows)
        n = len(rows)
        with naming(self.model, "talker_mtp", [row.req_id for row in rows]):
            inputs = self._gather(batch, n)
            batch.clear()
            generators = self._generators(runner, rows)
            if generators and n > 1 and not self.traits.takes_generator_per_row:
                embeds, codes = self._one_by_one(runner, rows, generators, inputs)
            else:
                embeds, codes = self._run(runner, rows, generators, inputs)
            if embeds.shape[0] < n or (codes is not None and codes.shape[0] < n):
                raise ValueError(f"{embeds.shape[0]} embeddings for {n} rows")
            first = rows[0].start
            if rows[-1].start - first == n - 1:
                inputs_embeds[first : first + n].copy_(embeds if embeds.shape[0] == n else embeds[:n])
            else:
                offsets = torch.tensor([row.start for row in rows]).to(inputs_embeds.device, non_blocking=True)
                inputs_embeds.index_copy_(0, offsets, embeds[:n].to(inputs_embeds.dtype))
        if codes is not None:
            self._store(runner, rows, codes if codes.shape[0] == n else codes[:n])
        return input_ids, inputs_embeds, {}

    def capture(self, runner: AdapterHost) -> None:
        """Run MTP once per graph size, largest first, for its wrapper to capture."""
        if runner.traits.mtp is None:
            return
        for size in sorted(self.graph_sizes, reverse=True):
            self._call(runner, self.buffers, size, dict(self.sampling))

    def _gather(self, batch: MtpBatch, n: int) -> Sequence[torch.Tensor]:
        """The inputs of `n` rows; in buffers that keep their place only if graphs read them."""
        parts = (batch.ids, batch.embeds, batch.last_hidden, batch.text_step)
        if not self.graph_sizes:
            gathered = [torch.cat(part) for part in parts]
            if all(
                part.dtype is buffer.dtype and part.device == buffer.device
                for part, buffer in zip(gathered, self.buffers, strict=True)
            ):
                return gathered
            return [part.to(buffer) for part, buffer in zip(gathered, self.buffers, strict=True)]
        for part, buffer in zip(parts, self.buffers, strict=True):
            torch.cat(part, out=buffer[:n])
        return self.buffers

    def _run(
        self,
        runner: AdapterHost,
        rows: Sequence[Row],
        generators: Sequence[torch.Generator | None],
        inputs: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The embeddings and codes of these rows, padding included; `inputs` begin with theirs."""
        kwargs: dict[str, Any] = dict(self.sampling)
        n = len(rows)
        if generators:
            if n > 1:
                kwargs["generators"] = generators
            elif generators[0] is not None:
                kwargs["generator"] = generators[0]
        if self.traits.takes_infos:
            kwargs["req_ids"] = [row.req_id for row in rows]
            kwargs["req_infos"] = [runner.store[row.req_id].info for row in rows]
        padded = min((size for size in self.graph_sizes if size >= n), default=n)
        return self._call(runner, inputs, padded, kwargs)

    def _call(
        self, runner: AdapterHost, inputs: Sequence[torch.Tensor], padded: int, kwargs: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if inputs[0].shape[0] != padded:
            inputs = [part[:padded] for part in inputs]
        with runner.forward_context(padded, graph=padded in self.graph_sizes):
            embeds, codes = self.mtp(*inputs, **kwargs)
        return embeds, codes

    def _one_by_one(
        self,
        runner: AdapterHost,
        rows: list[Row],
        generators: list[torch.Generator | None],
        inputs: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """A generator is one stream: what a seeded request draws must not depend on the batch it is in."""
        all_embeds, all_codes = [], []
        for i, row in enumerate(rows):
            embeds, codes = self._run(runner, [row], [generators[i]], [part[i:] for part in inputs])
            all_embeds.append(embeds[:1])
            if codes is not None:
                all_codes.append(codes[:1])
        return torch.cat(all_embeds), torch.cat(all_codes) if all_codes else None

    def _generators(self, runner: AdapterHost, rows: list[Row]) -> list[torch.Generator | None]:
        """One per row where a request has a `tts_local_seed`; an empty list if none has."""
        found: list[torch.Generator | None] = []
        for row in rows:
            seed = runner.store[row.req_id].extra_arg("tts_local_seed")
            if seed is None:
                found.append(None)
                continue
            if (generator := self.generators.get(row.req_id)) is None:
                generator = torch.Generator(device=runner.stage.device)
                generator.manual_seed(int(seed))
                self.generators[row.req_id] = generator
            found.append(generator)
        if self.generators:
            for req_id in [req_id for req_id in self.generators if req_id not in runner.store]:
                del self.generators[req_id]
        return found if any(generator is not None for generator in found) else []

    def _store(self, runner: AdapterHost, rows: list[Row], codes: torch.Tensor) -> None:
        key, store = self.traits.output_key, runner.store
        codes = codes.detach().clone() if store.is_resident(key) else codes.detach().to("cpu")
        for row, code in zip(rows, codes.unsafe_split(1), strict=True):
            info = store[row.req_id].info
            if isinstance(key, tuple):
                info.setdefault(key[0], {})[key[1]] = code
            else:
                info[key] = code
            if self.traits.validity_key is not None:
                group, name = self.traits.validity_key
                info.setdefault(group, {})[name] = torch.ones((), dtype=torch.bool, device=codes.device)


def _buffers(stage: Stage, hidden: int) -> tuple[torch.Tensor, ...]:
    """Room for as many rows as a step or a graph may have."""
    compilation = getattr(stage.vllm_config, "compilation_config", None)
    rows = max(stage.max_num_reqs, getattr(compilation, "max_cudagraph_capture_size", None) or 0)
    ids = torch.zeros(rows, dtype=torch.int32, device=stage.device)
    return (ids, *(torch.zeros(rows, hidden, dtype=stage.dtype, device=stage.device) for _ in range(3)))
