"""How long `omni-migrate` takes, and how much memory, against what the least would take on the same machine.

    python benchmarks/bench_cli.py [--json FILE] [--rounds N] [--release SPEC] [--check]

Run it with the Python that omni-migrate is installed in. Each round runs the things that are compared one after the
other, so that a busy machine slows both; the first round fills the caches and is thrown away. Times are wall times of
whole processes in seconds; memory is the largest resident set of the process and what it starts. `--check` exits 1 if
a target is missed; a benchmark that cannot run exits 2.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PORTED = tuple(
    f"vllm-omni=={version}"
    for version in ("0.14.0", "0.16.0", "0.18.0", "0.20.0", "0.22.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0")
)
MEGABYTE = 1e6 if sys.platform == "darwin" else 1e3  # of ru_maxrss: bytes there, kilobytes elsewhere


@dataclass(frozen=True)
class Run:
    """One process: wall seconds, peak resident megabytes, what it printed."""

    seconds: float
    megabytes: float
    output: str


@dataclass(frozen=True)
class Row:
    """One measured quantity over the rounds, and the most that it may be."""

    name: str
    unit: str
    values: list[float]
    target: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def missed(self) -> bool:
        return self.target is not None and self.median > self.target

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "least": min(self.values),
            "most": max(self.values),
            "rounds": len(self.values),
            "target": self.target,
        }

    def as_line(self) -> str:
        verdict = "" if self.target is None else f"  at most {self.target:g}: {'MISSED' if self.missed else 'met'}"
        spread = f"{min(self.values):.2f} to {max(self.values):.2f}"
        return f"{self.name:46}{self.median:10.2f} {self.unit:3} {spread:>20}{verdict}"


def run(*command: str) -> Run:
    """Run a process to its end; ends the benchmark if that fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            print(f"{' '.join(command)}: exit {process.returncode}: {last[0]}", file=sys.stderr)
            raise SystemExit(2)
        out.seek(0)
        return Run(seconds, usage.ru_maxrss / MEGABYTE, out.read().decode(errors="replace"))


def console_script() -> str:
    script = Path(sys.executable).parent / "omni-migrate"
    if not script.is_file():
        print(f"no omni-migrate beside {sys.executable}: pip install it there first", file=sys.stderr)
        raise SystemExit(2)
    return str(script)


def measure_help(rounds: int) -> list[Row]:
    ours, empty = [], []
    for _ in range(rounds + 1):
        empty.append(run(sys.executable, str(HERE / "empty_typer.py"), "--help").seconds)
        ours.append(run(console_script(), "--help").seconds)
    pairs = list(zip(ours, empty, strict=True))[1:]
    return [
        Row("empty typer application, --help", "ms", [base * 1e3 for _, base in pairs]),
        Row("omni-migrate --help", "ms", [own * 1e3 for own, _ in pairs]),
        Row("  more than the empty one", "ms", [(own - base) * 1e3 for own, base in pairs], target=80),
        Row("  ratio to the empty one", "x", [own / base for own, base in pairs]),
    ]


def measure_dry_run(release: str, rounds: int) -> list[Row]:
    arguments = ("extract-adapters", release, "--dry-run")
    changed = changed_files(release, json.loads(run(console_script(), *arguments, "--format", "json").output))
    totals, censuses, memory, parses = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        seconds = Path(folder) / "census.txt"
        for _ in range(rounds + 1):
            whole = run(sys.executable, str(HERE / "census_clock.py"), str(seconds), *arguments)
            totals.append(whole.seconds)
            memory.append(whole.megabytes)
            censuses.append(float(seconds.read_text() or 0))
            parses.append(float(run(sys.executable, str(HERE / "parse_files.py"), *changed).output))
    everything = list(zip(totals, censuses, memory, parses, strict=True))[1:]
    return [
        Row(f"dry run on {release}", "s", [total for total, _, _, _ in everything], target=6),
        Row("  of it the census of model classes", "s", [census for _, census, _, _ in everything]),
        Row("  the rest", "s", [total - census for total, census, _, _ in everything]),
        Row("  peak memory", "MB", [peak for _, _, peak, _ in everything], target=500),
        Row(f"bare libcst parse of the {len(changed)} files it changes", "s", [parse for _, _, _, parse in everything]),
        Row("  ratio of the dry run to it", "x", [total / parse for total, _, _, parse in everything]),
    ]


def measure_command(command: str, release: str, rounds: int, target: float) -> list[Row]:
    """A dry run of another command, with what it reads fetched before."""
    runs = [run(console_script(), command, release, "--dry-run") for _ in range(rounds + 1)][1:]
    return [
        Row(f"{command} {release}", "s", [one.seconds for one in runs], target=target),
        Row("  peak memory", "MB", [one.megabytes for one in runs], target=500),
    ]


def changed_files(release: str, report: dict[str, list[dict[str, str]]]) -> list[str]:
    from omni_migrate.sources import resolve

    root = resolve(release, cwd=Path.cwd()).root
    changed = [str(root / file["path"]) for file in report["files"] if file["action"] == "modify"]
    if not changed:
        print(f"the dry run on {release} changes no file; there is nothing to compare with", file=sys.stderr)
        raise SystemExit(2)
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(description="Times omni-migrate and measures its memory.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the dry run; --help takes three times as many")
    parser.add_argument("--release", default="vllm-omni==0.30.0", help="what the dry run works on")
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")

    print(f"{'':46}{'median':>10}     {'least to most':>20}")
    rows = measure_help(3 * options.rounds)
    print(*(row.as_line() for row in rows), sep="\n", flush=True)
    of_dry_run = measure_dry_run(options.release, options.rounds)
    print(*(row.as_line() for row in of_dry_run), sep="\n")
    rows += of_dry_run
    for release in PORTED:
        of_command = measure_command("port-v2", release, options.rounds, target=6)
        print(*(row.as_line() for row in of_command), sep="\n", flush=True)
        rows += of_command
    if options.json is not None:
        machine = {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        figures = {"machine": machine, "rows": [row.as_json() for row in rows]}
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 1 if options.check and any(row.missed for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
