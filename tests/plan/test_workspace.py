"""Files as a plan sees them: from disk, under the edits made so far."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.plan.workspace import Workspace, decode


@pytest.mark.parametrize(
    "data",
    [
        b"a = 1\n",
        b"a = 1\r\nb = 2\r\n",
        b"\xef\xbb\xbfa = 1\n",
        "# coding: latin-1\na = 'größe'\n".encode("latin-1"),
        "a = 'größe'".encode(),
        b"",
        b"a = 1\rb = 2\n",
    ],
)
def test_decoded_and_encoded_is_the_same_bytes(data):
    file = decode(data)
    assert file.encode(file.text) == data


def test_the_line_end_that_most_lines_have():
    assert decode(b"a\r\nb\r\nc\n").newline == "\r\n"
    assert decode(b"a\nb\nc\r\n").newline == "\n"


def test_text_that_the_encoding_cannot_hold():
    file = decode(b"# coding: latin-1\n")
    with pytest.raises(UnicodeEncodeError):
        file.encode("質")


CODECS = ["rot13", "hex", "zlib", "bz2", "base64", "quopri", "uu", "nonsense", "undefined", "utf-16", "utf-32", "mbcs"]


@pytest.mark.parametrize(
    "data",
    [
        b"a = '\xff'\n",
        *(f"# -*- coding: {codec} -*-\na = 1\n".encode() for codec in CODECS),
        b"# coding: utf-7\na = '+AGE-'\n",
        b"# coding: unicode_escape\na = '\\x61'\n",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    ],
)
def test_bytes_that_are_no_python(data):
    with pytest.raises((SyntaxError, UnicodeError)):
        decode(data)


def test_edits_are_seen_and_nothing_is_written(tree):
    root = tree(files={"pkg/a.py": "1\n"})
    workspace = Workspace(root)
    workspace.write("pkg/a.py", b"2\n")
    workspace.write("pkg/new.py", b"3\n")
    assert workspace.read("pkg/a.py") == b"2\n" and (root / "pkg/a.py").read_bytes() == b"1\n"
    assert workspace.exists("pkg/new.py") and not (root / "pkg/new.py").exists()
    assert list(workspace.python_files()) == ["pkg/a.py", "pkg/new.py"]


def test_changes_of_each_phase_begin_where_the_last_one_ended(tree):
    workspace = Workspace(tree(files={"a.py": "1\n"}))
    workspace.write("a.py", b"2\n")
    first = workspace.snapshot()
    workspace.write("a.py", b"3\n")
    workspace.write("b.py", b"4\n")
    assert [(c.path, c.before, c.after) for c in workspace.changes_since({})] == [
        ("a.py", b"1\n", b"3\n"), ("b.py", None, b"4\n")
    ]  # fmt: skip
    assert [(c.path, c.before, c.after) for c in workspace.changes_since(first)] == [
        ("a.py", b"2\n", b"3\n"), ("b.py", None, b"4\n")
    ]  # fmt: skip


def test_an_edit_that_is_taken_back_is_no_change(tree):
    workspace = Workspace(tree(files={"a.py": "1\n"}))
    workspace.write("a.py", b"2\n")
    workspace.write("a.py", b"1\n")
    assert workspace.changes_since({}) == ()


def test_folders_that_hold_no_source_are_left_out(tree):
    files = {"a.py": "", ".git/b.py": "", "x/__pycache__/c.py": "", "build/d.py": "", "x/e.py": "", "x/f.txt": ""}
    workspace = Workspace(tree(files=files))
    assert list(workspace.python_files()) == ["a.py", "x/e.py"]
    assert list(workspace.python_files(["x"])) == ["x/e.py"]
    assert list(workspace.python_files(["x", ""])) == ["a.py", "x/e.py"]


def test_a_file_that_is_not_there(tree):
    with pytest.raises(OSError):
        Workspace(tree()).read("none.py")


def _large(file: Path) -> None:
    with file.open("wb") as stream:
        stream.truncate(500 << 20)


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "an endless device": lambda file: file.symlink_to("/dev/zero"),
    "500 MiB": _large,
    "a loop": lambda file: file.symlink_to(file.name),
    "a link to nowhere": lambda file: file.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_file_that_is_none_is_listed_and_cannot_be_read(tree, kind):
    root = tree(files={"pkg/a.py": "needle = 1\n"})
    ODD[kind](root / "pkg/x.py")
    workspace = Workspace(root)
    assert list(workspace.python_files()) == ["pkg/a.py", "pkg/x.py"]
    with pytest.raises(OSError):
        workspace.read("pkg/x.py")
    modules = Modules(Workspace(root))
    assert modules.mentioning({"needle"}, "pkg") == ["pkg/a.py"]
    assert modules.unreadable["pkg/x.py"].startswith("cannot be read: ")
    assert modules.unread_definition("X", "pkg") == ""
    assert modules.get("pkg/x.py") is None and modules.data("pkg/x.py") == b""


def test_a_folder_that_is_named_like_a_module_is_a_folder(tree):
    root = tree(files={"pkg/x.py/a.py": ""})
    (root / "pkg/link.py").symlink_to("x.py")
    assert list(Workspace(root).python_files()) == ["pkg/x.py/a.py"]


def test_a_folder_that_may_not_be_listed_is_named(tree, monkeypatch):
    root = tree(files={"pkg/a.py": "", "pkg/closed/b.py": "", "other/c.py": ""})
    scandir = os.scandir

    def refusing(folder: str) -> object:
        if folder.endswith("closed"):
            raise PermissionError(13, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    modules = Modules(Workspace(root))
    assert list(modules.searched("pkg")) == ["pkg/a.py"]
    assert modules.unreadable == {"pkg/closed/": "cannot be listed: Permission denied"}
    for below, skip in (("other", []), ("", ["pkg/closed/*"])):
        modules = Modules(Workspace(root), skip)
        assert list(modules.searched(below)) and modules.unreadable == {}


@pytest.mark.parametrize("text", ["-" * 100_000 + "1", "not " * 50_000 + "1", "(" * 5_000, "+".join("a" * 100_000)])
def test_a_file_nested_too_deeply_is_named(tree, text):
    modules = Modules(Workspace(tree(files={"a.py": f"{text}\n"})))
    assert modules.get("a.py") is None
    assert len(modules.unreadable["a.py"]) > len("cannot be parsed: ")


def test_names_that_are_no_text_are_listed_and_read(tree):
    root = tree(files={"pkg/a.py": ""})
    for name in (b"\xff.py", b"a\nb.py", b"\x1b[31m.py"):
        (root / "pkg" / os.fsdecode(name)).write_bytes(b"x = 1\n")
    workspace = Workspace(root)
    assert len(list(workspace.python_files())) == 4
    assert all(workspace.read(path) in (b"", b"x = 1\n") for path in workspace.python_files())
