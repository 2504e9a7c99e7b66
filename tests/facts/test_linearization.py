"""Python's order of base classes, held against Python's own, and for chains that no recursion reaches the end of."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from omni_migrate.facts.census import take_census
from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.linearization import bases_first, c3
from omni_migrate.facts.modules import Modules
from omni_migrate.plan.workspace import Workspace


@st.composite
def hierarchies(draw: st.DrawFn) -> list[type]:
    """Classes that Python accepts, each extending some of those before it."""
    made: list[type] = [object]
    for number in range(draw(st.integers(1, 12))):
        bases = draw(st.lists(st.sampled_from(made[1:]), unique=True, max_size=3)) if number else []
        try:
            made.append(type(f"C{number}", tuple(bases), {}))
        except TypeError:  # no consistent order
            made.append(type(f"C{number}", tuple(bases[:1]), {}))
    return made[1:]


@given(hierarchies())
def test_the_order_is_pythons(classes: list[type]) -> None:
    for cls in classes:
        orders = [list(base.__mro__) for base in cls.__bases__]
        assert [cls, *c3([*orders, list(cls.__bases__)])] == list(cls.__mro__)


def test_where_no_order_holds_the_first_sequence_goes_first() -> None:
    assert c3([["a", "b"], ["b", "a"]]) == ["a", "b"]


def test_bases_come_first_and_a_circle_ends() -> None:
    bases = {"a": ["b", "c"], "b": ["c"], "c": ["a"]}
    known: dict[str, int] = {}
    assert bases_first("a", known, bases.__getitem__, 0) == ["c", "b", "a"]
    assert known == {"a": 0, "b": 0, "c": 0}


CHAIN = "".join(f"class C{n}(C{n + 1}):\n    has_preprocess = True\n\n\n" for n in range(2_000))


def test_a_chain_of_two_thousand_base_classes_has_an_order(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(CHAIN)
    order = ClassTree({"p": Modules(Workspace(tmp_path))}).order("p.C0")
    assert [cls.short for cls in order] == [f"C{n}" for n in range(2_000)]


def test_a_census_of_a_chain_of_base_classes_has_them_all(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/model.py").write_text("import torch.nn as nn\n\n\n" + CHAIN.replace("(C2000)", "(nn.Module)"))
    census = take_census(Workspace(tmp_path), "p", {"has_preprocess"}, {"C0", "C1999"})
    assert {"C0", "C1999"} <= {model.name for model in census.classes}
