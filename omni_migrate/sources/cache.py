"""The folder in which fetched sources are kept."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "OMNI_MIGRATE_CACHE"


def cache_folder() -> Path:
    """The cache: `OMNI_MIGRATE_CACHE`, or the user's cache folder of the platform."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("omni-migrate", appauthor=False))
