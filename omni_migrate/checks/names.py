"""check-names: no undefined name, and no unused import or variable, that the original did not have."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from omni_migrate.checks.ruff import RuffError, run_ruff
from omni_migrate.errors import InputError
from omni_migrate.report.findings import FileChange, Finding, Severity

RULE = "check-names"
# F401 unused import, F811 redefinition, F821 undefined name, F822 the same in __all__, F823 local used before its
# assignment, F841 unused variable.
_SELECTED = ("F401", "F811", "F821", "F822", "F823", "F841")
# What moved code may bring into a new file: a local that the rest of its old method assigned again is unused alone.
_MAY_MOVE = frozenset({"F841"})


def names(changes: Iterable[FileChange]) -> list[Finding]:
    """Findings of pyflakes' name rules in the new files that the old ones did not have, by one run of ruff.

    A new file must have none, but for unused variables: the move may have parted one from its uses. Raises InputError
    if ruff cannot run.
    """
    changed = [change for change in changes if change.path.endswith(".py") and change.before != change.after]
    if not changed:
        return []
    with tempfile.TemporaryDirectory() as folder:
        for change in changed:
            for side, data in (("before", change.before), ("after", change.after)):
                if data is not None:
                    file = Path(folder, side, change.path)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(_as_utf8(data))
        found = _ruff(Path(folder))
    before = Counter((path, code, _stable(message)) for side, path, code, _, message in found if side == "before")
    new = {change.path for change in changed if change.before is None}
    findings = []
    for side, path, code, line, message in found:
        if side == "before":
            continue
        here = (path, code, _stable(message))
        if before[here] > 0:
            before[here] -= 1
        elif not (code in _MAY_MOVE and path in new):
            findings.append(Finding(path, line, RULE, Severity.ERROR, _name(message), f"{code} {message}"))
    return findings


def _ruff(folder: Path) -> list[tuple[str, str, str, int, str]]:
    """(side, path, code, line, message) of every violation below `folder`, in order."""
    options = ("--isolated", "--no-respect-gitignore", "--exit-zero", "--quiet", "--config", "exclude=[]")
    selected = ("--select", ",".join(_SELECTED), "--target-version", "py312", "--output-format", "json")
    try:
        listing = run_ruff("check", *options, *selected, ".", folder=folder)
    except RuffError as error:
        raise InputError(f"ruff could not check the result: {error}") from error
    found = []
    for item in json.loads(listing):
        side, _, path = Path(item["filename"]).relative_to(folder.resolve()).as_posix().partition("/")
        if item["code"] in _SELECTED:
            found.append((side, path, str(item["code"]), int(item["location"]["row"]), str(item["message"])))
    return sorted(found, key=lambda entry: (entry[1], entry[3]))


def _as_utf8(data: bytes) -> bytes:
    """The file as UTF-8, which is all that ruff reads; a file that cannot be decoded is another check's finding."""
    from omni_migrate.plan.workspace import decode

    try:
        return decode(data).text.encode("utf-8")
    except (SyntaxError, UnicodeDecodeError):
        return data


def _stable(message: str) -> str:
    """The message without line numbers, which move with the code."""
    return re.sub(r"\bline \d+", "line", message)


def _name(message: str) -> str:
    quoted = re.search(r"`([^`]+)`", message)
    return quoted.group(1) if quoted else ""
