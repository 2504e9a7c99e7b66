"""Talkers (Qwen3-TTS, Qwen3-Omni and like): the runner makes each decode row's embedding with the model's MTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vllm_omni.worker.binding import TALKER_MTP_NAMES, TALKER_MTP_OUTPUT_KEY, first_attribute
from vllm_omni.worker.hook_adapters.base import AdapterHost, DefaultModelRunnerAdapter, MtpBatch, naming
from vllm_omni.worker.hook_adapters.registry import ModelAdapterRegistry
from vllm_omni.worker.step import Row


@ModelAdapterRegistry.register(
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen3TTSForConditionalGeneration",
    "Qwen3TTSTalkerForConditionalGeneration",
)
class Qwen3TalkerAdapter(DefaultModelRunnerAdapter):
    """Runs MTP once for all decode rows of a step, writes the embeddings, and stores the codes per request.

    Prefill rows, one-token tails among them, never enter: the rows come from `ModelHooksAdapter`, by the contract's
    phase. The inputs lie in buffers that keep their place, for graphs.
    """

    requires = TALKER_MTP_NAMES

    def on_model_loaded(self, runner: AdapterHost, model: Any) -> None:
        self.model = model
        self.talker_mtp = first_attribute(model, TALKER_MTP_NAMES)
        self.generators: dict[str, torch.Generator] = {}
        if self.talker_mtp is None:
            return
        config = runner.vllm_config.model_config
        hidden = int(getattr(model, "mtp_hidden_size", 0) or config.hf_text_config.hidden_size)
        rows = runner.mtp_capacity
        self.buffers = (
            torch.zeros(rows, dtype=torch.int32, device=runner.device),
            *(torch.zeros(rows, hidden, dtype=runner.dtype, device=runner.device) for _ in range(3)),
        )
        """Token ids, embeddings, last hidden states and text steps, of which graphs read the first rows."""
        self.output_key = getattr(model, "talker_mtp_output_key", None) or getattr(
            model, "mtp_output_key", TALKER_MTP_OUTPUT_KEY
        )
        self.validity_key = getattr(model, "talker_mtp_validity_key", None)
        sampling = getattr(config, "subtalker_sampling_params", None)
        sampling = sampling if isinstance(sampling, dict) else {}
        self.sampling = {name: sampling.get(name) for name in ("do_sample", "temperature", "top_k", "top_p")}
        self.generator_per_row = getattr(model, "talker_mtp_accepts_per_row_generators", False)
        self.takes_infos = getattr(model, "talker_mtp_accepts_req_infos", False)
        runner.mtp_batch = MtpBatch(hidden)
        self.talker_mtp, self.graph_sizes = runner.wrap_talker(self.talker_mtp, model)

    def preprocess(self, runner, input_ids, inputs_embeds, scheduler_output, num_scheduled_tokens_np):
        batch = runner.mtp_batch
        if batch is None or not batch.rows:
            return input_ids, inputs_embeds, {}
        rows = list(batch.rows)
        n = len(rows)
        with naming(self.model, "talker_mtp", [row.req_id for row in rows]):
            inputs = self._gather(batch, n)
            batch.clear()
            generators = self._generators(runner, rows)
            if generators and n > 1 and not self.generator_per_row:
                embeds, codes = self._one_by_one(runner, rows, generators, inputs)
            else:
                embeds, codes = self._run(runner, rows, generators, inputs, 0, n)
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

    def capture(self, runner: AdapterHost) -> None:
        """Run MTP once per graph size, largest first, for its wrapper to capture."""
        for size in sorted(self.graph_sizes, reverse=True):
            self._call(runner, self.buffers, size, dict(self.sampling))

    def _run(
        self,
        runner: AdapterHost,
        rows: list[Row],
        generators: list[Any],
        inputs: Sequence[torch.Tensor],
        start: int,
        end: int,
    ) -> Any:
        kwargs = dict(self.sampling)
        if generators:
            if end - start == 1 and generators[start] is not None:
                kwargs["generator"] = generators[start]
            elif end - start > 1:
                kwargs["generators"] = generators[start:end]
        if self.takes_infos:
            kwargs["req_ids"] = [row.req_id for row in rows[start:end]]
            kwargs["req_infos"] = [runner.store[row.req_id].info for row in rows[start:end]]
        return self._call(runner, inputs, self._padded(end - start), kwargs, start)

    def _call(
        self, runner: AdapterHost, inputs: Sequence[torch.Tensor], padded: int, kwargs: dict[str, Any], start: int = 0
    ) -> Any:
        if inputs[0].shape[0] != padded:
            inputs = [part[start : start + padded] for part in inputs]
        with runner.forward_context(padded, graph=padded in self.graph_sizes):
            return self.talker_mtp(*inputs, **kwargs)

    def _padded(self, n: int) -> int:
        return min((size for size in self.graph_sizes if size >= n), default=n)

    def _one_by_one(
        self, runner: AdapterHost, rows: list[Row], generators: list[Any], inputs: Sequence[torch.Tensor]
    ) -> Any:
        """A generator is one stream: what a seeded request draws must not depend on the batch it is in."""
        results = [self._run(runner, rows, generators, inputs, i, i + 1) for i in range(len(rows))]
        embeds = torch.cat([result[0][:1] for result in results])
        return embeds, None if results[0][1] is None else torch.cat([result[1][:1] for result in results])

    def _generators(self, runner: AdapterHost, rows: list[Row]) -> list[torch.Generator | None]:
        """One per row where a request has a `tts_local_seed`; an empty list if none has."""
        found: list[torch.Generator | None] = []
        for row in rows:
            seed = runner.store[row.req_id].extra_arg("tts_local_seed")
            if seed is None:
                found.append(None)
                continue
            if (generator := self.generators.get(row.req_id)) is None:
                generator = torch.Generator(device=runner.device)
                generator.manual_seed(int(seed))
                self.generators[row.req_id] = generator
            found.append(generator)
        if self.generators:
            for req_id in [req_id for req_id in self.generators if req_id not in runner.store]:
                del self.generators[req_id]
        return found if any(generator is not None for generator in found) else []

    def _store(self, runner: AdapterHost, rows: list[Row], codes: torch.Tensor) -> None:
        key = self.output_key
        codes = codes.detach().clone() if runner.store.is_resident(key) else codes.detach().to("cpu")
        nested, store = isinstance(key, tuple), runner.store
        for row, code in zip(rows, codes.unsafe_split(1), strict=True):
            info = store[row.req_id].info
            if nested:
                info.setdefault(key[0], {})[key[1]] = code
            else:
                info[key] = code
            if self.validity_key is not None:
                group, name = self.validity_key
                info.setdefault(group, {})[name] = torch.ones((), dtype=torch.bool, device=codes.device)
