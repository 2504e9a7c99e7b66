"""Work in a process of its own: its result comes, whatever becomes of the process."""

import os
import threading

import pytest

from omni_migrate.background import begin

on_two_cores = pytest.mark.parametrize("cores", [1, 2])


@on_two_cores
def test_the_result_is_that_of_the_work(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert begin(lambda: ["result", 1])() == ["result", 1]


@on_two_cores
def test_an_error_is_raised_where_the_result_is_asked_for(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(threading, "active_count", lambda: 1)

    def fails() -> None:
        raise ValueError("no census")

    wait = begin(fails)
    with pytest.raises(ValueError, match="no census"):
        wait()


def test_a_process_that_dies_is_replaced_by_doing_the_work_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    here = os.getpid()

    def dies_elsewhere() -> str:
        if os.getpid() != here:
            os._exit(9)
        return "done here"

    assert begin(dies_elsewhere)() == "done here"
