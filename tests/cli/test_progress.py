"""A bar is drawn on a terminal after a second, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from omni_migrate import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """Makes time pass only as the test says."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("unit", "drawn"), [("files", "5/10"), ("bytes", "5/10 bytes")])
def test_a_bar_after_a_second(monkeypatch, clock, unit, drawn):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress.TerminalProgress().task("reading [x]", total=10, unit=unit) as advance:
        advance(3)
        assert stream.getvalue() == ""
        clock[0] += 1.1
        advance(2)
    assert "reading [x]" in stream.getvalue()
    assert drawn in stream.getvalue()


def test_quick_work_shows_nothing(monkeypatch, clock):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.TerminalProgress().task("reading", total=1) as advance:
        advance(1)
    assert stream.getvalue() == ""


def test_a_pipe_shows_nothing(monkeypatch, clock):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.TerminalProgress().task("reading", total=1) as advance:
        clock[0] += 5
        advance(1)
    assert stream.getvalue() == ""


def test_an_error_in_the_work_ends_the_bar(monkeypatch, clock):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(KeyboardInterrupt), progress.TerminalProgress().task("reading", total=2) as advance:
        clock[0] += 5
        advance(1)
        raise KeyboardInterrupt
    # The cursor, hidden by the bar, is shown again.
    assert stream.getvalue().rfind("\x1b[?25h") > stream.getvalue().rfind("\x1b[?25l") >= 0


def test_silence():
    with progress.SilentProgress().task("reading", total=1) as advance:
        advance(1)
