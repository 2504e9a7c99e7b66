"""What `omni-migrate extract-adapters` makes of the published releases, as the Markdown table of the README.

    python benchmarks/release_table.py [RELEASE ...]
    python benchmarks/release_table.py --readme         (puts the table of all nine into the README)

Run it with the Python that omni-migrate is installed in; without arguments it takes all nine releases. Each release is
fetched by pip once, analysed as `--check` does (nothing is written), and printed as soon as it is done. Lines are those
of the file, before and after. A release that fails is named on standard error, and the exit code is then 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parents[1] / "README.md"

RELEASES = ("0.14.0", "0.16.0", "0.18.0", "0.20.0", "0.22.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0")
RUNNERS = ("gpu_model_runner.py", "gpu_ar_model_runner.py", "gpu_generation_model_runner.py")
COLUMNS = (
    "release", "sites found", "moved", "left", "as methods", "as blocks", "as expressions", "delegates kept",
    *(f"`{name}`" for name in RUNNERS),
)  # fmt: skip


class ReleaseError(Exception):
    """A release that could not be analysed; one line."""


def analyse(release: str) -> dict[str, Any]:
    """The JSON report of one release. Raises ReleaseError."""
    command = [sys.executable, "-m", "omni_migrate", "extract-adapters", f"vllm-omni=={release}"]
    done = subprocess.run([*command, "--check", "--format", "json"], capture_output=True)
    if done.returncode not in (0, 1):
        raise ReleaseError(f"{release}: {done.stderr.decode(errors='replace').strip()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def cells(release: str, report: dict[str, Any]) -> list[str]:
    """One row of the table: a release's figures in the order of COLUMNS."""
    summary = report["summary"]
    kinds = Counter(move["as"] for move in report["moves"])
    delegates = sum(finding["rule"] == "delegate-kept" for finding in report["findings"])
    lines = {
        file["path"].removeprefix("vllm_omni/worker/"): f"{file['lines_before']} → {file['lines_after']}"
        for file in report["files"]
    }
    numbers = (summary["sites"], summary["moved"], summary["left"], kinds["method"], kinds["block"])
    return [release, *map(str, (*numbers, kinds["expression"], delegates)), *(lines[name] for name in RUNNERS)]


def row(values: list[str] | tuple[str, ...]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(values)} |"


def main(arguments: list[str]) -> int:
    """Print the table, or put it into the README; the exit code."""
    # A redirected stdout may have a code page without the arrow.
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    into_readme = arguments == ["--readme"]
    lines = [row(COLUMNS), row(["---", *["---:"] * (len(COLUMNS) - 1)])]
    print(*lines, sep="\n", flush=True)
    for release in RELEASES if into_readme else arguments or RELEASES:
        try:
            lines.append(row(cells(release, analyse(release))))
        except ReleaseError as error:
            print(error, file=sys.stderr)
            return 1
        print(lines[-1], flush=True)
    if into_readme:
        text, table = README.read_text(encoding="utf-8"), "\n".join(lines)
        pattern = r"(?<=<!-- table -->\n).*?(?=\n<!-- /table -->)"
        README.write_text(re.sub(pattern, lambda found: table, text, flags=re.DOTALL), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
