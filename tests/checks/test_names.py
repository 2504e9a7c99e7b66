"""check-names: only what is worse than before counts (ANCHORS.md trap 5)."""

from __future__ import annotations

import subprocess

import pytest

from omni_migrate.checks.names import names
from omni_migrate.errors import InputError
from omni_migrate.report.findings import FileChange


def found(*changes: tuple[str, str | None, str]) -> list[str]:
    """`path:line code` of each finding for (path, before, after)."""
    built = [FileChange(path, None if old is None else old.encode(), new.encode()) for path, old, new in changes]
    return [f"{each.path}:{each.line} {each.message.split()[0]}" for each in names(built)]


@pytest.mark.parametrize(
    "before, after",
    [
        ("import os\nx()\n", "\n\nimport os\nx()\na = 1\n"),
        ("def f():\n    a = 1\n", "# moved down\ndef f():\n    a = 1\n"),
        ("import os\nimport os\n", "b = 1\nimport os\nimport os\n"),
        ("a = 1\n", "import os  # noqa: F401\n"),
        ("a = 1\n", "try:\n    import os\nexcept ImportError:\n    os = None\n"),
        ("a = 1\n", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\na: 'os.PathLike'\n"),
    ],
)
def test_what_the_file_had_before_or_is_right_passes(before: str, after: str) -> None:
    assert found(("a.py", before, after)) == []


@pytest.mark.parametrize(
    "after, code",
    [
        ("x()\n", "F821"),
        ("__all__ = ['x']\n", "F822"),
        ("import os\ndef f():\n    print(os)\n    os = f()\n    return os\n", "F823"),
        ("import os\n", "F401"),
        ("def f():\n    a = 1\n", "F841"),
        ("def f(): ...\ndef f(): ...\n", "F811"),
    ],
)
def test_what_it_did_not_have_is_an_error(after: str, code: str) -> None:
    assert [each.split()[1] for each in found(("a.py", "a = 1\n", after))] == [code]


def test_one_more_of_the_same_is_an_error() -> None:
    assert found(("a.py", "x()\n", "x()\nx()\n")) == ["a.py:2 F821"]


def test_a_new_file_has_no_excuse_but_a_moved_unused_variable() -> None:
    old = "import os\ndef f():\n    unused = 1\nx()\n"
    new = "import os\ndef f():\n    unused = 1\nx()\n"
    assert found(("old.py", old, "a = 1\n"), ("new.py", None, new)) == ["new.py:1 F401", "new.py:4 F821"]


def test_folders_that_ruff_leaves_out_by_default_and_other_encodings_are_checked() -> None:
    assert found(("build/a.py", "a = 1\n", "x()\n"), ("venv/b.py", None, "y()\n")) == [
        "build/a.py:1 F821",
        "venv/b.py:1 F821",
    ]
    latin = b"# -*- coding: latin-1 -*-\na = '\xe9'\n"
    assert [each.line for each in names([FileChange("a.py", latin, latin + b"x()\n")])] == [3]


def test_ruff_runs_once_for_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    run = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: runs.append(args) or run(*args, **options))
    assert found(*((f"{number}.py", "a = 1\n", "x()\n") for number in range(5))) == [f"{n}.py:1 F821" for n in range(5)]
    assert len(runs) == 1


def test_without_ruff_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ruff.find_ruff_bin", lambda: "/nowhere/ruff")
    with pytest.raises(InputError, match="ruff is not installed beside omni-migrate"):
        found(("a.py", None, "a = 1\n"))
