"""Blocks of omni's in a platform's runners: what is one, what it is called, where it stands."""

from __future__ import annotations

import textwrap

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.omni_blocks import Upstream, find_blocks
from omni_migrate.facts.runners import find_runners
from omni_migrate.plan.workspace import Workspace

M = "# ---- Omni-new ----"
UPSTREAM = {"npu.NPURunner": "V1"}
HEAD = "from npu import NPURunner\n\n\nclass Runner(NPURunner):\n"
PATH = "pkg/platforms/npu/worker/runner.py"


def found(tree, files, **options):
    modules = Modules(Workspace(tree(files=files)))
    return find_blocks(modules, find_runners(modules, "pkg", UPSTREAM), "npu", **options)


def blocks(tree, body, head=HEAD, **options):
    text = head + textwrap.indent(textwrap.dedent(body).replace("MARK", M), "    ")
    return found(tree, {PATH: text}, **options).blocks


def test_a_marked_block(tree):
    (block,) = blocks(
        tree,
        """
        def step(self, batch):
            self.prepare(batch)
            with self.context(batch), timer("step"):
                x = 1
                MARK
                if batch:
                    self.send_kv(batch)
                MARK
                return x
        """,
    )
    assert (block.kind, block.class_name, block.method, block.path) == ("marked", "Runner", "step", PATH)
    assert block.title == "Send KV"
    assert block.location == "inside `with self.context(batch), timer('step')`, after `x = 1`, before `return x`"
    assert block.code == f"{M}\nif batch:\n    self.send_kv(batch)\n{M}"
    assert block.lines == ((10, 13),)


@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("# [Omni] Hand over the batch. Then wait.\nself.go()", "Hand over the batch"),
        ("# Omni-specific: hand over (if any)\nself.go()", "Hand over"),
        ("# NOTE: this is slow\nself.run_mtp_ids()", "Run MTP IDs"),
        ("# why\nself.model.flush_pending()", "Flush Pending"),
        ("kv_ids = getattr(self, 'kv_ids', None)", "KV IDs"),
        ("self.ids: list = []", "IDs"),
        ("for x in y:\n    self.codes.extend(x)", "Extend"),
        ("del a", "A"),
        ("pass", "Step"),
        ("prepare()\nself.send()", "Send"),
        ("prepare()", "Prepare"),
    ],
)
def test_a_title(tree, code, title):
    body = textwrap.indent(f"{M}\n{code}\n{M}\n", "    ")
    (block,) = blocks(tree, f"def step(self):\n    a = 1\n{body}")
    assert block.title == title


def test_two_blocks_of_a_title_and_two_of_one_code(tree):
    body = f"""
    def step(self):
        {M}
        self.send(1)
        {M}
        if a:
            {M}
            self.send(2)
            {M}
        else:
            {M}
            self.send(1)
            {M}
    """
    first, second = blocks(tree, body)
    assert (first.title, second.title) == ("Send", "Send (2)")
    assert len(first.lines) == 2
    assert first.location == "at the beginning, before `if a`; in the else branch of `if a`, all of it"


@pytest.mark.parametrize(
    ("lines", "location"),
    [
        (
            ("try:", "    a()", f"    {M}", "    b()", f"    {M}", "except ValueError:", "    pass"),
            "inside `try`, at the end, after `a()`",
        ),
        (
            ("try:", "    a()", "except ValueError:", f"    {M}", "    b()", f"    {M}"),
            "where `try` has caught ValueError, all of it",
        ),
        (
            ("try:", "    a()", "finally:", f"    {M}", "    b()", f"    {M}", "    c = d(1, 2)"),
            "in the finally branch of `try`, at the beginning, before `c = d(…)`",
        ),
        (
            ("for x in y:", "    while a:", f"        {M}", "        b()", f"        {M}", "        return x"),
            "inside `while a`, inside `for x in y`, at the beginning, before `return x`",
        ),
        (("call(", "    1,", f"    {M}", "    b,", f"    {M}", ")"), "inside `call(…)`"),
        (("a, b, c = f(1, 2)", M, "b()", M), "at the end, after `a, …, c = f(…)`"),
    ],
)  # fmt: skip
def test_a_location(tree, lines, location):
    body = "def step(self):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
    (block,) = blocks(tree, body)
    assert block.location == location


@pytest.mark.parametrize(
    ("body", "kind", "location"),
    [
        ("super().step()\nself.a = 1", "override", "overrides the upstream one and calls it"),
        ("NPURunner.step(self)\nself.a = 1", "override", "overrides the upstream one and calls it"),
        ("with a:\n    return super().step()", "override", "overrides the upstream one and calls it"),
        ("# Omni-specific: counted\nself.a = 1", "override", "commented as omni's but not marked"),
        ("self.a = 1", "unmarked", "no marker says whether it is omni's"),
    ],
)
def test_a_whole_method(tree, body, kind, location):
    (block,) = blocks(tree, f"@decorated\ndef step(self):\n{textwrap.indent(body, '    ')}\n")
    assert block.kind == kind
    assert location in block.location
    assert block.code.startswith("@decorated\ndef step(self):\n    ")


def test_a_copy_that_calls_the_upstream_one_in_a_branch_is_known_by_its_markers(tree):
    body = f"""
    def step(self):
        if a:
            return super().step()
        {M}
        self.send()
        {M}
    """
    assert [block.kind for block in blocks(tree, body)] == ["marked"]


def test_methods_that_are_marked_together(tree):
    body = f"""
    {M}
    def one(self):
        return 1

    def two(self):
        super().two()
    {M}

    def three(self):
        pass
    """
    one, two, three = blocks(tree, body)
    assert (one.kind, two.kind, three.kind) == ("addition", "override", "unmarked")
    assert "marked together" in one.location
    assert M not in one.code


def test_attributes_that_are_marked(tree):
    (block,) = blocks(tree, f"{M}\nhas_talker = True\n{M}\n")
    assert (block.method, block.title, block.code) == ("attributes", "Attributes", f"{M}\nhas_talker = True\n{M}")


def test_what_upstream_defines_tells_additions_from_copies(tree):
    body = "def step(self):\n    pass\n\ndef send(self):\n    pass\n"
    (block,) = blocks(tree, body, upstream=Upstream({"Runner": {"step"}}))
    assert (block.kind, block.method) == ("addition", "send")


def test_one_line_markers_beside_and_within_blocks(tree):
    body = f"""
    def step(self):
        {M}
        self.a(1)  # Omni-new
        {M}
        run(
            outputs,  # Omni-specific
            1,
        )

        # [Omni] Count the rows
        self.rows += 1
    """
    _, outputs, rows = blocks(tree, body)
    assert (outputs.kind, outputs.title, outputs.code) == ("line", "Outputs", "outputs,  # Omni-specific")
    assert (rows.kind, rows.title, rows.code) == ("line", "Count the rows", "# [Omni] Count the rows\nself.rows += 1")


def test_what_a_module_has_outside_its_classes(tree):
    text = "from pkg.outputs import (\n    Output,\n)\nfrom . import other\n" + HEAD.replace(
        "\n\n\nclass", "\n\n\ndef helper():\n    return 1\n\n\nclass"
    )
    (imports, helper) = found(tree, {PATH: text + "    pass\n"}).blocks
    assert imports.code == "from pkg.outputs import (\n    Output,\n)\nfrom . import other"
    assert (helper.kind, helper.method, helper.code) == ("addition", "helper", "def helper():\n    return 1")


def test_windows_line_ends(tree):
    root = tree(files={PATH: ""})
    text = HEAD + f"    def step(self):\n        a = 1\n        {M}\n        b = 2\n        {M}\n"
    (root / PATH).write_bytes(text.replace("\n", "\r\n").encode())
    modules = Modules(Workspace(root))
    (block,) = find_blocks(modules, find_runners(modules, "pkg", UPSTREAM), "npu").blocks
    assert block.code == f"{M}\nb = 2\n{M}"


def test_a_file_that_does_not_parse_is_named_and_the_others_are_read(tree):
    files = {
        PATH: HEAD + "    def step(self):\n        super().step()\n",
        PATH.replace("runner", "broken"): "NPURunner (",
    }
    modules = Modules(Workspace(tree(files=files)))
    result = find_blocks(modules, find_runners(modules, "pkg", UPSTREAM), "npu")
    assert [block.method for block in result.blocks] == ["step"]
    assert list(modules.unreadable) == [PATH.replace("runner", "broken")]


STATE = "from typing import NamedTuple\n\n\nclass State(NamedTuple):\n    logits: int\n"
OTHER = "pkg/platforms/npu/worker/other.py"


def states(tree, fields, other, upstream=None):
    files = {
        PATH: STATE + textwrap.indent(fields, "    ") + "\n" + HEAD + "    pass\n",
        OTHER: other
        + "from pkg.platforms.npu.worker.runner import Runner\n\n\nclass Other(Runner):\n    state: State\n",
    }
    result = found(tree, files, upstream=upstream)
    (block,) = (block for block in result.blocks if block.kind == "namedtuple")
    return block, result.findings


@pytest.mark.parametrize(
    ("fields", "upstream", "own"),
    [
        ("outputs: int  # Omni-Specific", None, ("outputs",)),
        ("# [Omni] for the talker\nstep: int = 0", None, ("step",)),
        ("outputs: int", None, ()),
        ("outputs: int\nstep: int", Upstream(fields={"State": ["logits", "step"]}), ("outputs",)),
    ],
)
def test_the_fields_of_a_named_tuple_that_are_omnis(tree, fields, upstream, own):
    block, findings = states(tree, fields, "from pkg.platforms.npu.worker.runner import State\n", upstream)
    assert (block.class_name, block.method, block.fields) == ("State", "NamedTuple", own)
    assert block.location.endswith("; other.py must import it from here")
    assert findings == ()


@pytest.mark.parametrize(
    ("other", "said"),
    [("from npu import State\n", "has it from npu"), ("", "does not import it")],
)
def test_a_named_tuple_from_elsewhere(tree, other, said):
    _, (finding,) = states(tree, "outputs: int  # Omni-new", other)
    assert (finding.rule, finding.path, finding.symbol) == ("tuple-import", OTHER, "State")
    assert said in finding.message
    assert finding.hint == "from pkg.platforms.npu.worker.runner import State"


def test_only_the_platforms_classes_are_read(tree):
    files = {
        PATH: HEAD + "    def step(self):\n        super().step()\n",
        PATH.replace("npu/", "xpu/"): HEAD + "    def step(self):\n        super().step()\n",
        "pkg/worker/runner.py": HEAD + "    def step(self):\n        super().step()\n",
    }
    assert [block.path for block in found(tree, files).blocks] == [PATH]
    modules = Modules(Workspace(tree("again", files)))
    blocks = find_blocks(modules, find_runners(modules, "pkg", UPSTREAM), "xpu").blocks
    assert [block.path for block in blocks] == [PATH.replace("npu/", "xpu/")]
