"""Outputs of asynchronous scheduling: vLLM's own, and omni's payloads copied beside it."""

from __future__ import annotations

from typing import Any

from vllm.v1.outputs import AsyncModelRunnerOutput

from vllm_omni.worker import binding
from vllm_omni.worker.host_copy import FinishedCopy, HostCopy


class OmniAsyncOutput(AsyncModelRunnerOutput):
    """Finishes like vLLM's asynchronous output does, then adds the payloads; nothing waits before `get_output`."""

    def __init__(
        self,
        inner: AsyncModelRunnerOutput,
        copy: FinishedCopy | HostCopy | None,
        kv_extracted: list[str] | None,
        generation: bool = False,
    ) -> None:
        self._inner, self._copy, self._kv_extracted, self._generation = inner, copy, kv_extracted, generation

    def get_output(self) -> Any:
        """vLLM's output with omni's fields, when both copies are on the host."""
        base = self._inner.get_output()
        payloads = None if self._copy is None else self._copy.wait()
        return binding.runner_output(base, **binding.output_fields(payloads, self._kv_extracted, self._generation))
