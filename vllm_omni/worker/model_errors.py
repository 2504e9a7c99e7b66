"""What is said when a method of a model fails."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any


class ModelMethodError(RuntimeError):
    """A method of a model that raised or returned what the runner cannot use."""


@contextmanager
def naming(model: Any, method: str, requests: str | Collection[str]) -> Iterator[None]:
    """Turn whatever goes wrong inside into a ModelMethodError that names the model, the method and the requests."""
    try:
        yield
    except ModelMethodError:
        raise
    except Exception as error:
        raise method_error(model, method, requests, error) from error


def method_error(model: Any, method: str, requests: str | Collection[str], error: object) -> ModelMethodError:
    """One line that names the model, the method and the requests: an id, or ids."""
    names = requests if isinstance(requests, str) else ", ".join(requests)
    kind = f"{type(error).__name__}: " if isinstance(error, Exception) else ""
    return ModelMethodError(f"{type(model).__name__}.{method} failed for {names}: {kind}{error}")
