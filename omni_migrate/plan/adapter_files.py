"""The adapter package of a tree (RFC-003 §3.5): its files, and adding a moved method to them."""

from __future__ import annotations

import ast
import builtins
import posixpath
import re
import symtable
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from omni_migrate.checks.format import format_many
from omni_migrate.errors import InputError
from omni_migrate.facts.absence import Absence, default_body
from omni_migrate.facts.flow import FunctionNode, argument_names, bound_names
from omni_migrate.facts.modules import ImportedName, Module, Modules, module_level, module_name, split_lines
from omni_migrate.facts.syntax import walk
from omni_migrate.knowledge import PROTOCOL_METHODS, AdapterSpec
from omni_migrate.plan.kept_files import after_imports, apply, into_list, plain_list, same_import
from omni_migrate.plan.method_text import find_class, margin, replace_lines, shift
from omni_migrate.plan.workspace import Workspace, decode

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__"}
_RELATIVE = re.compile(r"from\s*\.[.\s\w]*?\s*\bimport\b")
_PROTOCOL, _DEFAULT = "ModelRunnerAdapter", "DefaultModelRunnerAdapter"


@dataclass(frozen=True)
class Hook:
    """An adapter method that exists: where it stands, and its code without name and docstring, to find it again."""

    name: str
    adapter: str
    path: str
    code: str


class AdapterPackage:
    """Reads and edits the adapter files in a workspace. `folder` is the shared package, `vllm_omni/worker/adapters`."""

    def __init__(self, modules: Modules, folder: str) -> None:
        self.modules = modules
        self.workspace: Workspace = modules.workspace
        self.folder = folder
        self.module = module_name(f"{folder}/__init__.py")
        self.touched: dict[str, bytes | None] = {}  # path -> what it was when it was last laid out
        self._laid_out: dict[str, bytes] = {}
        self._hooks: dict[str, tuple[Module, tuple[Hook, ...]]] = {}
        self._on_disk: list[str] | None = None

    @property
    def exists(self) -> bool:
        """Whether phase 1 has been applied."""
        return self.workspace.exists(f"{self.folder}/registry.py")

    def owns(self, path: str) -> bool:
        """Whether a file is one of the adapters', as opposed to something else's in a folder of that name."""
        return "/adapters/" in path and b"ModelAdapterRegistry" in self.modules.data(path)

    def foreign(self, platform_runners: Iterable[str]) -> str | None:
        """A file of something else that stands where adapters are to be, None if there is none."""
        folders = [self.folder, *(self.folder_of(path) for path in platform_runners)]
        if not self.exists:
            own = (f"{self.folder}/{name}.py" for name in ("base", "registry", "__init__"))
            taken = next((path for path in own if self.workspace.exists(path)), None)
            if taken is not None:
                return taken
        for path in self.workspace.python_files(folders):
            package = f"{posixpath.dirname(path)}/__init__.py"
            beside_own = self.exists and self.workspace.exists(package) and self.owns(package)
            if not self.owns(path) and not beside_own:
                return path
        return None

    def create(self) -> None:
        """Write protocol, default adapter and registry (RFC-003 phase 1)."""
        for name in ("base.py", "registry.py", "__init__.py"):
            template = f"{name.removesuffix('.py').strip('_')}.py.txt"
            self.write(f"{self.folder}/{name}", template_text(template).replace("@PACKAGE@", self.module))

    def format(self) -> None:
        """Lay out the adapter files as the tree's own configuration says; one that had another form keeps its own."""
        known = {
            path: decode(data).text
            for path, data in self.touched.items()
            if data is not None and data != self._laid_out.get(path)
        }
        formed = format_many(known, self.workspace.root) if known else {}
        other = {path for path, text in known.items() if formed[path] != text}
        files = {path: decode(self.workspace.read(path)) for path in sorted(self.touched.keys() - other)}
        texts = {path: file.text for path, file in files.items()}
        for path, text in format_many(texts, self.workspace.root).items():
            self._laid_out[path] = files[path].encode(text)
            self.workspace.write(path, self._laid_out[path])
        self.touched.clear()

    def hooks(self) -> dict[str, Hook]:
        """Every adapter method by name, of the shared package and of the platforms'."""
        found: dict[str, Hook] = {}
        for path in self._candidates():
            if self.owns(path) and posixpath.basename(path) not in ("__init__.py", "registry.py", "base.py"):
                module = self.readable(path)
                known = self._hooks.get(path)
                if known is None or known[0] is not module:
                    known = self._hooks[path] = (module, _hooks_of(module))
                for hook in known[1]:
                    found[hook.name] = hook
        return found

    def taken(self) -> set[str]:
        """Names that a new adapter method can't have: those of the adapters' methods and of what people wrote there."""
        base = self.readable(f"{self.folder}/base.py")
        names = _attributes(base, {_DEFAULT}) - {name for owner, name in _template_methods() if owner == _DEFAULT}
        for path in {hook.path for hook in self.hooks().values()}:
            names |= _attributes(self.readable(path))
        return names

    def _candidates(self) -> list[str]:
        """Files of the package in folders called adapters: those on disk are looked for once."""
        package = self.module.split(".")[0]
        if self._on_disk is None:
            self._on_disk = [path for path in self.workspace.python_files((package,)) if "/adapters/" in path]
        edited = (path for path in self.workspace.snapshot() if path.startswith(f"{package}/") and path.endswith(".py"))
        return sorted({*self._on_disk, *edited})

    def folder_of(self, platform_module: str) -> str:
        """The adapter folder for the code of a platform's runner: beside that runner."""
        return f"{posixpath.dirname(platform_module)}/adapters"

    def add_hook(
        self,
        spec: AdapterSpec,
        hook_source: str,
        origin: Module,
        absence: Absence,
        aliases: frozenset[str],
        registered: Sequence[str],
        folder: str,
        asked: bool = True,
    ) -> None:
        """Put a moved method into its adapter and, if a runner asks for it, its default into the default adapter.

        `origin` is the module that the code comes from: what its names refer to there is imported here too.
        """
        path = f"{folder}/{spec.name}.py"
        if not self.workspace.exists(path):
            self._create_adapter(spec, path, registered, folder)
        hook_source = _with_absolute_imports(hook_source, origin)
        function = _function(hook_source)
        module = self.readable(path)
        imports = _Imports(origin, module)
        needed = names_needed(hook_source)
        for name in sorted(needed.runtime | needed.annotations):
            imports.add(name, only_type=name not in needed.runtime)
        if imports.late:
            hook_source = _with_late_imports(hook_source, imports.late)
        self.write(path, imports.written())
        self.write(path, _with_method(self.readable(path), class_of(spec, folder, self.folder), hook_source))
        if asked:
            self._set_default(function, spec, absence, aliases, folder, origin)

    def answer_for(self, hooks: Collection[str]) -> None:
        """Give the default adapter those of the hooks that it lacks: it runs the adapter's code."""
        existing = self.hooks()
        have = _attributes(self.readable(f"{self.folder}/base.py"), {_DEFAULT})
        for name in sorted(existing.keys() & set(hooks) - have):
            module = self.readable(existing[name].path)
            methods = ((owner, node) for owner in module.classes.values() for node in owner.body)
            owner, node = next(
                (owner, node) for owner, node in methods if isinstance(node, ast.FunctionDef) and node.name == name
            )
            self._write_default(node, _run_by(owner.name, module, node), module)

    def means_the_same(self, source: str, origin: Module, path: str) -> bool:
        """Whether the names in a runner's code refer to what they refer to in the adapter file `path`."""
        needed = names_needed(source)
        return all(_meaning(origin, name) == _meaning(self.readable(path), name) for name in needed.runtime)

    def readable(self, path: str) -> Module:
        """A file that is read to be edited. Raises InputError if it can't be."""
        module = self.modules.get(path)
        if module is None:
            raise InputError(f"{path} {self.modules.unreadable.get(path)}; mend it first")
        return module

    def write(self, path: str, text: str) -> None:
        """Edit a file of the adapters; one that is there keeps its encoding (else InputError)."""
        before = self.workspace.read(path) if self.workspace.exists(path) else None
        try:
            data = text.encode() if before is None else decode(before).encode(text)
        except UnicodeEncodeError as error:
            raise InputError(
                f"{path} is in {error.encoding}, which cannot hold what moves there: save it as UTF-8 first"
            ) from error
        self.touched.setdefault(path, before)
        self.workspace.write(path, data)

    def _create_adapter(self, spec: AdapterSpec, path: str, registered: Sequence[str], folder: str) -> None:
        names = ", ".join(f'"{name}"' for name in registered)
        capabilities = ", ".join(f'"{name}"' for name in spec.capabilities)
        comma = "," if len(spec.capabilities) == 1 else ""
        own = class_of(spec, folder, self.folder)
        of_module, of_class = docstring(f"{spec.summary} (RFC-003)."), docstring(f"{spec.summary}.")
        text = (
            f"{of_module}\n\nfrom __future__ import annotations\n\n"
            f"from {self.module}.base import {_DEFAULT}\n"
            f"from {self.module}.registry import ModelAdapterRegistry\n\n\n"
            f"@ModelAdapterRegistry.register({names})\n"
            f"class {own}({_DEFAULT}):\n"
            f"    {of_class}\n"
        )
        if capabilities:
            text += f"\n    capabilities = ({capabilities}{comma})\n"
        self.write(path, text)
        self._export(folder, spec.name, own)

    def _export(self, folder: str, name: str, class_name: str) -> None:
        """The package's __init__ imports every adapter, so that each registers itself."""
        path, package = f"{folder}/__init__.py", module_name(f"{folder}/__init__.py")
        if not self.workspace.exists(path):
            summary = "What of the adapters this platform has to itself (RFC-003 phase 7)."
            text = (
                f'"""{summary}"""\n\nfrom {self.module}.registry import AdapterOfRunner, ModelAdapterRegistry\n\n'
                '__all__ = ["AdapterOfRunner", "ModelAdapterRegistry"]\n'
            )
            self.write(path, text)
        module = self.readable(path)
        insertions = []
        exported = plain_list(module, "__all__", f"it exports {class_name}")
        if not same_import(module, class_name, f"{package}.{name}"):
            alias = "" if exported is not None else f" as {class_name}"  # else it would be an unused import
            insertions.append(after_imports(module, [f"from {package}.{name} import {class_name}{alias}"]))
        if exported is not None:
            insertions += into_list(module, exported, [f'"{class_name}"'], in_order=True)
        self.write(path, apply(module, insertions))

    def _set_default(
        self,
        hook: FunctionNode,
        spec: AdapterSpec,
        absence: Absence,
        aliases: frozenset[str],
        folder: str,
        origin: Module,
    ) -> None:
        body = default_body(hook, absence, aliases) if spec.default == "derived" else None
        if body is None:
            owner = class_of(spec, folder, self.folder)
            body = _run_by(owner, self.readable(f"{folder}/{spec.name}.py"), hook)
        self._write_default(hook, body, origin)

    def _write_default(self, hook: FunctionNode, body: Sequence[str], origin: Module) -> None:
        path = f"{self.folder}/base.py"
        signature, _ = _bare_signature(hook)
        lines = "".join(f"    {line}\n" if line else "\n" for line in body) or "    pass\n"
        base = self.readable(path)
        imports = _Imports(origin, base)
        for name in sorted(_names_of_defaults(hook)):
            imports.add(name, only_type=False)
        self.write(path, imports.written())
        self._replace_or_append(path, _DEFAULT, hook.name, f"def {hook.name}({signature}):\n{lines}")
        base = self.readable(path)
        declared = find_class(base.tree, _PROTOCOL) if hook.name in PROTOCOL_METHODS else None
        for method in declared.body if declared is not None else ():
            if (
                isinstance(method, ast.FunctionDef)
                and method.name == hook.name
                and _is_template(base, _PROTOCOL, method)
            ):
                doc = ast.get_docstring(method)
                text = f'def {hook.name}({_typed_signature(hook)}) -> Any:\n    """{doc}"""\n'
                self._replace_or_append(path, _PROTOCOL, hook.name, text)

    def _replace_or_append(self, path: str, class_name: str, method: str, source: str) -> None:
        module = self.readable(path)
        node = _only_class(module, class_name)
        old = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == method), None)
        if old is None:
            self.write(path, _with_method(module, class_name, source))
            return
        if not _is_template(module, class_name, old):
            raise InputError(
                f"{path}:{old.lineno} {class_name}.{method} was edited, and an adapter method of that name moves now: "
                "give that one another name with `hooks` of the adapter in [tool.omni-migrate], or take the edit back"
            )
        new = shift(source, 1, margin(module.lines, old))
        self.write(path, replace_lines(module.text, old.lineno, old.end_lineno or 0, new, module.file.newline))

    def replaceable(self, path: str, module: Module) -> list[tuple[int, int]]:
        """The lines of an adapter file as it was that a hook may take the place of: what phase 1 wrote, unedited."""
        if path != f"{self.folder}/base.py":
            return []
        return [
            (method.lineno, method.end_lineno or 0)
            for name in (_DEFAULT, _PROTOCOL)
            for owner in filter(None, [find_class(module.tree, name)])
            for method in owner.body
            if isinstance(method, ast.FunctionDef) and _is_template(module, name, method)
        ]


class _Imports:
    """What an adapter module must import so that moved code means there what it meant in `origin`."""

    def __init__(self, origin: Module, target: Module) -> None:
        self.origin, self.target = origin, target
        self.late: list[str] = []  # inside the method: its name means something else in the adapter's module
        self._top: list[str] = []
        self._type_checking: list[str] = []
        self._definitions: list[str] = []

    def add(self, name: str, only_type: bool) -> None:
        """Take a module-level name along; a builtin, or one that is undefined in the runner too, needs nothing."""
        imported = self.origin.imports.get(name)
        definition = _module_definition(self.origin, name)
        if imported is None and definition is None and "*" not in self.origin.imports:
            return
        existing = self.target.imports.get(name)
        defined = any(_binds(node, name) for node in self.target.tree.body)
        if imported is None and definition is not None and _is_per_module(definition):
            if existing is None and not defined and ast.unparse(definition) not in self._definitions:
                for node in walk(definition):  # a module's own logger is made anew, under the adapter's name
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in _BUILTINS:
                        self.add(node.id, only_type=False)
                self._definitions.append(ast.unparse(definition))
            return
        if imported is None or definition is not None or _is_conditional(self.origin, imported):
            # only the runner's module knows which of its values the name has
            self._from_elsewhere(f"from {self.origin.name} import {name}", existing is not None or defined, only_type)
            return
        same = existing is not None and (existing.module, existing.name) == (imported.module, imported.name)
        if same and (only_type or not _type_checking_only(self.target, name)):
            return
        statement = _import_statement(name, imported.module, imported.name)
        if (existing is not None and not same) or defined:
            self._from_elsewhere(statement, True, only_type)
        elif _type_checking_only(self.origin, name):
            self._type_checking.append(statement)
        elif statement not in self._top:
            self._top.append(statement)

    def _from_elsewhere(self, statement: str, taken: bool, only_type: bool) -> None:
        """Import inside the method; for an annotation, for type checkers, unless its name is taken."""
        if not only_type:
            self.late.append(statement)
        elif not taken and statement not in self._type_checking:
            self._type_checking.append(statement)

    def written(self) -> str:
        """The adapter module's text with the imports; its lines up to the last import are as they were parsed."""
        text, body, newline = self.target.text, self.target.tree.body, self.target.file.newline
        imports = [n for n in body if isinstance(n, (ast.Import, ast.ImportFrom)) or _is_type_checking_block(n)]
        last = max((node.end_lineno or 0 for node in imports), default=_head(self.target.tree))
        block = next((n for n in body if isinstance(n, ast.If) and _is_type_checking_block(n)), None)
        if block is not None and block.body[0].lineno == block.lineno:
            block = None  # `if TYPE_CHECKING: import a`
        below = "".join(f"\n{definition}\n" for definition in self._definitions)
        guarded = "".join(f"{statement}\n" for statement in self._type_checking)
        if guarded and block is None:
            below = f"\nif TYPE_CHECKING:\n{shift(guarded, 4)}{below}"
            self._top.append("from typing import TYPE_CHECKING")
        text = replace_lines(text, last + 1, last, below, newline) if below else text
        if guarded and block is not None:
            inside = shift(guarded, 1, margin(self.target.lines, block.body[0]))
            text = replace_lines(text, block.lineno + 1, block.lineno, inside, newline)
        top = "".join(f"{statement}\n" for statement in self._top)
        head = _head(self.target.tree)
        return replace_lines(text, head + 1, head, f"\n{top}", newline) if top else text


def _head(tree: ast.Module) -> int:
    """The last line of a module's docstring and `__future__` imports, below which it may import; 0 if it has none."""
    last = 0
    for place, node in enumerate(tree.body):
        is_docstring = place == 0 and ast.get_docstring(tree) is not None
        if is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            last = node.end_lineno or 0
    return last


def _is_type_checking_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and _is_type_checking(node.test)


def _with_method(module: Module, class_name: str, source: str) -> str:
    """The module's text with a method at the end of one of its classes, below the comments that end it."""
    node = _only_class(module, class_name)
    if node.body[0].lineno == node.lineno:
        raise InputError(
            f"{module.path}:{node.lineno} class {class_name} is all on one line: give its body lines first"
        )
    indent, end = margin(module.lines, node.body[-1]), node.end_lineno or 0
    for number, line in enumerate(module.lines[end:], start=end + 1):
        if line.startswith(f"{indent}#"):
            end = number
        elif line.strip():
            break
    method = shift(source.replace("\r\n", "\n"), 1, indent).rstrip("\n")
    return replace_lines(module.text, end + 1, end, f"\n{method}\n", module.file.newline)


def _only_class(module: Module, name: str) -> ast.ClassDef:
    """Raises InputError if a module doesn't have exactly one class of a name."""
    found = [node for node in walk(module.tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if len(found) != 1:
        many = f"has {len(found)} classes {name}, at lines {', '.join(str(node.lineno) for node in found)}"
        lacks = f"has no class {name}" if not found else many
        raise InputError(f"{module.path} {lacks}, where omni-migrate puts what it moves: give it one of that name")
    return found[0]


def _attributes(module: Module, names: Collection[str] = ()) -> set[str]:
    """What a module's classes (or those of these names) define: methods, classes and values."""
    found: set[str] = set()
    for node in module.classes.values():
        if not names or node.name in names:
            found |= bound_names(node.body)
    return found


@lru_cache(maxsize=1)
def _template_methods() -> dict[tuple[str, str], str]:
    """The methods that phase 1 writes to base.py, by class and name."""
    tree = ast.parse(template_text("base.py.txt"))
    owners = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return {
        (owner.name, method.name): ast.dump(method)
        for owner in owners
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
    }


def _is_template(module: Module, owner: str, method: ast.FunctionDef) -> bool:
    """Whether a method is as phase 1 wrote it, without a comment."""
    lines = "".join(module.lines[method.lineno - 1 : method.end_lineno])
    return ast.dump(method) == _template_methods().get((owner, method.name)) and "#" not in lines


def _hooks_of(module: Module) -> tuple[Hook, ...]:
    def form(method: ast.FunctionDef) -> str:
        return _normal_form_of("".join(module.lines[method.lineno - 1 : method.end_lineno]), method.col_offset)

    return tuple(
        Hook(method.name, posixpath.basename(module.path)[:-3], module.path, form(method))
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    )


def registered_names(module: Module, class_name: str) -> list[str]:
    """The model classes that an adapter is registered for, as its decorator says."""
    node = module.classes.get(class_name)
    calls = [d for d in node.decorator_list if isinstance(d, ast.Call)] if node is not None else []
    names = [a for call in calls if getattr(call.func, "attr", "") == "register" for a in call.args]
    return [name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)]


def template_comments() -> frozenset[str]:
    """The comments that the tool's own files bring: those of phase 1, and the adapters' tests."""
    names = (
        "base.py.txt", "registry.py.txt", "init.py.txt", "test_registry.py.txt", "test_adapter.py.txt",
        "test_capabilities.py.txt", "test_delegates.py.txt", "test_defaults.py.txt",
    )  # fmt: skip
    lines = [line.strip() for name in names for line in template_text(name).splitlines()]
    return frozenset(line for line in lines if line.startswith("#"))


def class_of(spec: AdapterSpec, folder: str, shared: str) -> str:
    """An adapter's class: the platform's own has its name before it, `NpuQwen3TalkerAdapter`."""
    if folder == shared:
        return spec.class_name
    parts = folder.split("/")
    platform = (
        parts[parts.index("platforms") + 1] if "platforms" in parts else posixpath.basename(posixpath.dirname(folder))
    )
    return f"{platform.title()}{spec.class_name}"


def _run_by(owner: str, module: Module, hook: FunctionNode) -> list[str]:
    """The body of a default that runs an adapter's own code, whose guards decide."""
    _, call = _bare_signature(hook)
    return [f"from {module.name} import {owner}", "", f"return {owner}().{hook.name}({call})"]


def _meaning(module: Module, name: str) -> object:
    """What a module-level name refers to: where it is imported from, or the code of a module's own logger."""
    imported = module.imports.get(name)
    if imported is not None:
        return imported.module, imported.name
    definition = _module_definition(module, name)
    if definition is not None and _is_per_module(definition):
        return ast.unparse(definition)
    return module.name, name


def _names_of_defaults(function: FunctionNode) -> set[str]:
    defaults = [*function.args.defaults, *filter(None, function.args.kw_defaults)]
    return _names_in(defaults)


def _names_in(nodes: Iterable[ast.expr]) -> set[str]:
    return {n.id for node in nodes for n in walk(node) if isinstance(n, ast.Name)} - _BUILTINS


def names_at_definition(source: str, origin: Module) -> list[str]:
    """Names in a method's default values and decorators that only the runner's module can tell.

    They are needed when the adapter's class is made, and then the runner's module is not there yet.
    """
    function = _function(source)
    names = sorted(_names_of_defaults(function) | _names_in(function.decorator_list))
    return [name for name in names if name not in origin.imports or _is_conditional(origin, origin.imports[name])]


def _with_absolute_imports(source: str, origin: Module) -> str:
    """Imports inside a method, relative to the runner's package, written so that they hold anywhere."""
    lines = split_lines(source)
    for node in walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            line = lines[node.lineno - 1].encode()
            head, rest = line[: node.col_offset].decode(), line[node.col_offset :].decode()
            lines[node.lineno - 1] = head + _RELATIVE.sub(f"from {origin.absolute(node)} import", rest, count=1)
    return "".join(lines)


@dataclass(frozen=True)
class NeededNames:
    """Module-level names that a function uses when it runs, and in its annotations."""

    runtime: frozenset[str]
    annotations: frozenset[str]


def names_needed(source: str) -> NeededNames:
    """The module-level names that a function's source refers to, builtins left out."""
    tree = ast.parse(source)
    annotations: set[str] = set()
    for node in walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            annotations |= _annotation_names(node.annotation)
            node.annotation = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            annotations |= _annotation_names(node.returns)
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            annotations |= _annotation_names(node.annotation)
            node.annotation = ast.Constant(None)
    table = symtable.symtable(ast.unparse(tree), "<method>", "exec")
    runtime = set(_globals_of(table))
    return NeededNames(frozenset(runtime - _BUILTINS), frozenset(annotations - _BUILTINS))


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (
            symbol.is_global() or (table.get_type() == "module" and not symbol.is_assigned())
        ):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals_of(child)


def _annotation_names(node: ast.expr) -> set[str]:
    names: set[str] = set()
    for part in walk(node):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            try:
                names |= {n.id for n in walk(ast.parse(part.value, mode="eval")) if isinstance(n, ast.Name)}
            except SyntaxError:
                continue  # Literal["some text"]
    return names


@lru_cache(maxsize=1024)
def _normal_form_of(lines: str, column: int) -> str:
    """Of a method as it stands in its class; adapter files are read again after each method that comes in."""
    return normal_form(_function(shift(lines, -column)))


def normal_form(method: FunctionNode) -> str:
    """A method's code without its name, docstring, annotations and parameter names: equal code, equal text."""
    copy = _function(ast.unparse(method))
    copy.name = "_"
    if ast.get_docstring(copy) is not None:
        copy.body = copy.body[1:] or [ast.Pass()]
    places = {name: f"_{place}" for place, name in enumerate(argument_names(copy.args))}
    for node in walk(copy):
        if isinstance(node, ast.Name):
            node.id = places.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg, node.annotation = places.get(node.arg, node.arg), None
    copy.returns = None
    return ast.dump(copy)


def _function(source: str) -> FunctionNode:
    node = ast.parse(source).body[0]
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return node


def docstring(text: str) -> str:
    """A docstring of one line whose value is `text`, also after ruff has formatted it."""
    escapes = {char: char.encode("unicode_escape").decode("ascii") for char in text if not char.isprintable()}
    escapes["\\"] = "\\\\"
    if re.search('^"|"""|"$', text):
        escapes['"'] = '\\"'
    quoted = "".join(escapes.get(char, char) for char in text)
    if quoted.startswith(" "):
        quoted = f"\\x20{quoted[1:]}"
    return f'"""{quoted}"""'


def template_text(name: str) -> str:
    """A file of knowledge/templates."""
    return resources.files("omni_migrate.knowledge").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def _bare_signature(hook: FunctionNode) -> tuple[str, str]:
    """The parameters without annotations, and the arguments that pass them on (without `self`)."""
    copy = _function(ast.unparse(hook))
    for argument in (*copy.args.args, *copy.args.kwonlyargs, copy.args.vararg, copy.args.kwarg):
        if argument is not None:
            argument.annotation = None
    positional = [argument.arg for argument in copy.args.args[1:]]
    if copy.args.vararg:
        positional.append(f"*{copy.args.vararg.arg}")
    positional += [f"{argument.arg}={argument.arg}" for argument in copy.args.kwonlyargs]
    if copy.args.kwarg:
        positional.append(f"**{copy.args.kwarg.arg}")
    return ast.unparse(copy.args), ", ".join(positional)


def _typed_signature(hook: FunctionNode) -> str:
    copy = _function(ast.unparse(hook))
    for argument in (*copy.args.args[1:], *copy.args.kwonlyargs, copy.args.vararg, copy.args.kwarg):
        if argument is not None:
            argument.annotation = ast.Name("Any", ast.Load())
    copy.args.args[0].annotation = None
    copy.args.defaults = [ast.Constant(...) for _ in copy.args.defaults]
    copy.args.kw_defaults = [None if default is None else ast.Constant(...) for default in copy.args.kw_defaults]
    return ast.unparse(copy.args)


def _with_late_imports(source: str, statements: Collection[str]) -> str:
    function = _function(source)
    first = function.body[0]
    line = first.lineno
    if ast.get_docstring(function) is not None and len(function.body) > 1:
        line = function.body[0].end_lineno or line
        line += 1
    else:
        line = min([line, *(d.lineno for d in getattr(first, "decorator_list", []))])
    text = "".join(f"    {statement}\n" for statement in sorted(statements)) + "\n"
    return replace_lines(source, line, line - 1, text, "\n")


def _import_statement(bound: str, module: str, name: str | None) -> str:
    if name is None:
        return (
            f"import {module}" if module.split(".")[0] == bound and "." not in module else f"import {module} as {bound}"
        )
    return f"from {module} import {name}" if name == bound else f"from {module} import {name} as {bound}"


def _is_type_checking(test: ast.expr) -> bool:
    return getattr(test, "id", None) == "TYPE_CHECKING" or getattr(test, "attr", None) == "TYPE_CHECKING"


def _type_checking_only(module: Module, name: str) -> bool:
    """Whether a module imports a name for type checkers alone."""
    imported = module.imports.get(name)
    return imported is not None and any(
        isinstance(node, ast.If) and _is_type_checking(node.test) and any(n is imported.node for n in node.body)
        for node in module.tree.body
    )


def _is_conditional(module: Module, imported: ImportedName) -> bool:
    """Whether an import may not happen, or another take its place: one in `try` or `if`."""
    certain = [*module.tree.body]
    for node in module.tree.body:
        certain += node.body if isinstance(node, ast.If) and _is_type_checking(node.test) else []
    return not any(node is imported.node for node in certain)


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _module_definition(module: Module, name: str) -> ast.stmt | None:
    return next((node for node in module_level(module.tree.body) if _binds(node, name)), None)


def _is_per_module(definition: ast.stmt) -> bool:
    """`logger = init_logger(__name__)`: every module has its own."""
    value = getattr(definition, "value", None)
    return isinstance(value, ast.Call) and any(getattr(argument, "id", "") == "__name__" for argument in value.args)
