"""Whole runs on a small tree, and driving what they make."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mini_tree import DRIVER, FILES, STUBS

from omni_migrate.extract import run
from omni_migrate.request import ExtractRequest


@pytest.fixture
def mini(tree: Callable[..., Path]) -> Callable[..., Path]:
    """Writes the small vllm_omni, with files replaced, added or (None) left out."""

    def write(name: str = "mini", **changed: str | None) -> Path:
        files = {**FILES, **changed}
        return tree(name, {path: text for path, text in files.items() if text is not None})

    return write


@pytest.fixture
def extract(tmp_path: Path) -> Callable[..., Path]:
    """Runs the extraction from one folder into a new one, and returns that."""
    made = 0

    def into_folder(source: Path, **options: Any) -> Path:
        nonlocal made
        made += 1
        output = tmp_path / f"extracted{made}"
        run(ExtractRequest(str(source), tmp_path, output=output, **options))
        return output

    return into_folder


@pytest.fixture
def stubs(tree: Callable[..., Path]) -> Callable[[Path], dict[str, str]]:
    """The environment in which a tree's runners extend the stub vllm."""

    def environment(root: Path) -> dict[str, str]:
        folder = tree("stubs", STUBS)
        return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{folder}", "PYTHONDONTWRITEBYTECODE": "1"}

    return environment


@pytest.fixture
def drive_code(stubs: Callable[[Path], dict[str, str]], tmp_path: Path) -> Callable[[Path, str], str]:
    """Runs code over a tree in a process of its own; what it prints."""

    def printed(root: Path, code: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(code)]
        done = subprocess.run(command, env=stubs(root), capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return printed


@pytest.fixture
def drive(drive_code: Callable[[Path, str], str]) -> Callable[[Path], Any]:
    """What the runners of a tree do with each model."""
    return lambda root: json.loads(drive_code(root, DRIVER))
