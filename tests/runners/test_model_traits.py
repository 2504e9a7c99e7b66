"""What a model is asked, and that it is asked once."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from fake_models import Batched, Quiet, Talker
from fakes import new_request
from test_hooks import prefill, step

from vllm_omni.worker.model_traits import ModelTraits

OURS = Path(__file__).parents[2] / "vllm_omni"
ASKING = {"model_traits.py", "registry.py", "binding.py"}
"""The registry asks what adapters require; the binding knows under which names MTP goes."""


def test_a_model_that_says_nothing_gets_the_defaults():
    traits = ModelTraits.of(Quiet())
    told = {field.name for field in fields(traits) if getattr(traits, field.name)}
    assert told == {
        "includes_hidden",
        "postprocess_uses_hidden",
        "postprocess_uses_infos",
        "postprocess_uses_outputs",
    }


def test_the_answers_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        ModelTraits.of(Quiet()).has_preprocess = True


@pytest.mark.parametrize(
    ("safe", "talker", "expected"),
    [(None, None, False), (None, object(), True), (False, object(), False), (True, None, True)],
)
def test_mtp_is_safe_for_graphs_if_the_model_says_so_or_has_a_talker(safe, talker, expected):
    model = Talker()
    model.talker_mtp_graph_safe, model.talker = safe, talker
    assert ModelTraits.of(model).mtp.graph_safe is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, None, ("codes", "audio")),
        ("own", None, "own"),
        (None, "later", "later"),
        ("own", "later", "own"),
    ],
)
def test_the_place_of_the_codes_is_the_first_that_the_model_names(first, second, expected):
    model = Talker()
    if first is not None:
        model.talker_mtp_output_key = first
    if second is not None:
        model.mtp_output_key = second
    assert ModelTraits.of(model).mtp.output_key == expected


class Attentive(Batched):
    """Notes what it is asked for by name."""

    def __getattribute__(self, name):
        object.__getattribute__(self, "__dict__").setdefault("asked", set()).add(name)
        return object.__getattribute__(self, name)


def test_a_step_asks_the_model_nothing_again(make_hooks):
    model = Attentive()
    ModelTraits.of(model)
    probed = model.asked - {"forward", "asked"}
    hooks = make_hooks(model)
    prefill(hooks, "a")
    model.asked.clear()
    step(hooks, [("a", 1, 4, 4), ("b", 2, 0, 2)], new=[new_request("b", 2)])
    assert "preprocess" in model.asked and "has_preprocess" in probed
    assert model.asked & probed == set()


def test_no_other_module_probes_a_model():
    probes = [
        f"{file.name}:{node.lineno}"
        for file in OURS.rglob("*.py")
        if file.name not in ASKING
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr")
        if getattr(node.args[0], "id", getattr(node.args[0], "attr", "")) == "model"
    ]
    assert probes == []
