"""The hook sites of the published releases: complete against a count by tokens, exact in number."""

from __future__ import annotations

import ast
import io
import shutil
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from omni_migrate.facts.hook_sites import HookSite, count_by_hook, dead_definitions, find_hook_sites, imported_files
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import common_words, hooks, upstream_runners
from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

REPOSITORY = Path(__file__).parents[2]
VERSIONS = ("0.14.0", "0.16.0", "0.18.0", "0.20.0", "0.22.0", "0.24.0", "0.26.0", "0.28.0", "0.30.0")

# Sites of each hook in VERSIONS, in that order.
COUNTS = {
    "request-store": (18, 10, 15, 24, 28, 31, 31, 37, 38),
    "payload-decode": (37, 27, 31, 37, 35, 35, 57, 53, 59),
    "prompt-embeds-overlay": (10, 5, 5, 5, 5, 5, 5, 5, 5),
    "forward-kwargs": (12, 8, 15, 16, 17, 27, 36, 36, 36),
    "postprocess-updates": (4, 3, 3, 3, 3, 11, 11, 11, 11),
    "update-merge": (8, 5, 10, 13, 14, 14, 15, 17, 18),
    "output-split": (30, 24, 24, 24, 24, 24, 24, 24, 27),
    "model-forward": (16, 14, 14, 14, 14, 14, 14, 14, 14),
    "mrope": (64, 48, 48, 52, 52, 55, 55, 55, 55),
    "talker-mtp": (70, 58, 62, 90, 90, 97, 97, 97, 99),
    "preprocess-postprocess": (18, 15, 16, 16, 16, 19, 19, 20, 20),
    "runner-output": (16, 16, 16, 32, 37, 70, 70, 77, 77),
    "xdrope": (16, 12, 12, 12, 12, 12, 12, 12, 0),
    "preprocess-batch": (0, 0, 0, 0, 3, 3, 3, 3, 3),
    "preprocess-decode-batch": (0, 0, 0, 0, 4, 4, 4, 4, 4),
    "streaming-updates": (0, 0, 1, 5, 3, 3, 3, 5, 5),
    "async-chunk-updates": (14, 14, 16, 16, 16, 16, 16, 16, 16),
    "request-token-spans": (8, 5, 5, 5, 5, 8, 8, 8, 8),
    "post-sample-mtp": (0, 0, 0, 0, 0, 0, 0, 3, 3),
}

DECODE, SPANS = "_decode_and_store_request_payloads", "_compute_request_token_spans"
# Hooks that are defined in the GPU base runner and that nothing calls; in 0.14.0 also in the NPU's.
DEAD = {
    "0.14.0": [SPANS, SPANS],
    **{version: [DECODE, SPANS] for version in VERSIONS[1:5]},
    **{version: [DECODE] for version in VERSIONS[5:]},
}


def names_of(kind: str) -> set[str]:
    return {name.rpartition(".")[2] for spec in hooks() for name in spec.names.get(kind, ())}


WORDS = {name.rpartition(".")[2] for spec in hooks() for names in spec.names.values() for name in names}
CODE = names_of("functions") | names_of("classes")
FIELDS = [name.split(".") for spec in hooks() for name in spec.names.get("fields", ())]
FIELDS_ONLY = {field for _, field in FIELDS} - names_of("keys") - names_of("capabilities")
HELD_IN = {owner: words for spec in hooks() for owner, words in spec.owners.items()}
# Fields that only classes have which are known by what holds them: read from anything else, the name is another's.
OWNED = {
    field: {word for owner, name in FIELDS if name == field for word in HELD_IN[owner]}
    for _, field in FIELDS
    if all(owner in HELD_IN for owner, name in FIELDS if name == field)
}


def analysed(version: str) -> tuple[Path, Modules, list[HookSite]]:
    source = resolve(f"vllm-omni=={version}", cwd=Path.cwd())
    modules = Modules(Workspace(source.root))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    return source.root, modules, find_hook_sites(modules, hooks(), "vllm_omni", runners)


def searched(root: Path) -> Iterator[Path]:
    """The V1 side, listed without the tool."""
    package = root / "vllm_omni"
    for glob in ("worker/**/*.py", "platforms/*/worker/**/*.py", "core/sched/**/*.py", "outputs/**/*.py", "outputs.py"):
        yield from package.glob(glob)
    yield package / "model_executor/models/output_templates.py"


def unexplained(file: Path, sites: set[tuple[int, str]]) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Tokens that are a hook's name and no site: how many each rule explains, and those that none does."""
    text = file.read_text(encoding="utf-8")
    annotated = {
        (part.lineno, part.col_offset)
        for node in ast.walk(ast.parse(text))
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
        for part in ast.walk(annotation)
        if hasattr(part, "lineno")
    }
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type != tokenize.COMMENT]
    rules: Counter[str] = Counter()
    left = []
    in_import = False
    for index, token in enumerate(tokens):
        before, after = (tokens[index - 1].string if index else ""), tokens[min(index + 1, len(tokens) - 1)].string
        starts = index == 0 or tokens[index - 1].type in (
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.NL,
        )
        if starts and before not in ("(", ","):
            in_import = token.string in ("from", "import") or (in_import and tokens[index - 1].type == tokenize.NL)
        name = token.string
        if token.type == tokenize.STRING:
            try:
                name = ast.literal_eval(token.string)
            except (ValueError, SyntaxError):
                continue
        if name not in WORDS or (token.start[0], name) in sites:
            continue
        owner = tokens[index - 2].string if before == "." else ""
        if in_import:
            rules["import"] += 1
        elif file.name == "__init__.py" and name in CODE and before != ".":
            rules["a package's exports"] += 1
        elif token.type == tokenize.STRING and name in FIELDS_ONLY and before != ",":
            rules["a field's name as a text of its own"] += 1
        elif token.start in annotated:
            rules["annotation"] += 1
        elif token.type == tokenize.NAME and before not in (".", "def", "class") and name not in CODE:
            rules["local, parameter or keyword of a helper"] += 1
        elif (name in common_words() and owner != "model") or (name in OWNED and owner not in OWNED[name]):
            rules["of something else"] += 1
        else:
            left.append((token.start[0], name, f"{owner}{before}{name}{after}"))
    return rules, left


@pytest.mark.parametrize("version", VERSIONS)
def test_every_token_is_a_site_or_explained(version: str) -> None:
    root, _, sites = analysed(version)
    left = []
    for file in searched(root):
        path = file.relative_to(root).as_posix()
        lines = {(site.line, site.name) for site in sites if site.path == path}
        _, found = unexplained(file, lines)
        left += [(path, *item) for item in found]
    assert left == []


@pytest.mark.parametrize("version", VERSIONS)
def test_exact_counts_and_dead_hooks(version: str) -> None:
    _, modules, sites = analysed(version)
    column = VERSIONS.index(version)
    expected = {hook: counts[column] for hook, counts in COUNTS.items() if counts[column]}
    assert count_by_hook(sites) == expected
    assert [site.name for site in dead_definitions(modules, sites, "vllm_omni")] == DEAD[version]


@pytest.mark.parametrize("version", ["0.16.0", "0.28.0"])
def test_the_same_hooks_after_extract_adapters(version: str, tmp_path: Path) -> None:
    root, _, before = analysed(version)
    command = [sys.executable, "-m", "omni_migrate", "extract-adapters", str(root), "--output", str(tmp_path / "out")]
    subprocess.run(command, check=True, capture_output=True)
    modules = Modules(Workspace(tmp_path / "out"))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    after = find_hook_sites(modules, hooks(), "vllm_omni", runners)
    assert {site.hook for site in after} == {site.hook for site in before}
    # what is not in the runners any more is in the adapters, and nothing died that was not dead before
    models = names_of("capabilities") | names_of("keys") | names_of("attributes")
    assert {site.name for site in before if site.name in models} <= {site.name for site in after}
    assert any(
        site.role == "call" and site.path.endswith("_runner.py") and "_adapter" in line_of(modules, site)
        for site in after
    )
    assert {site.name for site in dead_definitions(modules, after, "vllm_omni")} <= {*DEAD[version]}


@pytest.mark.parametrize("version", ["0.28.0", "0.30.0"])
def test_the_same_sites_beside_our_v2_runners(version: str, tmp_path: Path) -> None:
    root, _, before = analysed(version)
    shutil.copytree(root / "vllm_omni", tmp_path / "vllm_omni")
    own = Modules(Workspace(REPOSITORY))
    gpu = [
        runner
        for runner in find_runners(own, "vllm_omni", upstream_runners())
        if runner.api == "V2" and not runner.platform
    ]
    for path in imported_files(own, gpu):
        if not path.endswith("/__init__.py") or "adapters" in path:
            (tmp_path / path).parent.mkdir(exist_ok=True)
            shutil.copy(REPOSITORY / path, tmp_path / path)
    modules = Modules(Workspace(tmp_path))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    assert "OmniGPUModelRunnerV2" in {runner.name for runner in runners}
    assert find_hook_sites(modules, hooks(), "vllm_omni", runners) == before


def line_of(modules: Modules, site: HookSite) -> str:
    module = modules.get(site.path)
    assert module is not None
    return module.lines[site.line - 1]
