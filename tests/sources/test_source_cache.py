"""The cache holds what is complete, mends what is not, and is one line where it cannot be written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from omni_migrate.errors import InputError
from omni_migrate.sources import cache, resolve


def test_what_was_unpacked_is_not_unpacked_again(wheel, tmp_path, monkeypatch):
    file = str(wheel())
    first = resolve(file, cwd=tmp_path)
    monkeypatch.setattr("omni_migrate.sources.archive.unpack", lambda *args: pytest.fail("unpacked again"))
    assert resolve(file, cwd=tmp_path) == first


def test_a_wheel_that_changed_is_unpacked_again(wheel, tmp_path):
    file = str(wheel())
    first = resolve(file, cwd=tmp_path)
    wheel(files={"vllm_omni/other.py": ""})
    assert resolve(file, cwd=tmp_path).root != first.root


@pytest.mark.parametrize("damage", ["a file is gone", "a file is cut", "half an entry", "no entry", "a file in place"])
def test_a_half_written_cache_is_mended(wheel, tmp_path, damage):
    file = str(wheel())
    root = resolve(file, cwd=tmp_path).root
    entry = root.parent / cache.ENTRY
    if damage == "a file is gone":
        (root / "vllm_omni/worker/runner.py").unlink()
    elif damage == "a file is cut":
        (root / "vllm_omni/worker/runner.py").write_text("class")
    elif damage == "half an entry":
        entry.write_text("{")
    elif damage == "no entry":
        entry.unlink()
    else:
        shutil.rmtree(root.parent)
        root.parent.write_text("")
    again = resolve(file, cwd=tmp_path)
    assert again.root == root
    assert (root / "vllm_omni/worker/runner.py").read_text() == "class Runner:\n    pass\n"


def test_who_comes_second_takes_what_the_first_kept(tmp_path):
    def fill(folder: Path) -> None:
        cache.keep(lambda first: (first / "a.py").write_text("first"), "file", "key")
        (folder / "a.py").write_text("second")

    assert (cache.keep(fill, "file", "key") / "a.py").read_text() == "first"


def test_a_failure_and_an_interrupt_leave_nothing(tmp_path):
    for error in (InputError("damaged"), KeyboardInterrupt()):

        def fill(folder: Path, error: BaseException = error) -> None:
            (folder / "a.py").write_text("half")
            raise error

        with pytest.raises(type(error)):
            cache.keep(fill, "file", "key")
        assert list((tmp_path / "cache").rglob("a.py")) == []
        assert cache.kept("file", "key") is None


def test_what_a_killed_run_left_is_removed_a_day_later(tmp_path):
    left = tmp_path / "cache" / "tmp" / "killed"
    left.mkdir(parents=True)
    with cache.scratch():
        assert left.exists()
    os.utime(left, (0, 0))
    with cache.scratch():
        assert not left.exists()


def test_a_file_in_place_of_the_cache_is_one_line(wheel, tmp_path, monkeypatch, refused):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", str(tmp_path / "file"))
    line = refused(str(wheel()), tmp_path)
    assert line.startswith(f"the cache {tmp_path / 'file'} cannot be written: ")
    assert "let OMNI_MIGRATE_CACHE name another folder" in line


@pytest.mark.parametrize(
    ("options", "said"), [("size=64k", "No space left on device"), ("ro", "Read-only file system")]
)
def test_a_full_or_read_only_disk_is_one_line(mounted, wheel, tmp_path, monkeypatch, refused, options, said):
    folder = mounted(options)
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", str(folder / "cache"))
    file = wheel(files={"vllm_omni/a.py": "x = 1\n" * 50_000})
    assert f"the cache {folder / 'cache'} cannot be written: {said}" in refused(str(file), tmp_path)
    assert list(folder.rglob("*.py")) == []


def test_a_disk_that_fills_up_is_one_line(wheel, tmp_path, monkeypatch, refused):
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    assert "cannot be written: No space left on device" in refused(str(wheel()), tmp_path)


def test_the_users_cache_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("OMNI_MIGRATE_CACHE")
    assert cache.cache_folder().name == "omni-migrate"
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", "~/elsewhere")
    assert cache.cache_folder() == Path.home() / "elsewhere"
