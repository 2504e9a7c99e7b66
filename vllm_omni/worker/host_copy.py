"""Copies of a step's outputs to the host, at once or beside the next step."""

from __future__ import annotations

from typing import Any

import torch

from vllm_omni.worker.step import map_tensors


def copy_to_host(value: Any) -> Any:
    """`value` with every tensor copied into storage of its own on the CPU."""
    return map_tensors(value, _copy)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.device.type == "cpu" else tensor.to("cpu")


class HostCopy:
    """A copy that is under way on a stream of its own; the device tensors live until it is waited for.

    `device_module` is torch's module of the device (`torch.cuda`, `torch.xpu`, …). Tensors on the CPU are copied at
    once: there the next step would write over them.
    """

    def __init__(self, value: Any, device_module: Any, stream: Any) -> None:
        self._source = value
        self._event = device_module.Event()
        with device_module.stream(stream):
            stream.wait_stream(device_module.current_stream())
            self._copy = map_tensors(value, self._start)
            self._event.record(stream)

    @staticmethod
    def _start(tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach()
        if source.device.type == "cpu":
            return source.clone()
        target = torch.empty(source.shape, dtype=source.dtype, device="cpu", pin_memory=True)
        return target.copy_(source, non_blocking=True)

    def wait(self) -> Any:
        """The copy, when it is done; lets go of the device tensors."""
        self._event.synchronize()
        self._source = None
        return self._copy


class FinishedCopy:
    """The same for tensors that have been copied."""

    def __init__(self, value: Any) -> None:
        self._copy = value

    def wait(self) -> Any:
        """The copy."""
        return self._copy
