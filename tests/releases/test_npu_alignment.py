"""The published NPU runners against the vllm-ascend releases that they were copied from."""

from __future__ import annotations

import ast
import random
from collections import Counter

import pytest
from npu_trees import ASCEND, modules, omni_lines, overrides, tree

from codemods.mark_blocks import MARKER, mark_blocks
from omni_migrate.facts.alignment import Text, align, missed
from omni_migrate.facts.modules import Module
from omni_migrate.facts.omni_lines import Figures, figures
from omni_migrate.plan.workspace import decode

pytestmark = pytest.mark.release

NEAR = ("0.25.1rc1", "0.26.0rc1", "0.27.1rc1")
PLANTED = (
    "self.omni_payloads.flush()",
    "if self.omni_state is not None:\n    self.omni_state.advance(scheduler_output)",
    "omni_info = getattr(self.model, 'omni_info', None)",
    "for omni_key, omni_value in self.omni_table.items():\n    omni_value.update(omni_key)",
    "try:\n    self.omni_link.poll()\nexcept TimeoutError as omni_error:\n    self.omni_log(omni_error)",
    "self._omni_steps += 1",
)


def test_every_copied_method_of_0_30_0_is_found_and_its_base_chosen():
    copies = {o.place.symbol: o for o in overrides("0.30.0", NEAR) if o.kind == "copy"}
    assert {name: o.choice.base for name, o in copies.items()} == {
        "OmniNPUModelRunner._update_states": "0.26.0rc1",
        "OmniNPUModelRunner._dummy_run": "0.26.0rc1",
        "OmniNPUModelRunner._model_forward": "0.26.0rc1",
        "NPUARModelRunner.execute_model": "0.27.1rc1",
        "NPUARModelRunner.sample_tokens": "0.27.1rc1",
        "ExecuteModelState": "0.26.0rc1",
        "NPUGenerationModelRunner.execute_model": "0.26.0rc1",
        "NPUGenerationModelRunner.sample_tokens": "0.27.1rc1",
        "NPUGenerationModelRunner._dummy_run": "0.26.0rc1",
    }
    assert copies["OmniNPUModelRunner._update_states"].choice.undecided == ("0.25.1rc1", "0.27.1rc1")
    assert copies["OmniNPUModelRunner._dummy_run"].choice.undecided == ()


@pytest.mark.parametrize(
    ("ascend", "expected"),
    [
        (("0.25.1rc1",), Figures(omni=528, unmarked=162, upstream=1158, upstream_marked=37, copies=9)),
        (NEAR, Figures(omni=496, unmarked=130, upstream=1190, upstream_marked=37, copies=9)),
    ],
)
def test_lines_of_0_30_0_by_origin_and_marker(ascend, expected):
    assert figures(omni_lines("0.30.0", ascend)) == expected


# Code lines of copied methods: omni's, of these unmarked, upstream's, of these marked.
FIGURES = {
    "0.14.0": (247, 91, 889, 10),
    "0.16.0": (204, 65, 921, 19),
    "0.18.0": (257, 66, 1046, 18),
    "0.20.0": (329, 72, 1118, 22),
    "0.22.0": (377, 111, 1110, 22),
    "0.24.0": (451, 128, 1121, 21),
    "0.26.0": (507, 142, 1182, 29),
    "0.28.0": (536, 167, 1167, 37),
    "0.30.0": (520, 154, 1166, 37),
}


@pytest.mark.parametrize("version", ASCEND)
def test_every_release_can_be_aligned(version):
    found = omni_lines(version, [ASCEND[version]])
    counted = figures(found)
    assert FIGURES[version] == (counted.omni, counted.unmarked, counted.upstream, counted.upstream_marked)
    for lines in found:
        assert sum(len(lines.of(kind)) for kind in ("marked", "unmarked", "upstream", "upstream-marked")) == len(
            lines.origins
        )


def planted(text: str, rng: random.Random, count: int) -> tuple[str, set[int]]:
    """`text`, one function, with statements put in at random places of its bodies; and the lines where they stand."""
    lines = text.splitlines()
    function = ast.parse(text).body[0]
    inner = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function and n.col_offset]
    inner = [n for n in inner if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    inner = [n for n in inner if lines[n.lineno - 1][: n.col_offset].strip() == "" and not _is_elif(n, lines)]
    places = sorted(rng.sample(inner, count), key=lambda n: n.lineno, reverse=True)
    marks: list[tuple[int, int]] = []
    for node in places:
        rows = [" " * node.col_offset + row for row in rng.choice(PLANTED).splitlines()]
        lines[node.lineno - 1 : node.lineno - 1] = rows
        marks = [(first + len(rows), size) for first, size in marks] + [(node.lineno, len(rows))]
    return "\n".join(lines) + "\n", {line for first, size in marks for line in range(first, first + size)}


def _is_elif(node: ast.stmt, lines: list[str]) -> bool:
    return lines[node.lineno - 1].lstrip().startswith(("elif", "@"))


@pytest.mark.parametrize("seed", range(4))
def test_planted_statements_are_found_in_copies_of_upstream_methods(seed):
    """40 statements, ten a seed, in methods of vllm-ascend that are otherwise as published: all found, nothing else."""
    rng = random.Random(seed)
    upstream = tree("0.30.0", "0.26.0rc1").find("vllm_ascend.worker.model_runner_v1.NPUModelRunner")
    for name in ("execute_model", "sample_tokens", "_dummy_run", "_prepare_inputs", "_build_attention_metadata"):
        node = upstream.methods()[name]
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        text = "".join(row[4:] if row.strip() else row for row in upstream.module.lines[first - 1 : node.end_lineno])
        changed, where = planted(text, rng, 2)
        module = Module("m.py", decode(changed.encode()))
        found = align(Text(module, "", module.tree.body[0]), Text(upstream.module, upstream.short, node))
        assert {line for line, origin in found.lines.items() if origin != "upstream"} == where


def test_planted_statements_are_found_among_the_edits_of_a_release():
    """40 statements in the copies of 0.30.0 as published: at least nine of ten are told from upstream's."""
    rng = random.Random(7)
    found, total = 0, 0
    for override in overrides("0.30.0", ["0.26.0rc1"]):
        node = override.text.node
        if override.kind != "copy" or len(override.origins()) < 100:
            continue
        lines = override.text.module.lines
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        text = "".join(row[4:] if row.strip() else row for row in lines[first - 1 : node.end_lineno])
        changed, where = planted(text, rng, 7)
        module = Module("m.py", decode(changed.encode()))
        again = align(Text(module, "", module.tree.body[0]), override.upstream)
        found += sum(again.lines.get(line) == "omni" for line in where)
        total += len(where)
    assert total > 40
    assert found >= 0.9 * total


def test_marking_adds_comment_lines_only_and_leaves_nothing_to_mark():
    by_path: dict[str, list] = {}
    for lines in omni_lines("0.30.0", NEAR):
        by_path.setdefault(lines.override.place.path, []).append(lines)
    for path, found in by_path.items():
        text = modules("vllm_omni", "0.30.0").get(path).text
        ours = {line for lines in found for line in lines.of("unmarked") if lines.override.kind == "copy"}
        result = mark_blocks(text, ours)
        rows = result.splitlines(keepends=True)
        assert "".join(row for row in rows if row.strip() != MARKER) == text
        moved = [number for number, row in enumerate(rows, 1) if row.strip() != MARKER]
        enclosed, inside = set(), False
        for number, row in enumerate(rows, 1):
            inside ^= row.strip() == MARKER
            enclosed |= {number} if inside else set()
        assert mark_blocks(result, {moved[line - 1] for line in ours}, enclosed) == result


def test_upstreams_changes_that_the_copies_of_0_30_0_missed():
    old, new = "0.26.0rc1", "0.30.0rc2"
    (execute,) = [o for o in overrides("0.30.0", [old]) if o.place.symbol == "NPUARModelRunner.execute_model"]
    (newest,) = [o for o in overrides("0.30.0", [new]) if o.place.symbol == "NPUARModelRunner.execute_model"]
    found = missed(execute.text, execute.upstream, newest.upstream)
    assert Counter(change.kind for change in found) == {"added": 12, "changed": 6}
    texts = [change.text for change in found]
    assert "self._cpp_execution_time_ms = None" in texts
    assert "self.update_eplb_heat_collection_status(num_tokens_padded, num_tokens_across_dp)" in texts
