"""vLLM's own source by full name: `vllm.v1.worker.gpu.model_runner.GPUModelRunner.execute_model` -> its definition.

Only the modules that are asked for are parsed, each once; nothing is imported or run.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.syntax import walk

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# Where a symbol that left its module is looked for.
WORKERS = "vllm/v1/worker"


@dataclass(frozen=True)
class Symbol:
    """A definition found: `owner` is the class that has it, which for an inherited method is a base."""

    name: str
    module: Module
    node: Definition
    owner: ast.ClassDef | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Path and 1-based line."""
        return self.module.path, self.node.lineno


@dataclass
class VllmSource:
    """A tree of vLLM. `version` is as its metadata has it."""

    modules: Modules
    version: str
    _found: dict[str, Symbol | None] = field(default_factory=dict)
    _defined: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def find(self, name: str) -> Symbol | None:
        """The class, function or method of that full name; a method may stand in a base class."""
        if name not in self._found:
            self._found[name] = self._find(name)
        return self._found[name]

    def _find(self, name: str) -> Symbol | None:
        module, rest = self.module_of(name)
        if module is None or not rest:
            return None
        found = self._top(module, rest[0])
        for part in rest[1:]:
            if found is None or not isinstance(found.node, ast.ClassDef):
                return None
            found = self._member(found, part, 0)
        return Symbol(name, found.module, found.node, found.owner) if found is not None else None

    def module_of(self, name: str) -> tuple[Module | None, list[str]]:
        """The module that a full name begins with, and what of the name is left."""
        parts = name.split(".")
        for size in range(len(parts) - 1, 0, -1):
            base = "/".join(parts[:size])
            for path in (f"{base}.py", f"{base}/__init__.py"):
                if self.modules.workspace.exists(path):
                    return self.modules.get(path), parts[size:]
        return None, parts

    def _top(self, module: Module, name: str, depth: int = 0) -> Symbol | None:
        for node in module.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                return Symbol(name, module, node)
        imported = module.imports.get(name)
        if imported is not None and imported.name is not None and imported.module.startswith("vllm") and depth < 4:
            target, rest = self.module_of(f"{imported.module}.{imported.name}")
            if target is not None and rest:
                return self._top(target, rest[0], depth + 1)
        return None

    def _member(self, owner: Symbol, name: str, depth: int) -> Symbol | None:
        assert isinstance(owner.node, ast.ClassDef)
        for node in methods(owner.node):
            if node.name == name:
                return Symbol(name, owner.module, node, owner.node)
        for base in self.bases(owner) if depth < 4 else ():
            found = self._member(base, name, depth + 1)
            if found is not None:
                return found
        return None

    def bases(self, symbol: Symbol) -> Iterator[Symbol]:
        """The base classes that vLLM itself has."""
        for base in symbol.node.bases if isinstance(symbol.node, ast.ClassDef) else ():
            name = symbol.module.qualify(base.value if isinstance(base, ast.Subscript) else base)
            found = self.find(name) if name is not None and name.startswith("vllm") else None
            if found is not None and isinstance(found.node, ast.ClassDef):
                yield found

    def ancestors(self, symbol: Symbol, depth: int = 0) -> Iterator[str]:
        """Full names of all base classes, of which only vLLM's own are followed."""
        for base in symbol.node.bases if isinstance(symbol.node, ast.ClassDef) else ():
            name = symbol.module.qualify(base.value if isinstance(base, ast.Subscript) else base)
            if name is not None:
                yield name
                found = self.find(name) if name.startswith("vllm") and depth < 6 else None
                if found is not None:
                    yield f"{found.module.name}.{found.node.name}"
                    yield from self.ancestors(found, depth + 1)

    def nearest(self, name: str) -> str:
        """What is most likely meant by a name that isn't there: the same elsewhere, or one like it; "" if none."""
        short = name.rpartition(".")[2]
        owner = self.find(name.rpartition(".")[0])
        if owner is not None and isinstance(owner.node, ast.ClassDef):
            like = difflib.get_close_matches(short, [node.name for node in methods(owner.node)], 1, 0.7)
            return f"{name.rpartition('.')[0]}.{like[0]}" if like else ""
        module, rest = self.module_of(name)
        if module is not None and len(rest) == 1:
            tops = [n.name for n in module.tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
            like = difflib.get_close_matches(short, tops, 1, 0.7)
            if like:
                return f"{module.name}.{like[0]}"
        return self.moved(name) or self._like_elsewhere(name)

    def moved(self, name: str) -> str:
        """The full name of a class or function of the same name in another module of the folder, "" if there is none.

        Of a method, its class is looked for.
        """
        wanted, tail = _class_in(name)
        homes = self._defined_below(_folder(name)).get(wanted, [])
        found = [f"{home}.{wanted}{tail}" for home in homes]
        return next((other for other in found if other != name), "")

    def _like_elsewhere(self, name: str) -> str:
        wanted, tail = _class_in(name)
        known = self._defined_below(_folder(name))
        like = difflib.get_close_matches(wanted, known, 1, 0.8)
        if not like:
            return ""
        found = self.find(f"{known[like[0]][0]}.{like[0]}")
        if tail and found is not None and isinstance(found.node, ast.ClassDef):
            near = difflib.get_close_matches(tail[1:], [node.name for node in methods(found.node)], 1, 0.6)
            if not near:
                return ""
            tail = f".{near[0]}"
        return f"{known[like[0]][0]}.{like[0]}{tail}"

    def _defined_below(self, folder: str) -> dict[str, list[str]]:
        """Classes and functions of the modules below a folder, with the modules; found without parsing."""
        if folder not in self._defined:
            found: dict[str, list[str]] = {}
            for path in self.modules.workspace.python_files((folder,)):
                home = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                for word in _DEFINED.findall(self.modules.data(path)):
                    found.setdefault(word.decode(), []).append(home)
            self._defined[folder] = found
        return self._defined[folder]


_DEFINED = re.compile(rb"^(?:class|def|async def) (\w+)", re.MULTILINE)


def _folder(name: str) -> str:
    """Where a symbol that left its module is looked for: V2 names among V2's modules, V1 names among all workers."""
    return f"{WORKERS}/gpu" if name.startswith("vllm.v1.worker.gpu.") else WORKERS


def _class_in(name: str) -> tuple[str, str]:
    """The class or function of a full name, and what follows it."""
    parts = name.split(".")
    at = next((index for index, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return parts[at], "".join(f".{part}" for part in parts[at + 1 :])


def methods(node: ast.ClassDef) -> Iterator[FunctionNode]:
    """The functions of a class body; of overloads and property setters, every one."""
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield statement


@dataclass(frozen=True)
class Parameter:
    """One parameter: `kind` is "positional", "keyword", "*" or "**"; `default` and `annotation` as written."""

    name: str
    kind: str
    default: str | None
    annotation: str | None

    @property
    def required(self) -> bool:
        return self.default is None and self.kind in ("positional", "keyword")


def parameters(node: FunctionNode, is_method: bool) -> list[Parameter]:
    """The parameters in order, the receiver of a method left out."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    found = [
        Parameter(
            arg.arg, "positional", _written(arguments.defaults[i - missing] if i >= missing else None), _note(arg)
        )
        for i, arg in enumerate(positional)
    ]
    static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in node.decorator_list)
    if is_method and not static:
        found = found[1:]
    if arguments.vararg:
        found.append(Parameter(arguments.vararg.arg, "*", None, _note(arguments.vararg)))
    for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(Parameter(arg.arg, "keyword", _written(default), _note(arg)))
    if arguments.kwarg:
        found.append(Parameter(arguments.kwarg.arg, "**", None, _note(arguments.kwarg)))
    return found


def _written(node: ast.expr | None) -> str | None:
    return ast.unparse(node) if node is not None else None


def _note(argument: ast.arg) -> str | None:
    return _written(argument.annotation)


def class_fields(source: VllmSource, symbol: Symbol) -> dict[str, str]:
    """Names that instances of a class have, with the annotation ("" if none): fields, attributes, methods."""
    found: dict[str, str] = {}
    for base in source.bases(symbol):
        found |= class_fields(source, base)
    assert isinstance(symbol.node, ast.ClassDef)
    for statement in symbol.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found[statement.target.id] = ast.unparse(statement.annotation)
        elif isinstance(statement, ast.Assign):
            found |= {target.id: "" for target in statement.targets if isinstance(target, ast.Name)}
    for method in methods(symbol.node):
        found.setdefault(method.name, "")
        for name in assigned(method):
            found.setdefault(name, "")
    return found


def assigned(function: FunctionNode) -> set[str]:
    """Attributes that a method assigns to its receiver."""
    receiver = function.args.args[0].arg if function.args.args else "self"
    return {
        part.attr
        for part in walk(function)
        if isinstance(part, ast.Attribute)
        and isinstance(part.ctx, ast.Store)
        and isinstance(part.value, ast.Name)
        and part.value.id == receiver
    }


def called_name(node: ast.Call) -> str:
    """The last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def called_on(node: ast.Call) -> str:
    """The last name of what it is called on: "model_state" of `self.model_state.add_request()`, "" of a function."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")


def is_call_of(node: ast.Call, name: str, on: str) -> bool:
    """Whether a call is of that name, on what is called `on` if that is given."""
    return called_name(node) == name and on in ("", called_on(node))


def calls(node: ast.AST) -> list[ast.Call]:
    """The calls in a definition, in the order of the text."""
    found = [part for part in walk(node) if isinstance(part, ast.Call)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def names_in(node: ast.AST) -> set[str]:
    """Every name, attribute and text in a definition."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.add(part.value)
    return found
