"""Whether the commands write, on every release, byte for byte what they wrote at an older commit.

    python benchmarks/compare_trees.py [--ref COMMIT] [--release VERSION ...] [--command NAME ...]

Run it with the Python that omni-migrate is installed in, in a checkout of it. The older code is checked out beside it
in a temporary folder, and each command runs with both, one after the other, into folders of its own. Trees and exit
codes must be the same; the JSON reports too, but for keys that are new. One line for each run, a total at the end;
exits 1 if anything differs, 2 if it cannot run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench_cli import RELEASES

REPOSITORY = Path(__file__).resolve().parent.parent
BEFORE = "966bab1"
# vllm-ascend that these releases' NPU runners were copied from: with it, blocks without markers are known
ASCEND = {"vllm-omni==0.16.0": "0.16.0rc1", "vllm-omni==0.18.0": "0.18.0", "vllm-omni==0.30.0": "0.25.1rc1"}
SHOWN = 5


@dataclass(frozen=True)
class Outcome:
    """What one run did: its exit code, what it wrote by path, and its report (or what it said instead)."""

    code: int
    files: dict[str, bytes]
    report: object


def runs(release: str) -> dict[str, tuple[str, ...]]:
    """The command lines that write something, by a short name."""
    found: dict[str, tuple[str, ...]] = {
        "extract-adapters": ("extract-adapters", release),
        "port-v2": ("port-v2", release),
        "fix-markers": ("audit-npu", release, "--fix-markers", "--write"),
    }
    if release in ASCEND:
        found["mark"] = ("audit-npu", release, "--ascend", ASCEND[release], "--mark", "--write")
    return found


def outcome(code: Path, arguments: tuple[str, ...], folder: Path) -> Outcome:
    """Run a command with the package that stands in `code`, writing below `folder`, which is emptied again."""
    out = folder / "tree"
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    command = (sys.executable, "-m", "omni_migrate", *arguments, "--output", str(out), "--format", "json")
    process = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    files = {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
    try:
        report = json.loads(process.stdout)
    except ValueError:
        report = process.stdout + process.stderr
    shutil.rmtree(out, ignore_errors=True)
    return Outcome(process.returncode, files, report)


def differences(before: Outcome, after: Outcome) -> Iterator[str]:
    """What is not the same, one line each."""
    if before.code != after.code:
        yield f"exit {before.code}, now {after.code}"
    for path in sorted(before.files.keys() | after.files.keys()):
        if path not in after.files:
            yield f"{path} is no longer written"
        elif path not in before.files:
            yield f"{path} is written now"
        elif before.files[path] != after.files[path]:
            yield f"{path} is another"
    yield from report_differences(before.report, after.report, "")


def report_differences(before: object, after: object, place: str) -> Iterator[str]:
    """Where a report says something else; a key that was not there before is no difference."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from report_differences(value, after[key], f"{place}.{key}")
            else:
                yield f"report{place}.{key} is gone"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from report_differences(*pair, f"{place}[{index}]")
    elif before != after:
        yield f"report{place}: {str(before)[:120]} was, {str(after)[:120]} is"


def check_that_it_runs(code: Path) -> None:
    """Exit 2 unless this Python takes the package from `code`."""
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    asked = "import omni_migrate, codemods; print(omni_migrate.__file__); print(codemods.__file__)"
    said = subprocess.run((sys.executable, "-c", asked), env=environment, capture_output=True, text=True, check=False)
    if said.returncode or not all(line.startswith(str(code)) for line in said.stdout.splitlines()):
        print(f"{sys.executable} does not take omni_migrate from {code}: {said.stdout}{said.stderr}", file=sys.stderr)
        raise SystemExit(2)


def compare(old: Path, releases: list[str], commands: list[str], folder: Path) -> int:
    """Print a line for each run; how many of them differ."""
    ran = failed = files = 0
    for release in releases:
        for name, arguments in runs(release).items():
            if commands and name not in commands:
                continue
            before, after = (outcome(code, arguments, folder) for code in (old, REPOSITORY))
            found = list(differences(before, after))
            ran, failed, files = ran + 1, failed + bool(found), files + len(before.files)
            verdict = f"{len(found)} differences" if found else "the same"
            print(f"{release} {name}: exit {before.code}, {len(before.files)} files, {verdict}", flush=True)
            for line in found[:SHOWN]:
                print(f"    {line}", flush=True)
    print(f"{ran} runs, {files} files, {failed} runs differ")
    return failed if ran else 2


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares what the commands write with an older commit's.")
    parser.add_argument("--ref", default=BEFORE, help="the commit to compare with")
    parser.add_argument("--release", action="append", default=[], metavar="VERSION", help="only this one; repeatable")
    parser.add_argument("--command", action="append", default=[], help="only this one; repeatable")
    options = parser.parse_args()
    known = [release for release in RELEASES if not options.release or release.split("==")[1] in options.release]
    names = sorted({name for release in RELEASES for name in runs(release)})
    if len(known) < len(set(options.release)) or not set(options.command) <= set(names):
        parser.error(f"releases: {', '.join(RELEASES)}; commands: {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder).resolve() / "code"
        git = ("git", "-C", str(REPOSITORY), "worktree")
        if subprocess.run((*git, "add", "--quiet", "--detach", str(old), options.ref), check=False).returncode:
            return 2
        try:
            check_that_it_runs(old)
            check_that_it_runs(REPOSITORY)
            place = Path(folder, "runs")
            place.mkdir()
            return 1 if compare(old, known, options.command, place) else 0
        finally:
            subprocess.run((*git, "remove", "--force", str(old)), check=False)


if __name__ == "__main__":
    raise SystemExit(main())
