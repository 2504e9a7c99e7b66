"""How the checks run ruff: the one installed beside the tool, without a cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

from omni_migrate.errors import InputError


class RuffError(Exception):
    """Ruff refused the input or its configuration; the text is ruff's own reason, in one line."""


def run_ruff(command: str, *arguments: str, folder: Path) -> bytes:
    """Standard output of `ruff command`, run in `folder`. Raises RuffError, or InputError if there is no ruff."""
    try:
        from ruff import find_ruff_bin  # type: ignore[import-untyped]

        call = [find_ruff_bin(), command, "--no-cache", *arguments]
        return subprocess.run(call, cwd=folder, capture_output=True, check=True).stdout
    except (ImportError, OSError) as error:
        raise InputError(f"ruff is not installed beside omni-migrate ({error}): install it again with pip") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RuffError(lines[-1].strip() if lines else "no reason given") from error
