"""The in-tree runners, as files that a command writes: never imported, and never installed as `vllm_omni`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

IN_WHEEL = "in_tree"
"""The folder of the installed tool that holds them; in the repository they stand beside the tool's package."""


@cache
def in_tree_worker() -> dict[str, bytes]:
    """The modules of the in-tree `vllm_omni/worker`, by their path below it (`hook_adapters/base.py`)."""
    here = Path(__file__).parent
    installed = here / IN_WHEEL / "worker"
    folder = installed if installed.is_dir() else here.parent / "vllm_omni" / "worker"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
