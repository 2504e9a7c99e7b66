"""A marked block whose code another runner has unmarked."""

from __future__ import annotations

import textwrap

import pytest

from omni_migrate.facts.marker_twins import find_twins
from omni_migrate.facts.markers import find_markers
from omni_migrate.facts.modules import Module
from omni_migrate.plan.workspace import decode

M = "# ---- Omni-new ----"
CODE = """\
if self.speculative:
    self.counts = self.counts.copy()
for connector in self.connectors:
    connector.handle(self.counts, self.requests)
"""


def module(path: str, body: str, method: str = "step") -> Module:
    head = f"class Runner(Base):\n    def {method}(self):\n        a = 1\n"
    return Module(path, decode((head + textwrap.indent(body, " " * 8)).encode()))


def twins(*modules: Module):
    return find_twins({m.path: m for m in modules}, [find_markers(m) for m in modules])


MARKED = module("one.py", f"{M}\n{CODE}{M}\n")


def test_the_same_code_unmarked():
    (finding,) = twins(MARKED, module("two.py", f"with b:\n{textwrap.indent(CODE, '    ')}    return a\n"))
    assert (finding.rule, finding.path, finding.line, finding.symbol) == ("marker-twin", "one.py", 4, "Runner.step")
    assert "two.py:5" in finding.message


@pytest.mark.parametrize(
    "other",
    [
        module("two.py", f"{M}\n{CODE}{M}\n"),
        module("two.py", CODE.replace("copy", "clone")),
        module("two.py", CODE, method="load"),
        module("two.py", "pass\n"),
    ],
)
def test_no_twin(other):
    assert twins(MARKED, other) == []


def test_little_code_is_alike_by_chance():
    assert twins(module("one.py", f"{M}\nself.b = 1\n{M}\n"), module("two.py", "self.b = 1\n")) == []
