"""check-resolves: self, super, class attributes and imports over the whole tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from omni_migrate.checks.resolves import resolves
from omni_migrate.plan.workspace import Workspace

RUNNER = """
    from upstream import UpstreamRunner
    class Base(UpstreamRunner):
        def __init__(self):
            self.buffer = 1
        def helper(self): ...
        def run(self):
            self.helper()
"""
WITHOUT_HELPER = RUNNER.replace("def helper(self): ...", "def other(self): ...").replace(
    "self.helper()", "self.other()"
)
WITHOUT_BUFFER = RUNNER.replace("self.buffer = 1", "pass")
IMPORT = "from pkg.runner import Base\n"


def findings(tmp_path: Path, after: str | Mapping[str, str], **others: str) -> list[str]:
    """ "file:line symbol" of each finding when pkg/runner.py goes from RUNNER to `after` beside the other files.

    Files are named by keyword, `pkg__x` for pkg/x.py; a mapping as `after` changes several files.
    """
    files = {"pkg/runner.py": RUNNER, "pkg/__init__.py": ""}
    files |= {name.replace("__", "/") + ".py": text for name, text in others.items()}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(dedent(text))
    workspace = Workspace(tmp_path)
    changes = {"pkg/runner.py": after} if isinstance(after, str) else after
    for path, text in changes.items():
        workspace.write(path, dedent(text).encode())
    return [f"{found.path}:{found.line} {found.symbol}" for found in resolves(Workspace(tmp_path), workspace, changes)]


# --- nothing to find ----------------------------------------------------------------------------------------------


def test_nothing_changed(tmp_path: Path) -> None:
    assert findings(tmp_path, RUNNER) == []


def test_a_removed_method_that_nobody_uses(tmp_path: Path) -> None:
    assert findings(tmp_path, WITHOUT_HELPER, tests__t=IMPORT) == []


def test_what_never_resolved_in_the_tree_is_upstreams(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    def f(self):\n        self.upstream()\n        super().upstream()\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__c=user) == []


def test_a_method_that_moved_to_a_base_class_resolves(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    def f(self):\n        self.helper()\n        super().helper()\n"
    moved = "from pkg.mixin import Mixin\n" + dedent(WITHOUT_HELPER).replace(
        "UpstreamRunner)", "Mixin, UpstreamRunner)"
    )
    mixin = "class Mixin:\n    def helper(self): ...\n"
    assert findings(tmp_path, {"pkg/runner.py": moved, "pkg/mixin.py": mixin}, pkg__c=user) == []


def test_an_attribute_that_an_adapter_sets_on_the_runner_resolves(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    def f(self):\n        return self.buffer\n"
    adapter = "def load(runner):\n    runner.buffer = 1\n"
    assert findings(tmp_path, {"pkg/runner.py": WITHOUT_BUFFER, "pkg/adapter.py": adapter}, pkg__c=user) == []


def test_a_probe_with_a_default_is_no_use(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    def f(self):\n        return getattr(self, 'buffer', None)\n"
    assert findings(tmp_path, WITHOUT_BUFFER, pkg__c=user) == []


def test_a_class_of_the_same_name_from_elsewhere_is_not_meant(tmp_path: Path) -> None:
    user = "from upstream import Base\nclass C(Base):\n    def f(self):\n        self.helper()\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__c=user) == []


def test_another_kind_of_runner_with_a_method_of_that_name_is_not_meant(tmp_path: Path) -> None:
    other = (
        "class DiffusionRunner:\n    def helper(self): ...\ndef f(diffusion_runner):\n    diffusion_runner.helper()\n"
    )
    assert findings(tmp_path, WITHOUT_HELPER, pkg__other=other) == []


def test_a_stand_in_that_brings_the_attribute_itself_is_not_meant(tmp_path: Path) -> None:
    test = "from types import SimpleNamespace\nrunner = SimpleNamespace(helper=print)\nrunner.helper()\n"
    assert findings(tmp_path, WITHOUT_HELPER, tests__t=test) == []


# --- uses within classes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        "self.helper()",
        "super().helper()",
        "getattr(self, 'helper')",
        "return [self.helper for _ in ()]",
        "(lambda: self.helper())()",
        "self.helper += 1",
    ],
)
def test_a_subclass_that_uses_a_removed_method(tmp_path: Path, use: str) -> None:
    user = IMPORT + f"class C(Base):\n    def f(self):\n        {use}\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__c=user) == ["pkg/c.py:4 C.helper"]


def test_the_class_itself(tmp_path: Path) -> None:
    forgotten = RUNNER.replace("def helper(self): ...", "def other(self): ...")
    assert findings(tmp_path, forgotten) == ["pkg/runner.py:8 Base.helper"]


def test_an_attribute_that_is_set_no_more(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    def f(this):\n        return this.buffer\n"
    assert findings(tmp_path, WITHOUT_BUFFER, pkg__c=user) == ["pkg/c.py:4 C.buffer"]


def test_cls_in_a_class_method(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    @classmethod\n    def f(cls):\n        cls.helper\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__c=user) == ["pkg/c.py:5 C.helper"]


def test_a_mixin_that_only_finds_it_in_the_class_it_is_mixed_into(tmp_path: Path) -> None:
    mixin = "class Mixin:\n    def f(self):\n        self.helper()\n        super().helper()\n"
    mixed = IMPORT + "from pkg.mixin import Mixin\nclass C(Mixin, Base): ...\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__mixin=mixin, pkg__c=mixed) == [
        "pkg/mixin.py:3 Mixin.helper",
        "pkg/mixin.py:4 Mixin.helper",
    ]


@pytest.mark.parametrize(
    "head",
    [
        "from pkg.runner import Base as B\nclass C(B):",
        "import pkg.runner\nclass C(pkg.runner.Base):",
        "import pkg.runner as r\nclass C(r.Base):",
        "from pkg import runner\nclass C(runner.Base):",
        "from . import runner\nclass C(runner.Base):",
        "from .runner import Base\nclass C(Base):",
        "from pkg.reexport import Again\nclass C(Again):",
        "from pkg.runner import Base\nOther = Base\nclass C(Other):",
        "from pkg.runner import Base\nclass C(mixed(Base)):",
    ],
)
def test_however_the_base_class_is_named(tmp_path: Path, head: str) -> None:
    user = head + "\n    def f(self): self.helper()\n"
    reexport = "from .runner import Base as Again\n"
    found = findings(tmp_path, WITHOUT_HELPER, pkg__c=user, pkg__reexport=reexport)
    assert [each.split()[1] for each in found] == ["C.helper"]


def test_grandchildren_in_a_test_that_define_the_class_in_a_function(tmp_path: Path) -> None:
    child = IMPORT + "class Child(Base): ...\n"
    test = "from pkg.child import Child\ndef test():\n    class Dummy(Child):\n        def f(self): self.helper()\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__child=child, tests__t=test) == [
        "tests/t.py:4 test.<locals>.Dummy.helper"
    ]


# --- uses from outside --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        "Base.helper(None)",
        "r = Base()\nr.helper()",
        "r = object.__new__(Base)\nr.helper()",
        "r = Base.__new__(Base)\nr.helper()",
        "def f(model_runner): model_runner.helper()",
        "def f(w): w.model_runner.helper()",
        "def f(monkeypatch): monkeypatch.setattr(Base, 'helper', None)",
        "def f(mock): mock.patch.object(Base, 'helper')",
        "NAME = 'pkg.runner.Base.helper'",
    ],
)
def test_tests_and_workers_that_reach_in(tmp_path: Path, use: str) -> None:
    assert len(findings(tmp_path, WITHOUT_HELPER, tests__t=IMPORT + use + "\n")) == 1


GONE = "from upstream import UpstreamRunner\nclass Renamed(UpstreamRunner): ...\n"


@pytest.mark.parametrize(
    "use",
    [
        "from pkg.runner import Base",
        "def f():\n    from pkg.runner import Base",
        "import pkg.runner\npkg.runner.Base",
        "from pkg import runner as r\nr.Base",
        "NAME = 'pkg.runner.Base'",
        "import pkg.runner as m\ndef f(monkeypatch): monkeypatch.setattr(m, 'Base', 1)",
    ],
)
def test_a_name_that_its_module_has_no_more(tmp_path: Path, use: str) -> None:
    assert len(findings(tmp_path, GONE, examples__e=use + "\n")) == 1


def test_a_name_that_still_is_imported_there_resolves(tmp_path: Path) -> None:
    kept = "from pkg.base import Base\n"
    files = {"pkg/runner.py": kept, "pkg/base.py": RUNNER}
    assert findings(tmp_path, files, examples__e=IMPORT + "Base.helper\n") == []


@pytest.mark.parametrize(
    "new",
    ["from pkg.nowhere import x", "from .nowhere import x", "from pkg.other import nothing", "import pkg.nowhere"],
)
def test_a_new_import_that_finds_nothing(tmp_path: Path, new: str) -> None:
    assert len(findings(tmp_path, new + dedent(RUNNER), pkg__other="something = 1\n")) == 1


@pytest.mark.parametrize(
    "new", ["from pkg.other import something", "from pkg import other", "import os", "from vllm.x import y"]
)
def test_a_new_import_that_finds_its_target_or_is_not_of_the_tree(tmp_path: Path, new: str) -> None:
    assert findings(tmp_path, new + dedent(RUNNER), pkg__other="something = 1\n") == []


def test_a_file_that_does_not_parse_does_not_stop_the_check(tmp_path: Path) -> None:
    user = IMPORT + "class C(Base):\n    def f(self): self.helper()\n"
    broken = "def helper(:\nclass D(Base):\n"
    assert findings(tmp_path, WITHOUT_HELPER, pkg__c=user, pkg__broken=broken) == ["pkg/c.py:3 C.helper"]
