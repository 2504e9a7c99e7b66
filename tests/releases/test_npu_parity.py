"""GPU features that reached the NPU runners one or more releases later: the gap is there before, and gone after."""

from __future__ import annotations

from functools import cache

import pytest
from npu_trees import ASCEND, modules, tree

from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.platform_parity import Item, compare
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import model_interface, platforms, upstream_runners
from omni_migrate.plan.workspace import Workspace

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


AR_FILE = "vllm_omni/platforms/npu/worker/npu_ar_model_runner.py"
GENERATION_FILE = "vllm_omni/platforms/npu/worker/npu_generation_model_runner.py"
FAULTS = [
    # file, text taken out of it or replaced, by what, the gap that it makes
    (AR_FILE, "OmniNPUModelRunner, OmniConnectorModelRunnerMixin, ", "OmniNPUModelRunner, ", ("base", "certain")),
    (
        GENERATION_FILE,
        "(OmniNPUModelRunner, OmniConnectorModelRunnerMixin)",
        "(OmniNPUModelRunner)",
        ("base", "certain"),
    ),
    (AR_FILE, "    prefix_cache_step_id: int | None = None\n", "", ("field", "likely")),
    (AR_FILE, "            prefix_cache_step_id,\n        ) = self", "        ) = self", ("arity", "certain")),
    (AR_FILE, "        self._prefix_cache_step_begin(scheduler_output)\n", "", ("call", "likely")),
    (
        GENERATION_FILE,
        "self.model.on_requests_finished(scheduler_output.finished_req_ids)",
        "pass",
        ("statement", "unsure"),
    ),
    (AR_FILE, 'getattr(self.model, "flush_pending_metadata", None)', "None", ("probe", "certain")),
    (AR_FILE, "    def _capture_talker_mtp_graphs(self)", "    def _capture(self)", ("method", "certain")),
    (
        AR_FILE,
        "                if num_scheduled_tokens <= 0:",
        "                if not num_scheduled_tokens:",
        ("statement", "unsure"),
    ),
    (GENERATION_FILE, 'model_kwargs["seq_token_counts"] = tokens\n', "pass\n", ("statement", "unsure")),
]


@pytest.mark.parametrize(("path", "old", "new", "expected"), FAULTS)
def test_a_change_that_npu_lost_is_found(path, old, new, expected):
    """What 0.30.0 has on both sides is taken from its NPU side: one gap more, of the kind and as sure as said."""
    version = "0.30.0"
    workspace = Workspace(modules("vllm_omni", version).workspace.root)
    text = workspace.read(path).decode()
    assert text.count(old) >= 1
    workspace.write(path, text.replace(old, new).encode())
    changed = Modules(workspace)
    classes = ClassTree(
        {
            "vllm_omni": changed,
            "vllm_ascend": modules("vllm_ascend", ASCEND[version]),
            "vllm": modules("vllm", version),
        }
    )
    runners = find_runners(changed, "vllm_omni", upstream_runners())
    found = compare(classes, runners, platforms(), model_interface())

    def lacking(items):
        return {(item.kind, item.platform_class, item.name): item.sure for item in items if item.state == "lacks"}

    before, after = lacking(items(version)), lacking(found)
    assert expected in {(key[0], sure) for key, sure in after.items() if key not in before}
