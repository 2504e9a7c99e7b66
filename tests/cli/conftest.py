"""The command in this process, with a stand-in for the engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest
from stand_in import Engine

from omni_migrate.cli import main


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    stand_in, engine = ModuleType("omni_migrate.extract"), Engine()
    stand_in.run = engine.run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "omni_migrate.extract", stand_in)
    return engine


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs the command in this process and returns its exit code."""

    def run(*args: str) -> int:
        monkeypatch.setattr(sys, "argv", ["omni-migrate", *args])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0)

    return run
