"""Every flag does what it says, in every position; what doesn't go together is one line and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omni_migrate.cli.options import parse_phases
from omni_migrate.errors import InputError

FLAGS = [
    (["--dry-run"], "dry_run", True),
    (["--output", "out"], "output", Path("out")),
    (["--branch", "adapters"], "branch", "adapters"),
    (["--allow-dirty"], "allow_dirty", True),
    (["--only", "mrope", "--only", "glm_image"], "only", ("mrope", "glm_image")),
    (["--phase", "2-4"], "phases", (2, 3, 4)),
    (["--list-sites"], "list_sites", True),
    (["--check"], "check", True),
]


@pytest.mark.parametrize(("given", "field", "value"), FLAGS, ids=lambda flag: str(flag))
def test_a_flag_reaches_the_engine_wherever_it_stands(engine, command, given, field, value):
    lines = [
        ["extract-adapters", *given, "SOURCE"],
        ["extract-adapters", "SOURCE", *given],
        [*given, "extract-adapters", "SOURCE"],
    ]
    for line in lines:
        assert command(*line) == 0
    assert [getattr(request, field) for request in engine.requests] == [value] * 3
    assert [request.source for request in engine.requests] == ["SOURCE"] * 3


def test_without_flags_everything_is_written_in_place(engine, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("extract-adapters") == 0
    (request,) = engine.requests
    assert request.source is None
    assert request.cwd == tmp_path
    assert (request.dry_run, request.output, request.branch, request.check) == (False, None, None, False)
    assert (request.only, request.phases) == ((), ())


def test_a_value_before_the_command_may_be_the_commands_name(engine, command):
    assert command("--branch", "extract-adapters", "extract-adapters") == 0
    assert engine.requests[0].branch == "extract-adapters"


def test_json_is_all_that_is_on_standard_output(engine, command, capsys):
    assert command("extract-adapters", "--format", "json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["command"] == "extract-adapters"
    assert printed.err == ""


@pytest.mark.parametrize(("name", "begins"), [("r.json", "{"), ("r.md", "#"), ("r.txt", "extract-adapters")])
def test_the_report_file_is_drawn_as_its_suffix_says(engine, command, tmp_path, name, begins):
    assert command("extract-adapters", "--report", str(tmp_path / name)) == 0
    assert (tmp_path / name).read_text().startswith(begins)


def test_a_report_file_that_cannot_be_written_is_one_line(engine, command, tmp_path, capsys):
    assert command("extract-adapters", "--report", str(tmp_path / "absent" / "r.json")) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--output", "out", "--branch", "b"], "--output and --branch exclude each other"),
        (["--dry-run", "--output", "out"], "--dry-run and --output exclude each other"),
        (["--dry-run", "--branch", "b"], "--dry-run and --branch exclude each other"),
        (["--check", "--output", "out"], "--check and --output exclude each other"),
        (["--check", "--branch", "b"], "--check and --branch exclude each other"),
        (["--branch", ""], "--branch: the name is empty"),
        (["--phase", "x"], "--phase x: not a phase"),
        (["--phase", "4-2"], "--phase 4-2: not a phase"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_one_line(engine, command, capsys, line, said):
    assert command("extract-adapters", *line) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"omni-migrate: error: {said}")
    assert printed.err.count("\n") == 1
    assert (printed.out, engine.requests) == ("", [])


@pytest.mark.parametrize(
    "line",
    [
        ["extract-adapters", "--dryrun"],
        ["--alow-dirty", "extract-adapters"],
        ["extract-adapters", "--format", "xml"],
        ["extract-adapters", "one", "two"],
        ["extract"],
        ["list", "models"],
    ],
    ids=" ".join,
)
def test_what_is_misspelt_is_a_usage_error(engine, command, capsys, line):
    assert command(*line) == 2
    assert "Usage: omni-migrate" in capsys.readouterr().err
    assert engine.requests == []


@pytest.mark.parametrize(
    ("text", "phases"),
    [(None, ()), ("3", (3,)), ("2-4", (2, 3, 4)), ("1,3", (1, 3)), ("5, 1-2,2", (1, 2, 5)), ("4-4", (4,))],
)
def test_phases(text, phases):
    assert parse_phases(text) == phases


@pytest.mark.parametrize("text", ["", "3-", "-3", "a", "1,,2", "1;2", "1.5", "²"])
def test_what_is_no_phase(text):
    with pytest.raises(InputError):
        parse_phases(text)
