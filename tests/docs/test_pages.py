"""What the pages show is so: command lines parse, links lead somewhere, options, rules and keys are all there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from markdown_pages import REPOSITORY, pages

from omni_migrate.cli import app, main
from omni_migrate.cli.knowledge import rules
from omni_migrate.cli.list_knowledge import Subject
from omni_migrate.report.findings import Report

COMMANDS = sorted(
    {(page.name, line) for page in pages() for line in page.commands() if "[OPTIONS]" not in line}  # no synopses
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line is only parsed: the engine behind it finds nothing."""
    for engine, command in (("extract", "extract-adapters"), ("port_v2", "port-v2"), ("audit_npu", "audit-npu")):
        stand_in = ModuleType(f"omni_migrate.{engine}")
        report = Report(command, "tree", None, {}, (), ())
        stand_in.run = lambda request, report=report: report  # type: ignore[attr-defined]
        stand_in.mapping = lambda request, versions: "# Mapping\n"  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"omni_migrate.{engine}", stand_in)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{name}: {line}" for name, line in COMMANDS])
def test_a_command_line_is_understood(page, line, no_engine, monkeypatch, tmp_path):
    words = shlex.split(line.partition(">")[0].replace("RULE", "site-left"))
    words = [word for word in words if not re.fullmatch(r"[A-Z]+=\S+", word)]
    tool = Path(words[0]).name
    if tool == "omni-migrate":
        monkeypatch.chdir(tmp_path)
        subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)  # `recover` looks at a checkout
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
    elif tool == "make":
        assert subprocess.run(["make", "--dry-run", *words[1:]], cwd=REPOSITORY, capture_output=True).returncode == 0
    else:
        assert tool in ("python", "git")
        scripts = [word for word in words if word.endswith(".py") or word.startswith("tests/")]
        assert [script for script in scripts if not (REPOSITORY / script).exists()] == []


def test_the_pages_show_commands():
    """Else the test above has nothing to fail on."""
    assert {"make demo", "make test"} <= {line for page, line in COMMANDS if page == "README.md"}
    assert len(COMMANDS) > 20


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [page.name for page in pages()])
def test_links_lead_somewhere(page, name):
    broken = []
    for link in LINK.findall(page[name].text):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        file = (REPOSITORY / name).parent / target if target else REPOSITORY / name
        if not file.is_file() or (anchor and anchor not in _anchors(file.read_text(encoding="utf-8"))):
            broken.append(link)
    assert broken == []


def test_every_page_can_be_reached(page):
    linked = {
        ((REPOSITORY / name).parent / link.partition("#")[0]).resolve()
        for name, found in page.items()
        for link in LINK.findall(found.text)
    }
    alone = [name for name in page if name.startswith("docs/") and (REPOSITORY / name).resolve() not in linked]
    assert alone == []


def test_every_command_has_a_page_with_every_option(page):
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    missing = {
        (name, option)
        for name, command in commands.items()
        for parameter in command.params
        for option in (*parameter.opts, "--help")
        if option.startswith("--") and f"`{option}" not in page[f"docs/commands/{name}.md"].text
    }
    assert missing == set()


def test_every_subject_is_documented(page):
    text = page["docs/commands/list.md"].text
    assert [subject for subject in Subject if f"omni-migrate list {subject.value}" not in text] == []


def test_every_rule_is_in_the_command_s_page(page):
    text = "".join(found.text for name, found in page.items() if name.startswith("docs/commands/"))
    assert [rule["id"] for rule in rules() if f"({'../rules/' + rule['id']}.md)" not in text] == []


def test_severities_are_those_of_the_rules(page):
    severity = {rule["id"]: rule["severity"] for rule in rules()}
    text = "".join(found.text for name, found in page.items() if name.startswith("docs/commands/"))
    shown = re.findall(r"^\| \[([\w-]+)\]\(\S+\) \| (error|warning|note) \|", text, re.M)
    assert len(shown) > 3
    assert [(rule, said) for rule, said in shown if severity[rule] != said] == []


def test_the_phases_are_those_of_the_plan(page):
    from omni_migrate.plan.extraction import PHASES

    shown = re.findall(r"^\| (\d) \| (.+) \|$", page["docs/commands/extract-adapters.md"].text, re.MULTILINE)
    assert {int(number): title for number, title in shown} == PHASES


def test_the_rules_pages_are_those_of_the_data():
    done = subprocess.run(
        [sys.executable, "docs/generate_rules.py", "--check"], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_key_of_a_report_is_documented(page):
    import json

    schema = json.loads((REPOSITORY / "docs/json-schema/report.schema.json").read_text(encoding="utf-8"))
    text = page["docs/json.md"].text
    assert [key for key in schema["properties"] if f"`{key}`" not in text] == []


def test_every_key_of_an_adapter_is_documented(page):
    from dataclasses import fields

    from omni_migrate.knowledge import AdapterSpec

    known = {field.name for field in fields(AdapterSpec)} - {"class_name", "proposed"} | {"class"}
    assert set(re.findall(r"^\| `(\w+)` \|", page["docs/guide.md"].text, re.MULTILINE)) == known
