"""The catalogue on the published releases: its 17 published entries, found again in the code or missed by it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from omni_migrate.facts.markers import find_markers
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.omni_blocks import Block, Upstream, dedented, find_blocks
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import upstream_runners
from omni_migrate.plan.catalogue import Catalogue, compare, read_catalogue, updated, write_catalogue
from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

WORKER = "vllm_omni/platforms/npu/worker"
FILES = {
    "OmniNPUModelRunner": "npu_model_runner.py",
    "NPUARModelRunner": "npu_ar_model_runner.py",
    "NPUGenerationModelRunner": "npu_generation_model_runner.py",
    "ExecuteModelState": "npu_ar_model_runner.py",
}
# A pair around code that the generation runner has from the platform too, unmarked; omni's stands right above it.
AROUND_UPSTREAM_CODE = {
    "0.28.0": [("marker-twin", "npu_ar_model_runner.py", 458)],
    "0.30.0": [("marker-twin", "npu_ar_model_runner.py", 379)],
}


class Published(NamedTuple):
    """An entry as published, by its place: `code` are its lines in 0.16.0 (long ones leave out their middle), `found`
    the first line of the block that it must be found in. `then` is what became of it in 0.30.0: its first line there,
    and whether its code is still the same; None if it is gone.
    """

    class_name: str
    method: str
    title: str
    location: str
    code: tuple[tuple[int, int], ...]
    found: int
    then: tuple[int, bool] | None


PUBLISHED = [
    Published("OmniNPUModelRunner", "load_model", "Talker MTP Initialization", "", ((30, 59),), 30, (71, False)),
    Published(
        "OmniNPUModelRunner",
        "_dummy_run",
        "Talker MTP Dummy Forward",
        "inside `set_ascend_forward_context`, before the main model forward",
        ((277, 289),),
        277,
        (398, False),
    ),
    Published(
        "OmniNPUModelRunner",
        "_dummy_run",
        "Extract Multimodal Outputs",
        "after the model forward, before dummy_compute_logits",
        ((303, 305),),
        303,
        (423, True),
    ),
    Published(
        "OmniNPUModelRunner", "_model_forward", "Omni Output Wrapping", "", ((327, 367), (384, 388)), 327, (447, False)
    ),
    Published("NPUARModelRunner", "__init__", "KV Transfer Manager", "", ((63, 70),), 63, (117, False)),
    Published(
        "NPUARModelRunner",
        "execute_model",
        "KV Transfer Before Update States",
        "at the very beginning",
        ((94, 103),),
        94,
        (332, False),
    ),
    Published(
        "NPUARModelRunner",
        "execute_model",
        "Custom _update_states Call",
        "inside the synchronize_input_prep context",
        ((118, 120),),
        118,
        None,
    ),
    Published(
        "NPUARModelRunner",
        "execute_model",
        "Extract Multimodal Outputs",
        "post-process section, after the hidden_states assignment",
        ((300, 312),),
        300,
        (671, False),
    ),
    Published(
        "NPUARModelRunner",
        "execute_model",
        "Compute Logits with sampling_metadata",
        "in both the broadcast_pp_output True and False branches",
        ((344, 352),),
        344,
        (732, True),
    ),
    Published(
        "NPUARModelRunner",
        "sample_tokens",
        "KV Extracted Req IDs",
        "at the beginning",
        ((407, 410),),
        407,
        (848, False),
    ),
    Published(
        "NPUARModelRunner",
        "sample_tokens",
        "Process Additional Information and Build Output",
        "after the bookkeeping sync, replaces the original output construction",
        ((507, 529), (550, 563)),
        507,
        (1024, False),
    ),
    Published(
        "NPUGenerationModelRunner",
        "execute_model",
        "Async Chunk Update",
        "prepare-input section, before synchronize_input_prep",
        ((88, 91),),
        88,
        (132, True),
    ),
    Published(
        "NPUGenerationModelRunner",
        "execute_model",
        "Seq Token Counts",
        "after the _preprocess call",
        ((225, 226),),
        225,
        (339, False),
    ),
    Published(
        "NPUGenerationModelRunner",
        "execute_model",
        "Run Generation Model",
        "inside the forward context",
        ((274, 285),),
        274,
        (386, True),
    ),
    Published(
        "NPUGenerationModelRunner",
        "sample_tokens",
        "Multimodal Output Processing",
        "",
        ((342, 344), (351, 351), (359, 359), (376, 392)),
        342,
        (467, False),
    ),
    Published(
        "NPUGenerationModelRunner",
        "_dummy_run",
        "Model Kwargs Init and Multimodal Extract",
        "before and after the model forward",
        ((659, 659), (704, 706)),
        704,
        (923, False),
    ),
    Published("ExecuteModelState", "NamedTuple", "extension", "", ((43, 58),), 43, (93, False)),
]

# What stands in the code of 0.30.0 and in no published entry, but for methods that no marker says to be omni's.
NEW_IN_0_30_0 = {
    "OmniNPUModelRunner": {
        "imports": 1,
        "initialize_kv_cache": 1,
        "_update_states": 1,
        "_dummy_run": 1,
        "_gather_runtime_additional_information": 1,
    },
    "NPUARModelRunner": {
        "imports": 1,
        "_ensure_tensor_values": 1,
        "load_model": 1,
        "_update_states": 1,
        "_make_buffer": 1,
        "capture_model": 1,
        "_capture_talker_mtp_graphs": 1,
        "_resolve_req_hidden_states": 1,
        "_build_multimodal_outputs": 1,
        "_request_final_stage_id": 1,
        "_request_needs_downstream_stage_payload": 1,
        "_resolve_pooler_payload_req_ids": 1,
        "_sparse_mm_req_ids": 1,
        "_is_sparse_audio_marker": 1,
        "execute_model": 5,
        "_sample": 1,
        "sample_tokens": 2,
        "_resolve_global_request_id": 1,
    },
    "NPUGenerationModelRunner": {
        "imports": 1,
        "__init__": 1,
        "execute_model": 2,
        "sample_tokens": 1,
        "_dummy_run": 2,
    },
}


@cache
def modules_of(version: str) -> Modules:
    return Modules(Workspace(resolve(f"vllm-omni=={version}", cwd=Path.cwd()).root))


@cache
def blocks_of(version: str) -> tuple[Block, ...]:
    modules = modules_of(version)
    found = find_blocks(modules, find_runners(modules, "vllm_omni", upstream_runners()), "npu")
    assert modules.unreadable == {}
    around_upstream_code = [(f.rule, f.path.rpartition("/")[2], f.line) for f in found.findings]
    assert around_upstream_code == AROUND_UPSTREAM_CODE.get(version, [])
    return found.blocks


def code_of(entry: Published) -> str:
    """The entry's code, taken from the release."""
    module = modules_of("0.16.0").get(f"{WORKER}/{FILES[entry.class_name]}")
    assert module is not None
    lines = [line for first, last in entry.code for line in module.lines[first - 1 : last]]
    return dedented(lines, len(lines[0]) - len(lines[0].lstrip()))


@cache
def published() -> Catalogue:
    """The published entries, in the published form: its last section is its own entry."""
    parts = ["# Reference", "Search for the markers."]
    for class_name, file in FILES.items():
        own = class_name == "ExecuteModelState"
        parts.append(f"## {class_name} {'Extension' if own else f'({file})'}")
        for entry in PUBLISHED:
            if entry.class_name == class_name:
                parts.append("" if own else f"### {entry.method} - {entry.title}")
                parts.append(f"Location: {entry.location}" if entry.location else "")
                parts.append(f"```python\n{code_of(entry)}\n```")
        parts.append("" if own else "---")
    return read_catalogue("\n\n".join(part for part in parts if part) + "\n")


def test_the_published_form_is_read():
    read = [(entry.class_name, entry.method, entry.title, entry.location) for entry in published().entries]
    assert read == [entry[:4] for entry in PUBLISHED]


def test_every_published_entry_is_a_block_of_0_16_0():
    comparison = compare(published(), blocks_of("0.16.0"))
    found = {(entry.class_name, entry.method, entry.title): block.lines[0][0] for entry, block in comparison.matched}
    assert found == {entry[:3]: entry.found for entry in PUBLISHED}
    assert comparison.gone == ()


def test_what_became_of_the_published_entries_in_0_30_0():
    comparison = compare(published(), blocks_of("0.30.0"))
    then = {entry.title: (block.lines[0][0], entry.code == block.code) for entry, block in comparison.matched}
    assert then == {entry.title: entry.then for entry in PUBLISHED if entry.then is not None}
    assert [entry.title for entry in comparison.gone] == ["Custom _update_states Call"]


def test_what_the_published_entries_miss_in_0_30_0():
    new = [block for block in compare(published(), blocks_of("0.30.0")).new if block.kind != "unmarked"]
    counted: dict[str, dict[str, int]] = {}
    for block in new:
        methods = counted.setdefault(block.class_name, {})
        methods[block.method] = methods.get(block.method, 0) + 1
    assert counted == NEW_IN_0_30_0


def test_how_much_of_the_closed_blocks_of_0_30_0_the_published_entries_cover():
    def code(lines: list[str]) -> list[str]:
        return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]

    known = {line for entry in published().entries for line in code(entry.code.split("\n"))}
    shares = []
    for file in list(FILES.values())[:3]:
        module = modules_of("0.30.0").get(f"{WORKER}/{file}")
        for pair in find_markers(module).pairs:
            lines = code(module.lines[pair.first_line : pair.last_line - 1])
            shares.append(sum(line in known for line in lines) / len(lines))
    assert (sum(share >= 0.5 for share in shares), len(shares)) == (8, 24)


@pytest.mark.parametrize("version", ["0.16.0", "0.30.0"])
def test_published_titles_and_sections_are_kept(version):
    fresh = updated(published(), blocks_of(version))
    text = write_catalogue(fresh)
    titles = {entry.title for entry in fresh.entries}
    assert {e.title for e in PUBLISHED if version == "0.16.0" or e.then is not None} <= titles
    assert [section.heading for section in fresh.sections] == [section.heading for section in published().sections]
    assert read_catalogue(text) == fresh
    again = compare(read_catalogue(text), blocks_of(version))
    assert (again.stale, again.gone, again.new) == ((), (), ())
    assert write_catalogue(updated(read_catalogue(text), blocks_of(version))) == text


@pytest.mark.parametrize(
    "version", ["0.14.0", "0.16.0", "0.18.0", "0.20.0", "0.22.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0"]
)
def test_every_closed_block_is_in_the_catalogue_of_its_release(version):
    text = write_catalogue(updated(None, blocks_of(version)))
    assert write_catalogue(updated(read_catalogue(text), blocks_of(version))) == text
    held = {line.strip() for entry in read_catalogue(text).entries for line in entry.code.split("\n")}
    for path in {block.path for block in blocks_of(version)}:
        module = modules_of(version).get(path)
        for pair in find_markers(module).pairs:
            lines = {line.strip() for line in module.lines[pair.first_line : pair.last_line - 1]}
            assert lines - {""} <= held, (path, pair.first_line)


def test_a_catalogue_of_one_release_is_stale_for_the_next():
    text = write_catalogue(updated(None, blocks_of("0.28.0")))
    comparison = compare(read_catalogue(text), blocks_of("0.30.0"))
    findings = comparison.findings("docs/blocks.md")
    assert len(findings) == len(comparison.stale) + len(comparison.gone) + len(comparison.new) > 0
    stale = [finding for finding in findings if finding.rule == "catalogue-stale"]
    assert all(re.match(r"### ", text.split("\n")[finding.line - 1]) for finding in stale)


def test_the_platforms_own_names_say_which_methods_are_additions():
    modules = modules_of("0.16.0")
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    names = {"profile_run", "_dummy_sampler_run", "execute_model"}
    upstream = Upstream(
        {runner.name: names for runner in runners if runner.platform == "npu"},
        {"ExecuteModelState": ("scheduler_output", "logits")},
    )
    blocks = find_blocks(modules, runners, "npu", upstream=upstream).blocks
    assert not [block for block in blocks if block.kind == "unmarked"]
    added = {(block.class_name, block.method) for block in blocks if block.kind == "addition"}
    assert added == {
        ("OmniNPUModelRunner", "_talker_mtp_forward"),
        ("NPUARModelRunner", "_resolve_global_request_id"),
        ("NPUGenerationModelRunner", "_update_request_states"),
        ("NPUGenerationModelRunner", "_run_generation_model"),
    }
    (state,) = (block for block in blocks if block.kind == "namedtuple")
    assert len(state.fields) == 10
    assert state.fields[-1] == "multimodal_outputs"
