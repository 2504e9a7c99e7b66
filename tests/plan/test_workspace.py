"""Files as a plan sees them: from disk, under the edits made so far."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("data", [b"# coding: nonsense\n", b"a = '\xff'\n"])
def test_bytes_that_are_no_python(data):
    with pytest.raises((SyntaxError, UnicodeDecodeError)):
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
