"""The V2 port of a tree (RFC-005): the in-tree V2 runners, the binding that fits them, and the workers' choice."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import zip_longest
from typing import Any

from codemods.carry_prefill_tokens import carried_lines, carry_prefill_tokens, wrappings
from codemods.choose_runner import REASON, V2Choice, choice_lines, choose_runner
from omni_migrate.checks.comments import comments_in
from omni_migrate.errors import InputError
from omni_migrate.facts.flow import Refusal
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import modules_alias, platform_of
from omni_migrate.facts.syntax import walk
from omni_migrate.knowledge import read_toml
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.plan.v2_binding import BindingError, binding_path, read_binding, write_binding
from omni_migrate.plan.wiring import add_import, import_lines
from omni_migrate.plan.workspace import decode
from omni_migrate.report.findings import Finding, Severity
from omni_migrate.runners import in_tree_worker

RFC = "RFC-005"
PHASES = {
    1: "Abstract the hook interface",
    2: "Add the V2 runner skeleton",
    3: "Port the hooks to the V2 runners",
    4: "Let the workers choose V2",
}
TRANSFER = "FinishedKVTransfer"


class V2Port:
    """Plans the phases on a workspace; nothing is written to disk.

    `findings` names what was left as it is, with the reason. `moves` has, per phase, lines for a commit message.
    """

    def __init__(self, modules: Modules, package: str) -> None:
        self.modules, self.package = modules, package
        self.worker = posixpath.join(package, "worker")
        self.findings: list[Finding] = []
        self.moves: dict[int, list[str]] = {number: [] for number in PHASES}

    def plan(self, numbers: Sequence[int] = tuple(PHASES)) -> Plan:
        """The phases, each computed from what the one before left. Raises InputError; then nothing was planned."""
        self.refuse_taken()
        phases = []
        for number in numbers:
            snapshot = self.modules.workspace.snapshot()
            self.phase(number)
            changes = self.modules.workspace.changes_since(snapshot)
            phases.append(Phase(number, PHASES[number], changes, tuple(self.moves[number])))
        return Plan(RFC, tuple(phases))

    def phase(self, number: int) -> None:
        """Apply one phase to the workspace; what is there already stays."""
        for path in phase_modules(self.package).get(number, ()):
            self._create(path, self.files[path], number)
        if number == 1:
            self._create(binding_path(self.package), self.binding, number)
        elif number == 3:
            self._carry_prefill_tokens()
        elif number == 4:
            self._choose()

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """The in-tree modules that the V2 runners consist of, by their path in the tree; the binding is not one."""
        closure = phase_modules(self.package).values()
        return {path: in_tree_worker()[path.removeprefix(f"{self.worker}/")] for paths in closure for path in paths}

    @cached_property
    def binding(self) -> bytes:
        """The tree's binding. Raises InputError if the tree lacks what it needs."""
        own = {*self.files, binding_path(self.package)}
        try:
            return write_binding(read_binding(self.modules, self.package, own))
        except BindingError as error:
            raise InputError(f"no V2 port: {error}; the binding needs it, and it is not guessed") from error

    def comments(self, paths: Collection[str]) -> frozenset[str]:
        """The comments that files of the port bring."""
        files = {**self.files, binding_path(self.package): self.binding}
        return frozenset(text for path in paths if path in files for text, _ in comments_in(files[path]))

    def refuse_taken(self) -> None:
        """Raises InputError if something else stands where a file of the port is to be."""
        workspace = self.modules.workspace
        wanted = {**self.files, binding_path(self.package): self.binding}
        taken = [path for path, data in wanted.items() if workspace.exists(path) and workspace.read(path) != data]
        if not taken:
            return
        changed = [path for path in taken if _alike(workspace.read(path), wanted[path])]
        foreign = next((path for path in taken if path not in changed), None)
        if foreign is not None:
            raise InputError(
                f"{foreign} is in the way: it is not the file that port-v2 writes there; move it elsewhere first"
            )
        line = _first_difference(workspace.read(changed[0]), wanted[changed[0]])
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise InputError(
            f"{changed[0]}:{line}{more} is not as port-v2 writes it: it was edited, another version of omni-migrate "
            f"wrote it, or the tree has changed since; delete it to have it written anew (git rm {' '.join(changed)})"
        )

    def own_paths(self) -> frozenset[str]:
        """The files of the port that are there, in this or another version; the binding among them, however it is."""
        workspace = self.modules.workspace
        there = ((path, data) for path, data in self.files.items() if workspace.exists(path))
        found = {path for path, data in there if _alike(workspace.read(path), data)}
        return frozenset(found | {binding_path(self.package)}) if found else frozenset()

    def missing_before(self, number: int) -> str:
        """A file of an earlier phase that is not there, "" if phase `number` can begin."""
        earlier = [path for phase, paths in phase_modules(self.package).items() if phase < number for path in paths]
        return next((path for path in earlier if not self.modules.workspace.exists(path)), "")

    def touched(self, path: str, before: bytes) -> list[tuple[int, int]]:
        """The lines of `before` that an edit may change: 1-based, inclusive; (n, n - 1) is the gap before line n."""
        names = read_toml("v2_port.toml")
        module = Module(path, decode(before))
        spans = carried_lines(module.text, names["names"]["new_request"])
        for name in module.classes.keys() & names["workers"].keys() if not platform_of(path) else ():
            chosen = choice_lines(module.text, name, self._choice(names["workers"][name]))
            spans += [*chosen, import_lines(self._binding, module)] if chosen else []
        return spans

    def _create(self, path: str, data: bytes, number: int) -> None:
        workspace = self.modules.workspace
        if not workspace.exists(path):
            workspace.write(path, data)
            self.moves[number].append(f"add {path}")

    # -- phase 3: what the scheduler hands to the V2 runner ----------------------------------------------------------

    def _carry_prefill_tokens(self) -> None:
        wrapper = read_toml("v2_port.toml")["names"]["new_request"]
        for path in self.modules.mentioning({wrapper}, self.package):
            module = self.modules.get(path)
            if module is None:
                continue
            for call, _ in wrappings(module.tree, wrapper):
                self.moves[3].append(f"{path}:{call.lineno}: hand prefill_token_ids on")
            after = carry_prefill_tokens(module.text, wrapper)
            if after != module.text:
                self.modules.workspace.write(path, module.file.encode(after))

    # -- phase 4: the workers ----------------------------------------------------------------------------------------

    def _choose(self) -> None:
        workers = read_toml("v2_port.toml")["workers"]
        seen = set()
        for path in self.modules.mentioning({"model_runner"}, self.package):
            module = self.modules.get(path)
            for node in module.classes.values() if module else ():
                if node.name in workers and not platform_of(path):
                    seen.add(node.name)
                    self._choose_in(path, node.name, workers[node.name])
                elif line := forces_v1(node):
                    self._left(path, line, node.name, _platform_reason(path, node.name))
        for name in sorted(set(workers) - seen):
            unread = self.modules.unread_definition(name, self.package)
            reason = f"there is no worker {name} to choose V2 in{f': {unread}' if unread else ''}"
            self._left(unread.partition(" ")[0] or self.worker, 0, name, reason)

    def _choose_in(self, path: str, name: str, entry: Mapping[str, Any]) -> None:
        module = self.modules.get(path)
        assert module is not None
        for line in self._overridden(name):
            self.findings.append(line)
        forced = next(self._forced_elsewhere(module, module.classes[name]), None)
        if forced is not None:
            self._left(path, module.classes[name].lineno, name, f"{forced} sets use_v2_model_runner too")
            return
        choice = self._choice(entry)
        after = choose_runner(module.text, name, choice)
        if isinstance(after, Refusal):
            self._left(path, after.line, name, after.reason)
            return
        if after == module.text:
            return
        wanted = [REASON, *filter(None, [choice.kv_transfer])]
        text = add_import(after, self._binding, wanted, module)
        self.modules.workspace.write(path, module.file.encode(text))
        self.moves[4].append(f"{path}: {name} chooses {entry['runner']} where vLLM chooses V2")

    def _forced_elsewhere(self, module: Module, node: ast.ClassDef) -> Iterator[str]:
        """Where a worker's other methods, or its bases in the tree, set what the choice is made by."""
        pending, seen = [(module, node)], {(module.path, node.name)}
        while pending:
            module, node = pending.pop(0)
            for method in (n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))):
                builds = any(_stores(n, "model_runner") for n in walk(method))
                for found in walk(method):
                    if _stores(found, "use_v2_model_runner") and not (len(seen) == 1 and builds):
                        yield f"{module.path}:{getattr(found, 'lineno', 0)} {node.name}.{method.name}"
            for base in node.bases:
                home, _, name = modules_alias(self.modules)(module.qualify(base) or "").rpartition(".")
                for path in (f"{home.replace('.', '/')}.py", f"{home.replace('.', '/')}/__init__.py") if home else ():
                    other = self.modules.get(path) if self.modules.workspace.exists(path) else None
                    if other is not None and name in other.classes and (path, name) not in seen:
                        seen.add((path, name))
                        pending.append((other, other.classes[name]))

    def _choice(self, entry: Mapping[str, Any]) -> V2Choice:
        transfer = TRANSFER if entry["kv_transfer"] else ""
        return V2Choice(f"{module_of(self.worker)}.{entry['module']}", entry["runner"], transfer)

    @property
    def _binding(self) -> str:
        return f"{module_of(self.worker)}.binding"

    def _overridden(self, name: str) -> Iterator[Finding]:
        """Classes that extend a worker and put another V1 runner into it: V2 would be the GPU's."""
        for path in self.modules.mentioning({name}, self.package):
            module = self.modules.get(path)
            for node in module.classes.values() if module else ():
                bases = {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
                own = [s for s in node.body if isinstance(s, ast.Assign) and "model_runner_cls" in ast.unparse(s)]
                if name in bases and own:
                    reason = f"{node.name} gives {name} a V1 runner of its own; on V2 it would run the GPU's"
                    yield Finding(path, own[0].lineno, "worker-left", Severity.WARNING, node.name, reason)

    def _left(self, path: str, line: int, symbol: str, reason: str) -> None:
        hint = "the V1 runner stays; see the parity matrix"
        self.findings.append(Finding(path, line, "worker-left", Severity.WARNING, symbol, reason, hint))


def _platform_reason(path: str, name: str) -> str:
    platform = platform_of(path)
    if platform:
        return f"{name} forces V1, and stays so: a V2 runner of the {platform.upper()} platform is not written"
    return f"{name} forces V1 and is no worker of AR or generation stages that port-v2 knows"


def _stores(node: ast.AST, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)


def forces_v1(node: ast.ClassDef) -> int:
    """The line of a class's `if self.use_v2_model_runner:` that sets it to False; 0 if there is none."""
    for found in walk(node):
        if isinstance(found, ast.If) and getattr(found.test, "attr", "") == "use_v2_model_runner":
            for inner in walk(found):
                if isinstance(inner, ast.Assign) and getattr(inner.targets[0], "attr", "") == "use_v2_model_runner":
                    return found.lineno
    return 0


def _alike(found: bytes, written: bytes) -> bool:
    """Whether a file is another state of one that the tool writes: most of its lines are."""
    lines, own = found.split(b"\n"), set(written.split(b"\n")) - {b""}
    said = [line for line in lines if line.strip()]
    return bool(said) and sum(line in own for line in said) * 2 > len(said)


def _first_difference(found: bytes, written: bytes) -> int:
    """The first line, 1-based, in which two files differ."""
    pairs = zip_longest(found.split(b"\n"), written.split(b"\n"))
    return next(number for number, (this, that) in enumerate(pairs, start=1) if this != that)


def module_of(folder: str) -> str:
    """`src/vllm_omni/worker` -> `vllm_omni.worker`."""
    return folder.removeprefix("src/").replace("/", ".")


@cache
def phase_modules(package: str) -> dict[int, tuple[str, ...]]:
    """The in-tree modules of each phase, by their path in a tree: what a phase needs and no earlier phase brought."""
    roots = read_toml("v2_port.toml")["modules"]
    brought: set[str] = {"binding.py", "__init__.py"}
    phases = {}
    for number in sorted(map(int, roots)):
        found = _closure(roots[str(number)]) - brought
        brought |= found
        phases[number] = tuple(posixpath.join(package, "worker", path) for path in sorted(found))
    return phases


def _closure(roots: Sequence[str]) -> set[str]:
    """Modules of the in-tree worker package and what they import of it, the binding's own imports left out."""
    worker = in_tree_worker()
    pending, found = list(roots), set()
    while pending:
        path = pending.pop()
        if path in found or path not in worker:
            continue
        found.add(path)
        if path != "binding.py":
            pending += _imported(worker[path])
    return found


def _imported(data: bytes) -> Iterator[str]:
    prefix = "vllm_omni.worker."
    for node in walk(ast.parse(data)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                if name.startswith(prefix):
                    path = name.removeprefix(prefix).replace(".", "/")
                    yield f"{path}.py"
                    yield f"{path}/__init__.py"
