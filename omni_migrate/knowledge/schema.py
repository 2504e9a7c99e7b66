"""What a configuration may say: its keys, their types, and what is written into code as it stands there.

The package's own adapters.toml and markers.toml hold to the same tables.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from omni_migrate.errors import InputError
from omni_migrate.knowledge import ADAPTER_MODULES, PROTOCOL_METHODS, merged_adapters

KINDS = ("divider", "opener", "closer", "dashes", "line")
Text = Annotated[str, Meta(min_length=1, max_length=1000)]
Names = list[Text]
CLASSES = frozenset({"ModelRunnerAdapter", "DefaultModelRunnerAdapter", "ModelAdapterRegistry", "AdapterOfRunner"})
# What an adapter class has that is no hook.
ATTRIBUTES = frozenset({"capabilities"})
# What no text has in common but a pattern that takes everything.
_ANY_COMMENT, _ANY_FILES = "# zq, 1", ("vllm_omni/zq.py", "vllm_omni/xj/w__8.py")
# With `test_adapter_` and `.py` still a file's name.
_NAME_LENGTH = 100
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_PLACE = re.compile(r"(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?", re.DOTALL)


class AdapterTable(Struct, forbid_unknown_fields=True, rename={"class_name": "class"}):
    """One [[adapters]] table; the keys are described in adapters.toml."""

    name: Text
    class_name: Text | UnsetType = UNSET
    phase: Annotated[int, Meta(ge=2, le=6)] | UnsetType = UNSET
    summary: Text | UnsetType = UNSET
    capabilities: Names = []
    class_names: Names = []
    metadata: Names = []
    state: dict[str, Any] = {}
    methods: dict[str, str] = {}
    hooks: dict[str, str] = {}
    keep: Names = []
    default: Literal["derived", "owner"] | UnsetType = UNSET


class MarkerTable(Struct, forbid_unknown_fields=True):
    """One [[markers]] table; the keys are described in markers.toml."""

    name: Text
    kind: Literal["divider", "opener", "closer", "dashes", "line"]  # KINDS
    pattern: Text


class ConfigTable(Struct, forbid_unknown_fields=True):
    """[tool.omni-migrate]."""

    skip: Names = []
    adapters: list[AdapterTable] = []
    markers: list[MarkerTable] = []


def check_table(table: object, where: str) -> None:
    """Raise InputError, naming `where` and the key, for the first thing in a configuration that does not fit."""
    try:
        checked = msgspec.convert(table, ConfigTable)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {_said(str(error), table)}") from error
    for key, problem in _problems(checked):
        raise InputError(f"{where}: {key}: {problem}")


def _said(message: str, table: object) -> str:
    """msgspec's message with the key in front, in the words of a configuration."""
    found = _PLACE.fullmatch(message)
    said, key = (found.group(1), found.group(2) or "") if found is not None else (message, "")
    key = key.removesuffix("[...]").replace("[...]", "") or "it"
    unknown = _UNKNOWN.fullmatch(said)
    if unknown is not None:
        struct = {"adapters": AdapterTable, "markers": MarkerTable}.get(key.partition("[")[0], ConfigTable)
        place = "" if key == "it" else f"{key}: "
        return (
            f"{place}unknown key {unknown.group(1)!r}; the known ones are {', '.join(struct.__struct_encode_fields__)}"
        )
    choices = {"default": ("derived", "owner"), "kind": KINDS}.get(key.rpartition(".")[2])
    if choices is not None and said.startswith("Invalid enum value"):
        return f"{key}: {said.removeprefix('Invalid enum value ')} is none of {', '.join(choices)}"
    for theirs, ours in _WORDS.items():
        said = said.replace(theirs, ours)
    return f"{'' if key == 'it' else f'{key}: '}{said[:1].lower()}{said[1:]}"


_WORDS = {"`": "", "array": "a list", "object": "a table", "got str": "got text", "Expected str": "Expected text"}


def _problems(config: ConfigTable) -> Iterator[tuple[str, str]]:
    """(key, what is wrong with it), for what the types do not say."""
    for number, glob in enumerate(config.skip):
        if glob.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", glob) or re.match(r"[A-Za-z]:", glob):
            yield f"skip[{number}]", f"{glob!r} leads out of the tree; globs are relative to its root"
        elif all(fnmatch(file, glob) for file in _ANY_FILES):
            yield f"skip[{number}]", f"{glob!r} skips everything: `*` stands for `/` too; name what to skip"
    for number, adapter in enumerate(config.adapters):
        for key, problem in _adapter_problems(adapter):
            yield f"adapters[{number}].{key}", problem
    seen: dict[str, int] = {}
    for number, adapter in enumerate(config.adapters):
        first = seen.setdefault(adapter.name.lower(), number)
        if first != number:
            yield f"adapters[{number}].name", f"{adapter.name!r} is the name of adapters[{first}] too"
    for number, marker in enumerate(config.markers):
        for key, problem in _marker_problems(marker):
            yield f"markers[{number}].{key}", problem


def _adapter_problems(adapter: AdapterTable) -> Iterator[tuple[str, str]]:
    yield from _not_names("name", [adapter.name])
    if adapter.name.lower() in _DEVICES:
        yield "name", f"{adapter.name!r} is a device's name on Windows, so no file can have it; choose another"
    if adapter.name in PROTOCOL_METHODS and adapter.name not in merged_adapters(()):
        yield "name", f"{adapter.name!r} is a method of the adapter protocol; choose another"
    if adapter.name.lower() in ADAPTER_MODULES or adapter.name.startswith("_"):
        yield "name", f"{adapter.name!r} is a module of the adapter package itself, or private; choose another"
    if isinstance(adapter.class_name, str):
        yield from _not_names("class", [adapter.class_name])
        if hasattr(builtins, adapter.class_name):
            yield "class", f"{adapter.class_name!r} is Python's own; choose another"
        if adapter.class_name in CLASSES:
            yield "class", f"{adapter.class_name!r} is a class of the adapter package itself; choose another"
    if isinstance(adapter.summary, str) and not (adapter.summary.isprintable() and adapter.summary.strip()):
        yield "summary", "must be one line of printable text"
    yield from _not_subjects("capabilities", adapter.capabilities)
    for number, name in enumerate(adapter.class_names):
        yield from _not_names(f"class_names[{number}]", name.split("."))
    yield from _not_subjects("metadata", adapter.metadata)
    yield from _not_subjects("state", adapter.state)
    for name, value in adapter.state.items():
        if not _is_literal(value):
            yield f"state.{name}", "must be text, a number of 64 bits, true, false, or a list or table of these"
    yield from _not_names("methods", adapter.methods)
    yield from _not_hooks("methods", adapter.methods)
    for key in adapter.hooks:
        if not all(map(_is_name, key.split("."))) or key.count(".") > 1:
            yield "hooks", f"{key!r} must be a method, or METHOD.SUBJECT"
    yield from _not_hooks("hooks", adapter.hooks)
    yield from _not_names("keep", adapter.keep)


def _not_names(key: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if not _is_name(name):
            yield key, f"{name!r} must be a Python identifier, and no keyword"


def _not_subjects(key: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What stands in code as it is, and becomes a hook without the underscores around it."""
    for name in names:
        yield from _not_names(key, [name])
        hook = name.strip("_")
        if not _is_name(hook) or hook in ATTRIBUTES:
            yield key, f"{name!r} without underscores around it cannot be a method of an adapter"


def _not_hooks(key: str, methods: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for method, hook in methods.items():
        if not _is_name(hook) or hook.startswith("_") or hook in ATTRIBUTES:
            yield f"{key}.{method}", f"{hook!r} cannot be a method of an adapter: a public Python identifier can"


def _is_name(name: str) -> bool:
    # Python takes some letters for others, a file system does not.
    return name.isidentifier() and name.isascii() and len(name) <= _NAME_LENGTH and not keyword.iskeyword(name)


def _is_literal(value: object) -> bool:
    """Whether a value is written into a test as it is: no date, and no number that is none."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_literal, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(map(_is_literal, value))
    # Python does not write integers of any length.
    return isinstance(value, str) or (isinstance(value, int) and abs(value) < 1 << 63)


def _marker_problems(marker: MarkerTable) -> Iterator[tuple[str, str]]:
    try:
        pattern = re.compile(marker.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        yield "pattern", f"{marker.pattern!r} is no pattern: {error}"
        return
    if "#" not in marker.pattern:
        yield "pattern", f"{marker.pattern!r} matches no comment; begin it with the #"
    elif _REPEATED.search(marker.pattern):
        yield "pattern", f"{marker.pattern!r} repeats what repeats already, which can take for ever; write it plainly"
    elif pattern.fullmatch(_ANY_COMMENT):
        yield "pattern", f"{marker.pattern!r} matches every comment; say what marks"


# A group with a repeat or a choice in it that is repeated itself: matching such a pattern can take exponential time.
_REPEATED = re.compile(r"\((?:[^()\\]|\\.)*(?<!\\)[*+}|](?:[^()\\]|\\.)*\)+(?:[*+]|\{\d*,\d*\})")


def check_claims(tables: Mapping[str, Mapping[str, Any]], own: Mapping[str, int], where: str) -> None:
    """Raise InputError for a class or a claim that two adapters have.

    `tables` are all adapters by name, the project's merged in; `own` says which entry of the configuration a name is.
    """
    for key in ("class", "capabilities", "class_names", "state", "methods", "metadata"):
        owners: dict[str, str] = {}
        for name, table in tables.items():
            value = table.get(key, [])
            for word in [value] if isinstance(value, str) else value:
                other = owners.setdefault(word, name)
                if other != name:
                    mine, theirs = (name, other) if name in own else (other, name)
                    raise InputError(
                        f"{where}: adapters[{own.get(mine, 0)}].{key}: {word!r} is {theirs}'s already; give that "
                        f'table name = "{theirs}" to add to it, or choose another'
                    )
    for name, number in own.items():
        lost = sorted({*tables[name].get("keep", ())} - tables[name].get("methods", {}).keys())
        if lost:
            raise InputError(f"{where}: adapters[{number}].keep: {lost[0]!r} is none of the adapter's methods")
