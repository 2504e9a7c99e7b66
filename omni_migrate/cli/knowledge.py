"""Reads the knowledge that the commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import omni_migrate
from omni_migrate.config import read_toml


def rules() -> list[dict[str, Any]]:
    """The entries of knowledge/rules.toml, by id."""
    return sorted(_entries("rules.toml", "rule"), key=lambda rule: str(rule["id"]))


def adapters() -> list[dict[str, Any]]:
    """The entries of knowledge/adapters.toml, in the order in which they are tried."""
    return _entries("adapters.toml", "adapter")


def hooks() -> list[dict[str, Any]]:
    """The entries of knowledge/hooks.toml, in the order of RFC-005."""
    return _entries("hooks.toml", "hook")


def _entries(file: str, key: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = read_toml(Path(omni_migrate.__file__).parent / "knowledge" / file)[key]
    return entries
