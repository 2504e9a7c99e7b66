"""What is committed works elsewhere: no host of a registry, no path of somebody's machine, nobody else's files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# Each is written in two parts, so that this file does not hold it.
HOSTS = ("pypi" + ".org", "python" + "hosted", "huggingface" + ".co", "download." + "pytorch", "modelscope" + ".cn")
MACHINE = re.compile(r"(?<![\w.*])/(?:work/(?:main|shared)|tmp/w/|opt/pypi|root/)" + "|" + "py" + "env/versions")


@pytest.fixture(scope="module")
def tracked() -> dict[str, str]:
    """The text of every tracked file."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    files = {name: REPOSITORY / name for name in listed.stdout.split("\0") if name}
    return {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}


def test_no_registry_is_named(tracked):
    assert [(name, host) for name, text in tracked.items() for host in HOSTS if host in text.lower()] == []


def test_no_path_of_a_machine(tracked):
    own = {name: text for name, text in tracked.items() if name != "tests/packaging/test_repository.py"}
    assert [(name, found.group()) for name, text in own.items() if (found := MACHINE.search(text))] == []


def test_nothing_that_was_downloaded_is_committed(tracked):
    suffixes = (".whl", ".gz", ".zip", ".so", ".safetensors")
    assert [name for name in tracked if name.endswith(suffixes) or ".dist-info" in name] == []


@pytest.mark.parametrize("target", ["demo", "test", "test-tool", "clean"])
def test_make_knows_the_target(target):
    done = subprocess.run(["make", "--dry-run", target], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ci_runs_the_tests(tracked):
    assert "make test" in tracked[".ci/run"]
    assert (REPOSITORY / ".ci" / "run").stat().st_mode & 0o111
