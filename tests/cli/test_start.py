"""Start-up, help and the knowledge commands."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import omni_migrate
from omni_migrate.cli.knowledge import adapters, hooks, rules

# What costs more than the rest of the start-up, and what only a command needs.
# typer itself imports importlib.metadata (through pydantic) for a command's help, so that is not ours to forbid.
HEAVY = {"libcst", "rich", "ruff", "packaging", "platformdirs", "tomllib", "tomli"}
ENGINE = {"omni_migrate.facts", "omni_migrate.plan", "omni_migrate.report", "omni_migrate.sources", "codemods"}


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["extract-adapters", "--help"], ["explain", "--help"]])
def test_help_and_version_import_nothing_heavy(line):
    script = (
        "import sys\n"
        f"sys.argv = ['omni-migrate', *{line!r}]\n"
        "from omni_migrate.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print('modules:', *sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = set(done.stdout.rpartition("modules:")[2].split())
    assert "typer" in modules
    assert modules & (HEAVY | ENGINE) == set()


def test_help_tells_the_exit_codes(command, capsys):
    assert command("extract-adapters", "--help") == 0
    printed = capsys.readouterr().out
    for line in ("0  done", "1  --check", "2  usage or input", "3  the tool's own verification failed"):
        assert line in printed


def test_version(command, capsys):
    assert command("--version") == 0
    assert capsys.readouterr().out == f"omni-migrate {omni_migrate.__version__}\n"


def test_every_rule_can_be_explained(command, capsys):
    for rule in rules():
        assert command("explain", rule["id"]) == 0
        printed = capsys.readouterr().out
        assert rule["title"] in printed
        for heading in ("What:", "Why:", "Example:", "Fix:"):
            assert heading in printed


def test_every_rule_says_all_there_is_to_say():
    for rule in rules():
        assert set(rule) == {"id", "title", "severity", "what", "why", "example", "fix"}, rule["id"]
        assert rule["severity"] in ("error", "warning", "note"), rule["id"]
        assert all(value.strip() for value in rule.values()), rule["id"]
    assert len({rule["id"] for rule in rules()}) == len(rules())


def _ids_in_code() -> set[str]:
    """The rules that the code raises: RULE and RULES of a module, and the third argument of a Finding."""
    found: set[str] = set()
    for file in Path(omni_migrate.__file__).parent.rglob("*.py"):
        module = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(module):
            if (
                isinstance(node, ast.Assign)
                and node in module.body
                and getattr(node.targets[0], "id", "") in ("RULE", "RULES")
            ):
                value = ast.literal_eval(node.value)
                found.update([value] if isinstance(value, str) else value)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and len(node.args) > 2:
                found.update([node.args[2].value] if isinstance(node.args[2], ast.Constant) else [])
    return found


def test_every_rule_that_is_raised_can_be_explained():
    assert {rule["id"] for rule in rules()} == _ids_in_code()


def test_a_mistyped_rule_is_answered_with_the_nearest(command, capsys):
    assert command("explain", "model-prob") == 2
    assert capsys.readouterr().err.startswith("omni-migrate: error: no rule model-prob; did you mean model-probe")


def test_list_names_every_rule_adapter_and_hook(command, capsys):
    assert command("list", "rules") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [rule["id"] for rule in rules()]
    assert command("list", "adapters") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [adapter["name"] for adapter in adapters()]
    assert command("list", "hooks") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [hook["id"] for hook in hooks()] and len(lines) >= 13
