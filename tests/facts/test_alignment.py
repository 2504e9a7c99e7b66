"""An override and the upstream method that it was copied from, statement by statement."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from omni_migrate.facts.alignment import Alignment, Text, align, align_classes, choose, missed
from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.plan.workspace import Workspace, decode

UPSTREAM = """
def run(self, batch, size=0):
    ids = self.prepare(batch, size)
    if size > self.limit:
        self.grow(size)
        self.log("grown to", size)
    else:
        self.keep()
    with self.context(batch):
        out = self.model(ids, batch.positions)
    state = State(batch, ids, out)
    self.store(state)
    return out
"""


def text(source: str, path: str = "m.py") -> Text:
    module = Module(path, decode(textwrap.dedent(source).encode()))
    return Text(module, "", module.tree.body[0])


def aligned(source: str, upstream: str = UPSTREAM) -> Alignment:
    return align(text(source), text(upstream))


def lines_of(alignment: Alignment, source: str, origin: str) -> list[str]:
    rows = textwrap.dedent(source).splitlines()
    return [rows[line - 1].strip() for line, found in alignment.lines.items() if found == origin]


def test_the_same_text_is_upstreams_altogether():
    found = aligned(UPSTREAM)
    assert set(found.lines.values()) == {"upstream"}
    assert found.is_copy
    assert (found.changes, found.dropped, found.moved) == ((), (), ())


def test_comments_layout_quotes_and_line_ends_do_not_matter():
    other = UPSTREAM.replace(
        "ids = self.prepare(batch, size)", "ids = self.prepare(  # why\n        batch,\n        size,\n    )"
    )
    other = "# yapf: disable\n" + other.replace('"grown to"', "'grown to'").replace("\n", "\r\n")
    assert set(aligned(other).lines.values()) == {"upstream"}


def test_an_inserted_statement_is_omnis_and_a_missing_one_is_dropped():
    ours = UPSTREAM.replace("    self.store(state)\n", "    self.omni.finish(state)\n")
    found = aligned(ours)
    assert lines_of(found, ours, "omni") == ["self.omni.finish(state)"]
    assert [dropped.text for dropped in found.dropped] == ["self.store(state)"]
    assert found.dropped[0].after == ours.splitlines().index("    state = State(batch, ids, out)") + 1


def test_a_docstring_is_no_code():
    ours = UPSTREAM.replace("size=0):\n", 'size=0):\n    """Ours.\n\n    Longer.\n    """\n')
    assert set(aligned(ours).lines.values()) == {"upstream"}


def test_of_an_edited_statement_the_lines_are_told_apart():
    ours = UPSTREAM.replace(
        "State(batch, ids, out)", "State(\n        batch,\n        ids,\n        out,\n        payloads,\n    )"
    ).replace("self.model(ids, batch.positions)", "self.model(ids, batch.positions, **extra)")
    found = aligned(ours)
    assert lines_of(found, ours, "omni") == ["payloads,"]
    assert lines_of(found, ours, "changed") == ["out = self.model(ids, batch.positions, **extra)"]
    assert [change.added for change in found.changes] == [("**", "extra"), ("payloads",)]


def test_a_body_that_was_wrapped_or_unwrapped_is_found():
    wrapped = UPSTREAM.replace(
        "    state = State(batch, ids, out)\n    self.store(state)\n",
        "    if self.omni.active:\n        state = State(batch, ids, out)\n        self.store(state)\n",
    )
    assert lines_of(aligned(wrapped), wrapped, "omni") == ["if self.omni.active:"]
    unwrapped = aligned(UPSTREAM, wrapped)
    assert set(unwrapped.lines.values()) == {"upstream"}
    assert [dropped.text for dropped in unwrapped.dropped] == ["if self.omni.active"]


def test_a_branch_of_an_elif_chain_may_be_inserted():
    ours = UPSTREAM.replace("    else:\n", "    elif self.omni.full:\n        self.omni.flush()\n    else:\n")
    assert lines_of(aligned(ours), ours, "omni") == ["elif self.omni.full:", "self.omni.flush()"]


def test_a_branch_of_an_elif_chain_may_be_taken_out():
    theirs = UPSTREAM.replace("    else:\n", "    elif size > 1:\n        self.keep(size)\n    else:\n")
    found = aligned(UPSTREAM, theirs)
    assert set(found.lines.values()) == {"upstream"}
    assert [dropped.text for dropped in found.dropped] == ["if size > 1", "self.keep(size)"]


def test_a_statement_that_was_moved_is_still_upstreams():
    ours = UPSTREAM.replace("    self.store(state)\n", "").replace(
        "    with self.context", '    self.log("moved on", size, batch)\n    with self.context'
    )
    theirs = UPSTREAM.replace("    return out\n", '    self.log("moved on", size, batch)\n    return out\n')
    found = aligned(ours, theirs)
    assert found.moved == ((9, 13),)
    assert set(found.lines.values()) == {"upstream"}


def test_an_else_of_ours_is_ours():
    theirs = UPSTREAM.replace("    else:\n        self.keep()\n", "")
    assert lines_of(aligned(UPSTREAM, theirs), UPSTREAM, "omni") == ["else:", "self.keep()"]


def test_decorators_annotations_in_quotes_and_the_signature_belong_to_it():
    theirs = "@inference()\ndef run(self, batch: 'Batch | None' = None) -> 'Out':\n    return self.go(batch)\n"
    ours = "@inference()\ndef run(self, batch: Batch | None = None, omni=None) -> Out:\n    return self.go(batch)\n"
    found = aligned(ours, theirs)
    assert list(found.lines.values()) == ["upstream", "changed", "upstream"]
    assert found.changes[0].added == ("omni", "=", "None")


def test_too_little_in_common_is_no_copy():
    ours = (
        "def run(self, batch, size=0):\n    self.omni.start(batch)\n    self.omni.go()\n    return super().run(batch)\n"
    )
    assert not aligned(ours).is_copy
    short = "def run(self):\n    a()\n    b()\n    c()\n"
    assert aligned(short, short).is_copy
    assert not aligned(short, short.replace("b()", "d()").replace("c()", "e()")).is_copy


def test_the_base_that_shares_most_is_chosen_and_a_small_margin_said():
    older = UPSTREAM.replace('        self.log("grown to", size)\n', "")
    oldest = "def run(self, batch):\n    return self.model(batch)\n"
    bases = [(name, aligned(UPSTREAM, base)) for name, base in (("1", oldest), ("2", older), ("3", UPSTREAM))]
    choice = choose(bases)
    assert (choice.base, choice.margin, choice.undecided) == ("3", 1, ("2",))
    assert choose(bases, favourite="2").base == "2"
    assert choose(bases[:1]).margin is None


def test_a_line_that_any_base_has_is_upstreams():
    older = UPSTREAM.replace("self.keep()", "self.keep(size)")
    ours = UPSTREAM.replace("    return out\n", "    return out, size\n").replace("self.keep()", "self.keep(size)")
    choice = choose([("new", aligned(ours)), ("old", aligned(ours, older))], favourite="new")
    rows = ours.splitlines()
    assert [rows[n - 1].strip() for n, origin in choice.lines.items() if origin != "upstream"] == ["return out, size"]


def test_upstreams_changes_that_the_copy_missed():
    new = (
        UPSTREAM.replace("self.grow(size)", "self.grow(size, exact=True)")
        .replace("        self.keep()\n", "        self.trim()\n")
        .replace("    return out\n", "    self.account(out)\n    return out\n")
    )
    ours = UPSTREAM.replace("    self.store(state)\n", "    self.omni.finish(state)\n    self.store(state)\n")
    found = missed(text(ours), text(UPSTREAM), text(new))
    assert [(m.kind, m.text) for m in found] == [
        ("changed", "self.grow(size, exact=True)"),
        ("added", "self.trim()"),
        ("removed", "self.keep()"),
        ("added", "self.account(out)"),
    ]
    assert missed(text(new), text(UPSTREAM), text(new)) == ()


VLLM = """
class Base:
    def run(self):
        a()
        b()
        c()
        d()
"""
ASCEND = """
from vllm.runner import Base

class State(NamedTuple):
    logits: int
    hidden: int
    positions: int

class NPU(Base):
    def go(self):
        e()
"""
OMNI_BASE = """
from vllm.runner import Base

class Omni(Base):
    def run(self):
        omni()
"""
OMNI = """
from vllm_omni.base import Omni
from vllm_ascend.runner import NPU

class State(NamedTuple):
    logits: int
    hidden: int
    positions: int
    payload: int

class OmniNPU(Omni, NPU):
    def run(self):
        a()
        b()
        omni()
        c()
        d()

    def go(self):
        return super().go()

    def own(self):
        pass
"""
TREES = {
    "vllm": {"vllm/runner.py": VLLM},
    "vllm_ascend": {"vllm_ascend/runner.py": ASCEND},
    "vllm_omni": {"vllm_omni/base.py": OMNI_BASE, "vllm_omni/npu.py": OMNI},
}


@pytest.fixture
def classes(tree) -> ClassTree:
    return ClassTree({name: Modules(Workspace(Path(tree(name, files)))) for name, files in TREES.items()})


def test_a_method_is_aligned_with_the_first_of_its_name_that_is_not_ours(classes):
    run, go, own, state = align_classes(["vllm_omni.npu.OmniNPU"], [("1", classes)], "vllm_omni")
    assert (run.kind, run.choice.alignment.upstream.symbol) == ("copy", "Base.run")
    assert [line for line, origin in run.origins().items() if origin == "omni"] == [
        OMNI.splitlines().index("        omni()") + 1
    ]
    assert (go.kind, go.choice.alignment.upstream.symbol) == ("override", "NPU.go")
    assert set(go.origins().values()) == {"omni"}
    assert (own.kind, own.choice) == ("own", None)
    assert (state.place.symbol, state.kind, list(state.origins().values())) == (
        "State",
        "copy",
        ["upstream"] * 4 + ["omni"],
    )


def test_the_order_of_bases_is_pythons(classes):
    assert [cls.short for cls in classes.order("vllm_omni.npu.OmniNPU")] == ["OmniNPU", "Omni", "NPU", "Base"]
    assert classes.find("vllm_omni.npu.Omni").name == "vllm_omni.base.Omni"
    assert classes.find("torch.nn.Module") is None


def test_every_code_line_has_one_origin():
    source = "def run(self):\n    x = [\n        1,\n        # two\n        2,\n    ]\n\n    return x\n"
    found = aligned(source, "def run(self):\n    return 1\n")
    assert sorted(found.lines) == [1, 2, 3, 5, 6, 8]
    assert ast.parse(source)
