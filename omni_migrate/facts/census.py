"""Census of model classes: which class of a tree answers which capability, how, and where.

A capability is an attribute of a model that a runner probes (`has_preprocess`, `talker_mtp`, ...). Python's own
rules decide who has it: an instance's attribute goes before the class's, the class's before its bases' in MRO order.
Files are searched as bytes first; those that can matter are parsed once, with `ast`, in this process: a pool of two
takes 0.22 s for what one process parses in 0.30 s, and a fork beside a progress bar's thread is not safe.
"""

from __future__ import annotations

import ast
import builtins
import gc
import re
import warnings
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from omni_migrate.facts.linearization import bases_first, c3
from omni_migrate.facts.syntax import children, parse, walk
from omni_migrate.plan.workspace import Workspace
from omni_migrate.progress import Progress, SilentProgress

CLASS_ATTRIBUTE = "class attribute"
METHOD = "method"
PROPERTY = "property"
INSTANCE_ATTRIBUTE = "instance attribute"
ASSIGNED = "assigned from outside"
FORWARDS = "forwards"

MODELS_FOLDER = "model_executor/models"

# Bases outside the tree that make a class a torch module; pydantic's BaseModel is none.
_MODULE_BASE = re.compile(r"^torch\.nn\.|Module$|(?<!\bBase)Model$|For[A-Z]\w+$")
# The registries of the autoregressive and generation runners; the diffusion engine has its own.
_REGISTRIES = ("ModelRegistry", "OmniModelRegistry")
_REGISTER_CALL = b"ModelRegistry.register_model("

_HEADER = re.compile(rb"class[ \t]+(\w+)[ \t]*(?:\[[^\]]*\])?\(([^:]*)")
_IMPORT = re.compile(rb"import[ \t]+(\([^)]*\)|[^\n]*)")
_IMPORT_AS = re.compile(rb"(\w+)\s+as\s+(\w+)")
_ALIAS = re.compile(rb"\n(_*[A-Z]\w*)[ \t]*(?::[^=\n]*)?=[ \t]*([^\n]*)")
_INDENTED_ALIAS = re.compile(rb"\n[ \t]+(\w+)[ \t]*(?::[^=\n]*)?=[ \t]*([^\n]*)")
_WORD = re.compile(rb"\w+")
_HEAD = re.compile(rb"(?<![.\w])[A-Za-z_]\w*")
_WORD_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") | set(range(128, 256))
_BUILTINS = frozenset(name.encode() for name in dir(builtins))


@dataclass(frozen=True)
class Definition:
    """One way in which a class comes to have a capability.

    `how` is one of this module's constants; `path` and `line` say where it is written, which for an inherited
    capability is in `owner`, a base. `value` is the text of a literal ("False", "None", "3") and None for anything
    else; a property that only returns a literal has that literal's.
    """

    capability: str
    how: str
    path: str
    line: int
    value: str | None
    owner: str

    @property
    def off(self) -> bool:
        """Present, but False or None: `getattr(model, name, False)` doesn't take the branch, `hasattr` does."""
        return self.value in ("False", "None")


@dataclass(frozen=True)
class ModelClass:
    """A class that can be the model of a runner.

    `bases` are the base expressions as written, `outside` the full names of those bases, direct or not, that the
    tree doesn't hold. `definitions` are those that can be in effect on an instance, so neither a class attribute
    that `__init__` always overwrites nor a base's attribute that the class redefines. `architectures` are the names
    under which the model registry knows the class.
    """

    name: str
    path: str
    line: int
    bases: tuple[str, ...]
    outside: tuple[str, ...]
    definitions: tuple[Definition, ...]
    architectures: tuple[str, ...]

    def of(self, capability: str) -> tuple[Definition, ...]:
        """The definitions of one capability."""
        return tuple(item for item in self.definitions if item.capability == capability)


@dataclass(frozen=True)
class Census:
    """The model classes of a tree by name, path and line; `unreadable` are files that it needed, with the reason."""

    classes: tuple[ModelClass, ...]
    unreadable: tuple[tuple[str, str], ...]

    def answering(self, capability: str) -> tuple[ModelClass, ...]:
        """Classes for which a probe by value can be true: a definition in effect is not off.

        A class that forwards unknown names (`__getattr__`) is among them, for nobody can tell that it doesn't.
        """
        return tuple(model for model in self.classes if any(not item.off for item in model.of(capability)))

    def having(self, capability: str) -> tuple[ModelClass, ...]:
        """Classes for which `hasattr` can be true: those that answer, and those where it is off."""
        return tuple(model for model in self.classes if model.of(capability))

    def named(self, class_name: str) -> tuple[ModelClass, ...]:
        """Model classes of that name; none if the tree has none, several if two files have one each."""
        return tuple(model for model in self.classes if model.name == class_name)


def take_census(
    workspace: Workspace,
    package: str,
    capabilities: Collection[str],
    class_names: Collection[str] = (),
    progress: Progress | None = None,
    common: Collection[str] = (),
) -> Census:
    """Find the model classes below `package`, a folder of the workspace, and who has which of `capabilities`.

    Listed are the classes that the model registry names, and the torch modules that have a capability or whose name
    is in `class_names`. Capabilities that are `common` words are noted on the classes that the others lead to; nothing
    is parsed for them alone. A file that cannot be read or parsed raises nothing, it is in `Census.unreadable`.
    """
    collecting = gc.isenabled()
    gc.disable()  # syntax trees hold no garbage yet, and collecting over them costs a quarter of the time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser warns of odd escapes, which are not our user's business
            tree = _Tree(workspace, package, frozenset(capabilities), frozenset(common))
            return tree.census(frozenset(class_names), progress or SilentProgress())
    finally:
        if collecting:
            gc.enable()


@dataclass(frozen=True)
class _ModuleName:
    """A name bound to a module."""

    dotted: str


@dataclass(frozen=True)
class _ImportedName:
    """A name bound by `from module import name`."""

    module: str
    name: str


@dataclass(eq=False)
class _Scope:
    """Names bound in a module, class or function; several bindings where branches bind the same name."""

    module: str
    parent: _Scope | None = None
    names: dict[str, list[_Binding]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def bind(self, name: str, binding: _Binding, certain: bool) -> None:
        if certain:
            self.names[name] = [binding]
        else:
            self.names.setdefault(name, []).append(binding)


@dataclass(eq=False)
class _Class:
    """A class as written. Each definition goes with whether it always runs: class body, `__init__`'s own block."""

    name: str
    path: str
    line: int
    base_expressions: list[ast.expr]
    outer: _Scope
    scope: _Scope
    own: list[tuple[Definition, bool]] = field(default_factory=list)
    has_forward: bool = False
    forwards_at: int = 0


_Binding: TypeAlias = "_Class | _ModuleName | _ImportedName | ast.expr | None"
# What an expression stands for; a string is the full name of something outside the tree.
_Entity: TypeAlias = "_Class | _ModuleName | str"


@dataclass
class _Parsed:
    """What the census keeps of one file."""

    scope: _Scope
    classes: list[_Class] = field(default_factory=list)
    patches: list[tuple[ast.expr, _Scope, Definition]] = field(default_factory=list)
    registered: list[tuple[str, ast.expr, _Scope]] = field(default_factory=list)


@dataclass(frozen=True)
class _Frame:
    """Where a statement stands: its scope, the class around it, and what `self` and `cls` are called there."""

    scope: _Scope
    owner: _Class | None = None
    in_body: bool = False
    instance: str | None = None
    klass: str | None = None
    certain: bool = True


class _Reader:
    """Walks one file's statements; of functions, only those that mention something of interest."""

    def __init__(self, path: str, module: str, data: bytes, capabilities: frozenset[str], interest: list[int]) -> None:
        self.path = path
        self.capabilities = capabilities
        self.lines = _line_numbers(data, interest)
        self.parsed = _Parsed(_Scope(module))
        self.block(parse(data).body, _Frame(self.parsed.scope))

    def of_interest(self, node: ast.stmt) -> bool:
        index = bisect_left(self.lines, node.lineno)
        return index < len(self.lines) and self.lines[index] <= (node.end_lineno or node.lineno)

    def block(self, body: Iterable[ast.stmt], frame: _Frame) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.class_definition(node, frame)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.function(node, frame)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports(node, frame)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                self.assignment(node, frame)
            elif inner := _blocks(node):
                if self.of_interest(node):
                    for header in children(node):
                        if isinstance(header, (ast.expr, ast.withitem)):
                            self.stores(header, {}, replace(frame, certain=False))
                always = frame.certain and isinstance(node, (ast.With, ast.AsyncWith))
                for statements in inner:
                    self.block(statements, replace(frame, certain=always))
            elif self.of_interest(node):
                self.stores(node, {}, frame)

    def class_definition(self, node: ast.ClassDef, frame: _Frame) -> None:
        scope = _Scope(frame.scope.module, frame.scope)
        found = _Class(node.name, self.path, node.lineno, node.bases, frame.scope, scope)
        self.parsed.classes.append(found)
        self.bind(node.name, found, node, None, frame)
        self.block(node.body, _Frame(scope, owner=found, in_body=True))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: _Frame) -> None:
        decorators = {_last_name(item) for item in node.decorator_list}
        owner = frame.owner if frame.in_body else None
        if owner is not None:
            owner.has_forward |= node.name == "forward"
            if node.name in ("__getattr__", "__getattribute__"):
                owner.forwards_at = node.lineno
            if node.name in self.capabilities and not decorators & {"setter", "deleter"}:
                is_property = any(name.endswith("property") for name in decorators)
                value = _returned_literal(node) if is_property else None
                self.define(owner, node.name, PROPERTY if is_property else METHOD, node, value, frame.certain)
        frame.scope.bind(node.name, None, frame.certain)
        if not self.of_interest(node):
            return
        scope = _Scope(frame.scope.module, frame.scope)
        parameters = [item.arg for item in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if owner is None:
            instance = None if frame.instance in parameters else frame.instance
            klass = None if frame.klass in parameters else frame.klass
            inner = _Frame(scope, frame.owner, instance=instance, klass=klass, certain=False)
        else:
            first = parameters[0] if parameters and "staticmethod" not in decorators else None
            of_class = "classmethod" in decorators or node.name in ("__new__", "__init_subclass__")
            always = frame.certain and node.name == "__init__"
            inner = _Frame(
                scope,
                owner,
                instance=None if of_class else first,
                klass=first if of_class else None,
                certain=always,
            )
        self.block(node.body, inner)

    def imports(self, node: ast.Import | ast.ImportFrom, frame: _Frame) -> None:
        for alias in node.names:
            binding: _Binding
            if isinstance(node, ast.Import):
                name = alias.asname or alias.name.partition(".")[0]
                binding = _ModuleName(alias.name if alias.asname else name)
            else:
                name = alias.asname or alias.name
                source = self.absolute(node, frame.scope.module)
                if name == "*":
                    frame.scope.stars.append(source)
                    continue
                binding = _ImportedName(source, alias.name)
            self.bind(name, binding, node, None, frame)

    def absolute(self, node: ast.ImportFrom, module: str) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        keep = len(parts) - node.level + self.path.endswith("/__init__.py")
        return ".".join([*parts[: max(keep, 0)], *([node.module] if node.module else [])])

    def assignment(self, node: ast.Assign | ast.AnnAssign, frame: _Frame) -> None:
        if node.value is None:
            return  # a bare annotation makes no attribute
        pairs = [
            pair
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for pair in _pairs(target, node.value)
        ]
        for target, value in pairs:
            if isinstance(target, ast.Name):
                branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                self.bind(target.id, _reference(branches[0]), node, value, frame)
                for other in branches[1:]:
                    frame.scope.bind(target.id, _reference(other), certain=False)
        if self.of_interest(node):
            self.stores(node, {id(target): value for target, value in pairs}, frame)

    def bind(self, name: str, binding: _Binding, node: ast.stmt, value: ast.expr | None, frame: _Frame) -> None:
        frame.scope.bind(name, binding, frame.certain)
        if frame.in_body and frame.owner is not None and name in self.capabilities:
            self.define(frame.owner, name, CLASS_ATTRIBUTE, node, _literal(value), frame.certain)

    def stores(self, root: ast.AST, values: dict[int, ast.expr | None], frame: _Frame) -> None:
        """What `root` stores to an attribute named like a capability, as a target or through setattr and its kin."""
        for node in walk(root):
            if isinstance(node, ast.Attribute):
                if node.attr in self.capabilities and isinstance(node.ctx, ast.Store):
                    self.store(node.value, node.attr, values.get(id(node)), node, frame)
            elif isinstance(node, ast.Call):
                target, name, value = _set_by_call(node)
                if target is not None and name in self.capabilities:
                    self.store(target, name, value, node, frame)
                elif _is_registration(node) and isinstance(node.args[0], ast.Constant):
                    self.parsed.registered.append((str(node.args[0].value), node.args[1], frame.scope))

    def store(self, target: ast.expr, name: str, value: ast.expr | None, node: ast.expr, frame: _Frame) -> None:
        if frame.owner is not None and _is_name(target, frame.instance):
            self.define(frame.owner, name, INSTANCE_ATTRIBUTE, node, _literal(value), frame.certain)
        elif frame.owner is not None and (_is_name(target, frame.klass) or _is_class_of(target, frame.instance)):
            self.define(frame.owner, name, CLASS_ATTRIBUTE, node, _literal(value), certain=False)
        else:
            definition = Definition(name, ASSIGNED, self.path, node.lineno, _literal(value), "")
            self.parsed.patches.append((target, frame.scope, definition))

    def define(
        self, owner: _Class, name: str, how: str, node: ast.stmt | ast.expr, value: str | None, certain: bool
    ) -> None:
        owner.own.append((Definition(name, how, self.path, node.lineno, value, owner.name), certain))


class _Tree:
    """The package's files, parsed when needed, and what the names in them stand for."""

    def __init__(
        self, workspace: Workspace, package: str, capabilities: frozenset[str], common: frozenset[str]
    ) -> None:
        self.workspace = workspace
        self.folder = package.strip("/")
        self.capabilities = capabilities
        self.common = common
        self.data: dict[str, bytes] = {}
        self.unreadable: dict[str, str] = {}
        self.paths: dict[str, str] = {}  # by module
        self.modules: dict[str, str] = {}  # by path
        self.folders: set[str] = set()  # modules that hold others, with or without an __init__.py
        self.parsed: dict[str, _Parsed | None] = {}
        self.orders: dict[_Class, list[_Class | str]] = {}
        self.direct_bases: dict[_Class, list[_Class | str]] = {}
        self.looking_up: set[tuple[_Scope, str]] = set()

    def census(self, class_names: frozenset[str], progress: Progress) -> Census:
        files = list(self.workspace.python_files((self.folder + "/",)))
        with progress.task("Looking for model classes", len(files)) as advance:
            for path in files:
                self.read(path)
            first = self.first_files(class_names)
            advance(len(files) - len(first))
            for path in first:
                self.parse(path)
                advance(1)
        architectures = self.architectures()
        self.apply_patches()
        for path in self.files_below(found.name for found in self.classes() if found.own or found.forwards_at):
            self.parse(path)
        models = [
            model
            for found in self.classes()
            if (model := self.model(found, architectures.get(found, ()), class_names)) is not None
        ]
        models.sort(key=lambda model: (model.name, model.path, model.line))
        return Census(tuple(models), tuple(sorted(self.unreadable.items())))

    def read(self, path: str) -> None:
        try:
            data = self.workspace.read(path)
        except OSError as error:
            self.unreadable[path] = error.strerror or str(error)
            return
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self.data[path] = data
        above = len(self.folder) - len(self.folder.rpartition("/")[2])
        module = path[above : -len(".py")].replace("/", ".").removesuffix(".__init__")
        self.modules[path] = module
        self.paths[module] = path
        while module := module.rpartition(".")[0]:
            self.folders.add(module)

    def first_files(self, class_names: frozenset[str]) -> list[str]:
        """Files that mention a capability, register a model, forward attributes or hold a class asked for by name."""
        words = {name.encode() for name in self.capabilities - self.common}
        stems = _stems(words)
        headers = [b"class " + name.encode() for name in class_names]
        models = f"{self.folder}/{MODELS_FOLDER}/"
        files = []
        for path, data in self.data.items():
            if (
                any(True for stem in stems for _ in _mentions(data, stem, words))
                or (path.startswith(models) and b"def __getattr" in data)
                or path == models + "registry.py"
                or _REGISTER_CALL in data
                or any(header in data for header in headers)
            ):
                files.append(path)
        return files

    def parse(self, path: str) -> _Parsed | None:
        if path not in self.parsed:
            data = self.data[path]
            words = {name.encode() for name in self.capabilities}
            interest = [offset for stem in _stems(words) for offset in _mentions(data, stem, words)]
            interest += [match.start() for match in _HEADER.finditer(data)]
            interest += [match.start() for match in re.finditer(re.escape(_REGISTER_CALL), data)]
            try:
                reader = _Reader(path, self.modules[path], data, self.capabilities, interest)
            except (SyntaxError, ValueError) as error:
                where = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
                reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
                self.unreadable[path] = f"{reason}{where}"
                self.parsed[path] = None
            else:
                self.parsed[path] = reader.parsed
        return self.parsed[path]

    def files_parsed(self) -> Iterator[tuple[str, _Parsed]]:
        for path, parsed in sorted(self.parsed.items()):
            if parsed is not None:
                yield path, parsed

    def classes(self) -> Iterator[_Class]:
        for _, parsed in self.files_parsed():
            yield from parsed.classes

    def architectures(self) -> dict[_Class, tuple[str, ...]]:
        """Registered classes by the names they are registered under; parses the files that hold them."""
        registered: list[tuple[str, list[_Entity]]] = []
        registry = f"{self.folder}/{MODELS_FOLDER}/registry.py"
        for _, parsed in self.files_parsed():
            for name, target, scope in parsed.registered:
                dotted = _literal_string(target)
                registered.append((name, self.entities(dotted) if dotted else self.resolve(target, scope)))
        if self.parsed.get(registry) is not None:
            models = self.modules[registry].rpartition(".")[0]
            for name, place in _registry_table(ast.parse(self.data[registry])):
                registered.append((name, self.entities(f"{models}.{place}")))
        names: dict[_Class, set[str]] = {}
        for name, entities in registered:
            for entity in entities:
                if isinstance(entity, _Class):
                    names.setdefault(entity, set()).add(name)
        return {found: tuple(sorted(known)) for found, known in names.items()}

    def apply_patches(self) -> None:
        """Give each class what others assign to it; a target that is no class of the tree is passed over."""
        for _, parsed in list(self.files_parsed()):
            for target, scope, definition in parsed.patches:
                for entity in self.resolve(target, scope):
                    if isinstance(entity, _Class):
                        entity.own.append((replace(definition, owner=entity.name), False))

    def files_below(self, class_names: Iterable[str]) -> list[str]:
        """Files with a class that extends, by name and through aliases, one of the given classes."""
        headers = {path: found for path, data in self.data.items() if (found := _HEADER.findall(data))}
        known = {name for found in headers.values() for name, _ in found} | _BUILTINS
        derived: dict[bytes, list[tuple[bytes, str]]] = {}
        for path, data in self.data.items():
            imported: set[bytes] = set()
            for names in _IMPORT.findall(data):
                imported.update(_WORD.findall(names))
                for name, alias in _IMPORT_AS.findall(names):
                    derived.setdefault(name, []).append((alias, ""))
            assigned = _ALIAS.findall(data)
            heads = {head for _, bases in headers.get(path, ()) for head in _HEAD.findall(bases)}
            if heads - imported - known:
                assigned += _INDENTED_ALIAS.findall(data)
            for alias, value in assigned:
                for name in _WORD.findall(value):
                    derived.setdefault(name, []).append((alias, ""))
            for name, bases in headers.get(path, ()):
                for base in _WORD.findall(bases):
                    derived.setdefault(base, []).append((name, path))
        waiting = [name.encode() for name in class_names]
        seen = set(waiting)
        files = set()
        while waiting:
            for name, path in derived.get(waiting.pop(), ()):
                if path:
                    files.add(path)
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return sorted(files)

    def model(self, found: _Class, architectures: tuple[str, ...], class_names: frozenset[str]) -> ModelClass | None:
        order = self.order(found)
        definitions = tuple(self.in_effect(order))
        is_module = any(
            entity.has_forward if isinstance(entity, _Class) else _MODULE_BASE.search(entity) for entity in order
        )
        in_models = found.path.startswith(f"{self.folder}/{MODELS_FOLDER}/")
        answers = any(in_models or item.how != FORWARDS for item in definitions)
        if not architectures and not (is_module and (answers or found.name in class_names)):
            return None
        bases = tuple(ast.unparse(base) for base in found.base_expressions)
        outside = tuple(entity for entity in order if isinstance(entity, str))
        return ModelClass(found.name, found.path, found.line, bases, outside, definitions, architectures)

    def in_effect(self, order: list[_Class | str]) -> Iterator[Definition]:
        classes = [entity for entity in order if isinstance(entity, _Class)]
        forwards = next((found for found in classes if found.forwards_at), None)
        written = {item.capability for found in classes for item, _ in found.own}
        for capability in sorted(self.capabilities if forwards is not None else written):
            if capability in written:
                yield from _in_effect(classes, capability)
            elif forwards is not None:
                yield Definition(capability, FORWARDS, forwards.path, forwards.forwards_at, None, forwards.name)

    def order(self, found: _Class) -> list[_Class | str]:
        """The class and its bases in method resolution order; bases outside the tree are full names."""
        if found not in self.orders:
            for each in bases_first(found, self.orders, self.bases_in_tree, []):
                bases = self.bases(each)
                linear = [self.orders.get(base) if isinstance(base, _Class) else None for base in bases]
                orders = [order or [base] for order, base in zip(linear, bases, strict=True)]
                self.orders[each] = list(dict.fromkeys([each, *c3([*orders, bases])]))
        return self.orders[found]

    def bases_in_tree(self, found: _Class) -> list[_Class]:
        return [base for base in self.bases(found) if isinstance(base, _Class)]

    def bases(self, found: _Class) -> list[_Class | str]:
        """The direct bases, looked up once."""
        if found not in self.direct_bases:
            bases: list[_Class | str] = []
            for expression in found.base_expressions:
                for entity in self.resolve(expression, found.outer):
                    base = entity.dotted if isinstance(entity, _ModuleName) else entity
                    if base not in (found, "object", *bases):
                        bases.append(base)
            self.direct_bases[found] = bases
        return self.direct_bases[found]

    def entities(self, dotted: str) -> list[_Entity]:
        """What `package.module:Class` or `package.module.Class` stands for."""
        module, _, name = dotted.replace(":", ".").rpartition(".")
        return self.member(_ModuleName(module), name)

    def resolve(self, node: ast.expr, scope: _Scope) -> list[_Entity]:
        """What an expression can stand for. Of a call (a factory of bases), the classes that it is given."""
        if isinstance(node, ast.Name):
            return self.look_up(node.id, scope)
        if isinstance(node, ast.Attribute):
            return [found for entity in self.resolve(node.value, scope) for found in self.member(entity, node.attr)]
        if isinstance(node, ast.Subscript):
            return self.resolve(node.value, scope)
        if isinstance(node, ast.Call):
            given = [entity for argument in node.args for entity in self.resolve(argument, scope)]
            return [ast.unparse(node), *(entity for entity in given if isinstance(entity, _Class))]
        return [ast.unparse(node)]

    def look_up(self, name: str, scope: _Scope) -> list[_Entity]:
        inner: _Scope | None = scope
        while inner is not None:
            found = self.in_scope(name, inner)
            if found:
                return found
            inner = inner.parent
        return [name]

    def in_scope(self, name: str, scope: _Scope) -> list[_Entity]:
        """What the scope itself binds the name to, star imports included; nothing if it doesn't, or in a circle."""
        if (scope, name) in self.looking_up:
            return []
        self.looking_up.add((scope, name))
        try:
            if name not in scope.names:
                return [
                    entity
                    for star in scope.stars
                    if (parsed := self.module(star)) is not None
                    for entity in self.in_scope(name, parsed.scope)
                ]
            found: list[_Entity] = []
            for binding in scope.names[name]:
                if isinstance(binding, (_Class, _ModuleName)):
                    found.append(binding)
                elif isinstance(binding, _ImportedName):
                    found += self.member(_ModuleName(binding.module), binding.name)
                elif isinstance(binding, ast.expr):
                    found += self.resolve(binding, scope)
                else:
                    found.append(f"{scope.module}.{name}")
            return found
        finally:
            self.looking_up.discard((scope, name))

    def member(self, entity: _Entity, name: str) -> list[_Entity]:
        if isinstance(entity, _Class):
            return self.in_scope(name, entity.scope) or [f"{entity.name}.{name}"]
        if isinstance(entity, str):
            return [f"{entity}.{name}"]
        parsed = self.module(entity.dotted)
        found = self.in_scope(name, parsed.scope) if parsed is not None else []
        dotted = f"{entity.dotted}.{name}"
        if found:
            return found
        return [_ModuleName(dotted) if dotted in self.paths or dotted in self.folders else dotted]

    def module(self, dotted: str) -> _Parsed | None:
        path = self.paths.get(dotted)
        return self.parse(path) if path is not None else None


def _in_effect(order: list[_Class], capability: str) -> Iterator[Definition]:
    """The definitions of one capability, in MRO order, up to the first that always hides those after it."""
    for on_instance in (True, False):
        for found in order:
            own = [
                (item, certain)
                for item, certain in found.own
                if item.capability == capability and (item.how == INSTANCE_ATTRIBUTE) == on_instance
            ]
            last = max((index for index, (_, certain) in enumerate(own) if certain), default=-1)
            yield from (item for index, (item, certain) in enumerate(own) if index >= last or not certain)
            if last >= 0:
                return


def _stems(words: Collection[bytes]) -> list[bytes]:
    """The words that no other is a part of: where none of them stands, none of the words does."""
    return [word for word in words if not any(other != word and other in word for other in words)]


def _mentions(data: bytes, stem: bytes, words: Collection[bytes]) -> Iterator[int]:
    """Offsets of the words that contain `stem` and are among `words`; many times faster than one regex over all."""
    at = data.find(stem)
    while at >= 0:
        start, end = at, at + len(stem)
        while start > 0 and data[start - 1] in _WORD_BYTES:
            start -= 1
        while end < len(data) and data[end] in _WORD_BYTES:
            end += 1
        if data[start:end] in words:
            yield start
        at = data.find(stem, end)


def _line_numbers(data: bytes, offsets: Iterable[int]) -> list[int]:
    lines = []
    line, at = 1, 0
    for offset in sorted(offsets):
        line += data.count(b"\n", at, offset)
        at = offset
        lines.append(line)
    return lines


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """The statement lists inside a compound statement."""
    blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    blocks += [part.body for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))]
    return [block for block in blocks if block]


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each single target with its value; None where unpacking hides it."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
    elif isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        for inner_target, inner_value in zip(target.elts, value.elts, strict=True):
            yield from _pairs(inner_target, inner_value)
    else:
        for inner_target in target.elts:
            yield inner_target, None


def _reference(value: ast.expr | None) -> ast.expr | None:
    return value if isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) else None


def _literal(value: ast.expr | None) -> str | None:
    if value is None:
        return None
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return ast.unparse(value)  # not repr: a set's would differ from run to run


def _literal_string(value: ast.expr) -> str | None:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _returned_literal(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """The literal that a function returns and does nothing else, a docstring apart."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    only = body[0] if len(body) == 1 else None
    return _literal(only.value) if isinstance(only, ast.Return) else None


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_name(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_class_of(node: ast.expr, instance: str | None) -> bool:
    """`self.__class__` or `type(self)`."""
    if isinstance(node, ast.Call):
        return _is_name(node.func, "type") and len(node.args) == 1 and _is_name(node.args[0], instance)
    return isinstance(node, ast.Attribute) and node.attr == "__class__" and _is_name(node.value, instance)


def _set_by_call(node: ast.Call) -> tuple[ast.expr | None, str | None, ast.expr | None]:
    """Target, attribute and value of a call that sets an attribute by its name; all None for another call."""
    called = _last_name(node.func)
    arguments = node.args
    if called in ("setattr", "__setattr__") and len(arguments) == 3:
        return arguments[0], _literal_string(arguments[1]), arguments[2]
    if called in ("register_buffer", "register_parameter", "register_module", "add_module") and arguments:
        target = node.func.value if isinstance(node.func, ast.Attribute) else None
        value = arguments[1] if len(arguments) > 1 else None
        return target, _literal_string(arguments[0]), value
    return None, None, None


def _is_registration(node: ast.Call) -> bool:
    function = node.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "register_model"
        and _last_name(function.value) in _REGISTRIES
        and len(node.args) == 2
    )


def _registry_table(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """`"Architecture": ("folder", "module", "Class")` as architecture and "folder.module.Class"."""
    for node in walk(tree):
        items: Iterable[tuple[ast.expr | None, ast.expr]] = ()
        if isinstance(node, ast.Dict):
            items = zip(node.keys, node.values, strict=True)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            items = [(node.targets[0].slice, node.value)]
        for key, value in items:
            name = _literal_string(key) if key is not None else None
            parts = [_literal_string(part) for part in value.elts] if isinstance(value, ast.Tuple) else []
            places = [part for part in parts if part]
            if name and len(places) >= 2 and len(places) == len(parts):
                yield name, ".".join(places)
