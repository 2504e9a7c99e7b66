"""What the tests have in common: a cache of their own, small trees and checkouts, and the command as a user runs it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent

RUNNER = "class OmniGPUModelRunner:\n    pass\n"

Tree = Callable[..., Path]
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def own_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of each test's own; only tests on releases share the user's, so that each release is fetched once."""
    if request.node.get_closest_marker("release") is None:
        monkeypatch.setenv("OMNI_MIGRATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def dead_index() -> dict[str, str]:
    """pip's settings for an index that nobody answers for: a port of this machine that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
    return {"PIP_INDEX_URL": f"http://{host}:{port}/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files (path -> text) below a folder; without files, the smallest tree that is a vllm_omni."""

    def write(name: str = "tree", files: dict[str, str] | None = None) -> Path:
        root = tmp_path / name
        for path, text in (files or {"vllm_omni/__init__.py": "", "vllm_omni/worker/runner.py": RUNNER}).items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return root

    return write


@pytest.fixture
def git() -> Callable[..., str]:
    """Runs git in a folder, as somebody, and returns what it prints."""

    def run(folder: Path, *args: str) -> str:
        settings = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "init.defaultBranch=main")
        command = ["git", *settings, *args]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    return run


@pytest.fixture
def checkout(tree: Tree, git: Callable[..., str]) -> Tree:
    """As `tree`, committed in a git checkout."""

    def write(name: str = "checkout", files: dict[str, str] | None = None) -> Path:
        root = tree(name, files)
        git(root, "init", "--quiet")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "first")
        return root

    return write


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs `omni-migrate` in a process of its own."""

    def run(*args: str, cwd: Path = tmp_path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "omni_migrate", *args],
            cwd=cwd,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )

    return run
