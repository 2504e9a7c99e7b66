"""The runner classes of a tree, found by what they extend, not by their files' names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omni_migrate.facts.modules import Module, Modules, module_name


@dataclass(frozen=True)
class RunnerClass:
    """A class of the tree that extends one of vLLM's or a platform's model runners.

    `api` is "V1" or "V2" by the upstream class at its root, `role` is "runner", or "mixin" for a class that only
    runners extend. `platform` is the folder below `platforms/` that it stands in, "" for the shared ones.
    """

    name: str
    path: str
    line: int
    bases: tuple[str, ...]  # qualified names, as written
    upstream: tuple[str, ...]
    api: str
    role: str
    platform: str


def find_runners(modules: Modules, package: str, upstream: Mapping[str, str]) -> tuple[RunnerClass, ...]:
    """Every class below `package` that extends, through any number of classes, a key of `upstream`.

    `upstream` maps a qualified upstream class to its API ("V1", "V2"). Base classes come before what extends them.
    """
    known: dict[str, str] = dict(upstream)  # qualified class -> its upstream root
    roots: dict[str, set[str]] = {name: {name} for name in upstream}
    defined: dict[str, tuple[Module, ast.ClassDef, tuple[str, ...]]] = {}
    words = {name.rsplit(".", 1)[1] for name in upstream}
    searched: set[str] = set()
    while words - searched:
        paths = modules.mentioning(words - searched, package)
        searched |= words
        for path in paths:
            module = modules.get(path)
            if module is None:
                continue
            # other names under which this module passes on what was searched for
            words |= {bound for bound, imported in module.imports.items() if imported.name in words}
            for node in module.classes.values():
                bases = tuple(filter(None, (module.qualify(base) for base in node.bases)))
                defined[f"{module.name}.{node.name}"] = (module, node, tuple(map(modules_alias(modules), bases)))
        grown = True
        while grown:
            grown = False
            for name, (_, node, bases) in defined.items():
                found = set().union(*(roots.get(base, set()) for base in bases))
                if found - roots.get(name, set()):
                    roots[name] = roots.get(name, set()) | found
                    words.add(node.name)
                    grown = True
    runners = []
    for name, (module, node, bases) in defined.items():
        if name not in roots:
            continue
        apis = {known[root] for root in roots[name]}
        runners.append(
            RunnerClass(
                node.name,
                module.path,
                node.lineno,
                bases,
                tuple(sorted(roots[name])),
                "V1" if "V1" in apis else "V2",
                "runner",
                platform_of(module.path),
            )
        )
    mixins = _exclusive_mixins(modules, package, {f"{_module(r)}.{r.name}": r for r in runners})
    return tuple(_bases_first([*runners, *mixins]))


def modules_alias(modules: Modules) -> Callable[[str], str]:
    """Follow a re-export (`from .gpu_model_runner import X` in a package's __init__) to where the class is defined."""

    def follow(name: str) -> str:
        for _ in range(4):
            module, _, attribute = name.rpartition(".")
            for path in (module.replace(".", "/") + ".py", module.replace(".", "/") + "/__init__.py"):
                if modules.workspace.exists(path):
                    found = modules.get(path)
                    if found is None or attribute in found.classes or attribute not in found.imports:
                        return name
                    imported = found.imports[attribute]
                    name = f"{imported.module}.{imported.name}" if imported.name else imported.module
                    break
            else:
                return name
        return name

    return follow


def platform_of(path: str) -> str:
    """`vllm_omni/platforms/npu/worker/...` -> `npu`."""
    parts = path.split("/")
    return parts[parts.index("platforms") + 1] if "platforms" in parts[:-2] else ""


def _module(runner: RunnerClass) -> str:
    return module_name(runner.path)


def _exclusive_mixins(modules: Modules, package: str, runners: dict[str, RunnerClass]) -> list[RunnerClass]:
    """In-tree bases of runners that nothing but V1 runners extends: their methods are the runners' own."""
    candidates: dict[str, set[str]] = {}
    for name, runner in runners.items():
        for base in runner.bases:
            if base.startswith(f"{package}.") and base not in runners:
                candidates.setdefault(base, set()).add(name)
    found = []
    for name, users in sorted(candidates.items()):
        short = name.rsplit(".", 1)[1]
        extending: set[str] = set()
        home: tuple[Module, ast.ClassDef] | None = None
        for path in modules.mentioning({short}, package):
            module = modules.get(path)
            for node in module.classes.values() if module else ():
                qualified = f"{module.name}.{node.name}"  # type: ignore[union-attr]
                if qualified == name:
                    home = (module, node)  # type: ignore[assignment]
                if name in {module.qualify(base) for base in node.bases}:  # type: ignore[union-attr]
                    extending.add(qualified)
        if home is not None and extending <= set(runners) and all(runners[user].api == "V1" for user in users):
            module, node = home
            bases = tuple(filter(None, (module.qualify(base) for base in node.bases)))
            found.append(
                RunnerClass(node.name, module.path, node.lineno, bases, (), "V1", "mixin", platform_of(module.path))
            )
    return found


def _bases_first(runners: list[RunnerClass]) -> list[RunnerClass]:
    by_name = {f"{_module(runner)}.{runner.name}": runner for runner in runners}
    ordered: list[RunnerClass] = []
    seen: set[RunnerClass] = set()

    def add(runner: RunnerClass) -> None:
        if runner in seen:
            return
        seen.add(runner)
        for base in runner.bases:
            if base in by_name:
                add(by_name[base])
        ordered.append(runner)

    for runner in sorted(runners, key=lambda r: (r.platform, r.path, r.line)):
        add(runner)
    return ordered
