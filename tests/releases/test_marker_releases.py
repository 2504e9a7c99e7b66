"""Markers on the published releases, counted again by another rule: lines of a pattern, and one open at each indent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codemods.fix_markers import fix_markers
from omni_migrate.facts.markers import Markers, find_markers
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import upstream_runners
from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

# Marker lines with the words, closed blocks, lines without their other half; one-line markers outside blocks.
COUNTED = {
    "0.14.0": (20, 11, 0, 1),
    "0.16.0": (24, 13, 0, 5),
    "0.18.0": (27, 14, 0, 10),
    "0.20.0": (39, 20, 0, 10),
    "0.22.0": (39, 20, 0, 10),
    "0.24.0": (39, 20, 0, 10),
    "0.26.0": (51, 26, 0, 9),
    "0.28.0": (48, 24, 1, 9),
    "0.30.0": (48, 24, 1, 10),
}
# The same number of runner files in every release: three of NPU with markers, two of XPU without.
WITH_MARKERS = ["npu_model_runner.py", "npu_ar_model_runner.py", "npu_generation_model_runner.py"]


def platform_modules(version: str) -> list[Module]:
    source = resolve(f"vllm-omni=={version}", cwd=Path.cwd())
    modules = Modules(Workspace(source.root))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    paths = dict.fromkeys(runner.path for runner in runners if runner.platform)
    return [module for path in paths if (module := modules.get(path)) is not None]


def counted_by_rule(text: str) -> tuple[int, list[tuple[int, int]], list[int]]:
    """Lines with the words, and blocks: a line closes what is open at its indent; less indented code ends it."""
    words = re.compile(r"^( *)# *-{3,} *Omni-new *-*\s*$")
    dashes = re.compile(r"^( *)# *-{10,}\s*$")
    lines, blocks, lone, opened = 0, [], [], {}
    for number, line in enumerate(text.splitlines(), 1):
        found, closer = words.match(line), dashes.match(line)
        lines += bool(found)
        if found or closer:
            indent = len((found or closer).group(1))
            if indent in opened:
                blocks.append((opened.pop(indent), number))
            elif found:
                opened[indent] = number
        elif line.strip() and not line.lstrip().startswith(("#", ")")):
            left = [indent for indent in opened if len(line) - len(line.lstrip()) < indent]
            lone += [opened.pop(indent) for indent in left]
    return lines, sorted(blocks), sorted([*lone, *opened.values()])


@pytest.mark.parametrize("version", COUNTED)
def test_every_release_is_counted_alike(version):
    modules = platform_modules(version)
    found: list[Markers] = [find_markers(module) for module in modules]
    for module, markers in zip(modules, found, strict=True):
        lines, blocks, lone = counted_by_rule(module.text)
        assert len(markers.dividers) == lines
        assert [(pair.first_line, pair.last_line) for pair in markers.pairs] == blocks
        assert list(markers.lone) == lone
    assert [module.path.rpartition("/")[2] for module, m in zip(modules, found, strict=True) if m.pairs] == WITH_MARKERS
    assert sum(module.path.startswith("vllm_omni/platforms/xpu/") for module in modules) == 2
    assert COUNTED[version] == tuple(
        sum(len(getattr(markers, name)) for markers in found) for name in ("dividers", "pairs", "lone", "lines")
    )


def test_the_lone_closer_of_0_30_0_and_its_mend():
    (module,) = (m for m in platform_modules("0.30.0") if m.path.endswith("npu_ar_model_runner.py"))
    assert "# yapf: disable" in module.text
    (defect,) = find_markers(module).defects
    assert (defect.finding.rule, defect.finding.line, defect.finding.symbol, defect.certain) == (
        "marker-lone",
        133,
        "NPUARModelRunner.__init__",
        True,
    )
    fixed = fix_markers(module)
    assert fixed.left == ()
    before, after = module.text.splitlines(), fixed.text.splitlines()
    assert after == [*before[:118], before[132], *before[118:]]
    mended = find_markers(Module(module.path, module.file.__class__(fixed.text, "utf-8", False, "\n")))
    assert len(mended.pairs) == 14
    assert ("NPUARModelRunner.__init__", 119, 134) in [(p.scope, p.first_line, p.last_line) for p in mended.pairs]


def test_the_pairs_of_0_30_0_around_whole_methods_and_around_upstream_code():
    (module,) = (m for m in platform_modules("0.30.0") if m.path.endswith("npu_ar_model_runner.py"))
    pairs = [(pair.scope, pair.first_line, pair.last_line) for pair in find_markers(module).pairs]
    assert [pair for pair in pairs if pair[0] == "NPUARModelRunner"] == [
        ("NPUARModelRunner", 157, 310),
        ("NPUARModelRunner", 1258, 1274),
    ]
    # Its statements are the platform's; the block of omni's that it should enclose stands right above it.
    assert ("NPUARModelRunner.execute_model", 379, 393) in pairs
    assert "recv_full_payload_inputs" in module.lines[368]
