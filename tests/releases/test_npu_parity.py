"""GPU features that reached the NPU runners one or more releases later: the gap is there before, and gone after."""

from __future__ import annotations

from functools import cache

import pytest
from npu_trees import ASCEND, modules, tree

from omni_migrate.facts.platform_parity import Item, compare
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import model_interface, platforms, upstream_runners

pytestmark = pytest.mark.release

AR, GENERATION, BASE = "NPUARModelRunner", "NPUGenerationModelRunner", "OmniNPUModelRunner"
CASES = [
    # class, kind, name (or how it begins), releases with the gap, the first without
    (BASE, "probe", "has_preprocess", ("0.16.0", "0.18.0", "0.20.0", "0.22.0"), "0.24.0"),  # in _dummy_run
    (AR, "method", "_sample", ("0.20.0",), "0.22.0"),  # prefer_model_sampler
    (AR, "base", "OmniConnectorModelRunnerMixin", ("0.20.0", "0.22.0", "0.24.0"), "0.26.0"),
    (GENERATION, "base", "OmniConnectorModelRunnerMixin", ("0.20.0", "0.22.0", "0.24.0"), "0.26.0"),
    (AR, "statement", "slot_mapping_gpu = ", ("0.22.0", "0.24.0"), "0.26.0"),  # prefix cache
    (AR, "method", "_deferred_prefix_cache_mm_keys", ("0.22.0",), "0.24.0"),  # prefix cache
    (AR, "keyword", "hidden_states_cpu", ("0.22.0", "0.24.0", "0.26.0", "0.28.0"), "0.30.0"),  # prefix cache
    (AR, "method", "_sparse_mm_req_ids", ("0.22.0",), "0.24.0"),  # multimodal outputs by request
    (AR, "statement", "if mm_key in {", ("0.22.0",), "0.24.0"),  # multimodal outputs by request
    (GENERATION, "probe", "on_requests_finished", ("0.24.0",), "0.26.0"),
    (AR, "method", "_resolve_duplex_sampling_hook", ("0.26.0",), "0.28.0"),
]


@cache
def items(version: str) -> tuple[Item, ...]:
    runners = find_runners(modules("vllm_omni", version), "vllm_omni", upstream_runners())
    return compare(tree(version, ASCEND[version]), runners, platforms(), model_interface())


def gaps(version: str, cls: str, kind: str, name: str) -> list[Item]:
    return [
        item
        for item in items(version)
        if item.state == "lacks" and (item.platform_class, item.kind) == (cls, kind) and item.name.startswith(name)
    ]


@pytest.mark.parametrize(("cls", "kind", "name", "before", "after"), CASES)
def test_a_feature_that_came_to_npu_later_is_a_gap_until_then(cls, kind, name, before, after):
    for version in before:
        found = gaps(version, cls, kind, name)
        assert found, version
        assert kind == "statement" or all(item.sure != "unsure" for item in found), version
    assert gaps(after, cls, kind, name) == []


def test_a_gap_names_both_sides():
    (gap,) = gaps("0.22.0", BASE, "probe", "has_preprocess")
    assert (gap.gpu.path, gap.gpu.symbol) == ("vllm_omni/worker/gpu_model_runner.py", "OmniGPUModelRunner._dummy_run")
    assert (gap.place.path, gap.place.symbol) == (
        "vllm_omni/platforms/npu/worker/npu_model_runner.py",
        "OmniNPUModelRunner._dummy_run",
    )
    line = modules("vllm_omni", "0.22.0").get(gap.gpu.path).lines[gap.gpu.line - 1]
    assert "has_preprocess" in line


@pytest.mark.parametrize("version", ASCEND)
def test_xpu_runners_inherit_everything(version):
    xpu = [item for item in items(version) if item.platform == "xpu"]
    assert xpu
    assert [item for item in xpu if item.state == "lacks"] == []
