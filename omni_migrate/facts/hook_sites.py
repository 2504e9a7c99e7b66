"""The V1 side of the hooks: every place where a tree defines, overrides, calls, sets, reads or probes one (RFC-005 §2).

A hook is found by the names that hooks.toml gives it, in the forms that a name of its kind can have: an attribute of
the runner is no field of a request, and a local variable or an import is nothing. Models' own code is not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.sites import dispatched_hook
from omni_migrate.facts.syntax import children, walk
from omni_migrate.knowledge import HookSpec, common_words, hook_places
from omni_migrate.report.findings import Finding, Severity

ADAPTERS_FOLDER = "worker/adapters/"
# What the runner is called in a method of its own, and in an adapter's.
_RECEIVERS = frozenset({"self", "runner", "_runner", "host"})
_ASKS = frozenset({"getattr", "hasattr"})
_READS = frozenset({"get", "pop", "setdefault"})
# Where the form fits no kind better: the order in which kinds are tried.
_OF_RECEIVER = ("attributes", "overrides", "methods", "adapter_methods", "capabilities", "fields")
_OF_MODEL = ("capabilities", "attributes", "fields", "methods", "overrides")
_OF_OTHERS = ("fields", "attributes", "capabilities", "methods", "overrides", "functions", "classes")
_CALLED = ("overrides", "methods", "capabilities", "functions", "classes", "attributes", "fields")


@dataclass(frozen=True, order=True)
class HookSite:
    """One place. `name` is the hook's name as the tree has it there, `symbol` the class and method around it.

    `role`: "definition", "override" (of a method that vLLM's runner has), "call", "store", "read", "probe" (the model
    is asked whether it has it) or "field" (of a class whose instances cross between scheduler, runner and model).
    """

    path: str
    line: int
    column: int
    hook: str
    role: str
    symbol: str
    name: str


class _Names:
    """Which hook a name belongs to, by kind."""

    def __init__(self, specs: Iterable[HookSpec]) -> None:
        self.kinds: dict[str, dict[str, str]] = {}
        self.owners: dict[str, dict[str, str]] = {}  # field -> class -> hook
        self.held_in: dict[str, frozenset[str]] = {}  # class -> what variables that hold one are called
        for spec in specs:
            self.held_in.update({name: frozenset(words) for name, words in spec.owners.items()})
            for kind, names in spec.names.items():
                for name in names:
                    if kind == "fields":
                        owner, name = name.split(".")
                        self.owners.setdefault(name, {})[owner] = spec.id
                    else:
                        self.kinds.setdefault(name, {})[kind] = spec.id
        self.words = frozenset(self.kinds) | frozenset(self.owners)

    def hook(
        self, name: str, kinds: Sequence[str], classes: Collection[str] = (), owner: str = ""
    ) -> tuple[str, str] | None:
        """The hook and the kind of a name that can be of these kinds.

        Of a field, `owner` is what it is read from and `classes` are those that the function around it names.
        """
        known = self.kinds.get(name, {})
        for kind in kinds:
            if kind in known:
                return known[kind], kind
            if kind == "fields" and name in self.owners:
                hook = self._field(self.owners[name], classes, owner)
                if hook is not None:
                    return hook, kind
        return None

    def _field(self, owners: dict[str, str], classes: Collection[str], owner: str) -> str | None:
        told = next((hook for name, hook in owners.items() if owner in self.held_in.get(name, ())), None)
        if told is not None:
            return told
        free = {name: hook for name, hook in owners.items() if name not in self.held_in}
        return next((hook for name, hook in free.items() if name in classes), next(iter(free.values()), None))


def find_hook_sites(
    modules: Modules, specs: Sequence[HookSpec], package: str, runners: Sequence[RunnerClass] = ()
) -> list[HookSite]:
    """Every hook site on the V1 side of the tree, by path and line.

    `runners` are the tree's runner classes (`find_runners`); the files of the V1 ones and of their bases are looked at
    wherever they stand. Those of the V2 ones are not, nor what beside them only they import.
    """
    return sites_of_files(modules, specs, package, v1_files(modules, package, runners))


def sites_of_files(modules: Modules, specs: Sequence[HookSpec], package: str, paths: Iterable[str]) -> list[HookSite]:
    """The hook sites of some files, by path and line."""
    names = _Names(specs)
    word = re.compile(rb"\b(?:" + b"|".join(re.escape(name).encode() for name in sorted(names.words)) + rb")\b")
    found: list[HookSite] = []
    for path in paths:
        if not word.search(modules.data(path)):
            continue
        module = modules.get(path)
        if module is not None:
            found.extend(_Reader(module, names, f"{package}/{ADAPTERS_FOLDER}" in path).sites())
    return sorted(set(found))


def v1_files(modules: Modules, package: str, runners: Sequence[RunnerClass] = ()) -> list[str]:
    """The files of the V1 side, sorted."""
    v2 = set(imported_files(modules, [runner for runner in runners if runner.api == "V2"]))
    paths = {runner.path for runner in runners if runner.api == "V1"}
    for runner in runners:
        if runner.api == "V1":
            folders = (base.rpartition(".")[0].replace(".", "/") for base in runner.bases)
            paths |= {f"{folder}.py" for folder in folders if folder.startswith(f"{package}/")}
    places = [f"{package}/{place}" for place in hook_places()]
    for path in modules.searched(package):
        if any(fnmatch(path, place) for place in places):
            paths.add(path)
    if paths & v2:  # what V1 runs on too, is not V2's alone
        v2 -= set(imported_files(modules, [runner for runner in runners if runner.api == "V1"]))
    return sorted(path for path in paths - v2 if modules.workspace.exists(path))


def imported_files(modules: Modules, classes: Iterable[RunnerClass]) -> list[str]:
    """The classes' modules, and what these import below their folders."""
    found = {item.path for item in classes}
    folders = tuple({f"{path.rpartition('/')[0]}/" for path in found})
    waiting = sorted(found)
    while waiting:
        module = modules.get(waiting.pop())
        if module is None:
            continue
        for node in walk(module.tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for imported in module.resolve_import(node).values():
                for name in (imported.module, f"{imported.module}.{imported.name}"):
                    base = name.replace(".", "/")
                    for path in (f"{base}.py", f"{base}/__init__.py"):
                        if path.startswith(folders) and path not in found and modules.workspace.exists(path):
                            found.add(path)
                            waiting.append(path)
    return sorted(found)


def dead_definitions(modules: Modules, sites: Sequence[HookSite], package: str) -> list[HookSite]:
    """Methods and functions of hooks that nothing in the package calls or names.

    What overrides vLLM's methods is called there, and a one-line delegate to an adapter is kept for callers outside.
    """
    used = {site.name for site in sites if site.role not in ("definition", "field")}
    unused = [
        site
        for site in sites
        if site.role == "definition" and site.name not in used and _does_its_work(modules.get(site.path), site)
    ]
    defined = {name: {site.path for site in unused if site.name == name} for name in {site.name for site in unused}}
    for path in modules.mentioning(set(defined), package) if defined else ():
        data = modules.data(path)
        for name, homes in defined.items():
            if path not in homes and re.search(rb"\b" + name.encode() + rb"\b", data):
                used.add(name)
    return [site for site in unused if site.name not in used]


def dead_hook_findings(dead: Iterable[HookSite]) -> list[Finding]:
    """A note for each hook that nothing calls."""
    return [
        Finding(
            site.path, site.line, "dead-hook", Severity.NOTE, f"{site.symbol}.{site.name}",
            f"{site.name} is defined and nothing in the package calls it",
            "delete it, or call it where its work is done",
        )
        for site in dead
    ]  # fmt: skip


def _does_its_work(module: Module | None, site: HookSite) -> bool:
    """Whether a definition is a function, and no one-line delegate."""
    for node in walk(module.tree) if module is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno == site.line:
            return dispatched_hook(node) is None
    return False


class _Reader:
    """The sites of one module."""

    def __init__(self, module: Module, names: _Names, is_adapter: bool) -> None:
        self.module, self.names, self.is_adapter = module, names, is_adapter
        self.found: list[HookSite] = []

    def sites(self) -> list[HookSite]:
        self._body(self.module.tree.body, [], frozenset())
        return self.found

    def _add(self, hook: tuple[str, str] | None, role: str, node: ast.AST, scope: Sequence[str], name: str) -> None:
        if hook is not None:
            line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
            symbol = ".".join(scope) or self.module.name.rpartition(".")[2]
            self.found.append(HookSite(self.module.path, line, column, hook[0], role, symbol, name))

    def _body(self, body: Sequence[ast.AST], scope: list[str], classes: frozenset[str]) -> None:
        for node in body:
            self._visit(node, scope, classes)

    def _visit(self, node: ast.AST, scope: list[str], classes: frozenset[str]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(node, scope)
        elif isinstance(node, ast.ClassDef):
            self._class(node, scope)
        elif isinstance(node, (ast.Import, ast.ImportFrom)) or _is_text(node):
            return
        elif isinstance(node, ast.AnnAssign):
            self._annotated(node, scope, classes)
        else:
            self._expression(node, scope, classes)
            for child in children(node):
                self._visit(child, scope, classes)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: list[str]) -> None:
        kinds: tuple[str, ...] = ("overrides", "methods", "functions")
        if self.is_adapter:
            kinds = ("adapter_methods", *kinds)
        hook = self.names.hook(node.name, kinds)
        if hook is not None:
            self._add(hook, "override" if hook[1] == "overrides" else "definition", node, scope, node.name)
        inner = [*scope, node.name]
        outside = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        self._body(outside, scope, frozenset())
        self._body(node.body, inner, _classes_named(node, self.names))

    def _class(self, node: ast.ClassDef, scope: list[str]) -> None:
        self._add(self.names.hook(node.name, ("classes",)), "definition", node, scope, node.name)
        self._body([*node.bases, *(word.value for word in node.keywords), *node.decorator_list], scope, frozenset())
        inner = [*scope, node.name]
        for statement in node.body:
            target = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(target, ast.Name):
                owners = self.names.owners.get(target.id, {})
                if node.name in owners:
                    self._add((owners[node.name], "fields"), "field", statement, inner, target.id)
                elif "attributes" in self.names.kinds.get(target.id, {}) and not owners:
                    self._add(self.names.hook(target.id, ("attributes",)), "field", statement, inner, target.id)
                if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                    self._visit(statement.value, inner, frozenset())
            else:
                self._visit(statement, inner, frozenset())

    def _annotated(self, node: ast.AnnAssign, scope: list[str], classes: frozenset[str]) -> None:
        self._visit(node.target, scope, classes)
        if node.value is not None:
            self._visit(node.value, scope, classes)

    def _expression(self, node: ast.AST, scope: list[str], classes: frozenset[str]) -> None:
        if isinstance(node, ast.Call):
            self._call(node, scope, classes)
        elif isinstance(node, ast.Attribute):
            if node.attr in self.names.words:
                stored = isinstance(node.ctx, (ast.Store, ast.Del))
                self._attribute(node.value, node.attr, "store" if stored else "read", node, scope, classes)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                role = "call" if node in self._called else "read"
                self._add(self.names.hook(node.id, ("classes", "functions")), role, node, scope, node.id)
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                self._key(key, "store", scope)
        elif isinstance(node, ast.Subscript):
            self._key(node.slice, "read" if isinstance(node.ctx, ast.Load) else "store", scope)
        elif isinstance(node, ast.Compare):
            if isinstance(node.ops[0], (ast.In, ast.NotIn)):
                self._key(node.left, "read", scope)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            for element in node.elts:
                self._key(element, "read", scope)

    def _call(self, node: ast.Call, scope: list[str], classes: frozenset[str]) -> None:
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        owner = called if isinstance(function, ast.Name) else ""
        for word in node.keywords:
            if word.arg in self.names.words:
                hook = self.names.hook(word.arg, ("keys",))
                owners = self.names.owners.get(word.arg, {})
                made = owner if owner != "cls" else scope[0] if scope else ""
                if made in owners:
                    hook = (owners[made], "fields")
                self._add(hook, "store", word, scope, word.arg)
        texts = [(argument, _text(argument)) for argument in node.args]
        for index, (argument, text) in enumerate(texts):
            if text not in self.names.words or text is None:
                continue
            if called in (*_ASKS, "setattr", "delattr") and index == 1 and isinstance(function, ast.Name):
                role = "probe" if called in _ASKS else "store"
                self._attribute(node.args[0], text, role, argument, scope, classes)
            elif called in _READS:
                self._key(argument, "read", scope)
            elif "capabilities" in self.names.kinds.get(text, {}):
                self._add(self.names.hook(text, ("capabilities",)), "probe", argument, scope, text)

    def _attribute(
        self, owner: ast.expr, name: str, role: str, node: ast.AST, scope: list[str], classes: frozenset[str]
    ) -> None:
        called = role == "read" and node in self._called
        if _last(owner) == "_adapter":
            kinds: tuple[str, ...] = ("adapter_methods",)
        elif (isinstance(owner, ast.Name) and owner.id in _RECEIVERS) or _is_super(owner):
            kinds = _OF_RECEIVER
        elif _last(owner) in ("model", "get_model"):
            kinds = _OF_MODEL
        else:
            kinds = _OF_OTHERS
        if called and kinds is not _OF_MODEL and "adapter_methods" not in kinds:
            kinds = (*_CALLED, "adapter_methods") if self.is_adapter and kinds is _OF_RECEIVER else _CALLED
        hook = self.names.hook(name, kinds, classes, _last(owner))
        if hook is None or (hook[1] == "capabilities" and name in common_words() and kinds is not _OF_MODEL):
            return
        if role == "probe" and hook[1] != "capabilities":
            role = "read"
        elif called:
            role = "call"
        elif role == "read" and hook[1] == "capabilities":
            role = "probe"
        self._add(hook, role, node, scope, name)

    def _key(self, node: ast.AST | None, role: str, scope: list[str]) -> None:
        text = _text(node)
        if text is not None and text in self.names.words:
            self._add(self.names.hook(text, ("keys",)), role, node, scope, text)  # type: ignore[arg-type]

    @property
    def _called(self) -> set[ast.AST]:
        if not hasattr(self, "_called_nodes"):
            self._called_nodes: set[ast.AST] = {
                node.func for node in walk(self.module.tree) if isinstance(node, ast.Call)
            }
        return self._called_nodes


def _classes_named(function: ast.AST, names: _Names) -> frozenset[str]:
    """Classes that own fields and that a function names: what an attribute of unknown owner is taken for."""
    owners = {owner for owners in names.owners.values() for owner in owners}
    return frozenset(node.id for node in walk(function) if isinstance(node, ast.Name) and node.id in owners)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _last(node: ast.expr) -> str:
    """The name that an owner is called by: `self.model` and `runner.model` are "model"."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super"


def count_by_hook(sites: Iterable[HookSite]) -> dict[str, int]:
    """How many sites each hook has."""
    counts: dict[str, int] = {}
    for site in sites:
        counts[site.hook] = counts.get(site.hook, 0) + 1
    return counts


def by_hook(sites: Iterable[HookSite], specs: Sequence[HookSpec]) -> Iterator[tuple[HookSpec, list[HookSite]]]:
    """Each hook with its sites, in the order of the data."""
    every = list(sites)
    for spec in specs:
        yield spec, [site for site in every if site.hook == spec.id]
