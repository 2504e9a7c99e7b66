"""Reports as text, JSON and Markdown (ANCHORS.md traps 1, 2, 9 and 11)."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from omni_migrate.errors import InputError
from omni_migrate.report import FORMATS, render
from omni_migrate.report.findings import FileChange, Finding, Report, Severity

SCHEMA = Path(__file__).parents[2] / "docs/json-schema/report.schema.json"
LONG = "a sentence that is much too long for any terminal, " * 5


def report(**extra: Any) -> Report:
    return Report(
        "extract-adapters",
        "vllm-omni==0.30.0",
        "0.30.0",
        {"sites": 3},
        (
            Finding(
                "pkg/__init__.py", 12, "OM001", Severity.ERROR, "A.f", "Optional[int] | `x`\nnext *line*", "[b]do[/b]"
            ),
            Finding("pkg/a.py", 0, "OM002", Severity.NOTE, "", LONG),
        ),
        (
            FileChange("pkg/a.py", b"x: Optional[int]\r\n\xe9", b"x: Optional[str]\r\n\xe9"),
            FileChange("pkg/b.py", None, b"1\n2"),
            FileChange("pkg/c.py", b"", b""),
        ),
        (("pkg/latin.py", "not UTF-8: caf\xe9"),),
        (("pkg/bad.py", "line 3: invalid syntax"),),
        extra,
    )


class Stream(io.TextIOWrapper):
    """A text stream over bytes, as standard output is one."""

    def __init__(self, encoding: str = "utf-8", newline: str | None = None) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline=newline)

    def bytes(self) -> bytes:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def drawn(format: str, shown: Report | None = None, *, diff: bool = False, encoding: str = "utf-8") -> str:
    stream = Stream(encoding)
    render(shown or report(), format, diff=diff, stream=stream)
    return stream.bytes().decode(encoding, "surrogateescape")


EMPTY = Report("audit", ".", None, {}, (), ())


# --- every format -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_a_report_of_nothing_still_shows_the_four_counters(format: str) -> None:
    text = drawn(format, EMPTY)
    for counter in ("changed", "unchanged", "skipped", "failed"):
        assert counter in text
    assert "pkg" not in text


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_skipped_and_failed_is_named_with_the_reason(format: str) -> None:
    text = drawn(format)
    for word in ("pkg/latin.py", "not UTF-8", "pkg/bad.py", "line 3: invalid syntax"):
        assert word in text


@pytest.mark.parametrize("format", FORMATS)
def test_the_diff_is_there_only_when_asked_for(format: str) -> None:
    assert "diff --git" not in drawn(format)
    assert "diff --git" in drawn(format, diff=True)


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_the_diffs_bytes_go_out_as_they_are(format: str) -> None:
    stream = Stream("ascii", newline="\r\n")
    render(report(), format, diff=True, stream=stream)
    assert b"+x: Optional[str]\r\n \xe9\n\\ No newline" in stream.bytes()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_the_terminal_cannot_show_is_escaped(format: str, encoding: str) -> None:
    shown = Report("audit", "caf\xe9 \N{SNOWMAN}", None, {}, (), ())
    text = drawn(format, shown, encoding=encoding)
    assert "\\u2603" in text


@pytest.mark.parametrize("format", FORMATS)
def test_a_text_stream_without_bytes_below_is_served_too(format: str) -> None:
    stream = io.StringIO()
    render(report(), format, diff=True, stream=stream)
    assert "Optional[int]" in stream.getvalue()


@pytest.mark.parametrize("format", FORMATS)
def test_a_closed_pipe_raises_broken_pipe_and_nothing_else(format: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    with pytest.raises(BrokenPipeError):
        render(report(), format, diff=True, stream=stream)
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="no such format: yaml; one of text, json, markdown"):
        render(EMPTY, "yaml", diff=False, stream=io.StringIO())


# --- text ---------------------------------------------------------------------------------------------------------


def test_in_a_pipe_there_is_no_colour_and_no_row_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    text = drawn("text")
    assert "\x1b" not in text
    assert LONG.strip() in text
    assert "pkg/__init__.py:12" in text
    assert "pkg/__init__.py:12: error OM001: Optional[int] | `x` next *line* [A.f]\n    [b]do[/b]\n" in text
    assert text.endswith(
        "extract-adapters vllm-omni==0.30.0 (0.30.0)\nchanged 2, unchanged 1, skipped 1, failed 1, sites 3\n"
    )


def test_the_whole_output_is_a_patch_for_git_apply(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for change in report().files:
        if change.before is not None:
            (tmp_path / change.path).write_bytes(change.before)
    stream = Stream()
    render(report(), "text", diff=True, stream=stream)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=stream.bytes(), check=True)
    assert {change.path: change.after for change in report().files} == {
        path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.py")
    }


def test_tables_of_the_command_are_drawn() -> None:
    text = drawn("text", report(tables=[{"title": "Sites [x]", "columns": ["a", "b"], "rows": [[1, "Optional[int]"]]}]))
    assert "Sites [x]" in text
    assert "Optional[int]" in text.split("Sites [x]")[1].split("Files")[0]


def test_escape_sequences_in_a_message_do_not_reach_the_terminal() -> None:
    shown = Report("audit", ".", None, {}, (Finding("a.py", 1, "R", Severity.NOTE, "", "\x1b[31mred\x07"),), ())
    assert r"\x1b[31mred\x07" in drawn("text", shown)


def on_a_terminal(**environment: str) -> bytes:
    """What a run whose standard output is a terminal writes there."""
    script = (
        "import sys; from omni_migrate.report import render; from omni_migrate.report.findings import *\n"
        "found = Finding('a.py', 1, 'R', Severity.ERROR, '', 'Optional[int] ' * 20)\n"
        "render(Report('audit', '.', None, {}, (found,), ()), 'text', diff=False, stream=sys.stdout)"
    )
    leader, follower = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLORTERM")}
    environment = {**base, "TERM": "xterm-256color", "COLUMNS": "60", **environment}
    subprocess.run([sys.executable, "-c", script], stdout=follower, env=environment, check=True)
    os.close(follower)
    written = b""
    try:
        while piece := os.read(leader, 65536):
            written += piece
    except OSError:  # the other end is closed
        pass
    os.close(leader)
    return written


def test_on_a_terminal_there_is_colour_and_rows_are_folded_but_nothing_is_cut() -> None:
    written = on_a_terminal()
    assert b"\x1b[1;31merror" in written
    assert written.count(b"Optional[int]") == 20
    assert b"\xe2\x80\xa6" not in written  # no ellipsis


def test_no_color_is_obeyed() -> None:
    assert b"\x1b" not in on_a_terminal(NO_COLOR="1")


# --- JSON ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("diff", [False, True])
@pytest.mark.parametrize("shown", [report(), EMPTY, report(tables=[{"title": "t", "columns": ["a"], "rows": [[1]]}])])
def test_json_is_one_document_that_its_schema_describes(shown: Report, diff: bool) -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(drawn("json", shown, diff=diff)), schema)


def test_every_key_of_the_document_is_described_in_the_schema() -> None:
    properties = json.loads(SCHEMA.read_text())["properties"]
    document = json.loads(drawn("json", report(tables=[]), diff=True))
    assert set(document) == set(properties)
    for name in ("findings", "files"):
        assert set(document[name][0]) == set(properties[name]["items"]["properties"])


@pytest.mark.parametrize(
    "spoil", [{"schema": 2}, {"summary": {"changed": 1}}, {"findings": [{"rule": "R"}]}, {"files": None}]
)
def test_the_schema_refuses_what_breaks_the_contract(spoil: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(drawn("json")), **spoil}, json.loads(SCHEMA.read_text()))


def test_json_says_what_the_report_says() -> None:
    document = json.loads(drawn("json", report(census=[1])))
    assert document["source"] == {"spec": "vllm-omni==0.30.0", "version": "0.30.0"}
    assert document["summary"] == {"changed": 2, "unchanged": 1, "skipped": 1, "failed": 1, "sites": 3}
    assert document["files"] == [
        {"path": "pkg/a.py", "action": "modify", "lines_before": 2, "lines_after": 2},
        {"path": "pkg/b.py", "action": "create", "lines_before": 0, "lines_after": 2},
        {"path": "pkg/c.py", "action": "unchanged", "lines_before": 0, "lines_after": 0},
    ]
    assert document["skipped"] == [{"path": "pkg/latin.py", "reason": "not UTF-8: caf\xe9"}]
    assert document["census"] == [1]


def test_the_diff_in_json_gives_the_bytes_back() -> None:
    diff = json.loads(drawn("json", diff=True))["diff"]
    assert b"+x: Optional[str]\r\n \xe9\n" in diff.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("key", ["findings", "schema", "diff"])
def test_a_command_cannot_hide_a_common_key(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        drawn("json", report(**{key: 1}))


# --- Markdown -----------------------------------------------------------------------------------------------------


def test_markdown_tables_hold_pipes_backticks_and_newlines() -> None:
    text = drawn("markdown", report(tables=[{"title": "T", "columns": ["a|b"], "rows": [["x|y\n`z` <b> _u_"]]}]))
    assert r"| `A.f` | Optional\[int\] \| \`x\`<br>next \*line\* | \[b\]do\[/b\] |" in text
    assert "| a\\|b |\n| --- |\n| x\\|y<br>\\`z\\` \\<b\\> \\_u\\_ |" in text


def test_every_markdown_row_has_as_many_cells_as_its_head() -> None:
    rows = [line for line in drawn("markdown").splitlines() if line.startswith("|")]
    cells = [len(row.replace("\\|", "").split("|")) for row in rows]
    heads = [number for number, row in enumerate(rows) if set(row) <= set("| -")]
    assert heads
    for head, following in zip(heads, [*heads[1:], len(rows) + 1], strict=True):
        assert len(set(cells[head - 1 : following - 1])) == 1


def test_code_spans_hold_backticks_and_pipes() -> None:
    found = Finding("a`b|c.py", 1, "R", Severity.NOTE, "``", "m")
    text = drawn("markdown", Report("audit", ".", None, {}, (found,), ()))
    assert "| `` a`b\\|c.py:1 `` | ``` `` ``` |" in text


def test_a_diff_that_holds_a_fence_does_not_close_its_own() -> None:
    changes = (FileChange("a.py", b"````\n", b"x\n"),)
    text = drawn("markdown", Report("audit", ".", None, {}, (), changes), diff=True)
    assert "\n`````diff\n" in text
    assert text.endswith("\n`````\n")
