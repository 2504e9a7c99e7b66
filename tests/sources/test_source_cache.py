"""The cache holds what is complete, mends what is not, and is one line where it cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize(
    "damage",
    [
        "a file is gone",
        "a file is cut",
        "changed by hand",
        "a file is new",
        "half an entry",
        "no entry",
        "a file in place",
    ],
)
def test_a_half_written_cache_is_mended(wheel, tmp_path, damage):
    file = str(wheel())
    root = resolve(file, cwd=tmp_path).root
    entry = root.parent / cache.ENTRY
    if damage == "a file is gone":
        (root / "vllm_omni/worker/runner.py").unlink()
    elif damage == "a file is cut":
        (root / "vllm_omni/worker/runner.py").write_text("class")
    elif damage == "changed by hand":
        module = root / "vllm_omni/worker/runner.py"
        before = module.stat()
        module.write_text("class Burner:\n    pass\n")
        os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif damage == "a file is new":
        (root / "vllm_omni/new.py").write_text("")
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
    assert not (root / "vllm_omni/new.py").exists()


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
    def full(spec: str, folder: Path, path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(folder / path))

    monkeypatch.setattr("omni_migrate.sources.archive.write_member", full)
    assert "cannot be written: No space left on device" in refused(str(wheel()), tmp_path)


def test_the_users_cache_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("OMNI_MIGRATE_CACHE")
    assert cache.cache_folder().name == "omni-migrate"
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", "~/elsewhere")
    assert cache.cache_folder() == Path.home() / "elsewhere"


def test_another_run_that_ends_while_the_cache_is_tidied_is_no_error(tmp_path):
    """A name that is listed and gone when it is looked at; a link to nowhere is gone for good."""
    (tmp_path / "cache/tmp").mkdir(parents=True)
    (tmp_path / "cache/tmp/ended").symlink_to("nowhere")
    with cache.scratch() as folder:
        assert folder.is_dir()


def test_a_link_in_place_of_the_cache_is_followed(wheel, tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", str(tmp_path / "link"))
    resolve(str(wheel()), cwd=tmp_path)
    assert list((tmp_path / "real").rglob("runner.py"))


@pytest.mark.parametrize("chosen", ["", "~/cache", "~nobody-of-this-name/cache"])
def test_a_user_without_a_home_is_one_line_and_no_folder_named_tilde(tmp_path, monkeypatch, chosen):
    import pwd

    def nobody(of: object) -> None:
        raise KeyError(of)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", chosen)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no home folder for the cache: let OMNI_MIGRATE_CACHE name a folder"):
        cache.cache_folder()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("closed", ["cache", "cache/trees", "cache/tmp"])
def test_a_cache_of_another_user_is_one_line(wheel, tmp_path, closed):
    """A folder that this user may neither read nor write."""
    file = wheel()
    (tmp_path / closed).mkdir(parents=True, exist_ok=True)
    (tmp_path / closed).chmod(0o700)
    for folder in (*tmp_path.parents, tmp_path, tmp_path / "cache"):
        if folder != tmp_path / closed and folder.is_relative_to("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o777 if folder == tmp_path / "cache" else folder.stat().st_mode | 0o5)
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom omni_migrate.errors import InputError\n"
        "from omni_migrate.sources import archive, cache, requirement, resolve\n"
        "from omni_migrate.sources.cache import kept_names\n'x'.encode('cp437')\nos.setgid(12345)\nos.setuid(12345)\n"
        "try:\n    assert kept_names('release', 'x') == []\n    resolve(sys.argv[1], cwd=Path('/'))\n"
        "except InputError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith(f"the cache {tmp_path / 'cache'} cannot be written: Permission denied; free space")


def test_two_runs_that_unpack_the_same_at_once_both_have_it(wheel, tmp_path):
    file = wheel(files={f"vllm_omni/{number}.py": "x = 1\n" * 100 for number in range(300)})
    script = (
        "import sys\nfrom pathlib import Path\nfrom omni_migrate.sources import resolve\nsys.stdin.read()\n"
        "root = resolve(sys.argv[1], cwd=Path('/')).root\nprint(len(list(root.rglob('*.py'))))\n"
    )
    command = [sys.executable, "-c", script, str(file)]
    runs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(4)
    ]
    assert [run.communicate("go")[0] for run in runs] == ["300\n"] * 4
    assert list((tmp_path / "cache/tmp").iterdir()) == []
