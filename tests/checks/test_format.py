"""New files in the style of the tree that they go to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from omni_migrate.checks.format import format_many, format_python
from omni_migrate.errors import InputError, VerificationError

LONG = "value = function(aaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbb, cccccccccccccccccccccccc, ddddddddddd)\n"


def test_a_tree_without_configuration_gets_lines_of_120(tmp_path: Path) -> None:
    assert len(LONG) > 100
    assert format_python(LONG, "a.py", tmp_path) == LONG
    assert format_python(LONG, "a.py", tmp_path, line_length_default=88) != LONG


@pytest.mark.parametrize("name, table", [("pyproject.toml", "[tool.ruff]\n"), ("ruff.toml", ""), (".ruff.toml", "")])
def test_the_trees_own_configuration_holds(tmp_path: Path, name: str, table: str) -> None:
    (tmp_path / name).write_text(table + "line-length = 40\n")
    assert "\n    aaaa" in format_python(LONG, "a.py", tmp_path)


def test_a_pyproject_without_ruff_and_what_lies_above_the_tree_count_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text("line-length = 40\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert format_python(LONG, "a.py", tmp_path / "tree") == LONG


def test_the_nearest_configuration_wins_and_two_processes_serve_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/ruff.toml").write_text("line-length = 40\n")
    runs = []
    run = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: runs.append(args) or run(*args, **options))
    files = {"a.py": LONG, "b.py": LONG, "sub/c.py": LONG, "sub/d.py": LONG}
    done = format_many(files, tmp_path)
    assert [done[path] == LONG for path in files] == [True, True, False, False]
    assert len(runs) == 4


def test_imports_are_sorted_with_the_trees_packages_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    text = "from pkg import x\nimport zlib\nimport abcdef\nprint(x, zlib, abcdef)\n"
    assert format_python(text, "pkg/new.py", tmp_path) == (
        "import zlib\n\nimport abcdef\n\nfrom pkg import x\n\nprint(x, zlib, abcdef)\n"
    )


@pytest.mark.parametrize("text", ["a  =  1\r\nb = 'é'\r\n", "\ufeffa  =  1\n"], ids=["crlf", "bom"])
def test_line_ends_and_a_bom_are_kept(tmp_path: Path, text: str) -> None:
    assert format_python(text, "a.py", tmp_path) == text.replace("  ", " ").replace("'", '"')


@pytest.mark.parametrize("switch", ["# fmt: off", "# yapf: disable"])
def test_the_pitfall_that_the_docstring_names(tmp_path: Path, switch: str) -> None:
    text = f"a = 1\n{switch}\nb  =  1\n"
    assert format_python(text, "a.py", tmp_path) == text


def test_formatting_twice_changes_nothing(tmp_path: Path) -> None:
    once = format_python(LONG + "import os\ndef f( ): return {'a':os}\n", "a.py", tmp_path, 60)
    assert format_python(once, "a.py", tmp_path, 60) == once


def test_code_that_does_not_parse_is_our_fault_and_a_bad_configuration_the_users(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"cannot be formatted: .*pkg/a\.py:1:5"):
        format_python("def (:\n", "pkg/a.py", tmp_path)
    (tmp_path / "ruff.toml").write_text("no-such-option = 1\n")
    with pytest.raises(InputError, match=r"ruff does not accept .*ruff\.toml: .*no-such-option"):
        format_python("a = 1\n", "a.py", tmp_path)
