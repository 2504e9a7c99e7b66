"""RFC-003 as edits of a workspace: phase by phase, what is model-specific moves from the runners to adapters.

Phase 1 adds the adapter package and wires the runners to it; phases 2 to 6 move the sites of the shared runners, each
adapter in its phase; phase 7 does the same for the platforms' runners. Every phase is computed from the tree as the
phases before it left it, so that phases applied one by one end in the same tree as all at once.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from codemods.blocks import parse_method
from codemods.extract_expression import extract_expression, span_of
from codemods.move_block import move_block
from codemods.move_method import move_method
from codemods.rewire_calls import rewire_calls
from codemods.rewire_patches import LeftPatch, Reader, rewire_patches
from omni_migrate.facts.absence import Absence
from omni_migrate.facts.flow import FunctionNode, Refusal, bound_names
from omni_migrate.facts.helpers import Helper, probing_helpers
from omni_migrate.facts.modules import Module, Modules, module_level, module_name, split_lines
from omni_migrate.facts.runners import RunnerClass, find_runners, platform_of
from omni_migrate.facts.sites import (
    Claims,
    Site,
    absence_of,
    dispatched_hook,
    find_sites,
    methods_of,
    model_aliases,
    sites_in,
    sites_of_method,
)
from omni_migrate.facts.syntax import walk
from omni_migrate.knowledge import AdapterSpec, upstream_runners
from omni_migrate.plan.adapter_files import (
    AdapterPackage,
    class_of,
    names_at_definition,
    names_needed,
    normal_form,
    registered_names,
)
from omni_migrate.plan.method_text import cut, margin, method_span, replace_lines, shift, signature_end, with_spaces
from omni_migrate.plan.regions import Block, Expression, MethodView
from omni_migrate.plan.test_files import (
    TESTS,
    AdapterTest,
    delegate_of,
    own_defaults,
    refuse_foreign_test,
    registry_test,
)
from omni_migrate.plan.unused_imports import without_unused_imports
from omni_migrate.plan.wiring import dispatched_hooks, import_platform_adapters, wire
from omni_migrate.plan.workspace import decode

Moved = TypeVar("Moved")
PLATFORM_PHASE = 7
PHASES = {
    1: "Define the adapter protocol and registry",
    2: "Extract M-RoPE and positional encoding into adapters",
    3: "Extract talker MTP into the talker adapter",
    4: "Extract logic of models that are tested by name",
    5: "Extract precomputed decode positions",
    6: "Dispatch the remaining model hooks through adapters",
    7: "Port the platforms' runners to the same adapters",
}


@dataclass(frozen=True)
class Move:
    """One thing that was moved: from which method (with its line there), into which adapter method, and what it was."""

    phase: int
    site: Site
    adapter: str
    hook: str
    kind: str  # "block", "method", "expression" or "call"
    delegate: bool = False

    def __str__(self) -> str:
        return f"{self.site.symbol}: {self.site.subject} -> {self.adapter}.{self.hook} ({self.kind})"


@dataclass(frozen=True)
class Left:
    """A site that stays, with the reason."""

    site: Site
    reason: str


@dataclass
class Extraction:
    """What a run of phases did: edits are in the workspace, this says what they are."""

    moves: list[Move] = field(default_factory=list)
    left: dict[Site, str] = field(default_factory=dict)
    edited: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # file -> (class, method)
    patches: dict[str, list[LeftPatch]] = field(default_factory=dict)  # file -> what moved code is not reached by
    models: set[tuple[str, str]] = field(default_factory=set)  # (adapter method, its parameter that is the model)


class Extractor:
    """Applies phases to a workspace. `registered` answers which model classes an adapter is registered for.

    `found` are the tree's runner classes, if they have been looked for already.
    """

    def __init__(
        self,
        modules: Modules,
        package: str,
        specs: Sequence[AdapterSpec],
        interface: frozenset[str],
        registered: Callable[[AdapterSpec], Sequence[str]],
        only: Sequence[str] = (),
        found: Sequence[RunnerClass] | None = None,
    ) -> None:
        self.modules = modules
        self.workspace = modules.workspace
        self.package = package
        self.claims = Claims(specs, interface)
        self.registered = registered
        self.only = frozenset(only)
        self.result = Extraction()
        self._replaced_methods: dict[str, bool] = {}
        self._ancestors: dict[RunnerClass, set[RunnerClass]] = {}
        self._dispatched_by: dict[RunnerClass, tuple[Module, set[str]]] = {}
        self._own_methods: dict[RunnerClass, tuple[Module, dict[str, FunctionNode]]] = {}
        found = found or find_runners(modules, package, upstream_runners())
        self.found = found
        self.runners = [runner for runner in found if runner.api == "V1"]
        self.skipped = [runner for runner in found if runner.api != "V1"]
        root = next((r for r in self.runners if r.role == "runner" and not r.platform), None)
        self.root = root
        folder = posixpath.dirname(root.path) if root else f"{package}/worker"
        self.adapters = AdapterPackage(modules, f"{folder}/adapters")
        self._at_start = [self._methods(runner) for runner in self.runners]
        functions = self._functions()
        self._helpers = (functions, probing_helpers(functions, self._module_functions()))

    def sites(self) -> list[Site]:
        """Every model-specific site of the runner classes as the workspace is now."""
        helpers = self._helpers[1]
        found: list[Site] = []
        for runner in self.runners:
            module = self.modules.get(runner.path)
            if module is not None:
                found += find_sites(module, runner, self.claims, helpers)
        return found

    def phase(self, number: int) -> None:
        """Apply one phase. Phases after the first need the adapter package."""
        if number == 1:
            if not self.adapters.exists:
                self.adapters.create()
                self._write_registry_test()
                self.adapters.format()
            for runner in self.runners:
                wire(self.modules, runner, self.runners, self.adapters.module)
            return
        specs = [s for s in self.claims.specs.values() if s.phase == number or number == PLATFORM_PHASE]
        if self.only:
            specs = [spec for spec in specs if spec.name in self.only]
        if number == PLATFORM_PHASE:
            for runner in self.runners:
                wire(self.modules, runner, self.runners, self.adapters.module, loading=True)
        for runner in self.runners:
            if bool(runner.platform) == (number == PLATFORM_PHASE):
                self._extract(runner, specs, number)
        self._rewire_moved_methods(number)
        self._rewire_adapters()
        self._rewire_patches(number)
        if number == PLATFORM_PHASE:
            for folder in sorted({self.adapters.folder_of(r.path) for r in self.runners if r.platform}):
                own = [r for r in self.runners if r.platform and self.adapters.folder_of(r.path) == folder]
                import_platform_adapters(self.modules, own, self.adapters.module, folder)
        self.adapters.answer_for(self._dispatched())
        self._write_tests(number)
        self.adapters.format()

    def _edited(self, runner: RunnerClass, method: str) -> None:
        self.result.edited.setdefault(runner.path, set()).add((runner.name, method))

    def touched(self, path: str, before: bytes) -> list[tuple[int, int]]:
        """The lines of a runner file as it was that the plan may change: edited methods, wiring, imports."""
        module = Module(path, decode(before))
        spans = [(statement.lineno, statement.lineno - 1) for statement in module.tree.body[:2]]
        for node in module.classes.values():
            edited = {method for name, method in self.result.edited.get(path, ()) if name == node.name} | {"load_model"}
            spans.append((node.lineno, node.body[0].end_lineno or node.lineno))
            for function in methods_of(node):
                if function.name in edited:
                    first, last = method_span(function)
                    while first > 1 and not module.lines[first - 2].strip():
                        first -= 1  # the blank lines of a method that is gone
                    while last < len(module.lines) and not module.lines[last].strip():
                        last += 1
                    spans.append((first, last + 1))
        for statement in module_level(module.tree.body):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                spans += [(statement.lineno, statement.end_lineno or 0), (statement.lineno, statement.lineno - 1)]
            elif isinstance(statement, ast.If) and any(isinstance(n, ast.ImportFrom) for n in statement.body):
                spans.append((statement.lineno, (statement.end_lineno or 0) + 2))
        return spans

    def replaced(self, path: str, before: bytes) -> list[tuple[int, int]]:
        """The lines of a file that was there, and is no runner's, that the plan may replace; else it only adds."""
        module = Module(path, decode(before))
        spans = self.adapters.replaceable(path, module)
        for node in module.classes.values():
            edited = {method for name, method in self.result.edited.get(path, ()) if name == node.name}
            spans += [method_span(function) for function in methods_of(node) if function.name in edited]
        return spans

    def _functions(self) -> dict[str, FunctionNode]:
        """The methods of all runner classes by name; a subclass's does not hide its base's."""
        functions: dict[str, FunctionNode] = {}
        for own in self._at_start:
            for name, function in own.items():
                functions.setdefault(name, function)
        return functions

    @cached_property
    def _overridden(self) -> set[str]:
        """Methods that two runner classes define differently, as the tree was before the phases."""
        functions = self._helpers[0]
        return {
            name
            for own in self._at_start
            for name, function in own.items()
            if functions[name] is not function and normal_form(functions[name]) != normal_form(function)
        }

    def _dispatched(self) -> set[str]:
        """The adapter methods that the runners call."""
        called: set[str] = set()
        for runner in self.runners:
            module = self.modules.get(runner.path)
            if module is None or "._adapter." not in module.text:
                continue
            known = self._dispatched_by.get(runner)
            if known is None or known[0] is not module:
                node = module.classes.get(runner.name)
                hooks = dispatched_hooks(node, module) if node is not None else set()
                known = self._dispatched_by[runner] = (module, hooks)
            called |= known[1]
        return called

    def folding(self) -> dict[str, FunctionNode]:
        """The methods that are the same on every runner, so that a call of one can be looked into."""
        return {name: function for name, function in self._helpers[0].items() if name not in self._overridden}

    def _module_functions(self) -> dict[str, FunctionNode]:
        """The functions of the runners' modules by name."""
        modules = [self.modules.get(path) for path in dict.fromkeys(runner.path for runner in self.runners)]
        return {
            node.name: node
            for module in reversed(modules)
            for node in (module.tree.body if module is not None else ())
            if isinstance(node, ast.FunctionDef)
        }

    def _extract(self, runner: RunnerClass, specs: Sequence[AdapterSpec], number: int) -> None:
        module = self.modules.get(runner.path)
        node = module.classes.get(runner.name) if module else None
        if module is None or node is None:
            return
        functions, helpers = self._helpers
        names = {spec.name for spec in specs}
        edits: list[tuple[int, int, str]] = []
        original = module
        unit = margin(original.lines, node.body[-1])[:1] or " "
        words = self.claims.words(specs, helpers)
        for function in methods_of(node):
            first, last = method_span(function)
            if not words.search("".join(original.lines[first - 1 : last])):
                continue
            if any(site.adapter in names for site in sites_in(module, function, runner, self.claims, helpers)):
                method = _Method(self, runner, original, function, specs, functions, helpers, number)
                text = method.extract()
                if text is not None:
                    self._edited(runner, function.name)
                    if not text:
                        first, last = self._with_blank_lines(original, first, last)
                    edits.append((first, last, shift(text, function.col_offset, unit)))
        if not edits:
            return
        text = original.text
        for first, last, new in reversed(edits):
            text = replace_lines(text, first, last, new, original.file.newline)
        self.workspace.write(runner.path, original.file.encode(text))
        changed = self.modules.get(runner.path)
        if changed is not None:
            pruned = without_unused_imports(original, changed, self._imported_elsewhere(runner.path))
            self.workspace.write(runner.path, original.file.encode(pruned))

    def _with_blank_lines(self, module: Module, first: int, last: int) -> tuple[int, int]:
        """The lines of a method that goes with the blank lines on one side, so that those of the other side stay."""
        lines = module.lines
        end = last
        while end < len(lines) and not lines[end].strip():
            end += 1
        if end < len(lines) and lines[end][:1].isspace():
            return first, end
        while first > 1 and not lines[first - 2].strip():
            first -= 1
        return first, last

    def _imported_elsewhere(self, path: str) -> Callable[[str], bool]:
        """Whether another file of the tree takes a name from this module: then its import stays."""
        name = module_name(path)
        last = name.rsplit(".", 1)[1]

        def used(word: str) -> bool:
            needle = word.encode()
            users = [other for other in self.modules.mentioning({last}, "") if other != path]
            return any(
                needle in self.workspace.read(other) and _takes(self.modules.get(other), name, word) for other in users
            )

        return used

    def overridden_below(self, runner: RunnerClass, method: str) -> bool:
        """Whether a runner class that extends this one defines the method itself, other than as a delegate."""
        return any(
            method in self._methods(other)
            for other in self.runners
            if other is not runner and self.extends(other, runner)
        )

    def defined_elsewhere(self, runner: RunnerClass, method: str) -> bool:
        """Whether another runner class has a method of that name: which one a call reaches, the runner decides."""
        return any(method in self._methods(other) for other in self.runners if other is not runner)

    def _methods(self, runner: RunnerClass) -> dict[str, FunctionNode]:
        """A runner class's own methods by name."""
        module = self.modules.get(runner.path)
        if module is None:
            return {}
        known = self._own_methods.get(runner)
        if known is None or known[0] is not module:
            node = module.classes.get(runner.name)
            own = {function.name: function for function in methods_of(node)} if node is not None else {}
            known = self._own_methods[runner] = (module, own)
        return known[1]

    def extends(self, runner: RunnerClass, base: RunnerClass) -> bool:
        """Whether a runner class extends another, directly or not."""
        if runner not in self._ancestors:
            known: set[RunnerClass] = set()
            pending = list(runner.bases)
            while pending:
                found = self._by_name.get(pending.pop())
                if found is not None and found not in known:
                    known.add(found)
                    pending.extend(found.bases)
            self._ancestors[runner] = known
        return base in self._ancestors[runner]

    @cached_property
    def _by_name(self) -> dict[str, RunnerClass]:
        return {f"{module_name(runner.path)}.{runner.name}": runner for runner in self.runners}

    def defining(self, runner: RunnerClass, method: str) -> tuple[RunnerClass, FunctionNode] | None:
        """The class that a runner's method comes from: its own, or the nearest base's."""
        order = [runner, *(r for r in reversed(self.runners) if self.extends(runner, r))]
        for candidate in order:
            own = self._methods(candidate)
            if method in own:
                return candidate, own[method]
        return None

    def referenced_outside(self, runner: RunnerClass, method: str) -> bool:
        """Whether anything but the runners' own calls and the adapters mentions a method of a runner."""
        own = {r.path for r in self.runners if bool(r.platform) == bool(runner.platform)}
        for path in self.modules.mentioning({method}, ""):
            if path not in own and not self.adapters.owns(path):
                return True
            if path in own and _mentioned_other_than_called(self.modules.get(path), method):
                return True
        return False

    def _rewire_moved_methods(self, number: int) -> None:
        """Calls of a moved method go to the adapter directly, unless a subclass has the method overridden."""
        for runner in self.runners:
            if bool(runner.platform) != (number == PLATFORM_PHASE):
                continue
            module = self.modules.get(runner.path)
            node = module.classes.get(runner.name) if module else None
            if module is None or node is None:
                continue
            targets = {
                method: hook
                for method, hook in self._dispatch_targets(runner, number).items()
                if f".{method}(" in module.text
            }
            edits = []
            called_by_name = [method for method in self.claims.methods if f".{method}(" in module.text]
            for function in methods_of(node) if called_by_name else ():
                lines = "".join(module.lines[function.lineno - 1 : function.end_lineno])
                if any(f".{method}(" in lines for method in called_by_name):
                    self._explain_calls_by_name(module, function, runner)
            if not targets:
                continue
            for function in methods_of(node):
                first, last = method_span(function)
                text = "".join(module.lines[first - 1 : last])
                called = any(f".{method}(" in text for method in targets)
                if called and dispatched_hook(function) is None and function.args.args:
                    source = cut(module.lines, function)
                    rewired = rewire_calls(source, function.args.args[0].arg, targets)
                    if rewired != source:
                        self._edited(runner, function.name)
                        unit = margin(module.lines, function)[:1] or " "
                        edits.append((first, last, shift(rewired, function.col_offset, unit)))
            text = module.text
            for first, last, new in reversed(edits):
                text = replace_lines(text, first, last, new, module.file.newline)
            if edits:
                self.workspace.write(runner.path, module.file.encode(text))

    def _replaced(self, method: str) -> bool:
        """Whether a file puts something else in a method's place, as tests do: then it goes on being called by name."""
        if method not in self._replaced_methods:
            name = re.escape(method.encode())
            put = re.compile(
                rb"\." + name + rb"[ \t]*=[^=]|(setattr|object)\([^\n]*[\"']" + name + rb"[\"']|\." + name + rb"[\"']"
            )
            own = {runner.path for runner in self.runners}
            paths = [
                path
                for path in self.modules.mentioning({method}, "")
                if path not in own and not self.adapters.owns(path)
            ]
            self._replaced_methods[method] = any(put.search(self.workspace.read(path)) for path in paths)
        return self._replaced_methods[method]

    def _explain_calls_by_name(self, module: Module, function: FunctionNode, runner: RunnerClass) -> None:
        for site in sites_in(module, function, runner, self.claims, self._helpers[1]):
            if site.rule == "model-method" and site.subject != function.name and self._replaced(site.subject):
                self.result.left[site] = "a file of this tree replaces the method, so it is called by its name"

    def _rewire_adapters(self) -> None:
        """A method that is gone from the runner is called on the adapter itself."""
        gone = {
            move.site.symbol.rsplit(".", 1)[1]: move
            for move in self.result.moves
            if move.kind == "method" and not move.delegate
        }
        paths = {hook.path for hook in self.adapters.hooks().values()}
        for path in sorted(paths) if gone else ():
            module = self.modules.get(path)
            if module is None:
                continue
            text = module.text
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    text = self._rewired_class(node, text, module, gone)
            if text != module.text:
                self.adapters.write(path, text)

    def _rewire_patches(self, number: int) -> None:
        """What patches a global of a runner's module patches it where moved code reads it now, too."""
        targets = self._moved_globals([move for move in self.result.moves if move.phase == number])
        own = {runner.path for runner in self.runners}
        for path in self.modules.mentioning({name.rpartition(".")[2] for name in targets}, ""):
            if path in own or self.adapters.owns(path) or not _names_module(self.workspace.read(path), targets):
                continue
            module = self.modules.get(path)
            if module is None:
                continue
            rewired = rewire_patches(module, targets)
            if rewired.added:
                self.workspace.write(path, module.file.encode(rewired.text))
            known = self.result.patches.get(path, [])
            left = [replace(one, line=rewired.line_now(one.line)) for one in known] + rewired.left
            if left:
                self.result.patches[path] = left

    def _moved_globals(self, moves: Sequence[Move]) -> dict[str, dict[str, list[Reader]]]:
        """Runner module -> its global -> the adapter modules whose code, moved from there, reads it from their own."""
        found: dict[str, dict[str, list[Reader]]] = {}
        hooks = self.adapters.hooks()
        for runner_path, hook in dict.fromkeys((move.site.path, move.hook) for move in moves):
            module = self.modules.get(hooks[hook].path) if hook in hooks else None
            methods = (m for node in module.classes.values() for m in methods_of(node)) if module is not None else ()
            for method in methods:
                if module is None or method.name != hook:
                    continue
                # what is imported inside the method comes from the runner's module itself
                names = names_needed(cut(module.lines, method)).runtime & bound_names(module.tree.body)
                for name in sorted(names):
                    reader = Reader(module.name, own=name not in module.imports)
                    readers = found.setdefault(module_name(runner_path), {}).setdefault(name, [])
                    if reader not in readers:
                        readers.append(reader)
        return found

    def _rewired_class(self, node: ast.ClassDef, text: str, module: Module, gone: Mapping[str, Move]) -> str:
        for function in reversed(list(methods_of(node))):
            if len(function.args.args) < 2:
                continue
            receiver = function.args.args[1].arg
            first, last = method_span(function)
            lines = "".join(module.lines[first - 1 : last])
            if not any(f".{name}(" in lines for name in gone):
                continue
            own = {name: move.hook for name, move in gone.items() if move.adapter in node.name}
            source = cut(module.lines, function)
            rewired = rewire_calls(source, receiver, own, target="self")
            others = {name: move.hook for name, move in gone.items() if move.adapter not in node.name}
            rewired = rewire_calls(rewired, receiver, others)
            if rewired != source:
                self.result.edited.setdefault(module.path, set()).add((node.name, function.name))
                unit = margin(module.lines, function)[:1] or " "
                text = replace_lines(text, first, last, shift(rewired, function.col_offset, unit), module.file.newline)
        return text

    def _write_tests(self, number: int) -> None:
        """A test module for each adapter file that this phase put something into."""
        moves = [move for move in self.result.moves if move.phase == number]
        moved = {move.hook for move in moves}
        base = self.modules.get(f"{self.adapters.folder}/base.py")
        owners = {hook.name: hook.path for hook in self.adapters.hooks().values()}
        for path in dict.fromkeys(owners[move.hook] for move in moves if move.hook in owners):
            folder, name = posixpath.dirname(path), posixpath.basename(path).removesuffix(".py")
            module, spec = self.modules.get(path), self.claims.specs[name]
            if module is None or base is None:
                continue
            shared = folder == self.adapters.folder
            platform = "" if shared and number != PLATFORM_PHASE else platform_of(path)
            if shared and number == PLATFORM_PHASE:
                continue  # its test module came with its own phase
            class_name = class_of(spec, folder, self.adapters.folder)
            delegates = []
            for move in moves:
                runner_module = self.modules.get(move.site.path)
                if move.delegate and owners.get(move.hook) == path and runner_module is not None:
                    runner, method = move.site.symbol.rsplit(".", 1)
                    found = delegate_of(runner_module, runner, method, move.hook)
                    delegates += [found] if found is not None else []
            agreeing = own_defaults(base, module, class_name, self._helpers[1], self.result.models)
            wanted = AdapterTest(
                spec,
                class_name,
                module.name,
                self.adapters.module,
                registered_names(module, class_name),
                delegates,
                [(hook, is_model) for hook, is_model in agreeing if hook in moved],
                platform,
            )
            label = f"{platform}_{name}" if platform else name
            self._write_test(f"{TESTS}/test_adapter_{label}.py", wanted)

    def _write_test(self, path: str, wanted: AdapterTest) -> None:
        if not self.workspace.exists(path):
            self.adapters.write(path, wanted.new())
            return
        module = self.adapters.readable(path)
        text = wanted.added_to(module)
        if text != module.text:
            self.adapters.write(path, text)

    def _write_registry_test(self) -> None:
        path = f"{TESTS}/test_adapter_registry.py"
        if self.workspace.exists(path):
            refuse_foreign_test(self.adapters.readable(path))
        else:
            self.adapters.write(path, registry_test(self.adapters.module))

    def _dispatch_targets(self, runner: RunnerClass, number: int) -> dict[str, str]:
        """Moved method -> adapter method, as seen from one runner class."""
        targets: dict[str, str] = {}
        for method, adapter in self.claims.methods.items():
            spec = self.claims.specs[adapter]
            if (spec.phase > number) or (self.only and adapter not in self.only):
                continue
            found = self.defining(runner, method)
            if found is not None and not self.overridden_below(runner, method) and not self._replaced(method):
                hook = dispatched_hook(found[1])
                if hook is not None:
                    targets[method] = hook
        for move in self.result.moves:
            if move.kind == "method" and not move.delegate:
                targets[move.site.symbol.rsplit(".", 1)[1]] = move.hook
        return targets


class _Method:
    """One method of a runner, from which the sites of some adapters are moved one after the other."""

    def __init__(
        self,
        extractor: Extractor,
        runner: RunnerClass,
        module: Module,
        function: FunctionNode,
        specs: Sequence[AdapterSpec],
        functions: Mapping[str, FunctionNode],
        helpers: Mapping[str, Helper],
        phase: int,
    ) -> None:
        self.extractor, self.runner, self.module = extractor, runner, module
        self.name, self.column, self.first_line = function.name, function.col_offset, method_span(function)[0]
        self.specs, self.functions, self.helpers, self.phase = specs, functions, helpers, phase
        self.source = cut(module.lines, function)
        self.gone = False
        self._refused: set[tuple[str, str, int]] = set()
        self._looked_at: tuple[str, MethodView, tuple[tuple[Site, ast.AST], ...]] | None = None
        package = extractor.adapters
        self.folder = package.folder if not runner.platform else package.folder_of(runner.path)

    def extract(self) -> str | None:
        """The method's new source ("" if it is gone), None if nothing moved."""
        before = self.source
        for spec in self.specs:
            if not self.extractor.claims.words([spec], self.helpers).search(self.source):
                continue
            absence = absence_of(spec, self.extractor.folding())
            while not self.gone and self._step(spec, absence):
                pass
        if self.gone:
            return ""
        return self.source if self.source != before else None

    def _step(self, spec: AdapterSpec, absence: Absence) -> bool:
        """Move one site of an adapter; False if none is left that can be moved."""
        view, sites = self._seen()
        for place, (site, node) in enumerate(sites):
            # counted from the end, so that what moves before it doesn't change which site it is
            ordinal = sum((s.rule, s.subject) == (site.rule, site.subject) for s, _ in sites[place:])
            if site.adapter != spec.name or (site.rule, site.subject, ordinal) in self._refused:
                continue
            reasons: list[str] = []
            if self._move(spec, absence, view, site, node, reasons):
                return True
            self._refused.add((site.rule, site.subject, ordinal))
            reason = reasons[0] if reasons else "no statement or expression around it can be moved"
            self.extractor.result.left[self._in_file(site)] = reason
        return False

    def _seen(self) -> tuple[MethodView, tuple[tuple[Site, ast.AST], ...]]:
        """The method as it is now and its sites, looked at once for each text of it."""
        if self._looked_at is None or self._looked_at[0] != self.source:
            function = parse_method(self.source)
            receiver = function.args.args[0].arg if function.args.args else ""
            aliases = frozenset(model_aliases(function, receiver, helpers=self.helpers))
            view = MethodView(function, split_lines(self.source), aliases)
            sites = sites_of_method(function, self.runner, self.extractor.claims, self.helpers)
            self._looked_at = (self.source, view, sites)
        return self._looked_at[1:]

    def _in_file(self, site: Site) -> Site:
        return Site(
            site.rule, site.path, site.line + self.first_line - 1, site.column, site.symbol, site.subject, site.adapter
        )

    def _move(
        self, spec: AdapterSpec, absence: Absence, view: MethodView, site: Site, node: ast.AST, reasons: list[str]
    ) -> bool:
        if view.function.name in spec.methods:
            return self._move_method(spec, absence, view, site, reasons)
        if site.rule == "model-method" and any(
            isinstance(n, ast.Expr) and n.value is node for n in walk(view.function)
        ):
            return False  # a statement that is nothing but a call of a moved method: it is rewired, not moved
        own = [getattr(n, "lineno", 0) for s, n in self._seen()[1] if s.adapter == spec.name]
        for region in view.regions(node, absence, own):
            if isinstance(region, Block) and region.whole:
                done = self._move_method(spec, absence, view, site, reasons)
            elif isinstance(region, Block):
                done = self._move_block(spec, absence, view, region, site, reasons)
            else:
                done = site.rule != "model-method" and self._move_expression(spec, absence, view, region, site, reasons)
            if done:
                return True
        return False

    def _move_method(
        self, spec: AdapterSpec, absence: Absence, view: MethodView, site: Site, reasons: list[str]
    ) -> bool:
        name = view.function.name
        wanted = spec.methods.get(name) or spec.hooks.get(name) or name.strip("_")
        unnamed = _placeholder(wanted, self.source)
        moved = _unless_too_deep(lambda: move_method(self.source, unnamed, base_indent=self.column))
        if isinstance(moved, Refusal):
            reasons.append(f"its method cannot be moved whole: {moved.reason}")
            return False
        known_there = names_at_definition(moved.hook, self.module)
        if known_there:
            reasons.append(
                f"a default value of its method is {known_there[0]}, which the adapter's module cannot import"
            )
            return False
        keep = (
            name not in spec.methods
            or name in spec.keep
            or self.extractor.defined_elsewhere(self.runner, name)
            or self.extractor.referenced_outside(self.runner, name)
        )
        hook = self._same_hook(spec, moved.hook) if "#" not in moved.hook else None
        hook = hook or self._add(spec, absence, wanted, unnamed, moved.hook, frozenset(), asked=keep)
        self.source, self.gone = moved.delegate.replace(unnamed, hook), not keep
        self._record(spec, hook, site, "method", keep)
        return True

    def _move_block(
        self, spec: AdapterSpec, absence: Absence, view: MethodView, region: Block, site: Site, reasons: list[str]
    ) -> bool:
        wanted = self._wanted_name(spec, site, region)
        unnamed = _placeholder(wanted, self.source)
        place = (self.source, region.first, region.last, unnamed)
        moved = _unless_too_deep(lambda: move_block(*place, base_indent=self.column, flow=view.flow))
        if isinstance(moved, Refusal):
            reasons.append(moved.reason)
            return False
        hook = self._same_hook(spec, moved.hook)
        if hook is not None:
            stays = move_block(
                self.source, region.first, region.last, unnamed, base_indent=self.column, comments_stay=True
            )
            moved = stays if not isinstance(stays, Refusal) else moved
        else:
            hook = self._add(spec, absence, wanted, unnamed, moved.hook, view.aliases)
        self.source = moved.method.replace(unnamed, hook)
        self._record(spec, hook, site, "block", False)
        return True

    def _move_expression(
        self, spec: AdapterSpec, absence: Absence, view: MethodView, region: Expression, site: Site, reasons: list[str]
    ) -> bool:
        wanted = f"is_{spec.name}" if site.rule == "model-class-test" else site.subject.strip("_")
        unnamed = _placeholder(wanted, self.source)
        span = span_of(region.node)
        moved = _unless_too_deep(lambda: extract_expression(self.source, span, unnamed, flow=view.flow))
        if isinstance(moved, Refusal):
            reasons.append(moved.reason)
            return False
        hook = self._same_hook(spec, moved.hook) if "#" not in moved.hook else None
        hook = hook or self._add(spec, absence, wanted, unnamed, moved.hook, view.aliases)
        self.source = moved.method.replace(unnamed, hook)
        self._record(spec, hook, site, "expression", False)
        return True

    def _wanted_name(self, spec: AdapterSpec, site: Site, region: Block) -> str:
        """What the data calls the adapter method for this place, else the subject itself."""
        _, sites = self._seen()
        subjects = {s.subject for s, n in sites if region.first <= getattr(n, "lineno", 0) <= region.last}
        taken = self.extractor.adapters.hooks()
        for key, name in spec.hooks.items():
            method, _, subject = key.partition(".")
            fits = method == self.name and (not subject or subject in subjects)
            if fits and (self.runner.platform or name not in taken):
                return name
        if site.rule == "model-class-test":
            return f"{spec.name}_{self.name.strip('_')}"
        return site.subject.strip("_")

    def _same_hook(self, spec: AdapterSpec, source: str) -> str | None:
        """The adapter method that has this code already, if this runner can reach it."""
        package = self.extractor.adapters
        code = normal_form(parse_method(source))
        for hook in package.hooks().values():
            reached = hook.adapter == spec.name and hook.path.startswith((package.folder, self.folder))
            if hook.code == code and reached and package.means_the_same(source, self.module, hook.path):
                return hook.name
        return None

    def _add(
        self,
        spec: AdapterSpec,
        absence: Absence,
        wanted: str,
        unnamed: str,
        source: str,
        aliases: frozenset[str],
        asked: bool = True,
    ) -> str:
        """Put an adapter method (called `unnamed` in `source`) into its adapter; the name it gets."""
        package = self.extractor.adapters
        existing = package.hooks().keys() | package.taken()
        source = with_spaces(source)
        name = wanted
        if name in existing and self.runner.platform:
            name = f"{self.runner.platform}_{wanted}"
        if name in existing:
            name = f"{wanted}_in_{self.name.strip('_')}"
        number = 2
        while name in existing:
            name, number = f"{wanted}_in_{self.name.strip('_')}_{number}", number + 1
        named = source.replace(unnamed, name)
        origin = f'"""Moved from {self.runner.name}.{self.name}."""'
        named = _with_docstring(named, origin)
        self.extractor.result.models.update((name, alias) for alias in aliases)
        registered = self.extractor.registered(spec)
        package.add_hook(spec, named, self.module, absence, aliases, registered, self.folder, asked)
        return name

    def _record(self, spec: AdapterSpec, hook: str, site: Site, kind: str, delegate: bool) -> None:
        self.extractor.result.moves.append(Move(self.phase, self._in_file(site), spec.class_name, hook, kind, delegate))


def _unless_too_deep(move: Callable[[], Moved | Refusal]) -> Moved | Refusal:
    """What a codemod makes, or its refusal: libcst nests what Python's own tree has side by side (`a and b and c`)."""
    try:
        return move()
    except RecursionError:
        return Refusal("it is nested too deep to be moved", 1)


def _placeholder(wanted: str, source: str) -> str:
    """A name as long as the wanted one, so that lines break where they will, which the source does not have."""
    name = ("Zz9q_" * 40)[: max(len(wanted), 6)]
    while name in source:
        name += "Z"
    return name


def _with_docstring(source: str, docstring: str) -> str:
    """A moved block gets a docstring that says where it was; a moved method keeps its own."""
    function = parse_method(source)
    if ast.get_docstring(function) is not None:
        return source
    lines = source.split("\n")
    line, column = signature_end(source, function)
    rest = lines[line - 1][column:].strip()
    if not rest or rest.startswith("#"):
        return "\n".join([*lines[:line], f"    {docstring}", *lines[line:]])
    return "\n".join([*lines[: line - 1], lines[line - 1][:column], f"    {docstring}", f"    {rest}", *lines[line:]])


def _names_module(data: bytes, modules: Iterable[str]) -> bool:
    """Whether a file may hold one of some modules itself, or name something in it by a dotted text."""
    for name in modules:
        dotted, last = re.escape(name.encode()), re.escape(name.rpartition(".")[2].encode())
        if re.search(  # imported, named in full, or on a line of an import's own
            rb"import [^\n]*\b" + last + rb"\b|[\"']" + dotted + rb"\b|^\s*" + last + rb"( as \w+)?,?\s*$",
            data,
            re.MULTILINE,
        ):
            return True
    return False


def _takes(module: Module | None, name: str, word: str) -> bool:
    """Whether a module imports `word` from module `name`, or reads it off that module."""
    if module is None:
        return True  # unreadable: to be safe
    aliases = {bound for bound, found in module.imports.items() if found.name is None and found.module == name}
    package, _, last = name.rpartition(".")
    for bound, found in module.imports.items():
        if (found.module, found.name) == (package, last):
            aliases.add(bound)
    for node in walk(module.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for found in module.resolve_import(node).values():
                if found.module == name and found.name == word:
                    return True
                if (found.name is None and found.module == name) or (found.module, found.name) == (package, last):
                    aliases.update(alias.asname or alias.name for alias in node.names)
    dotted = f"{name}.{word}"
    for node in walk(module.tree):
        if isinstance(node, ast.Constant) and node.value == dotted:
            return True
        if isinstance(node, ast.Attribute) and node.attr == word and getattr(node.value, "id", None) in aliases:
            return True
        if isinstance(node, ast.Constant) and node.value == word and aliases:
            return True  # monkeypatch.setattr(module, "word", ...)
    return False


def _mentioned_other_than_called(module: Module | None, method: str) -> bool:
    """Whether a runner module uses a method's name other than to define it or call it on the runner."""
    if module is None:
        return True
    called = {
        id(node.func)
        for node in walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "self"
    }
    for node in walk(module.tree):
        if isinstance(node, ast.Attribute) and node.attr == method and id(node) not in called:
            return True
        if isinstance(node, ast.Constant) and node.value == method:
            return True
    return False


def moved_lines(moves: Sequence[Move]) -> Iterator[str]:
    """The body of a phase's commit message."""
    yield from dict.fromkeys(str(move) for move in moves)
