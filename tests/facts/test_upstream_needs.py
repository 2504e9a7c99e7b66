"""What a runner that is made of mixins needs its upstream class to have."""

from __future__ import annotations

import ast

import pytest

from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.upstream_needs import accepts, needs_of
from omni_migrate.plan.workspace import Workspace

VLLM = """
class Runner:
    limit: int

    def __init__(self):
        self.device = 0

    def load_model(self, dummy=False):
        pass
"""
OURS = """
from vllm.runner import Runner

class Mixin:
    def load_model(self, *args, **kwargs):
        super().load_model(*args, **kwargs)
        self.omni = self.make(self.device, self.limit)
        self.gone()

    def make(self, *args):
        return args

class Ours(Mixin, Runner):
    pass
"""


def test_methods_and_attributes_are_looked_up_in_the_upstream_classes(tree):
    trees = {
        "vllm": Modules(Workspace(tree("vllm", {"vllm/runner.py": VLLM}))),
        "vllm_omni": Modules(Workspace(tree("omni", {"vllm_omni/runner.py": OURS}))),
    }
    load, make = needs_of(ClassTree(trees), "vllm_omni.runner.Ours")
    assert (load.ours.symbol, load.upstream.symbol) == ("Mixin.load_model", "Runner.load_model")
    assert (load.signature, load.accepted, load.passes_on) == ("(self, dummy=False)", True, True)
    assert [(a.name, a.wants, a.line, a.upstream and a.upstream.line) for a in load.attributes] == [
        ("device", "read", 7, 6),
        ("gone", "call", 8, None),
        ("limit", "read", 7, 3),
    ]
    assert (make.upstream, make.passes_on, make.attributes) == (None, False, ())


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("self, a", "self, a", True),
        ("self, a, *args, **kwargs", "self, a, b=0, *, c=1", True),
        ("self, b, *args, **kwargs", "self, a, b", False),
        ("self, a", "self, a, b=0", False),
        ("self, a, *, b=0", "self, a, *, b=0", True),
        ("self, a, *args", "self, a, *, b=0", False),
    ],
)
def test_a_signature_takes_what_upstreams_callers_give(ours, theirs, expected):
    mine, other = (ast.parse(f"def run({text}): pass").body[0] for text in (ours, theirs))
    assert accepts(mine, other) is expected
