"""The faults of `make prove-port` can be planted in what is written, and its scenarios are there."""

from __future__ import annotations

import re

import pytest
from port_faults import FAULTS, plant
from prove_port import ENGINE, HERE, PARTLY, SCENARIOS, differences

from omni_migrate.runners import in_tree_worker


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.path != "binding.py"], ids=lambda fault: fault.name
)
def test_a_fault_is_planted_once(fault, tmp_path):
    for path, data in in_tree_worker().items():
        file = tmp_path / "tree" / "vllm_omni" / "worker" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    plant(tmp_path / "tree", tmp_path / "copy", fault)
    text = (tmp_path / "copy" / "vllm_omni" / "worker" / fault.path).read_text()
    assert fault.new in text
    assert text != in_tree_worker()[fault.path].decode()


def test_the_scenarios_are_there():
    text = ENGINE.with_name("engine_scenarios.py").read_text() + (HERE / "ported_shim.py").read_text()
    known = set(re.findall(r'Scenario\(\s*"([^"]+)"', text))
    assert set(SCENARIOS) <= known
    assert set(PARTLY) <= set(SCENARIOS)
    assert {name for fault in FAULTS for name in fault.scenarios} <= set(SCENARIOS)


def test_a_quantity_that_is_left_out_is_not_compared_and_every_other_is():
    one = {"tokens": {"0": [1]}, "outputs": {}, "hidden": {}, "hooks": {"0": ["a"]}, "kv": []}
    other = {**one, "hooks": {"0": ["b"]}}
    assert differences(one, other, "batched-no-mtp") == {}
    assert set(differences(one, other, "batched")) == {"hooks"}
    assert set(differences(one, {**one, "tokens": {"0": [2]}}, "batched-no-mtp")) == {"tokens"}
    assert "error" in differences(one, {"error": "died"}, "batched")
