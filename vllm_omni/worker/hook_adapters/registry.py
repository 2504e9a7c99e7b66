"""Which adapters a model gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from vllm_omni.worker.hook_adapters.base import DefaultModelRunnerAdapter

Adapter = TypeVar("Adapter", bound=type[DefaultModelRunnerAdapter])


class ModelAdapterRegistry:
    """Adapters by the name of a model's class, and by what a model says it can do."""

    _names: dict[str, list[type[DefaultModelRunnerAdapter]]] = {}
    _order: list[type[DefaultModelRunnerAdapter]] = []

    @classmethod
    def register(cls, *model_cls_names: str) -> Callable[[Adapter], Adapter]:
        """Register an adapter for models of these names; without one, for its capabilities (`requires`) alone."""

        def decorator(adapter_cls: Adapter) -> Adapter:
            if adapter_cls not in cls._order:
                cls._order.append(adapter_cls)
            for name in model_cls_names:
                cls._names.setdefault(name, []).append(adapter_cls)
            return adapter_cls

        return decorator

    @classmethod
    def adapter_classes(cls, model: Any, named: Sequence[str] | None = None) -> list[type[DefaultModelRunnerAdapter]]:
        """The adapters of a model, in registration order.

        Those registered under the name of its class or of a base of it, and those whose capability it has. A stage's
        configuration may name them instead (`named`, class names of adapters); an unknown name is a ValueError.
        """
        if named is not None:
            known = {adapter.__name__: adapter for adapter in cls._order}
            if missing := [name for name in named if name not in known]:
                raise ValueError(f"no adapter named {missing[0]!r} is registered; there are {', '.join(sorted(known))}")
            return [adapter for adapter in cls._order if adapter.__name__ in named]
        by_name = {adapter for base in type(model).__mro__ for adapter in cls._names.get(base.__name__, ())}
        return [
            adapter
            for adapter in cls._order
            if adapter in by_name or any(_has(model, attribute) for attribute in adapter.requires)
        ]

    @classmethod
    def get_adapters(cls, model: Any, named: Sequence[str] | None = None) -> list[DefaultModelRunnerAdapter]:
        """An instance of each adapter of a model."""
        return [adapter() for adapter in cls.adapter_classes(model, named)]


def _has(model: Any, attribute: str) -> bool:
    value = getattr(model, attribute, None)
    return value is not None and value is not False
