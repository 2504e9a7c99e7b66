"""The scenarios of the proof: which tiny model, which engine settings, which requests, and what must really happen.

Plain data; nothing here needs torch or vLLM, so the driver reads it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TAIL_LENGTHS = (5, 9, 4, 1, 13, 6)
"""Prompt lengths which, in chunks of four tokens, end in one-token tails: 4+1, 4+4+1, 4, 1, 4+4+4+1, 4+2."""


@dataclass(frozen=True)
class Scenario:
    """One engine run over one tiny model.

    `requires` names what must have been seen (each is a counter of `proof_trace`); a scenario that saw less is
    vacuous and fails. `only_if` are words that must occur in the published runners: a release without them doesn't
    have the behaviour, and the scenario is reported as not in that release.
    """

    name: str
    arch: str
    requires: tuple[str, ...]
    only_if: tuple[str, ...] = ()
    runner: str = "ar"
    lengths: tuple[int, ...] = TAIL_LENGTHS
    max_tokens: int = 8
    chunk: int = 4
    max_seqs: int = 4
    blocks: int | None = None
    async_scheduling: bool = False
    prefix_caching: bool = False
    prompt_embeds: bool = False
    model_buffer: bool = False
    cached_infos: bool = False
    mm_features: bool = False
    duplex: bool = False
    full_graphs: bool = False
    kv_transfer: bool = False
    seeded: tuple[int, ...] = ()
    dummy_run: bool = True
    rounds: int = 1
    engine_output_type: str = "audio"
    extra_args: dict[str, Any] = field(default_factory=dict)
    hf_config: dict[str, Any] = field(default_factory=dict)
    model_config: dict[str, Any] = field(default_factory=dict)


MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}}
LEGACY_MROPE = {
    **MROPE,
    "image_token_id": 500,
    "video_token_id": 501,
    "vision_start_token_id": 502,
    "vision_config": {"spatial_merge_size": 2},
}
CHUNKED = ("one-token tail", "mixed batch")
MTP = ("talker_mtp", "talker_mtp with several rows")

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("plain", "TinyPlain", (*CHUNKED, "forward"), max_tokens=6),
    Scenario(
        "scalar-overlay",
        "TinyTalker",
        (*CHUNKED, *MTP, "preprocess", "postprocess", "prompt embeds overlaid"),
        prompt_embeds=True,
    ),
    Scenario(
        "scalar-preempt",
        "TinyTalker",
        (*CHUNKED, *MTP, "preempted", "resumed", "recomputed past the prompt"),
        lengths=(17, 30, 13, 25, 6),
        blocks=6,
        max_tokens=40,
        chunk=8,
    ),
    Scenario("batched-mtp", "TinyBatched", (*CHUNKED, *MTP, "decode batch", "scalar decode never"), model_buffer=True),
    Scenario(
        "batched-preempt",
        "TinyBatched",
        (*MTP, "decode batch", "preempted", "resumed"),
        lengths=(17, 30, 13, 25, 6),
        blocks=6,
        max_tokens=40,
        chunk=8,
    ),
    Scenario(
        "batched-no-mtp",
        "TinyBatchedNoMtp",
        (*CHUNKED, "preprocess_decode_batch", "scalar decode never"),
        only_if=("Non-MTP batched decode",),
        prompt_embeds=True,
    ),
    # A runner that batches decode rows only with MTP takes the scalar hook here; either way it decodes.
    Scenario("batch-hook-no-mtp", "TinyBatchedNoMtp", (*CHUNKED, "decode hook"), max_tokens=5, chunk=3),
    Scenario(
        "hooks-only",
        "TinyHooks",
        (*CHUNKED, "preprocess", "postprocess", "scalar decode", "kv transfer of a request"),
        prompt_embeds=True,
        kv_transfer=True,
    ),
    Scenario("no-postprocess", "TinyNoPost", (*CHUNKED, *MTP), max_tokens=5, chunk=3),
    Scenario(
        "mimo",
        "MiMoAudioForConditionalGeneration",
        (*CHUNKED, "request id attached", "mm features attached"),
        mm_features=True,
    ),
    Scenario(
        "mrope-precomputed",
        "TinyMRope",
        (*CHUNKED, *MTP, "mrope positions asked", "precomputed positions used"),
        mm_features=True,
        extra_args={"target_h": 4, "target_w": 6},
        hf_config=MROPE,
    ),
    Scenario(
        "mrope-preempt",
        "TinyMRope",
        ("mrope positions asked", "preempted", "resumed", "precomputed positions used"),
        lengths=(17, 30, 13, 25, 6),
        blocks=6,
        max_tokens=40,
        chunk=8,
        hf_config=MROPE,
    ),
    Scenario("mrope-linear", "TinyMRopeLinear", (*CHUNKED, "mrope positions asked"), mm_features=True, hf_config=MROPE),
    Scenario("mrope-legacy", "TinyPlain", (*CHUNKED, "three position rows"), mm_features=True, hf_config=LEGACY_MROPE),
    Scenario("xdrope", "TinyXDRope", (*CHUNKED, "xdrope positions asked"), hf_config={"xdrope_section": [4, 4, 4, 4]}),
    Scenario("resident", "TinyResident", (*CHUNKED, *MTP, "code read back"), prompt_embeds=True),
    Scenario("seeds", "TinyTalker", (*MTP, "talker_mtp with a generator"), seeded=(0, 2, 3), max_tokens=10),
    Scenario(
        "seeds-per-row",
        "TinyPerRow",
        (*MTP, "talker_mtp with a generator per row"),
        only_if=("talker_mtp_accepts_per_row_generators",),
        seeded=(1, 2, 5),
        model_config={"subtalker_sampling_params": {"do_sample": True, "temperature": 0.7, "top_k": 9, "top_p": 0.8}},
    ),
    Scenario("async", "TinyTalker", (*CHUNKED, *MTP, "async scheduling"), async_scheduling=True, prompt_embeds=True),
    Scenario(
        "async-batched",
        "TinyBatched",
        (*CHUNKED, *MTP, "async scheduling", "decode batch", "preempted"),
        async_scheduling=True,
        lengths=(17, 30, 13, 25, 6),
        blocks=6,
        max_tokens=40,
        chunk=8,
    ),
    Scenario("separate-talker", "TinySeparateTalker", (*CHUNKED, *MTP, "talker_mtp in a dummy run"), model_buffer=True),
    # The talker's graph wrapper and its capture, with a wrapper that only calls: what a graph does isn't proven.
    Scenario(
        "graph-wrapper",
        "TinyGraphSafe",
        (*CHUNKED, *MTP, "graph wrapper in mode NONE", "graph wrapper in mode FULL"),
        only_if=("_capture_talker_mtp_graphs",),
        full_graphs=True,
    ),
    Scenario(
        "every-probe",
        "TinyEveryProbe",
        (
            *(*CHUNKED, *MTP, "preprocess_batch", "make_omni_output"),
            *("on_requests_finished", "cached infos merged", "kv metadata merged"),
        ),
        cached_infos=True,
        kv_transfer=True,
        model_config={"has_sampling_extra_args": True},
    ),
    Scenario(
        "replace-infos",
        "TinyReplace",
        (*CHUNKED, "cached infos merged"),
        only_if=("replace_runtime_additional_information",),
        cached_infos=True,
        model_buffer=True,
    ),
    Scenario("own-sampler", "TinySampler", (*CHUNKED, "model sampler"), only_if=("prefer_model_sampler",)),
    Scenario(
        "duplex-sampler",
        "TinyDuplexSampler",
        (*CHUNKED, "model sampler", "prepare_duplex_sampling"),
        only_if=("_apply_duplex_sampling",),
        duplex=True,
    ),
    Scenario(
        "post-sample",
        "TinyPostSample",
        (*CHUNKED, "post_sample_talker_mtp"),
        only_if=("post_sample_talker_mtp",),
        duplex=True,
    ),
    Scenario(
        "prefix-cache",
        "TinyTalker",
        ("talker_mtp", "prefix hit"),
        lengths=(40, 41, 60, 33),
        chunk=0,
        prefix_caching=True,
        rounds=2,
    ),
    Scenario("text-output", "TinyTalker", (*CHUNKED, *MTP), engine_output_type="text"),
    Scenario("generation-tensor", "TinyCode2WavTensor", ("generated",), runner="generation", max_tokens=1),
    Scenario("generation-list", "TinyCode2WavList", ("generated",), runner="generation", max_tokens=1),
    Scenario(
        "generation-dict",
        "TinyCode2WavDict",
        ("generated", "one-token tail", "cached infos merged"),
        runner="generation",
        max_tokens=1,
        cached_infos=True,
    ),
    Scenario(
        "generation-mrope",
        "TinyCode2WavMRope",
        ("generated", "one-token tail", "mrope positions asked"),
        runner="generation",
        max_tokens=1,
        mm_features=True,
        hf_config=MROPE,
        model_config={"async_chunk": True},
    ),
    Scenario("generation-hooks", "TinyCode2WavHooks", ("generated", "preprocess"), runner="generation", max_tokens=1),
)
