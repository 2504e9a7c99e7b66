"""How the checks run ruff: the one installed beside the tool, without a cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from omni_migrate.errors import InputError

# ruff's memory grows with the square of a function's assignments: 25,000 take 2 GB, 100,000 more than a machine has.
MEMORY_BYTES = 8 << 30


class RuffError(Exception):
    """Ruff refused the input or its configuration; the text is ruff's own reason, in one line."""


def run_ruff(command: str, *arguments: str, folder: Path) -> bytes:
    """Standard output of `ruff command`, run in `folder`. Raises RuffError, or InputError if there is no ruff."""
    try:
        from ruff import find_ruff_bin  # type: ignore[import-untyped]

        call = [find_ruff_bin(), command, "--no-cache", *arguments]
        with subprocess.Popen(call, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            _limit_memory(process.pid)
            output, said = process.communicate()
    except (ImportError, OSError) as error:
        raise InputError(f"ruff is not installed beside omni-migrate ({error}): install it again with pip") from error
    if process.returncode < 0:
        raise RuffError(
            f"it ended within {MEMORY_BYTES >> 30} GiB of memory (signal {-process.returncode}): a file that changes "
            "has a function of tens of thousands of lines; move that into a file of its own"
        )
    if process.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines()
        raise RuffError(lines[-1].strip() if lines else "no reason given")
    return output


def _limit_memory(process: int) -> None:
    """Where the system can, let a process have so much memory and no more."""
    if sys.platform == "linux":
        import resource

        resource.prlimit(process, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
