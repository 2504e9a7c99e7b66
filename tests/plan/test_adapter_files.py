"""Adapter files: what a moved method needs there, and its default."""

from __future__ import annotations

import ast

import pytest

from omni_migrate.facts.absence import Absence
from omni_migrate.facts.modules import Modules
from omni_migrate.knowledge import AdapterSpec
from omni_migrate.plan.adapter_files import AdapterPackage, names_at_definition, names_needed, normal_form
from omni_migrate.plan.workspace import Workspace

SPEC = AdapterSpec("talker", "TalkerAdapter", 3, "Talks", capabilities=("talks",))
ABSENCE = Absence(frozenset({"talks"}))
FOLDER = "pkg/worker/adapters"


def added(tree, hook, head="", spec=SPEC, **options):
    """The adapter's file and the base after a hook from a runner module with this head was added."""
    modules = Modules(Workspace(tree(files={"pkg/worker/runner.py": head})))
    package = AdapterPackage(modules, FOLDER)
    package.create()
    package.add_hook(spec, hook, modules.get("pkg/worker/runner.py"), ABSENCE, frozenset(), ["A"], FOLDER, **options)
    package.format()
    files = [modules.workspace.read(f"{FOLDER}/{name}.py").decode() for name in ("talker", "base")]
    for text in files:
        ast.parse(text)
    return files


@pytest.mark.parametrize(
    ("head", "use", "line"),
    [
        ("import a", "a.x", "import a\n"),
        ("import a.b as c", "c.x", "import a.b as c\n"),
        ("from a import b", "b", "from a import b\n"),
        ("from a import b as c", "c", "from a import b as c\n"),
        ("from .zoo import b", "b", "from pkg.worker.zoo import b\n"),
        ("B = 1", "B", "        from pkg.worker.runner import B\n"),
        ("def b(): pass", "b()", "        from pkg.worker.runner import b\n"),
        ("from a import *", "b", "        from pkg.worker.runner import b\n"),
        ("try:\n    import b\nexcept ImportError:\n    b = None", "b", "        from pkg.worker.runner import b\n"),
        ("if x:\n    from a import b\nelse:\n    from c import b", "b", "        from pkg.worker.runner import b\n"),
        ("from a import b\nb = wrap(b)", "b", "        from pkg.worker.runner import b\n"),
        ("from a import DefaultModelRunnerAdapter", "DefaultModelRunnerAdapter", "        from a import Default"),
        ("from log import init\nlogger = init(__name__)", "logger", "logger = init(__name__)\n"),
        ("", "(from_a := 1)", "        (from_a := 1)\n"),
    ],
)
def test_a_name_means_what_it_means_in_the_runner(tree, head, use, line):
    adapter, _ = added(tree, f"def hook(self, runner):\n    {use}\n    runner.note()\n", head)
    assert line in adapter


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import B", "    from a import B\n"),
        ("class B: pass", "    from pkg.worker.runner import B\n"),
        ("from a import B", "from a import B\n"),
    ],
)
def test_a_name_of_an_annotation(tree, head, line):
    adapter, _ = added(tree, "def hook(self, runner, b: B) -> 'B | None':\n    runner.note()\n", head)
    assert f"\n{line}" in adapter
    assert ("if TYPE_CHECKING:" in adapter) == line.startswith("    ")


def test_an_import_inside_the_method_holds_in_the_adapter_s_folder(tree):
    imports = "    from . import zoo\n    from ..other import (\n        x,\n    )\n"
    hook = f"def hook(self, runner):\n{imports}    runner.note(zoo, x)\n"
    adapter, _ = added(tree, hook)
    assert "        from pkg.worker import zoo\n" in adapter
    assert "        from pkg.other import (\n" in adapter


@pytest.mark.parametrize(
    ("hook", "default"),
    [
        ("def hook(self, runner):\n    if hasattr(runner.model, 'talks'):\n        runner.note()\n",
         "def hook(self, runner):\n        pass\n"),
        ("def hook(self, runner, a, b=1):\n    if hasattr(runner.model, 'talks'):\n        return b\n    return a, b\n",
         "def hook(self, runner, a, b=1):\n        return a, b\n"),
        ("def hook(self, runner, a, *b, c, d=2, **e):\n    runner.note()\n",
         "return TalkerAdapter().hook(runner, a, *b, c=c, d=d, **e)\n"),
        ("def hook(self, runner, a: int = 3) -> int:\n    return runner.note(a)\n",
         "def hook(self, runner, a=3):\n        from pkg.worker.adapters.talker import TalkerAdapter\n"),
    ],
)  # fmt: skip
def test_the_default(tree, hook, default):
    assert default in added(tree, hook)[1]


def test_an_owner_s_default_is_its_own_code(tree):
    owner = AdapterSpec("talker", "TalkerAdapter", 3, "Talks", default="owner")
    assert "return TalkerAdapter().hook(runner)" in added(tree, "def hook(self, runner):\n    pass\n", spec=owner)[1]


def test_a_default_value_that_is_imported_is_imported_for_the_default_too(tree):
    adapter, base = added(tree, "def hook(self, runner, a=b.C):\n    runner.note()\n", "from x import b")
    assert "from x import b\n" in adapter and "from x import b\n" in base


def test_the_protocol_takes_the_signature_of_its_method(tree):
    _, base = added(tree, "def postprocess(self, runner, a, *, b=1):\n    runner.note()\n")
    assert "    def postprocess(self, runner: Any, a: Any, *, b: Any = ...) -> Any:\n" in base
    assert base.count("def postprocess(") == 2


def test_what_nobody_asks_for_has_no_default_until_a_runner_calls_it(tree):
    modules = Modules(Workspace(tree(files={"pkg/worker/runner.py": ""})))
    package = AdapterPackage(modules, FOLDER)
    package.create()
    origin = modules.get("pkg/worker/runner.py")
    hook = "def hook(self, runner):\n    runner.note()\n"
    package.add_hook(SPEC, hook, origin, ABSENCE, frozenset(), [], FOLDER, asked=False)
    assert "def hook(" not in modules.workspace.read(f"{FOLDER}/base.py").decode()
    package.answer_for({"hook", "unknown"})
    base = modules.workspace.read(f"{FOLDER}/base.py").decode()
    assert "return TalkerAdapter().hook(runner)" in base and "unknown" not in base
    package.answer_for({"hook"})
    assert modules.workspace.read(f"{FOLDER}/base.py").decode() == base


def test_the_same_code_means_the_same_only_with_the_same_names(tree):
    files = {
        "pkg/worker/a.py": "from x import f\n",
        "pkg/worker/b.py": "from y import f\n",
        "pkg/worker/c.py": "from x import f\n",
    }
    modules = Modules(Workspace(tree(files=files)))
    package = AdapterPackage(modules, FOLDER)
    package.create()
    hook = "def hook(self, runner):\n    f(runner)\n"
    package.add_hook(SPEC, hook, modules.get("pkg/worker/a.py"), ABSENCE, frozenset(), [], FOLDER)
    same = [package.means_the_same(hook, modules.get(path), f"{FOLDER}/talker.py") for path in files]
    assert same == [True, False, True]


@pytest.mark.parametrize(
    ("source", "runtime", "annotations"),
    [
        ("def f(a, b=C):\n    return a + D\n", {"C", "D"}, set()),
        ("def f(a: A) -> 'B[C]':\n    x: D = E\n", {"E"}, {"A", "B", "C", "D"}),
        ("def f():\n    def g():\n        return A\n    return g, [B for b in C]\n", {"A", "B", "C"}, set()),
        ("def f():\n    import a\n    return a, len, __file__\n", set(), set()),
        ("@A\ndef f():\n    class G(B):\n        x = C\n", {"A", "B", "C"}, set()),
        ("def f(a):\n    return Literal['some text']\n", {"Literal"}, set()),
    ],
)
def test_names_that_a_function_needs(source, runtime, annotations):
    needed = names_needed(source)
    assert (set(needed.runtime), set(needed.annotations)) == (runtime, annotations)


def test_names_that_are_needed_when_the_class_is_made(tree):
    files = {"pkg/a.py": "from x import A\nB = 1\ntry:\n    import C\nexcept ImportError:\n    pass\n"}
    module = Modules(Workspace(tree(files=files))).get("pkg/a.py")
    assert names_at_definition("def f(self, a=A, b=B, *, c=C.x, d=len, e=1):\n    pass\n", module) == ["B", "C"]


def test_equal_code_has_one_form():
    def form(source):
        return normal_form(ast.parse(source).body[0])

    same = form("def f(self, a: int) -> int:\n    '''Doc.'''\n    # why\n    return a\n")
    assert form("def g(this, b):\n    return (b)\n") == same
    assert form("def g(this, b):\n    return this\n") != same
    assert form("def g(this, b=1):\n    return b\n") != same
