"""The figures of the README are what the commands print that it names."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from markdown_pages import REPOSITORY

RELEASES = ("0.14.0", "0.16.0", "0.18.0", "0.20.0", "0.22.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0")


def _shown(name: str) -> list[str]:
    """The lines of the README between the two comments of that name."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    assert found is not None, f"the README has no {name}"
    return found.group(1).splitlines()


def _printed(*command: str) -> list[str]:
    done = subprocess.run([sys.executable, *command], cwd=REPOSITORY, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_table_has_a_row_for_each_release():
    assert [re.split(r"\s*\|\s*", line)[1] for line in _shown("table")[2:]] == [*RELEASES]


@pytest.mark.release
@pytest.mark.parametrize("release", RELEASES)
def test_a_row_of_the_table_is_what_the_command_prints(release):
    header, rule, *rows = _shown("table")
    assert _printed("benchmarks/release_table.py", release) == [header, rule, rows[RELEASES.index(release)]]


@pytest.mark.release
def test_the_excerpt_of_the_demo_is_in_what_the_demo_prints():
    """Line by line and in order; blanks that only align columns may differ."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    demo = re.search(r"^DEMO = omni-migrate (.+)$", makefile, re.MULTILINE)
    assert demo is not None
    printed = iter([" ".join(line.split()) for line in _printed("-m", "omni_migrate", *demo.group(1).split())])
    excerpt = [" ".join(line.split()) for line in _shown("demo") if line and "```" not in line]
    assert len(excerpt) > 20
    # An iterator is used up as it is searched, so that the order counts; after a line that is missing, all are.
    assert next((line for line in excerpt if line != "..." and line not in printed), None) is None
