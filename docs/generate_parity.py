"""Writes docs/parity.md, the feature parity matrix of RFC-005 §5.2: python docs/generate_parity.py [--check]

Each cell names the tests that prove it, or says what is missing or cannot be proven here. With --check nothing is
written; the exit code is 1 if the page is out of date or names a test that does not exist.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "parity.md"
ENGINE, UNIT = "tests/engine", "tests/runners"
SAME = f"{ENGINE}/test_engine_same.py::test_v1_and_v2_do_the_same"
MEANING = f"{ENGINE}/test_engine_meaning.py::"
UNSAID = f"{ENGINE}/test_engine_unsaid.py::"
NOT_HERE = "cannot be proven here: "

# feature, proof of V1 and V2 (they share each test, which runs under both), notes
ROWS: list[tuple[str, tuple[str, ...], str]] = [
    ("Text generation", (f"{SAME}[plain]", f"{SAME}[noop]"), ""),
    (
        "Multimodal input (image, video, audio)",
        (
            f"{MEANING}test_images_decide_the_tokens_of_the_requests_that_have_some",
            f"{MEANING}test_an_image_that_is_cut_into_chunks_is_seen_whole",
            f"{SAME}[mimo]",
        ),
        "Images, through vLLM's own processor and encoder path, with and without hooks. Video and audio take the same "
        "path and are not run; their metadata reaches the position hook of `mrope`.",
    ),
    ("Multimodal output", (f"{MEANING}test_multimodal_outputs_are_split_by_request",), "tensor, list and dict"),
    (
        "Multi-stage pipeline",
        (f"{MEANING}test_the_codes_of_a_talker_become_waves_in_the_next_stage",),
        "Two engines in one process; the orchestrator that connects stages is not part of this repository.",
    ),
    (
        "M-RoPE",
        (f"{SAME}[mrope]", f"{SAME}[mrope-linear]"),
        "With grid metadata, target sizes and precomputed decode positions.",
    ),
    (
        "XD-RoPE",
        (f"{ENGINE}/test_engine_same.py::test_nothing_is_logged_but_the_missing_xd_rope",),
        "On 0.28 the scenario `xdrope-four` runs four dimensions. vLLM has none from 0.30 on: one logged line, and the "
        "model's M-RoPE positions are used.",
    ),
    (
        "Talker MTP",
        (
            f"{MEANING}test_mtp_runs_for_decode_rows_alone",
            f"{MEANING}test_mtp_decides_the_tokens",
            f"{MEANING}test_a_talker_that_calls_it_mtp_is_not_skipped",
            f"{MEANING}test_a_seed_decides_a_request_alone",
        ),
        "",
    ),
    (
        "preprocess and postprocess, scalar and batched",
        (
            f"{MEANING}test_batched_decode_hooks_and_resident_keys_do_what_the_scalar_hook_does",
            f"{MEANING}test_batched_hooks_take_every_decode_row",
        ),
        "",
    ),
    (
        "Phase contract",
        (f"{MEANING}test_the_rows_of_the_phase_contract", f"{UNIT}/test_step.py::test_the_table_of_the_phase_contract"),
        "",
    ),
    ("Prompt embeds", (f"{MEANING}test_prompt_embeddings_reach_a_model_without_hooks", f"{SAME}[talker]"), ""),
    (
        "Additional information, its whole life",
        (
            f"{UNIT}/test_host_copy.py::test_payloads_survive_serialisation_between_processes",
            f"{MEANING}test_a_request_that_is_aborted_and_comes_again_starts_from_nothing",
            f"{MEANING}test_thousands_of_requests_some_aborted_leave_nothing",
        ),
        "",
    ),
    (
        "Chunked prefill, async scheduling",
        (f"{MEANING}test_chunks_batches_order_and_async_scheduling_change_nothing",),
        "",
    ),
    (
        "Preemption and resume",
        (
            f"{MEANING}test_a_preempted_request_ends_like_an_unpreempted_one",
            f"{MEANING}test_no_hook_sees_a_position_twice",
        ),
        "",
    ),
    (
        "Prefix caching",
        (f"{MEANING}test_prefix_caching_gives_the_same_tokens_again",),
        "vLLM's cache of KV blocks. omni's own cache of hidden states and multimodal outputs is missing, and vLLM keys "
        "blocks by token ids: requests with the same tokens and other payloads need a `cache_salt`.",
    ),
    (
        "KV transfer",
        (f"{MEANING}test_kv_blocks_of_the_requests_that_ask_are_read_before_they_are_freed",),
        "The manager's interface with an in-memory implementation; no network transport.",
    ),
    (
        "Generation stages",
        (
            f"{MEANING}test_a_generation_stage_gives_each_request_its_wave",
            f"{MEANING}test_a_generation_stage_may_return_a_tensor_or_a_list",
        ),
        "",
    ),
    (
        "CUDA graph capture",
        (f"{UNIT}/test_hooks.py::test_a_replayed_graph_gives_the_outputs_that_were_captured",),
        NOT_HERE + "the paths are tested with fakes; no GPU ran them.",
    ),
    (
        "Copies beside the next step",
        (f"{UNIT}/test_host_copy.py::test_a_copy_waits_for_the_main_stream_and_blocks_only_when_it_is_wanted",),
        NOT_HERE + "streams and pinned memory are fakes.",
    ),
    (
        "NPU support",
        (f"{UNIT}/test_platforms_static.py::test_every_method_that_we_override_is_there_and_may_be_called_as_before",),
        NOT_HERE + "looked up in the sources of vllm-ascend 0.25.1rc1 and 0.26.0rc1, V1 and V2.",
    ),
    (
        "XPU support",
        (f"{UNIT}/test_platforms_static.py::test_every_method_that_we_override_is_there_and_may_be_called_as_before",),
        NOT_HERE + "looked up in the sources of vLLM 0.28.0 and 0.32.0, V1 and V2.",
    ),
    (
        "ROCm and MUSA",
        (f"{UNIT}/test_host_copy.py::test_nothing_outside_a_platform_names_cuda",),
        NOT_HERE + "they run the GPU classes, which name no CUDA.",
    ),
    (
        "Pipeline parallelism with a talker",
        (f"{UNIT}/test_hooks.py::test_what_would_go_wrong_in_silence_is_refused_by_name",),
        "missing: what a talker feeds back cannot cross ranks; refused by name when the model is loaded.",
    ),
    (
        "Speculative decoding",
        (
            f"{UNSAID}test_what_v2_lacks_is_named_in_the_log_and_runs_on_v1",
            f"{UNSAID}test_a_decode_span_of_several_tokens_is_decode_and_gets_no_mtp",
            f"{UNIT}/test_hooks.py::test_what_would_go_wrong_in_silence_is_refused_by_name",
        ),
        "A decode span of several tokens gets no MTP, by the phase contract. V2 refuses it by name, when the model is "
        "loaded, for a model with hooks; without hooks it needs a draft model there, which is not run here. For kinds "
        "of drafts that V2 lacks vLLM takes V1 and logs the reason.",
    ),
    ("Diffusion models", (), "a runner of their own, which the V2 port does not touch."),
]
STATES = {"Diffusion models": ("separate", "separate"), "Speculative decoding": ("yes", "unproven")}
"""Features whose state the notes do not say."""


def tests() -> set[str]:
    """Every test function, as `file::name`."""
    found = set()
    for file in [*(ROOT / ENGINE).glob("test_*.py"), *(ROOT / UNIT).glob("test_*.py")]:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.add(f"{file.relative_to(ROOT).as_posix()}::{node.name}")
    return found


def page() -> str:
    """The page's text."""
    lines = [
        "<!-- Generated by docs/generate_parity.py; edit that. -->",
        "",
        "# Feature parity of the V1 and V2 runners",
        "",
        "A test below runs under both runners, and `test_v1_and_v2_do_the_same` compares them exactly, in every",
        "scenario of `tests/engine/engine_scenarios.py`. `make test-engine` proves it on vLLM 0.32.0, and",
        "`make test-matrix` on 0.28.0, 0.30.0, 0.31.0 and 0.32.0.",
        "",
        "| feature | V1 | V2 | proof | notes |",
        "| --- | --- | --- | --- | --- |",
    ]
    for feature, proofs, notes in ROWS:
        state = "unproven" if notes.startswith(NOT_HERE) else "no" if notes.startswith("missing: ") else "yes"
        v1, v2 = STATES.get(feature, (state, state))
        named = "<br>".join(f"`{proof.split('/')[-1]}`" for proof in proofs)
        lines.append(f"| {feature} | {v1} | {v2} | {named} | {notes} |")
    return "\n".join([*lines, ""])


def main() -> int:
    known, text = tests(), page()
    missing = [proof for _, proofs, _ in ROWS for proof in proofs if proof.split("[")[0] not in known]
    for proof in missing:
        print(f"no such test: {proof}", file=sys.stderr)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("docs/parity.md is out of date: python docs/generate_parity.py", file=sys.stderr)
        return 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
