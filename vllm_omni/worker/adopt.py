"""Turns an object that vLLM has built into one of a class of ours that derives from the object's class."""

from __future__ import annotations

from typing import Any


def adopt(instance: Any, cls: type[Any]) -> Any:
    """`instance`, now of `cls`, whose methods override those of its class and may call super().

    vLLM's workers build their runner, and its V2 runner its model state, where no argument chooses the class (GPU
    workers have `_make_model_runner` from 0.32 on, CPU workers nothing). `cls` gets no `__init__`: what it adds is set
    up when the model is loaded. Raises TypeError if `cls` does not derive from the object's class.
    """
    if not issubclass(cls, type(instance)):
        raise TypeError(f"{cls.__name__} does not derive from {type(instance).__module__}.{type(instance).__name__}")
    instance.__class__ = cls
    return instance
