"""The parity matrix of a ported tree: each cell says what is there, and where."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from omni_migrate.errors import InputError
from omni_migrate.facts.modules import Modules
from omni_migrate.knowledge import read_toml
from omni_migrate.plan.v2_port import V2Port
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.parity_matrix import Cell, Feature, draw_matrix, parity_matrix, redraw_matrix
from omni_migrate.runners import in_tree_worker

RUNNER = "def sample_tokens(self):\n    self.prompt_embeds_cpu = talker_mtp\n    self.omni_prefix_cache = None\n"
WRITTEN = b"""
PAYLOAD_FIELDS = ()


def v1_reason(config):
    return None


class FinishedKVTransfer:
    pass
"""
"""What a written binding has beside the in-tree one's names."""
V1 = "vllm_omni/worker/gpu_model_runner.py"


def matrix(tree, sites=(), ported=True, **files):
    modules = Modules(Workspace(tree(files={"vllm_omni/__init__.py": "", V1: RUNNER, **files})))
    port = V2Port(modules, "vllm_omni")
    for path, data in port.files.items() if ported else ():
        modules.workspace.write(path, data)
    if ported:
        modules.workspace.write("vllm_omni/worker/binding.py", in_tree_worker()["binding.py"] + WRITTEN)
    return {feature.name: feature for feature in parity_matrix(modules, "vllm_omni", sites)}


def test_a_feature_of_both_names_where_each_has_it(tree):
    feature = matrix(tree)["Prompt embeds"]
    assert (feature.v1.state, feature.v1.evidence) == ("yes", (f"{V1}:2 prompt_embeds_cpu",))
    assert feature.v2.state == "yes"
    (place,) = feature.v2.evidence
    path, _, rest = place.partition(":")
    line, _, symbol = rest.partition(" ")
    assert (path, symbol) == ("vllm_omni/worker/step_inputs.py", "StepInputs.prepare_prefill_embeds")
    assert b"def prepare_prefill_embeds" in in_tree_worker()["step_inputs.py"].splitlines()[int(line) - 1]


def test_without_a_port_what_v1_has_is_missing(tree):
    found = matrix(tree, ported=False)
    assert found["Prompt embeds"].v2.state == "missing"
    assert found["Prefix cache of hidden states"].v2.state == "missing"
    assert found["A sampler of the model's own"].v2.state == "no"


def test_what_stays_on_v1_names_the_choice(tree):
    feature = matrix(tree)["Prefix cache of hidden states"]
    assert feature.v2.state == "V1"
    assert feature.v2.evidence[0].endswith(" v1_reason")


def test_a_hook_that_is_found_is_the_evidence_of_v1(tree):
    site = SimpleNamespace(path=V1, line=7, hook="talker-mtp", symbol="Runner._talker_mtp_forward")
    other = SimpleNamespace(path=V1, line=9, hook="mrope", symbol="Runner._init")
    found = matrix(tree, [site, other])
    assert found["Talker MTP"].v1.evidence == (f"{V1}:7 Runner._talker_mtp_forward",)
    assert found["M-RoPE"].v1.evidence == (f"{V1}:9 Runner._init",)


def test_a_platform_that_forces_v1_is_named(tree):
    guard = "        if self.use_v2_model_runner:\n            self.use_v2_model_runner = False\n"
    text = f"class W:\n    def init(self):\n{guard}"
    found = matrix(tree, **{"vllm_omni/platforms/xpu/worker/w.py": text, "vllm_omni/platforms/npu/worker/r.py": ""})
    assert found["XPU support"].v2.evidence == ("vllm_omni/platforms/xpu/worker/w.py:1 W",)
    assert found["NPU support"].v2.state == "missing"


def test_every_place_of_the_data_is_one_that_the_in_tree_modules_have(tree):
    found = matrix(tree)
    for entry in read_toml("parity.toml")["feature"]:
        if entry.get("v2"):
            assert found[entry["name"]].v2.state in ("yes", "unproven"), entry["name"]


def test_the_page_has_a_row_a_feature_and_says_how_many_places_it_leaves_out(tree):
    sites = [SimpleNamespace(path=V1, line=n, hook="mrope", symbol="R.m") for n in range(1, 6)]
    page = draw_matrix(tuple(matrix(tree, sites).values()), "1.0")
    rows = [line for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == sum(entry.get("ported", True) for entry in read_toml("parity.toml")["feature"])
    assert "<br>and 2 more" in next(row for row in rows if row.startswith("| M-RoPE"))
    assert all(row.count("|") == 5 for row in rows)
    assert "vllm-omni 1.0" in page.splitlines()[0]


OLD = [Feature("One", Cell("yes", ("a.py:1 x",)), Cell("missing"), ""), Feature("Two", Cell("no"), Cell("no"), "known")]
NEW = [
    Feature("One", Cell("yes", ("a.py:9 x",)), Cell("missing"), ""),
    *OLD[1:],
    Feature("Three", *[Cell("no")] * 2, ""),
]
PAGE = draw_matrix(OLD, "1.0")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| known |", "| known, and *ours* |"),
        ("| missing |  |", "| missing | ours \\| two |"),
        ("Written by", "Our own words.\n\nWritten by"),
        ("| Two |", "| Ours | by hand | see there | none |\n| Two |"),
        ("known |\n", "known |\n\nOurs below.\n"),
        ("known |\n", "known |"),
        ("# Feature parity", "# Our parity"),
        ("\n", "\r\n"),
    ],
)
def test_what_people_wrote_on_the_page_stays(old, new):
    page = PAGE.replace(old, new).encode()
    after = redraw_matrix(page, NEW, "1.1")
    assert b"a.py:9 x" in after and b"| Three |" in after
    kept = [line for line in page.splitlines() if b"a.py" not in line and b"# Feature parity" not in line]
    rest = iter(after.splitlines())
    assert [line for line in kept if all(other != line for other in rest)] == []
    assert b"ours" not in page or b"ours" in after
    assert redraw_matrix(after, NEW, "1.1") == after
    assert after.count(b"\n") == after.count(b"\r\n") or b"\r" not in after


def test_a_commit_after_the_release_does_not_change_the_page():
    assert draw_matrix(OLD, "1.0+3.gabc1234") == PAGE
    assert redraw_matrix(PAGE.encode(), OLD, "1.0+4.gdef5678").decode() == PAGE


def test_a_page_that_nobody_edited_is_as_if_drawn_anew():
    assert redraw_matrix(PAGE.encode(), NEW, "1.1").decode() == draw_matrix(NEW, "1.1")


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda page: page.replace(b"| missing |", b"| missing, alas |"), r":10 the cell V2 of One was edited"),
        (lambda page: b"# Ours\n", "is in the way"),
        (lambda page: page + page, "has 2 tables"),
        (lambda page: b"\xff" + page, "is no UTF-8"),
    ],
)
def test_a_page_that_cannot_be_redrawn_is_refused(edit, said):
    with pytest.raises(InputError, match=said):
        redraw_matrix(edit(PAGE.encode()), NEW)
