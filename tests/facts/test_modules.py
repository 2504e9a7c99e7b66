"""What the names of a module refer to, and reading the files of a tree."""

from __future__ import annotations

import ast

import pytest

from omni_migrate.facts.modules import Module, Modules, module_name, split_lines
from omni_migrate.plan.workspace import Workspace, decode


def module(text: str, path: str = "pkg/sub/mod.py") -> Module:
    return Module(path, decode(text.encode()))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("vllm_omni/worker/base.py", "vllm_omni.worker.base"),
        ("vllm_omni/worker/__init__.py", "vllm_omni.worker"),
        ("src/vllm_omni/base.py", "vllm_omni.base"),
    ],
)
def test_module_name(path, name):
    assert module_name(path) == name


@pytest.mark.parametrize(
    ("statement", "expression", "qualified"),
    [
        ("import a.b", "a.b.C", "a.b.C"),
        ("import a.b as c", "c.D", "a.b.D"),
        ("from a import b", "b.C", "a.b.C"),
        ("from a import b as c", "c", "a.b"),
        ("from . import b", "b", "pkg.sub.b"),
        ("from .b import C", "C", "pkg.sub.b.C"),
        ("from ..b import C", "C", "pkg.b.C"),
        ("from .. import b", "b", "pkg.b"),
        ("if TYPE_CHECKING:\n    from a import B", "B", "a.B"),
        ("try:\n    from a import B\nexcept ImportError:\n    from c import B as D", "D", "c.B"),
        ("", "Own", "pkg.sub.mod.Own"),
        ("", "call()", None),
        ("", "call().x", None),
    ],
)
def test_what_a_name_refers_to(statement, expression, qualified):
    assert module(statement).qualify(ast.parse(expression, mode="eval").body) == qualified


def test_relative_import_of_a_package_itself():
    assert module("from .b import C", "pkg/sub/__init__.py").imports["C"].module == "pkg.sub.b"


def test_classes_in_branches_count_and_those_in_functions_do_not():
    text = "class A: pass\nif x:\n    class B: pass\ntry:\n    pass\nexcept E:\n    class C: pass\n"
    text += "def f():\n    class D: pass\n"
    assert sorted(module(text).classes) == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb", ["a\n", "b"]),
        ("a\r\nb\r\n", ["a\r\n", "b\r\n"]),
        ("a\x0cb\n", ["a\x0cb\n"]),
        ("a\u2028b\nc\n", ["a\u2028b\n", "c\n"]),
        ("", []),
    ],
)
def test_lines_are_those_of_the_tokenizer(text, lines):
    assert split_lines(text) == lines


def test_a_module_is_parsed_again_only_when_it_changed(tree):
    workspace = Workspace(tree(files={"pkg/a.py": "A = 1\n"}))
    modules = Modules(workspace)
    first = modules.get("pkg/a.py")
    assert modules.get("pkg/a.py") is first
    workspace.write("pkg/a.py", b"A = 2\n")
    assert modules.get("pkg/a.py") is not first


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"def broken(:\n", "line 1"),
        (b"\xff\xfe\x00", ""),
        (b"# coding: nonsense\n", "nonsense"),
        (b"A = 1\x00\n", ""),
    ],
)
def test_files_that_cannot_be_parsed_are_named_with_the_reason(tree, data, reason):
    root = tree(files={"pkg/a.py": ""})
    (root / "pkg/a.py").write_bytes(data)
    modules = Modules(Workspace(root))
    assert modules.get("pkg/a.py") is None
    assert reason in modules.unreadable["pkg/a.py"]


def test_a_file_that_is_not_there_is_named(tree):
    modules = Modules(Workspace(tree()))
    assert modules.get("pkg/none.py") is None
    assert "cannot be read" in modules.unreadable["pkg/none.py"]


def test_files_that_mention_a_word(tree):
    root = tree(files={"pkg/a.py": "Needle", "pkg/b.py": "hay", "pkg/c/d.py": "x = Needle", "other/e.py": "Needle"})
    modules = Modules(Workspace(root), skip=["pkg/c/*"])
    assert modules.mentioning({"Needle"}, "pkg") == ["pkg/a.py"]
    assert Modules(Workspace(root)).mentioning({"Needle"}, "") == ["other/e.py", "pkg/a.py", "pkg/c/d.py"]
