"""The V2 port that 0.30.0 publishes: what is ported, and its known faults by file and line."""

from collections import Counter
from pathlib import Path

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.facts.v2_ports import V2Port, find_v2_port
from omni_migrate.knowledge import hooks, upstream_runners
from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

STATE = "vllm_omni/worker_v2/model_states/omni_model_state.py"


def port_of(version: str) -> V2Port | None:
    source = resolve(f"vllm-omni=={version}", cwd=Path.cwd())
    modules = Modules(Workspace(source.root))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    return find_v2_port(modules, hooks(), "vllm_omni", runners)


@pytest.fixture(scope="module")
def port() -> V2Port:
    found = port_of("0.30.0")
    assert found is not None
    return found


def test_none_before_0_30() -> None:
    for version in ("0.14.0", "0.28.0"):
        assert port_of(version) is None


def test_its_classes(port: V2Port) -> None:
    assert [runner.name for runner in port.runners] == [
        "OmniGPUModelRunner",
        "OmniARModelRunner",
        "OmniGenerationModelRunner",
    ]
    assert [(state.name, state.path, state.line) for state in port.states] == [("OmniModelState", STATE, 82)]


def test_hook_by_hook(port: V2Port) -> None:
    assert {hook.hook: hook.status for hook in port.hooks} == {
        "request-store": "different",
        "payload-decode": "ported",
        "prompt-embeds-overlay": "missing",
        "forward-kwargs": "different",
        "postprocess-updates": "ported",
        "update-merge": "ported",
        "output-split": "ported",
        "model-forward": "different",
        "mrope": "different",
        "talker-mtp": "different",
        "preprocess-postprocess": "different",
        "runner-output": "ported",
        "preprocess-batch": "different",
        "preprocess-decode-batch": "ported",
        "streaming-updates": "missing",
        "async-chunk-updates": "ported",
        "request-token-spans": "different",
        "post-sample-mtp": "missing",
    }


def test_every_finding_in_its_place(port: V2Port) -> None:
    assert Counter(found.rule for found in port.findings) == {
        "v2-refused": 5,
        "v2-no-overlay": 1,
        "v2-mrope-kwargs": 1,
        "v2-hook-missing": 2,
        "v2-renamed-capability": 2,
        "v2-lost-on-preemption": 1,
        "v2-forward-kwargs": 4,
        "v2-phase-by-length": 1,
        "v2-forked-method": 2,
    }
    places = {(found.rule, found.path, found.line) for found in port.findings}
    assert {
        ("v2-refused", "vllm_omni/config/stage_config.py", 876),  # NPU and XPU
        ("v2-refused", "vllm_omni/worker_v2/omni_model_runner.py", 159),  # pipeline parallelism
        ("v2-refused", "vllm_omni/worker_v2/omni_model_runner.py", 164),  # prefill context parallelism
        ("v2-no-overlay", "vllm_omni/worker_v2/model_states/intermediate_buffer.py", 72),
        ("v2-mrope-kwargs", STATE, 76),
        ("v2-renamed-capability", STATE, 154),
        ("v2-renamed-capability", STATE, 593),
        ("v2-lost-on-preemption", STATE, 346),
        ("v2-phase-by-length", STATE, 692),
        ("v2-forked-method", "vllm_omni/worker_v2/omni_model_runner.py", 399),
        ("v2-forked-method", "vllm_omni/worker_v2/omni_generation_model_runner.py", 285),
    } <= places


def test_five_of_six_talkers_skip_mtp(port: V2Port) -> None:
    assert port.skipped["talker_mtp"] == (
        "Audio8TTSSlowARForConditionalGeneration",
        "FishSpeechSlowARForConditionalGeneration",
        "MossTTSLocalTalkerForGeneration",
        "PersonaPlexTalkerForConditionalGeneration",
        "Qwen3OmniMoeForConditionalGeneration",
    )


def test_models_that_fail_and_models_that_lose_their_grids(port: V2Port) -> None:
    (found,) = [found for found in port.findings if found.rule == "v2-mrope-kwargs"]
    assert "Qwen2_5OmniForConditionalGeneration requires image_grid_thw, video_grid_thw" in found.message
    assert "GlmImageForConditionalGeneration goes without image_grid_thw" in found.message
    assert "HunyuanImage3ForConditionalGeneration goes without image_grid_thw, video_grid_thw" in found.message


def test_keywords_that_the_forward_misses(port: V2Port) -> None:
    assert [found.symbol for found in port.findings if found.rule == "v2-forward-kwargs"] == [
        "omni_query_start_loc",
        "request_sample_eligible",
        "request_token_spans",
        "sampling_extra_args",
    ]
