"""What names a model, a hook or a version, as data: TOML files beside this module, and a project's own tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
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

    A project's table with the name of a known adapter adds to it. Raises InputError on a table that does not fit.
    """
    tables: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in read_toml("adapters.toml")["adapter"]}
    for entry in extra:
        name = entry.get("name")
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"configuration: an adapter needs a name that is a Python identifier, not {name!r}")
        tables[name] = _merged(tables[name], entry) if name in tables else dict(entry)
    specs = [_spec(entry) for entry in tables.values()]
    return tuple(sorted(specs, key=lambda spec: spec.phase))


def _merged(known: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(known)
    for key, value in extra.items():
        old = merged.get(key)
        if isinstance(old, list) and isinstance(value, list):
            merged[key] = [*old, *value]
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = {**old, **value}
        else:
            merged[key] = value
    return merged


def _spec(entry: Mapping[str, Any]) -> AdapterSpec:
    known = {item.name for item in fields(AdapterSpec)} - {"class_name", "proposed"} | {"class"}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise InputError(
            f"configuration: adapter {entry['name']!r} has no key {unknown[0]!r}; known are {', '.join(sorted(known))}"
        )
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for key, value in entry.items()
        if key != "class"
    }
    values.setdefault("phase", 6)
    values.setdefault("summary", f"What {entry['name']} needs of the runner")
    default_class = "".join(part.title() for part in entry["name"].split("_")) + "Adapter"
    return AdapterSpec(class_name=entry.get("class", default_class), **values)


def proposed_adapter(class_names: Sequence[str]) -> AdapterSpec:
    """An adapter for model classes that a runner tests by name and nobody claims: `FooForCausalLM` -> foo."""
    stem = class_names[0]
    for suffix in ("ForConditionalGeneration", "ForCausalLM", "Model"):
        stem = stem.removesuffix(suffix) or stem
    name = "".join(
        f"_{letter.lower()}" if letter.isupper() and index and not stem[index - 1].isupper() else letter.lower()
        for index, letter in enumerate(stem)
    )
    summary = f"What {' and '.join(class_names)} need{'s' if len(class_names) == 1 else ''} of the runner"
    return AdapterSpec(name, f"{stem}Adapter", 4, summary, class_names=tuple(class_names), proposed=True)
