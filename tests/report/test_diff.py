"""The diff is a patch that `git apply` takes, byte for byte (ANCHORS.md traps 2 and 6)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from omni_migrate.report.diff import unified_diff
from omni_migrate.report.findings import FileChange


def applied(changes: list[FileChange]) -> dict[str, bytes]:
    """What `git apply` makes of the diff in a folder that holds the files before."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for change in changes:
            if change.before is not None:
                (root / change.path).parent.mkdir(parents=True, exist_ok=True)
                (root / change.path).write_bytes(change.before)
        patch = unified_diff(changes)
        if patch:
            # Away from any repository and configuration, whose white-space rules are not the patch's.
            environment = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(root.parent), "HOME": folder}
            subprocess.run(["git", "apply", "-"], cwd=root, input=patch, check=True, env=environment)
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def expected(changes: list[FileChange]) -> dict[str, bytes]:
    return {change.path: change.after for change in changes}


def test_nothing_changed_is_an_empty_patch() -> None:
    assert unified_diff([FileChange("a.py", b"a\n", b"a\n")]) == b""


def test_a_change_looks_as_git_writes_it() -> None:
    changes = [FileChange("a.py", b"x: Optional[int]\n", b"x: Optional[str]"), FileChange("b/new.py", None, b"1\n")]
    assert unified_diff(changes) == (
        b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n"
        b"-x: Optional[int]\n+x: Optional[str]\n\\ No newline at end of file\n"
        b"diff --git a/b/new.py b/b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/b/new.py\n@@ -0,0 +1 @@\n+1\n"
    )


@pytest.mark.parametrize(
    "before, after",
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", b"a\nb\n"),
        (b"a", b"a\n"),
        (b"a\n", b"a"),
        (b"a", b"b"),
        (b"", b"a\n"),
        (b"a\n", b""),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
        (b"\xe9\n", b"\xe8\n"),
        (b"a\x0cb\x1c\x85\rc\n", b"a\x0cb\x1c\x85\rd\n"),
        (b"- a\n-- b\n--- c\n+++ d\n", b"--- c\n@@ -1 +1 @@\n+++ d\ndiff --git a/x b/x\n"),
        (None, b""),
        (None, b"a"),
        (None, b"\r\n"),
    ],
)
def test_git_applies_it_byte_for_byte(before: bytes | None, after: bytes) -> None:
    changes = [FileChange("a.py", before, after), FileChange("other.py", b"1\n", b"2\n")]
    assert applied(changes) == expected(changes)


@pytest.mark.parametrize(
    "name", ["with space.py", "é/ü.py", 'quo"te.py', "tab\t.py", "back\\slash.py", "new\nline.py", "-a.py"]
)
@pytest.mark.parametrize("before", [None, b"a\n"])
def test_any_path(name: str, before: bytes | None) -> None:
    changes = [FileChange(name, before, b"b\n")]
    assert applied(changes) == expected(changes)


def test_a_file_mode_stays(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_bytes(b"a\n")
    (tmp_path / "run.py").chmod(0o755)
    patch = unified_diff([FileChange("run.py", b"a\n", b"b\n")])
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch, check=True)
    assert (tmp_path / "run.py").stat().st_mode & 0o777 == 0o755


LINES = st.lists(
    st.sampled_from(
        [b"", b"a", b"b", b"\r", b"a\r", b"\xff\xfe", b"+", b"-", b"\\", b" ", b"\x0c", b"@@ -1 +1 @@", b"\t"]
    ),
    max_size=12,
).map(b"\n".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.none() | LINES, LINES), max_size=3))
def test_git_applies_whatever_is_in_the_files(contents: list[tuple[bytes | None, bytes]]) -> None:
    changes = [FileChange(f"f{number}.py", before, after) for number, (before, after) in enumerate(contents)]
    assume(changes)
    assert applied(changes) == expected(changes)
