"""Proves, by running, that the V2 runners which `port-v2` writes do what the release's own V1 runner does.

    python tests/proof/prove_port.py 0.28.0 [0.26.0]     (make prove-port, make prove-port PORT=0.28.0)

For each release, from requirements alone: an environment with vLLM on the CPU (below `.venv-proof/`, as
prove_extract.py), the published tree, and the tree with the V2 port. In that one tree the V1 runner and the V2 runner
drive real vLLM over the tiny models of tests/engine, each in a process of its own that checks which vllm_omni it
imported; tokens, outputs (MTP codes among them), hidden states, the trace of the models' hooks and what the KV transfer
manager is handed must be the same, bit for bit. Payloads come in each form that the release has, and each scenario must
have seen what it is for. Then faults are planted in the written files; each must be noticed.

Exit codes: 0 all passed; 1 something differs, is vacuous, or a fault went unseen; 2 an environment or a tree could not
be made. Not provable here: CUDA graphs, device streams, NPU and XPU, real weights, and what stays on V1 by the written
`v1_reason` (connectors, async chunks, omni's prefix cache, pipeline parallelism).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from port_faults import FAULTS, plant
from proof_compare import first_difference
from prove_extract import ProofError, Tally, make_environment

HERE = Path(__file__).resolve().parent
ENGINE = HERE.parent / "engine" / "engine_run.py"
VLLM = {"0.26.0": "0.27.1"}
"""The vLLM that a release runs on here, where it is not that of its own number."""
QUANTITIES = ("tokens", "outputs", "hidden", "hooks", "kv")
SCENARIOS = (
    "no-kv", "whole", "noop", "thinker", "talker", "talker-order", "talker-async", "roomy", "batched", "batched-roomy",
    "batched-no-mtp", "resident", "seeds", "mrope", "mrope-linear", "mimo", "abort", "kv", "noop-crowded",
    "text-thinker", "text-talker", "generation", "generation-tensor", "generation-list", "generation-hooks",
)  # fmt: skip
PARTLY = {
    "batched-no-mtp": ({"hooks"}, "up to 0.28 V1 calls preprocess_decode_batch of models with MTP alone"),
    "noop-crowded": ({"outputs", "hidden"}, "V1 gives a resumed request's hidden states again, V2 what is new"),
}
"""Scenarios of which something is not compared, with the reason."""


def port(published: Path, target: Path) -> list[str]:
    """Write the published tree with its V2 port; what the plan left, a line each."""
    from omni_migrate.facts.modules import Modules
    from omni_migrate.plan.output_folder import apply_to_output
    from omni_migrate.plan.v2_port import V2Port
    from omni_migrate.plan.workspace import Workspace

    ported = V2Port(Modules(Workspace(published)), "vllm_omni")
    plan = ported.plan()
    subprocess.run(["rm", "-rf", str(target)], check=True)
    apply_to_output(published, plan.net_changes(), target)
    return [f"{finding.path}:{finding.line}: {finding.message}" for finding in ported.findings]


def run(python: Path, tree: Path, runner: str, names: list[str], work: Path, log: Path) -> dict[str, Any]:
    """What a runner of the tree does in scenarios, from a process of its own."""
    work.mkdir(parents=True, exist_ok=True)
    out = work / f"{runner}.json"
    out.unlink(missing_ok=True)
    keep = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    settings = {"OMNI_PUBLISHED": str(tree), "OMNI_PUBLISHED_SHIM": "ported_shim", "PYTHONDONTWRITEBYTECODE": "1"}
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PROOF_PYTHONPATH")]))
    command = [str(python), str(ENGINE), runner, str(out), str(work / runner), *names]
    (work / runner).mkdir(exist_ok=True)
    with log.open("a") as stream:
        subprocess.run(command, env=keep | settings | {"PYTHONPATH": path}, stdout=stream, stderr=subprocess.STDOUT)
    found = json.loads(out.read_text())["scenarios"] if out.exists() else {}
    return {name: found.get(name, {"error": "the process ended before it"}) for name in names}


def differences(v1: dict[str, Any], v2: dict[str, Any], name: str) -> dict[str, str]:
    """Each quantity that differs, with the first place; `error` where a runner fails."""
    if "error" in v1 or "error" in v2:
        return {"error": f"V1 {v1.get('error', 'ran')}; V2 {v2.get('error', 'ran')}"}
    left, _ = PARTLY.get(name, (set(), ""))
    compared = [quantity for quantity in QUANTITIES if quantity not in left]
    found = {quantity: first_difference(v1.get(quantity), v2.get(quantity), quantity) for quantity in compared}
    return {quantity: where for quantity, where in found.items() if where}


def prove(release: str, arguments: argparse.Namespace, tally: Tally) -> None:
    """The whole proof for one release."""
    home = arguments.home.resolve() / (f"{release}-on-{VLLM[release]}" if release in VLLM else release)
    home.mkdir(parents=True, exist_ok=True)
    log = home / "port-log.txt"
    log.unlink(missing_ok=True)
    if arguments.python:
        python, published = arguments.python, arguments.before.resolve()
    else:
        python, published = make_environment(release, home, log, VLLM.get(release, ""))
    tree = home / "ported"
    for line in port(published, tree):
        print(f"{release}: left: {line}")
    started, names = time.monotonic(), list(SCENARIOS)
    v1 = run(python, tree, "v1", names, home / "port", log)
    v2 = run(python, tree, "v2", names, home / "port", log)
    for name in names:
        if "error" in v1[name]:
            print(f"{release}: {name:<24} the V1 runner itself does not run it here: {v1[name]['error']}")
            continue
        found = differences(v1[name], v2[name], name)
        tally.check(not found, f"{release} {name}: {found}")
        needed = v2[name].get("requires", ())
        missing = [what for what in needed if not v2[name].get("seen", {}).get(what)]
        tally.check(not missing, f"{release} {name}: vacuous, never saw {', '.join(missing)}")
        ran = [r[name].get("runner", [""] * 4) for r in (v1, v2)]
        tally.check("V1" in ran[0][0] and "V2" in ran[1][0], f"{release} {name}: ran {ran[0][0]} and {ran[1][0]}")
        cells = ", ".join(found) + " DIFFERENT" if found else "SAME"
        if name in PARTLY and not found:
            left, reason = PARTLY[name]
            cells = f"SAME but for {', '.join(sorted(left))} ({reason})"
        seen = ", ".join(f"{v2[name]['seen'].get(what, 0)} {what}" for what in needed) if not found else ""
        print(f"{release}: {name:<24} {cells}  {seen}", flush=True)
    ran = [name for name in names if "error" not in v1[name]]
    tally.check(len(ran) * 2 > len(names), f"{release}: V1 ran only {', '.join(ran) or 'nothing'}")
    for fault in FAULTS if arguments.faults else ():
        wanted = [name for name in fault.scenarios if name in ran]
        copy = home / "port-fault"
        try:
            plant(tree, copy, fault)
        except ValueError as error:
            print(f"{release}: no fault {fault.name!r}: {error}")
            tally.check(fault.path == "binding.py", f"{release}: cannot plant {fault.name!r}: {error}")
            continue
        outcome = run(python, copy, "v2", wanted, home / "port-fault-run", log)
        seen_in = [name for name in wanted if differences(v1[name], outcome[name], name)]
        tally.check(bool(seen_in), f"{release} fault unseen: {fault.name} (ran {', '.join(wanted)})")
        print(f"{release}: {'DIFFERENT' if seen_in else 'SAME     '} {fault.path}: {fault.name}", flush=True)
    print(f"{release}: {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="RELEASE")
    parser.add_argument("--home", type=Path, default=Path(".venv-proof"), help="where environments and trees are kept")
    parser.add_argument("--before", type=Path, help="the published tree, with --python")
    parser.add_argument("--python", type=Path, help="an interpreter that has the packages (needs --before)")
    parser.add_argument("--no-faults", dest="faults", action="store_false", help="plant no faults")
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
