"""What the GPU runners do for omni and a platform's runners do not: bases, methods, probes, calls and statements.

A platform's class and its GPU counterpart go by their names (`NPUARModelRunner`, `GPUARModelRunner`). What a platform
inherits through Python's method resolution order it has; of what it writes anew, the text is compared. Statements need
vLLM's tree, to tell omni's from vLLM's; without it they are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from omni_migrate.facts.alignment import Alignment, Place, Statement, Text, align, likeness, statement_of
from omni_migrate.facts.class_tree import ClassNode, ClassTree
from omni_migrate.facts.effective import EffectiveClass, module_functions
from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.modules import module_name
from omni_migrate.facts.results import fields_of, is_named_tuple, returned, unpackings
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.syntax import walk
from omni_migrate.knowledge import Platform

Kind = Literal["base", "method", "probe", "call", "statement", "keyword", "field", "arity"]
State = Literal["inherits", "carries", "lacks"]
Sure = Literal["certain", "likely", "unsure"]

# How alike a statement of the platform must be to count as the GPU's in other words.
ALIKE = 0.6
# Methods that classes of different names must share to be counterparts.
_RENAMED = 2
# The part of a method's statements that a platform must have elsewhere for it to be written inline there.
INLINE = 0.5
# Names that say nothing of what a statement is for.
_COMMON = frozenset(
    {"self", "getattr", "hasattr", "len", "range", "isinstance", "None", "True", "False", "logger", "torch"}
)
_NAME = re.compile(r"[A-Za-z_]\w{3,}")


@dataclass(frozen=True)
class Item:
    """One thing that a GPU runner does for omni, and what has become of it on a platform.

    `gpu` is where the GPU side has it, `place` where the platform has it or, of what it lacks, where it belongs.
    """

    kind: Kind
    name: str
    platform: str
    platform_class: str
    gpu: Place
    place: Place
    state: State
    sure: Sure
    why: str


def counterparts(
    runners: Iterable[RunnerClass], platforms: Iterable[Platform]
) -> list[tuple[Platform, RunnerClass, RunnerClass]]:
    """Each platform's V1 runner with the GPU runner of its name."""
    found = [r for r in runners if r.role == "runner" and r.api == "V1"]
    shared = {runner.name: runner for runner in found if not runner.platform}
    pairs = []
    for platform in platforms:
        for runner in found:
            gpu = shared.get(runner.name.replace(platform.name, "GPU"))
            if runner.platform == platform.folder and gpu is not None and platform.name in runner.name:
                pairs.append((platform, runner, gpu))
    return pairs


def compare(
    tree: ClassTree,
    runners: Sequence[RunnerClass],
    platforms: Sequence[Platform],
    interface: Collection[str],
    own: str = "vllm_omni",
    older: Sequence[ClassTree] = (),
) -> tuple[Item, ...]:
    """Every item of every platform. `interface` has what vLLM's own model interface has: asking for it isn't omni's.

    `older` are the same trees over other versions of vLLM: a statement that any of them has is not omni's either.
    """
    found: list[Item] = []
    pairs = counterparts(runners, platforms)
    names = {f"{r.path}:{r.name}" for r in runners if r.role == "runner"}
    sides: dict[str, EffectiveClass | None] = {}

    def side(runner: RunnerClass) -> EffectiveClass | None:
        name = f"{module_name(runner.path)}.{runner.name}"
        if name not in sides:
            cls = tree.find(name)
            sides[name] = EffectiveClass(tree, cls, own) if cls is not None else None
        return sides[name]

    pairs += _renamed(runners, platforms, pairs, side)
    for platform, ours, gpu in pairs:
        here, there = side(ours), side(gpu)
        if here is not None and there is not None:
            found += _Pair(platform, here, there, names, interface, older).items()
    return tuple(dict.fromkeys(found))


def _renamed(
    runners: Sequence[RunnerClass],
    platforms: Sequence[Platform],
    pairs: Collection[tuple[Platform, RunnerClass, RunnerClass]],
    side: Callable[[RunnerClass], EffectiveClass | None],
) -> list[tuple[Platform, RunnerClass, RunnerClass]]:
    """Platform runners of other names, each with the GPU runner left over that it shares most methods with."""

    def methods(runner: RunnerClass) -> set[str]:
        effective = side(runner)
        return set(effective.cls.methods()) if effective is not None else set()

    found = []
    v1 = [r for r in runners if r.role == "runner" and r.api == "V1"]
    for platform in platforms:
        taken = {runner for known, *both in pairs if known is platform for runner in both}
        left = [r for r in v1 if not r.platform and r not in taken]
        for ours in (r for r in v1 if r.platform == platform.folder and r not in taken):
            scores = sorted(((len(methods(ours) & methods(gpu)), gpu.name, gpu) for gpu in left), reverse=True)[:2]
            if scores and scores[0][0] >= _RENAMED and (len(scores) == 1 or scores[0][0] > scores[1][0]):
                found.append((platform, ours, scores[0][2]))
    return found


class _Pair:
    """One platform class and its GPU counterpart."""

    def __init__(
        self,
        platform: Platform,
        ours: EffectiveClass,
        gpu: EffectiveClass,
        runners: Collection[str],
        interface: Collection[str],
        older: Sequence[ClassTree],
    ) -> None:
        self.platform, self.ours, self.gpu = platform, ours, gpu
        self.runners, self.interface, self.older = runners, interface, older
        self._words: dict[str, set[str]] = {}
        self.here = Place(ours.cls.module.path, "", ours.cls.short, ours.cls.node.lineno)

    def items(self) -> Iterator[Item]:
        yield from self._bases()
        yield from self._methods()
        for name, (cls, function) in self.gpu.methods.items():
            theirs = self.ours.methods.get(name)
            if theirs is None or theirs[1] is function:
                continue
            if cls.name in self._said_elsewhere and theirs[0] is not self.ours.cls:
                continue
            if theirs[0] in self.gpu.order:
                continue  # said with the methods
            yield from self._written_anew(name, (cls, function), theirs)
        yield from self._functions()
        yield from self._fields()
        yield from self._arities()

    @cached_property
    def _said_elsewhere(self) -> set[str]:
        """What the GPU class has through another runner, which is a counterpart of its own."""
        others = [c for c in self.gpu.order[1:] if f"{c.module.path}:{c.short}" in self.runners]
        return {cls.name for other in others for cls in self.gpu.tree.order(other.name)}

    def _item(
        self, kind: Kind, name: str, gpu: Place, state: State, sure: Sure, why: str, place: Place | None = None
    ) -> Item:
        return Item(kind, name, self.platform.folder, self.ours.cls.short, gpu, place or self.here, state, sure, why)

    # --- bases -------------------------------------------------------------------------------------------------------

    @cached_property
    def _missing_bases(self) -> list[ClassNode]:
        have = {cls.name for cls in self.ours.order}
        return [cls for cls in self.gpu.order[1:] if cls.name not in have and cls.name not in self._said_elsewhere]

    def _bases(self) -> Iterator[Item]:
        missing = {cls.name for cls in self._missing_bases}
        gpu = Place(self.gpu.cls.module.path, "", self.gpu.cls.short, self.gpu.cls.node.lineno)
        for cls in self.gpu.order[1:]:
            if cls.name in self._said_elsewhere:
                continue
            inherited = cls.name not in missing
            methods = cls.methods()
            if inherited:
                yield self._item("base", cls.short, gpu, "inherits", "certain", "in its method resolution order")
            elif methods and methods.keys() <= self.ours.methods.keys():
                yield self._item("base", cls.short, gpu, "carries", "likely", f"has all methods of {cls.short} itself")
            else:
                why = f"{len(methods)} method{'s' * (len(methods) != 1)} of {cls.short}"
                yield self._item("base", cls.short, gpu, "lacks", "certain", why)

    # --- methods -----------------------------------------------------------------------------------------------------

    @cached_property
    def missing(self) -> dict[str, tuple[ClassNode, FunctionNode]]:
        """Methods of ours on the GPU side that the platform's class does not have from our tree."""
        return {name: found for name, found in self.gpu.methods.items() if name not in self.ours.methods}

    def _methods(self) -> Iterator[Item]:
        from_bases = {cls.name for cls in self._missing_bases}
        missing = self.missing.items()
        called = {callee for name, (_, f) in missing for callee in self.gpu.uses(f).calls if callee != name}
        wanted = {name: function for function in self.ours.every_function() for name in self.ours.uses(function).needed}
        for name, (cls, function) in self.gpu.methods.items():
            if cls.name in self._said_elsewhere:
                continue
            gpu = Text(cls.module, cls.short, function).place
            if name not in self.missing:
                theirs = self.ours.methods[name]
                same = theirs[1] is function
                place = Text(theirs[0].module, theirs[0].short, theirs[1]).place
                if not same and theirs[0] in self.gpu.order:
                    why = f"it runs {theirs[0].short}.{name}, without the override"
                    yield self._item("method", name, gpu, "lacks", "likely", why)
                    continue
                why = f"from {theirs[0].short}" if same else "writes its own"
                yield self._item("method", name, gpu, "inherits" if same else "carries", "certain", why, place)
                continue
            upstream = self.ours.upstream(name)
            if name in wanted and upstream is None and self.ours.tree.has("vllm"):
                why = f"{wanted[name].name} calls it, and nothing defines it"
                yield self._item("method", name, gpu, "lacks", "certain", why)
            elif cls.name in from_bases or name in called:
                continue  # said with the base, or with the method that calls it
            else:
                yield self._absent(name, cls, function, gpu, upstream)

    def _absent(self, name: str, cls: ClassNode, function: FunctionNode, gpu: Place, upstream: Text | None) -> Item:
        region = self._region(function)
        texts = [s.header for node in region for s in statement_of(node).walk() if len(s.words) > 3]
        have = sum(text in self._all_headers for text in texts)
        if texts and have >= INLINE * len(texts):
            return self._item("method", name, gpu, "carries", "likely", f"{have} of its {len(texts)} statements inline")
        only = next((word for word in self.platform.gpu_only if any(word in text for text in texts)), "")
        if only:
            return self._item("method", name, gpu, "lacks", "unsure", f"it uses {only}, which may be for GPUs only")
        asked = {probe for node in region for probe in self.gpu.uses(node).probes} - set(self.interface)
        if asked and asked <= self._all_probes:
            why = f"it asks the model for {', '.join(sorted(asked))}, as another method does here"
            return self._item("method", name, gpu, "lacks", "unsure", why)
        helpers = len(region) - 1
        why = f"it runs {upstream.cls}.{name} instead" if upstream else "no class of it has the method"
        why += f"; asks the model for {', '.join(sorted(asked))}" if asked else ""
        return self._item("method", name, gpu, "lacks", "likely", why + (f"; {helpers} helpers too" if helpers else ""))

    def _region(self, function: FunctionNode) -> list[FunctionNode]:
        """A GPU method and what it calls that the platform lacks too."""
        found: dict[int, FunctionNode] = {}
        waiting = [function]
        while waiting:
            node = waiting.pop()
            if id(node) not in found:
                found[id(node)] = node
                waiting += [self.missing[name][1] for name in self.gpu.uses(node).calls if name in self.missing]
        return list(found.values())

    @cached_property
    def _all_probes(self) -> set[str]:
        every = [self.ours.uses(function) for function in self.ours.every_function()]
        return {name for uses in every for name in [*uses.probes, *uses.read]}

    @cached_property
    def _all_headers(self) -> set[str]:
        return {self.platform.translate(s.header) for f in self.ours.every_function() for s in statement_of(f).walk()}

    # --- what both sides write ---------------------------------------------------------------------------------------

    def _written_anew(
        self, name: str, gpu: tuple[ClassNode, FunctionNode], ours: tuple[ClassNode, FunctionNode]
    ) -> Iterator[Item]:
        text = Text(gpu[0].module, gpu[0].short, gpu[1])
        place = Text(ours[0].module, ours[0].short, ours[1]).place
        upstream = self.gpu.upstream(name)
        reached = self.ours.reach(name)
        said: dict[int, State] = {}
        for item in [*self._probes(text, place, upstream, reached), *self._calls(text, place, reached)]:
            if said.get(item.gpu.line) != "lacks":
                said[item.gpu.line] = item.state
            yield item
        yield from self._keywords(text, place, upstream, ours[1])
        if upstream is not None or self.ours.tree.has("vllm"):
            yield from self._statements(text, Text(ours[0].module, ours[0].short, ours[1]), upstream, reached, said)

    def _probes(
        self, gpu: Text, place: Place, upstream: Text | None, reached: Sequence[FunctionNode]
    ) -> Iterator[Item]:
        theirs: set[str] = set()
        if upstream is not None and not isinstance(upstream.node, ast.ClassDef):
            theirs = {*self.gpu.uses(upstream.node).probes, *self.gpu.uses(upstream.node).read}
        have = {name for node in reached for uses in [self.ours.uses(node)] for name in [*uses.probes, *uses.read]}
        uses = self.gpu.uses(gpu.node)  # type: ignore[arg-type]
        for name, line in {**uses.read, **uses.probes}.items():
            if name in self.interface or name in theirs:
                continue
            at = Place(gpu.module.path, gpu.cls, gpu.node.name, line)
            if name in have:
                yield self._item("probe", name, at, "carries", "certain", f"{place.name} asks too", place)
            elif name in self._all_probes:
                why = f"{place.name} does not ask, though another method does"
                yield self._item("probe", name, at, "lacks", "likely", why, place)
            else:
                yield self._item("probe", name, at, "lacks", "certain", "no method of it asks", place)

    def _calls(self, gpu: Text, place: Place, reached: Sequence[FunctionNode]) -> Iterator[Item]:
        have = {name for node in reached for name in [*self.ours.uses(node).calls, node.name]}
        own = {
            n
            for n, i in gpu.module.imports.items()
            if i.module.startswith(self.gpu.own) and i.name and i.name[0].islower()
        }
        for name, line in self.gpu.uses(gpu.node).calls.items():  # type: ignore[arg-type]
            if name not in (*self.gpu.methods, *own) or name in self.missing or name == gpu.node.name:
                continue
            if name not in have and self.gpu.upstream(name) is not None:
                continue  # the order of upstream's own steps differs between platforms
            at = Place(gpu.module.path, gpu.cls, gpu.node.name, line)
            state: State = "carries" if name in have else "lacks"
            why = f"{place.name} {'calls it too' if name in have else 'does not call it'}"
            yield self._item("call", name, at, state, "certain" if name in have else "likely", why, place)

    def _keywords(self, gpu: Text, place: Place, upstream: Text | None, ours: FunctionNode) -> Iterator[Item]:
        theirs = _parameters(upstream.node) if upstream is not None else set()
        mine = _parameters(ours)
        for name in sorted(_parameters(gpu.node) - theirs):
            if name in mine or ours.args.kwarg is not None:
                yield self._item("keyword", name, gpu.place, "carries", "certain", f"{place.name} takes it", place)
            else:
                why = f"{place.name} does not take this parameter"
                sure: Sure = "likely" if self.gpu.tree.has("vllm") else "unsure"
                yield self._item("keyword", name, gpu.place, "lacks", sure, why, place)

    def _statements(
        self, gpu: Text, ours: Text, upstream: Text | None, reached: Sequence[FunctionNode], said: Mapping[int, State]
    ) -> Iterator[Item]:
        base = align(gpu, upstream) if upstream is not None else None
        pairs = align(gpu, ours)
        headers = {self.platform.translate(s.header) for f in reached for s in statement_of(f).walk()}
        words = {word for header in headers for word in _NAME.findall(header)}
        headers |= self._older_headers(gpu.node.name)
        for run in _runs(pairs.top, lambda s: self._lacks(s, base, pairs, headers, said)):
            text = " ".join(run.headers)
            names = {name for s in run.statements for name in _signals(s)}
            if any(run.first <= line <= run.last for line in said) or names & self.missing.keys():
                continue  # an item of its own says it
            new = names - words
            if upstream is not None and base is not None and base.is_copy:
                new -= self._words_of(upstream)
            only = next((word for word in self.platform.gpu_only if word in text), "")
            why = f"{ours.node.name} has nothing like it" if new else f"{ours.node.name} may do it in other words"
            if only:
                why = f"it uses {only}, which may be for GPUs only"
            at = Place(gpu.module.path, gpu.cls, gpu.node.name, run.first)
            if len(run.statements) == 1 and base is not None and run.statements[0] in base.pairs:
                why = f"{ours.node.name} has upstream's statement, or another version's"
            sure: Sure = "unsure" if only or not new else "likely"
            yield self._item("statement", run.headers[0], at, "lacks", sure, why, ours.place)

    def _lacks(
        self,
        s: Statement,
        base: Alignment | None,
        pairs: Alignment,
        headers: Collection[str],
        said: Mapping[int, State],
    ) -> bool | None:
        """Whether a statement is omni's on the GPU side and the platform's method has none like it."""
        if base is not None:
            theirs = base.pairs.get(s)
            if theirs is not None and theirs.header == s.header:
                return False
        mine = pairs.pairs.get(s)
        if len(s.words) <= 3 or isinstance(s.node, (ast.Import, ast.ImportFrom)):
            return None
        if any(s.first <= line <= s.last and state == "carries" for line, state in said.items()):
            return False
        if self.platform.translate(s.header) in headers:
            return False
        if mine is None:
            return True
        edited = self.platform.translate(mine.header)
        if base is not None and base.pairs.get(s) is not None:
            return edited == base.pairs[s].header  # the edit of ours is missing
        return likeness(s, mine) < ALIKE

    def _older_headers(self, method: str) -> set[str]:
        """Statements of a method in the other versions of upstream."""
        found: set[str] = set()
        for tree in self.older:
            upstream = EffectiveClass(tree, self.gpu.cls, self.gpu.own).upstream(method)
            found |= {s.header for s in statement_of(upstream.node).walk()} if upstream is not None else set()
        return found

    def _words_of(self, upstream: Text) -> set[str]:
        """Every name in upstream's module: what has only such names may be of another version of it."""
        if upstream.module.path not in self._words:
            self._words[upstream.module.path] = set(_NAME.findall(upstream.module.text))
        return self._words[upstream.module.path]

    # --- functions of the modules ------------------------------------------------------------------------------------

    def _functions(self) -> Iterator[Item]:
        mine = module_functions(self.ours.cls)
        for name, function in module_functions(self.gpu.cls).items():
            ours = mine.get(name)
            if ours is None or ours is function:
                continue
            gpu, here = Text(self.gpu.cls.module, "", function), Text(self.ours.cls.module, "", ours)
            yield from self._statements(gpu, here, None, [ours], {})

    # --- what passes between methods ---------------------------------------------------------------------------------

    def _tuples(self, side: EffectiveClass) -> dict[str, ClassNode]:
        """The named tuples of our tree that a class's module defines or imports."""
        module = side.cls.module
        names = [*module.classes, *(n for n, i in module.imports.items() if i.module.startswith(f"{side.own}."))]
        found = {name: side.tree.find(module.qualify(ast.Name(name)) or "") for name in names}
        return {name: cls for name, cls in found.items() if cls is not None and is_named_tuple(cls.node)}

    def _fields(self) -> Iterator[Item]:
        mine = self._tuples(self.ours)
        for name, cls in self._tuples(self.gpu).items():
            upstream = next(
                (
                    c.module.classes.get(name)
                    for c in self.gpu.tree.order(self.gpu.cls.name)
                    if c.package != self.gpu.own and name in c.module.classes
                ),
                None,
            )
            theirs = fields_of(upstream) if upstream is not None else {}
            other = mine.get(name)
            used = other is not None or re.search(rf"\b{name}\(", self.ours.cls.module.text)
            if not used or (upstream is None and other is None):
                continue
            have = fields_of(other.node) if other is not None else {}
            at = Place(other.module.path, "", name, other.node.lineno) if other is not None else self.here
            for field, (line, _) in fields_of(cls.node).items():
                if field in theirs:
                    continue
                gpu = Place(cls.module.path, "", name, line)
                if field in have:
                    place = Place(at.path, "", name, have[field][0])
                    yield self._item("field", field, gpu, "carries", "certain", f"a field of its {name} too", place)
                else:
                    known = upstream is not None or self.gpu.tree.has("vllm")
                    sure: Sure = "likely" if known else "unsure"
                    why = f"{name} has no such field" + ("" if known else ", which may be upstream's")
                    yield self._item("field", field, gpu, "lacks", sure, why, at)

    def _arities(self) -> Iterator[Item]:
        tuples = self._tuples(self.ours)
        state = {name: len(fields_of(cls.node)) for name, cls in tuples.items()}
        for cls in self.ours.order:
            if f"{cls.module.path}:{cls.short}" not in self.runners or cls in self.gpu.order:
                continue
            for function in cls.methods().values():
                here = Place(cls.module.path, cls.short, function.name, function.lineno)
                for found in unpackings(function):
                    method = found.value.removeprefix("self.")
                    target = self.ours.methods.get(method)
                    counts = returned(target[1]) if target is not None and found.value != method else {}
                    if counts and found.count not in counts:
                        gpu = Text(target[0].module, target[0].short, target[1]).place  # type: ignore[index]
                        why = f"{found.count} names take what returns {' or '.join(map(str, counts))} values"
                        at = Place(here.path, here.cls, here.name, found.line)
                        yield self._item("arity", method, gpu, "lacks", "certain", why, at)
                    sizes = {n for name, n in state.items() if self._is_state(method, name)}
                    if sizes and found.count not in sizes:
                        why = f"{found.count} names take a tuple of {' or '.join(map(str, sorted(sizes)))} fields"
                        at = Place(here.path, here.cls, here.name, found.line)
                        yield self._item("arity", method, at, "lacks", "certain", why, at)
        yield from self._returns()

    def _is_state(self, attribute: str, name: str) -> bool:
        """Whether an attribute is set to a named tuple by the platform's class."""
        return re.search(rf"self\.{attribute} = {name}\(", self.ours.cls.module.text) is not None

    def _returns(self) -> Iterator[Item]:
        """Methods that both sides write and that return tuples of different lengths, where upstream's do not."""
        for name, (cls, function) in self.gpu.methods.items():
            ours = self.ours.methods.get(name)
            if (
                ours is None
                or ours[1] is function
                or (cls.name in self._said_elsewhere and ours[0] is not self.ours.cls)
            ):
                continue
            theirs, mine = returned(function), returned(ours[1])
            if not theirs or not mine or theirs.keys() == mine.keys():
                continue
            place = Place(ours[0].module.path, ours[0].short, name, min(mine.values()))
            gpu = Place(cls.module.path, cls.short, name, min(theirs.values()))
            above = [side.upstream(name) for side in (self.gpu, self.ours)]
            counts = [set(returned(t.node)) if t else set() for t in above]  # type: ignore[arg-type]
            if counts[0] - counts[1] == theirs.keys() - mine.keys() and counts[0] != counts[1]:
                continue
            why = f"returns {sorted(mine)} values, on the GPU {sorted(theirs)}"
            yield self._item("arity", name, gpu, "lacks", "likely", why, place)


@dataclass(frozen=True)
class _Run:
    """Statements in a row: their lines, and the headers of all that they hold."""

    first: int
    last: int
    statements: tuple[Statement, ...]

    @property
    def headers(self) -> tuple[str, ...]:
        return tuple(s.header for s in self.statements)


def _runs(body: Sequence[Statement], lacks: Callable[[Statement], bool | None]) -> Iterator[_Run]:
    """Statements in a row that are lacking altogether; of one that is there in part, its bodies are looked through.

    `lacks` is None for a statement that says too little to be looked for: it goes with its neighbours.
    """
    taken: list[Statement] = []

    def run() -> Iterator[_Run]:
        found = tuple(s for top in taken for s in top.walk())
        if any(lacks(s) for s in found):
            yield _Run(taken[0].first, taken[-1].end, found)
        taken.clear()

    for statement in body:
        if all(lacks(s) is not False for s in statement.walk()):
            taken.append(statement)
            continue
        yield from run()
        if lacks(statement):
            yield _Run(statement.first, statement.last, (statement,))
        for inner in statement.parts.values():
            yield from _runs(inner, lacks)
    yield from run()


def _signals(statement: Statement) -> set[str]:
    """What a statement is for, by name: attributes, calls, keywords and keys; local variables say nothing."""
    found: set[str] = set()
    for node in walk(statement.node):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)
    return {name for name in found if _NAME.fullmatch(name)} - _COMMON


def _parameters(node: ast.AST) -> set[str]:
    arguments: ast.arguments = node.args  # type: ignore[attr-defined]
    return {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
