"""A path from outside stays below its folder, whatever operating system its words are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from omni_migrate.confined import confined
from omni_migrate.errors import InputError


@pytest.mark.parametrize(
    "path", ["a.py", "a/b.py", "a/...py", "a/..b/c.py", "a b/é.py", ".gitignore", "x/.github/y.py"]
)
def test_a_path_below_the_folder_is_that_path(tmp_path: Path, path: str) -> None:
    assert confined(tmp_path, path, "a test's path") == tmp_path / path


@pytest.mark.parametrize(
    "path",
    ["", ".", "/a.py", "..", "../a.py", "a/../../b.py", "a/../b.py", "C:/a.py", "C:a.py", "a\\..\\..\\b.py", "\\a.py",
     "//host/share/a.py", "a\0.py", ".git/config", "a/.GIT/hooks/x.py", "git~1/x.py", ".git./x.py",
     ".. /a.py", "a/.. /b.py", "a/.../b.py", ".git ./x.py", ".git::$INDEX_ALLOCATION/x.py", ".g\u200cit/x.py"],
)  # fmt: skip
def test_any_other_path_is_one_line(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match=r"a test's path .* leads out of its folder"):
        confined(tmp_path, path, "a test's path")


def test_a_link_on_the_way_out_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/out").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link out of"):
        confined(tmp_path / "inner", "out/a.py", "a test's path")
    (tmp_path / "inner/in").symlink_to(tmp_path / "inner")
    assert confined(tmp_path / "inner", "in/a.py", "a test's path") == tmp_path / "inner/in/a.py"
