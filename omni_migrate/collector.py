"""Python's garbage collector, out of the way while syntax trees are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Trees live until a run's end: looking for garbage among them costs a quarter of its time."""
    from omni_migrate.facts.syntax import parse

    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        parse.cache_clear()
        if collecting:
            gc.enable()
