"""Faults planted in what `port-v2` wrote: each is one replacement in one file, and scenarios that must notice it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class PortFault:
    """`old` becomes `new` in a file of the worker package, where it stands once; `scenarios` run with it."""

    name: str
    path: str
    old: str
    new: str
    scenarios: tuple[str, ...]


FAULTS = (
    PortFault("a payload given as the runner's buffer is dropped", "binding.py",
              "info or dict(new_request.model_intermediate_buffer or {})", "info", ("no-kv",)),
    PortFault("prompt embeddings are dropped", "binding.py", "_prompt_embeds(new_request.prompt_embeds))", "None)",
              ("talker",)),
    PortFault("a generation stage gives tokens", "binding.py", "    if generation:\n", "    if False:\n",
              ("generation",)),
    PortFault("outputs keep the names that the model gave", "binding.py", "return flatten_payload(outputs)",
              "return dict(outputs)", ("no-kv",)),
    PortFault("KV goes under the stage's own id", "binding.py", "request_id_resolver=self._global_id",
              "request_id_resolver=str", ("kv",)),
    PortFault("the codes of a step are sent to no stage", "binding.py", '"multimodal_outputs", ', "", ("no-kv",)),
    PortFault("a tail of one token is a decode row", "step.py",
              "return self.end - self.start == 1 and self.computed >= self.prompt_len",
              "return self.end - self.start == 1", ("no-kv",)),
    PortFault("no postprocess", "gpu_model_runner_v2.py", "omni.process_model_output(state.hidden_states)", "pass",
              ("no-kv",)),
    PortFault("MTP's embeddings are not fed", "hook_adapters/qwen3_talker.py",
              "inputs_embeds[first : first + n].copy_(embeds if embeds.shape[0] == n else embeds[:n])", "pass",
              ("no-kv",)),
)  # fmt: skip


def plant(tree: Path, target: Path, fault: PortFault) -> None:
    """A copy of the tree with the fault. Raises ValueError if its text does not stand there once."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(tree, target, copy_function=shutil.copy)
    file = target / "vllm_omni" / "worker" / fault.path
    text = file.read_text()
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.path} has {fault.old!r} {text.count(fault.old)} times")
    file.write_text(text.replace(fault.old, fault.new))
