"""What names a model, a hook or a version, as data: TOML files beside this module, and a project's own tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from keyword import iskeyword
from typing import Any

from omni_migrate.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class AdapterSpec:
    """One adapter of RFC-003: what it answers for and what moves into it. The keys are described in adapters.toml."""

    name: str
    class_name: str
    phase: int
    summary: str
    capabilities: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    state: Mapping[str, object] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    hooks: Mapping[str, str] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    default: str = "derived"
    proposed: bool = False  # not in the data: made up for a class-name test that no adapter claims


@dataclass(frozen=True)
class Claim:
    """One thing that must hold of an extension point: its `kind` and `value`; `over` and `on` belong to some kinds.

    The kinds are described in hooks.toml and proven by `omni_migrate.facts.extension_points`.
    """

    kind: str
    value: Any
    over: tuple[str, ...] = ()
    on: str = ""


@dataclass(frozen=True)
class ExtensionPoint:
    """A place in vLLM's V2 runner that serves a hook, and the vLLM in which it is relied on, as a specifier."""

    symbol: str
    versions: str
    why: str
    claims: tuple[Claim, ...]

    def applies(self, version: str) -> bool:
        """Whether the point is relied on in this version of vLLM; pre-releases count as what they precede."""
        from packaging.specifiers import SpecifierSet

        return SpecifierSet(self.versions).contains(version, prereleases=True)


@dataclass(frozen=True)
class HookSpec:
    """One hook of RFC-005: how it is found on V1 and what serves it on V2. The keys are described in hooks.toml.

    `names` maps a kind of name ("methods", "fields", ...) to the names. `owners` maps a class to what variables that
    hold one are called; the fields of a class that is not in it are taken for its whatever they are read from.
    """

    id: str
    name: str
    summary: str
    compatibility: str
    effort: str
    priority: str
    phase: int
    names: Mapping[str, tuple[str, ...]]
    points: tuple[ExtensionPoint, ...]
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    ported_by: tuple[str, ...] = ()


# The methods of RFC-003's protocol.
PROTOCOL_METHODS = (
    "on_model_loaded", "init_request_positions", "fixup_decode_positions", "preprocess", "postprocess",
    "extract_outputs", "enrich_request_info",
)  # fmt: skip
# Modules of the adapter package (RFC-003 §3): an adapter of that name would be written over them.
ADAPTER_MODULES = frozenset({"base", "registry", "__init__"})
NAME_KINDS = (
    "methods", "overrides", "functions", "classes", "attributes", "capabilities", "fields", "keys", "adapter_methods",
)  # fmt: skip


@dataclass(frozen=True)
class Platform:
    """A platform whose runners stand beside the GPU ones. The keys are described in platforms.toml."""

    folder: str
    name: str
    words: tuple[tuple[str, str], ...]
    gpu_only: tuple[str, ...]

    def translate(self, text: str) -> str:
        """A platform's text in the GPU's words."""
        for ours, theirs in self.words:
            text = text.replace(ours, theirs)
        return text


def read_toml(name: str) -> dict[str, Any]:
    """A data file of this package."""
    return tomllib.loads(resources.files(__name__).joinpath(name).read_text(encoding="utf-8"))


@cache
def upstream_runners() -> dict[str, str]:
    """Qualified upstream runner class -> "V1" or "V2"."""
    return {name: api for api, entry in read_toml("upstream_runners.toml").items() for name in entry["classes"]}


@cache
def platforms() -> tuple[Platform, ...]:
    """The platforms that have runners of their own."""
    table = read_toml("platforms.toml")
    only = tuple(table.pop("gpu_only"))
    return tuple(
        Platform(folder, entry["name"], tuple((ours, theirs) for ours, theirs in entry["words"]), only)
        for folder, entry in table.items()
    )


@cache
def model_interface() -> frozenset[str]:
    """Attributes that vLLM's own model interface has: probing one is not model-specific."""
    return frozenset(read_toml("model_interface.toml")["names"])


@cache
def common_words() -> frozenset[str]:
    """Capabilities whose names are too common to look for model classes by."""
    return frozenset(read_toml("adapters.toml")["common_words"])


def adapters(extra: Iterable[Mapping[str, Any]] = ()) -> tuple[AdapterSpec, ...]:
    """The adapters of the package and of the project's configuration, in order of phase.

    A project's table, as `schema` checked it, adds to the known adapter of its name.
    """
    specs = [_spec(entry) for entry in merged_adapters(extra).values()]
    return tuple(sorted(specs, key=lambda spec: spec.phase))


def merged_adapters(extra: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The package's tables by name, the project's added; each has its class."""
    tables: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in read_toml("adapters.toml")["adapter"]}
    for entry in extra:
        name = entry["name"]
        tables[name] = _merged(tables[name], entry) if name in tables else dict(entry)
    for name, table in tables.items():
        table.setdefault("class", "".join(part.title() for part in name.split("_")) + "Adapter")
    return tables


@cache
def hook_places() -> tuple[str, ...]:
    """Globs, below the package, of the files that hold the V1 side of the hooks."""
    return tuple(read_toml("hooks.toml")["places"])


@cache
def model_states() -> frozenset[str]:
    """Qualified classes of vLLM that the model state of a V2 port extends."""
    return frozenset(read_toml("hooks.toml")["model_states"])


@cache
def hooks() -> tuple[HookSpec, ...]:
    """The hooks in the order of the data: RFC-005's thirteen, then what grew since."""
    return tuple(map(_hook, read_toml("hooks.toml")["hook"]))


def _hook(entry: Mapping[str, Any]) -> HookSpec:
    values = {key: value for key, value in entry.items() if key not in ("v1", "v2", "chosen", "ported_by")}
    names = {kind: tuple(words) for kind, words in entry["v1"].items() if kind != "owners"}
    owners = {name: tuple(words) for name, words in entry["v1"].get("owners", {}).items()}
    unknown = sorted({*names} - {*NAME_KINDS})
    if unknown:
        raise InputError(f"hooks: {entry['id']} has names of kind {unknown[0]!r}; known are {', '.join(NAME_KINDS)}")
    points = tuple(
        ExtensionPoint(point["symbol"], point["versions"], point["why"], tuple(map(_claim, point["claims"])))
        for point in entry["v2"]
    )
    chosen, ported_by = tuple(entry.get("chosen", ())), tuple(entry.get("ported_by", ()))
    return HookSpec(**values, names=names, points=points, owners=owners, chosen=chosen, ported_by=ported_by)


def _claim(table: Mapping[str, Any]) -> Claim:
    rest = {key: value for key, value in table.items() if key not in ("over", "on")}
    ((kind, value),) = rest.items()
    return Claim(
        kind, tuple(value) if isinstance(value, list) else value, tuple(table.get("over", ())), table.get("on", "")
    )


def _merged(known: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(known)
    for key, value in extra.items():
        old = merged.get(key)
        if isinstance(old, list) and isinstance(value, list):
            merged[key] = [*dict.fromkeys([*old, *value])]
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = {**old, **value}
        else:
            merged[key] = value
    return merged


def _spec(entry: Mapping[str, Any]) -> AdapterSpec:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for key, value in entry.items()
        if key != "class"
    }
    values.setdefault("phase", 6)
    values.setdefault("summary", f"What {entry['name']} needs of the runner")
    return AdapterSpec(class_name=entry["class"], **values)


def proposed_adapter(class_names: Sequence[str]) -> AdapterSpec:
    """An adapter for model classes that a runner tests by name and nobody claims: `FooForCausalLM` -> foo."""
    stem = class_names[0]
    for suffix in ("ForConditionalGeneration", "ForCausalLM", "Model"):
        stem = stem.removesuffix(suffix) or stem
    name = "".join(
        f"_{letter.lower()}" if letter.isupper() and index and not stem[index - 1].isupper() else letter.lower()
        for index, letter in enumerate(stem)
    )
    if iskeyword(name) or name in ADAPTER_MODULES:
        name, stem = f"{name}_model", f"{stem}Model"
    summary = f"What {' and '.join(class_names)} need{'s' if len(class_names) == 1 else ''} of the runner"
    return AdapterSpec(name, f"{stem}Adapter", 4, summary, class_names=tuple(class_names), proposed=True)


def paired_vllm(version: str) -> str:
    """The version of vLLM that a version of vllm-omni is for: "0.28.0" of "0.28.0", "0.14.1" of "0.14.0"."""
    from packaging.version import Version

    release = Version(version).release
    minor = f"{release[0]}.{release[1] if len(release) > 1 else 0}"
    patch: dict[str, str] = read_toml("vllm_pairs.toml")["patch"]
    return patch.get(minor, f"{minor}.0")
