"""Lines by whose they are and whether a marker encloses them, and the findings of it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from omni_migrate.facts.alignment import MARGIN, Override, Text, align, choose, missed
from omni_migrate.facts.modules import Module
from omni_migrate.facts.omni_lines import Block, OmniLines, classify, figures
from omni_migrate.plan.npu_findings import copy_findings, line_findings, missed_findings
from omni_migrate.plan.workspace import decode

UPSTREAM = """
def run(self, batch):
    ids = self.prepare(batch)
    out = self.model(ids)
    self.store(out)
    return out
"""
OURS = """
def run(self, batch):
    ids = self.prepare(batch)
    # ---- Omni-new ----
    self.omni.begin(ids)
    out = self.model(ids)
    # ---- Omni-new ----

    # more of ours
    self.omni.end(out)
    self.omni.log(out)
    return out
"""


@dataclass(frozen=True)
class Lines:
    path: str
    first_line: int
    last_line: int


def text(source: str) -> Text:
    module = Module("m.py", decode(source.encode()))
    return Text(module, "", module.tree.body[0])


def override(ours: str = OURS, *upstream: str) -> Override:
    bases = [(str(n), align(text(ours), text(base))) for n, base in enumerate(upstream or [UPSTREAM])]
    return Override(text(ours), "copy", choose(bases), text((upstream or [UPSTREAM])[0]))


@pytest.fixture
def lines() -> OmniLines:
    return classify(override(), [Lines("m.py", 4, 7), Lines("other.py", 1, 20)])


def test_every_code_line_is_of_one_kind(lines):
    assert lines.of("marked") == [5]
    assert lines.of("upstream-marked") == [6]
    assert lines.of("unmarked") == [10, 11]
    assert lines.of("upstream") == [2, 3, 12]
    assert lines.blocks("unmarked") == [Block(10, 11, 2)]


def test_figures_count_copies_only(lines):
    counted = figures([lines])
    assert (counted.omni, counted.unmarked, counted.upstream, counted.upstream_marked, counted.copies) == (
        3,
        2,
        4,
        1,
        1,
    )
    own = classify(Override(text(OURS), "own", None), [])
    assert own.of("unmarked") == [2, 3, 5, 6, 10, 11, 12]
    assert figures([own]).copies == 0
    assert figures([own], ["own"]).unmarked == 7


def test_findings_name_the_lines_and_the_base(lines):
    unmarked, enclosed = line_findings([lines])
    assert (unmarked.rule, unmarked.line, unmarked.message) == (
        "omni-unmarked",
        10,
        "2 lines from 10 to 11: not in run of 0, no marker",
    )
    assert (enclosed.rule, enclosed.line) == ("marked-upstream", 6)
    assert list(line_findings([classify(Override(text(OURS), "own", None), [])])) == []


def test_what_a_copy_dropped_is_a_finding_at_the_line_that_it_would_follow():
    (dropped,) = copy_findings([override()])
    assert (dropped.rule, dropped.line) == ("copy-dropped", 6)
    assert dropped.message == "dropped `self.store(out)` of run in 0"


def test_a_base_that_cannot_be_told_is_a_finding():
    other = UPSTREAM.replace("self.store(out)", "self.keep(out)")
    assert MARGIN == 3
    findings = copy_findings([override(OURS, UPSTREAM, other)])
    (undecided,) = [finding for finding in findings if finding.rule == "base-undecided"]
    assert undecided.message == "began as 0 or 1: fewer than 3 lines differ"


def test_what_a_copy_missed_is_a_finding():
    newer = UPSTREAM.replace("    return out\n", "    self.account(out)\n    return out\n")
    changes = missed(text(OURS), text(UPSTREAM), text(newer))
    (finding,) = missed_findings(override(), "0.2", changes)
    assert (finding.rule, finding.line) == ("copy-missed", 6)
    assert finding.message == "does not have `self.account(out)`, added in 0.2 (line 6)"
