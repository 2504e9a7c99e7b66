"""Python's order of base classes (C3), for chains of any length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, MutableMapping, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
Order = TypeVar("Order")


def c3(sequences: Sequence[Sequence[Item]]) -> list[Item]:
    """The items in an order that holds for each sequence; where there is none, the first sequence goes first."""
    waiting = [list(reversed(sequence)) for sequence in sequences if sequence]
    behind = Counter(item for sequence in waiting for item in sequence[:-1])
    merged: dict[Item, None] = {}
    while waiting:
        head = next((rest[-1] for rest in waiting if not behind[rest[-1]]), waiting[0][-1])
        merged[head] = None
        for rest in waiting:
            while rest and rest[-1] in merged:
                rest.pop()
                if rest:
                    behind[rest[-1]] -= 1
        waiting = [rest for rest in waiting if rest]
    return list(merged)


def bases_first(
    start: Item, known: MutableMapping[Item, Order], bases: Callable[[Item], Sequence[Item]], unfinished: Order
) -> list[Item]:
    """What `start` needs and is not known yet, itself last, each after its bases; no recursion, so of any depth.

    What is returned is set to `unfinished` in `known`: in a circle, a class sees that of the one it extends.
    """
    ordered: list[Item] = []
    known[start] = unfinished
    pending = [(start, iter(bases(start)))]
    while pending:
        item, rest = pending[-1]
        base = next((base for base in rest if base not in known), None)
        if base is None:
            ordered.append(item)
            pending.pop()
        else:
            known[base] = unfinished
            pending.append((base, iter(bases(base))))
    return ordered
