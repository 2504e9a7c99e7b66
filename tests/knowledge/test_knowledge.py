"""The data: what the adapters answer for, and what a project adds to it."""

from __future__ import annotations

import re

import pytest

from omni_migrate.knowledge import adapters, model_interface, proposed_adapter, read_toml, upstream_runners
from omni_migrate.plan.extraction import PHASES


def test_every_adapter_of_the_rfc_is_there_in_order_of_phase():
    specs = adapters()
    assert {"qwen3_talker", "mrope", "hunyuan_vl", "glm_image", "mimo_audio", "preprocess"} <= {s.name for s in specs}
    assert [s.phase for s in specs] == sorted(s.phase for s in specs)
    assert {s.phase for s in specs} <= set(PHASES)


@pytest.mark.parametrize("kind", ["class_names", "state", "methods", "metadata"])
def test_nothing_is_claimed_twice(kind):
    claimed = [name for spec in adapters() for name in getattr(spec, kind)]
    assert len(claimed) == len(set(claimed))


def test_no_selector_is_a_line_or_a_release():
    text = str(read_toml("adapters.toml"))
    assert not re.search(r"\b\d+\.\d+\.\d+\b|\.py\b", text)


def test_names_of_methods_and_classes_are_names():
    for spec in adapters():
        names = [
            spec.name,
            spec.class_name,
            *spec.capabilities,
            *spec.methods,
            *spec.methods.values(),
            *spec.hooks.values(),
        ]
        assert all(name.isidentifier() for name in names)
        assert set(spec.keep) <= set(spec.methods)


def test_the_model_interface_has_no_capability_that_an_adapter_derives():
    assert not model_interface() & {c for s in adapters() if s.default == "derived" for c in s.capabilities}


def test_upstream_runners_are_qualified_and_of_both_apis():
    assert all("." in name for name in upstream_runners())
    assert set(upstream_runners().values()) == {"V1", "V2"}


def test_a_project_adds_an_adapter():
    own = next(s for s in adapters([{"name": "my_model", "capabilities": ["sings"]}]) if s.name == "my_model")
    assert (own.class_name, own.phase, own.capabilities) == ("MyModelAdapter", 6, ("sings",))


def test_a_project_adds_to_a_known_adapter():
    before = {s.name: s for s in adapters()}["mimo_audio"]
    after = {s.name: s for s in adapters([{"name": "mimo_audio", "class_names": ["Mine"], "methods": {"_m": "m"}}])}
    assert after["mimo_audio"].class_names == (*before.class_names, "Mine")
    assert dict(after["mimo_audio"].methods) == {**before.methods, "_m": "m"}
    assert after["mimo_audio"].phase == before.phase
    assert len(after) == len(adapters())


@pytest.mark.parametrize(
    ("class_names", "name", "adapter"),
    [
        (["MyTalkerForCausalLM"], "my_talker", "MyTalkerAdapter"),
        (["MyOmniForConditionalGeneration"], "my_omni", "MyOmniAdapter"),
        (["Model"], "model", "ModelAdapter"),
    ],
)
def test_the_adapter_that_is_proposed_for_a_class(class_names, name, adapter):
    spec = proposed_adapter(class_names)
    assert (spec.name, spec.class_name, list(spec.class_names)) == (name, adapter, class_names)
    assert spec.proposed
