"""extract-adapters on the nine published releases, by the command line: exact figures, and checks of the result that
share no code with the tool.

A change of the engine that moves more, or by other means, changes the figures; then they are data to be looked at.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

RUNNERS = ("gpu_model_runner.py", "gpu_ar_model_runner.py", "gpu_generation_model_runner.py")
RULES = ("model-class-test", "model-probe", "model-state", "model-method", "rope-metadata")
STUBBED = str(Path(__file__).parent / "stubbed.py")


@dataclass(frozen=True)
class Figures:
    """`sites` by rule as in RULES; `moves` of phases 2 to 7; `lines` of each of RUNNERS, before and after."""

    sites: tuple[int, ...]
    left: int
    moves: tuple[int, ...]
    lines: tuple[tuple[int, int], ...]


FIGURES = {
    "0.14.0": Figures((0, 36, 58, 20, 10), 0, (8, 5, 0, 0, 4, 17), ((1145, 952), (601, 601), (759, 759))),
    "0.16.0": Figures((1, 29, 52, 20, 5), 0, (8, 5, 1, 2, 6, 8), ((1292, 1019), (601, 601), (818, 818))),
    "0.18.0": Figures((1, 45, 60, 20, 5), 0, (8, 5, 1, 2, 11, 12), ((1358, 1072), (676, 664), (860, 852))),
    "0.20.0": Figures((1, 59, 76, 24, 9), 0, (8, 6, 1, 2, 15, 15), ((1538, 1188), (1038, 937), (874, 866))),
    "0.22.0": Figures((3, 59, 79, 27, 9), 2, (8, 11, 1, 2, 18, 16), ((1873, 1422), (1223, 1111), (942, 934))),
    "0.24.0": Figures((3, 79, 83, 27, 9), 2, (8, 12, 1, 2, 30, 17), ((2001, 1506), (2102, 1935), (967, 958))),
    "0.26.0": Figures((5, 89, 83, 27, 9), 4, (8, 12, 1, 2, 33, 22), ((2046, 1527), (2169, 1995), (977, 966))),
    "0.28.0": Figures((1, 97, 83, 29, 9), 0, (8, 13, 1, 2, 39, 22), ((2102, 1562), (2266, 1994), (982, 971))),
    "0.30.0": Figures((1, 98, 71, 29, 9), 0, (1, 13, 1, 2, 37, 17), ((2227, 1612), (2210, 1939), (985, 974))),
}

# RFC-003 §2 on 0.16.0: method, first and last line of what it names, and how many sites are there.
RFC_SITES = [
    ("load_model", 71, 97, 9),
    ("_init_mrope_positions", 99, 157, 6),
    ("_calc_mrope_positions", 159, 178, 2),
    ("_fixup_precomputed_mrope_decode_positions", 180, 222, 1),
    ("_update_states", 365, 369, 3),  # M-RoPE and XD-RoPE of a new request
    ("_dummy_run", 771, 779, 8),
    ("_process_additional_information_updates", 937, 969, 3),
    ("_maybe_attach_mimo_audio_req_infos", 1016, 1037, 2),
    ("_preprocess", 1154, 1204, 11),
    ("_talker_mtp_forward", 1215, 1246, 8),
]


@dataclass(frozen=True)
class Extracted:
    """One run: the release, the tree that the command wrote, and its report."""

    source: Path
    output: Path
    code: int
    report: dict[str, Any]

    def changed(self) -> list[str]:
        return [file["path"] for file in self.report["files"] if file["action"] != "unchanged"]


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    whole = [sys.executable, "-m", "omni_migrate", "extract-adapters", *arguments]
    return subprocess.run(whole, cwd=cwd, env=environment, capture_output=True, check=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Iterator[dict[str, Extracted]]:
    """Filled as the tests ask, so that each release is extracted once."""
    folder = tmp_path_factory.mktemp("runs")
    yield _Runs(folder)
    shutil.rmtree(folder)


class _Runs(dict[str, Extracted]):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, version: str) -> Extracted:
        spec, output = f"vllm-omni=={version}", self.folder / version
        done = command(spec, "--output", str(output), "--format", "json")
        assert done.returncode == 0, done.stderr.decode()
        source = resolve(spec, cwd=Path.cwd()).root
        self[version] = Extracted(source, output, done.returncode, json.loads(done.stdout))
        return self[version]


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def trees(root: Path) -> dict[str, ast.Module]:
    """The three runner files."""
    return {name: ast.parse((root / "vllm_omni/worker" / name).read_bytes()) for name in RUNNERS}


@pytest.mark.parametrize("version", FIGURES)
def test_figures(runs, version):
    report = runs[version].report
    found = Counter(site["rule"] for site in report["sites"])
    moves = Counter(move["phase"] for move in report["moves"])
    lines = {file["path"]: (file["lines_before"], file["lines_after"]) for file in report["files"]}
    summary = report["summary"]
    assert summary["sites"] == summary["moved"] + summary["left"] == sum(FIGURES[version].sites)
    assert summary["unclaimed"] == summary["failed"] == 0
    assert FIGURES[version] == Figures(
        tuple(found[rule] for rule in RULES),
        summary["left"],
        tuple(moves[phase] for phase in range(2, 8)),
        tuple(lines[f"vllm_omni/worker/{name}"] for name in RUNNERS),
    )


@pytest.mark.parametrize("version", FIGURES)
def test_what_is_left_is_listed_and_asks_the_configuration(runs, version):
    stays = [f for f in runs[version].report["findings"] if f["rule"] in ("site-left", "unclaimed-site")]
    assert len(stays) == FIGURES[version].left <= 0.05 * sum(FIGURES[version].sites)
    for finding in stays:
        assert finding["symbol"].endswith(".__init__")
        assert "stays: it asks the configuration" in finding["message"]


@pytest.mark.parametrize("version", FIGURES)
def test_the_report_s_line_counts_are_those_of_the_files(runs, version):
    run = runs[version]
    for file in run.report["files"]:
        assert len((run.output / file["path"]).read_bytes().splitlines()) == file["lines_after"]
        before = run.source / file["path"]
        assert (len(before.read_bytes().splitlines()) if before.is_file() else 0) == file["lines_before"]


@pytest.mark.parametrize("version", FIGURES)
def test_nothing_but_the_reported_files_differs(runs, version):
    run = runs[version]
    before, after = contents(run.source), contents(run.output)
    assert sorted(path for path in after if before.get(path) != after[path]) == sorted(run.changed())
    assert before.keys() <= after.keys()


@pytest.mark.parametrize("version", FIGURES)
def test_every_name_resolves(runs, version):
    """ruff's undefined and redefined names, and syntax errors: none that the release did not have."""
    run = runs[version]

    def problems(root: Path) -> set[tuple[str, str, str]]:
        paths = [path for path in run.changed() if (root / path).is_file()]
        options = (
            "--isolated",
            "--no-cache",
            "--select",
            "E9,F821,F822,F823,F811",
            "--output-format",
            "json",
            "--exit-zero",
        )
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", *options, *paths], cwd=root, capture_output=True, check=True
        )
        found = json.loads(done.stdout)
        return {(Path(f["filename"]).relative_to(root.resolve()).as_posix(), f["code"], f["message"]) for f in found}

    assert problems(run.output) - problems(run.source) == set()


@pytest.mark.parametrize("version", FIGURES)
def test_runners_and_adapters_import_and_every_registration_resolves(runs, version):
    """On stand-ins for vLLM and torch: the modules run, and a class of each registered name gets its adapters."""
    script = """
registry = package("vllm_omni.worker.adapters").ModelAdapterRegistry
for name in ("gpu_model_runner", "gpu_ar_model_runner", "gpu_generation_model_runner"):
    package(f"vllm_omni.worker.{name}")
assert registry._adapters
for name, adapters in registry._adapters.items():
    found = registry.get_adapter(type(name, (), {})())
    assert all(isinstance(found, adapter) for adapter in adapters), name
"""
    command_line = [sys.executable, "-B", STUBBED, str(runs[version].output)]
    done = subprocess.run(command_line, input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


# -- what is left in the three runner files, by a walk of our own


def is_dispatch(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Attribute) and node.value.attr == "_adapter"


def model_tests(tree: ast.Module) -> Iterator[str]:
    """Probes of something called a model, reads of a capability, and comparisons of a class's name."""
    capabilities = {"talker_mtp", "precomputed_mrope_decode", "has_preprocess", "has_postprocess", "make_omni_output"}
    capabilities |= {"have_multimodal_outputs", "MiMoAudioForConditionalGeneration"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in capabilities and not is_dispatch(node):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and node.value in capabilities:
            yield repr(node.value)
        elif isinstance(node, ast.Compare) and {"__name__", "__qualname__"} & {
            part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)
        }:
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            owner = ast.unparse(node.args[0])
            if owner in ("self.model", "model", "self.get_model()"):
                yield ast.unparse(node)


# vLLM's own interface, and a helper whose callers say what it asks for.
NOT_MODEL_SPECIFIC = {
    "hasattr(self.model, 'forward')",
    "getattr(model, 'get_mrope_input_positions')",
    "getattr(model, name, default)",
}


@pytest.mark.parametrize("version", FIGURES)
def test_no_test_of_a_class_and_no_probe_is_left_in_the_runner_files(runs, version):
    run = runs[version]
    found = {name: set(model_tests(tree)) - NOT_MODEL_SPECIFIC for name, tree in trees(run.output).items()}
    assert found == {name: set() for name in RUNNERS}
    assert any(set(model_tests(tree)) - NOT_MODEL_SPECIFIC for tree in trees(run.source).values())


def test_0_16_0_the_rfc_s_sites_are_found_at_their_lines_and_moved(runs):
    sites = [s for s in runs["0.16.0"].report["sites"] if s["path"] == "vllm_omni/worker/gpu_model_runner.py"]
    for method, first, last, count in RFC_SITES:
        here = [s for s in sites if s["symbol"] == f"OmniGPUModelRunner.{method}" and first <= s["line"] <= last]
        assert (method, len(here)) == (method, count)
    moved = {m["symbol"].partition(".")[2] for m in runs["0.16.0"].report["moves"] if m["phase"] < 7}
    assert {method for method, *_ in RFC_SITES} <= moved


def test_0_16_0_subjects(runs):
    """What each adapter of the RFC takes over."""
    subjects: dict[str, set[str]] = {}
    for site in runs["0.16.0"].report["sites"]:
        subjects.setdefault(site["adapter"], set()).add(site["subject"])
    assert {"talker_mtp", "talker", "mtp_hidden_size", "talker_mtp_output_key"} <= subjects["qwen3_talker"]
    assert {"talker_mtp_input_ids", "talker_mtp_inputs_embeds", "last_talker_hidden", "text_step"} <= subjects[
        "qwen3_talker"
    ]
    assert {"image_grid_thw", "video_grid_thw", "audio_feature_lengths", "use_audio_in_video"} <= subjects["mrope"]
    assert subjects["hunyuan_vl"] == {"uses_xdrope_dim", "xdrope_positions", "_init_xdrope_positions"}
    assert "precomputed_mrope_decode" in subjects["glm_image"]
    assert "MiMoAudioForConditionalGeneration" in subjects["mimo_audio"]


def test_0_30_0_today_s_shape_is_moved(runs):
    moved = {(m["symbol"], m["hook"]) for m in runs["0.30.0"].report["moves"]}
    assert {
        ("OmniGPUModelRunner._init_talker_mtp", "on_model_loaded"),
        ("GPUARModelRunner._capture_talker_mtp_graphs", "capture_talker_mtp_graphs"),
        ("GPUARModelRunner._run_post_sample_talker_mtp", "post_sample_talker_mtp"),
        ("OmniGPUModelRunner._preprocess", "collect_talker_row"),  # in a nested function with nonlocals
        ("OmniGPUModelRunner._maybe_run_batch_preprocess", "maybe_run_batch_preprocess"),
        ("OmniGPUModelRunner._talker_mtp_forward", "talker_mtp_forward"),
    } <= moved


# -- the ways to get the result


@pytest.mark.parametrize("version", ["0.16.0", "0.30.0"])
def test_git_applies_the_dry_run_s_diff_to_the_same_result(runs, version, tmp_path):
    run = runs[version]
    diff = command(f"vllm-omni=={version}", "--dry-run")
    assert diff.returncode == 0
    unpacked = shutil.copytree(run.source, tmp_path / "unpacked")
    subprocess.run(["git", "apply", "-"], cwd=unpacked, input=diff.stdout, check=True)
    assert contents(unpacked) == contents(run.output)


@pytest.mark.parametrize("version", ["0.16.0", "0.30.0"])
def test_a_second_run_finds_nothing_to_change(runs, version):
    assert command(str(runs[version].source), "--check").returncode == 1
    assert command(str(runs[version].output), "--check").returncode == 0


@pytest.mark.parametrize("version", ["0.16.0", "0.20.0"])
def test_phases_one_by_one_end_in_the_same_tree(runs, version, tmp_path):
    source = runs[version].source
    for phase in range(1, 8):
        target = tmp_path / str(phase)
        done = command(str(source), "--phase", str(phase), "--output", str(target))
        assert done.returncode == 0, done.stderr.decode()
        source = target
    assert contents(source) == contents(runs[version].output)
