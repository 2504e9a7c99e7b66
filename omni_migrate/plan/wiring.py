"""Give a runner class its adapter: the `_adapter` attribute, and its resolution once the model is loaded."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Sequence

from omni_migrate.facts.modules import Module, Modules, module_name
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.syntax import walk
from omni_migrate.plan.method_text import margin, replace_lines

_ATTRIBUTE = "_adapter = AdapterOfRunner()\n"
_RESOLVE = "{0}._adapter = ModelAdapterRegistry.get_adapter({0}.model)\n"


def wire(
    modules: Modules, runner: RunnerClass, runners: Sequence[RunnerClass], package: str, loading: bool = False
) -> None:
    """Add what is missing of the wiring to one runner class.

    Phase 1 wires the classes that no other runner class stands behind; with `loading` (phase 7) a platform's own
    `load_model` that does not come through a wired one resolves the adapter too.
    """
    module = modules.get(runner.path)
    node = module.classes.get(runner.name) if module else None
    if module is None or node is None:
        return
    known = {
        f"{module_name(other.path)}.{other.name}" for other in runners if other is not runner and other.role == "runner"
    }
    is_root = not any(base in known for base in runner.bases)
    loads = _load_calls(node) if runner.role == "runner" and not _resolves(node, module) else []
    if loading:
        loads = [load for load in loads if runner.platform and (is_root or not _through_super(load))]
    elif not is_root:
        loads = []
    text = module.text
    for load in reversed(loads):
        text = _after(text, load, _RESOLVE.format(_receiver(node)), module)
    needed = ["ModelAdapterRegistry"] if loads else []
    owns = (is_root and runner.platform) if loading else (is_root or runner.role == "mixin")
    if owns and not any(_is_attribute(statement) for statement in node.body):
        text = _into_class(text, node, module)
        needed.append("AdapterOfRunner")
    if needed:
        text = add_import(text, package, needed, module)
        modules.workspace.write(runner.path, module.file.encode(text))


def import_platform_adapters(modules: Modules, runners: Sequence[RunnerClass], package: str, folder: str) -> None:
    """Let the runners that use a platform's own adapters import them: importing is what registers an adapter.

    They take the registry from the platform's package `folder`, which passes on the shared `package`'s.
    """
    platform = module_name(f"{folder}/__init__.py")
    hooks = _hooks_below(modules, folder)
    for runner in runners:
        module = modules.get(runner.path)
        node = module.classes.get(runner.name) if module else None
        if module is None or node is None or not hooks & dispatched_hooks(node, module):
            continue
        if _reaches(modules, module, platform, posixpath.dirname(posixpath.dirname(folder))):
            continue
        shared = [n for n in module.tree.body if isinstance(n, ast.ImportFrom) and n.module == package]
        if shared:
            first, last = shared[0].lineno, shared[0].end_lineno or 0
            names = ", ".join(ast.unparse(alias) for alias in shared[0].names)
            text = replace_lines(module.text, first, last, f"from {platform} import {names}\n", module.file.newline)
        else:
            text = add_import(_into_class(module.text, node, module), platform, ["AdapterOfRunner"], module)
        modules.workspace.write(runner.path, module.file.encode(text))


def _hooks_below(modules: Modules, folder: str) -> set[str]:
    found = (modules.get(path) for path in modules.workspace.python_files((folder,)))
    classes = [node for module in found if module is not None for node in module.classes.values()]
    return {method.name for node in classes for method in node.body if isinstance(method, ast.FunctionDef)}


def dispatched_hooks(node: ast.ClassDef, module: Module) -> set[str]:
    """The adapter methods that a class of a module calls on its `_adapter`."""
    return {
        n.attr
        for statement in node.body
        if _mentions(module, statement, "_adapter")
        for n in walk(statement)
        if isinstance(n, ast.Attribute) and getattr(n.value, "attr", None) == "_adapter"
    }


def _mentions(module: Module, statement: ast.stmt, word: str) -> bool:
    return any(word in line for line in module.lines[statement.lineno - 1 : statement.end_lineno])


def _reaches(modules: Modules, module: Module, package: str, below: str) -> bool:
    """Whether importing a module imports a package, through modules of the same folder."""
    pending, seen = [module], set()
    while pending:
        found = pending.pop()
        seen.add(found.path)
        for imported in found.imports.values():
            if imported.module == package:
                return True
            path = imported.module.replace(".", "/") + ".py"
            if path.startswith(f"{below}/") and path not in seen and modules.workspace.exists(path):
                pending += filter(None, [modules.get(path)])
    return False


def _receiver(node: ast.ClassDef) -> str:
    load = next(n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "load_model")
    return load.args.args[0].arg


def _is_attribute(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(getattr(target, "id", None) == "_adapter" for target in targets)


def attribute_taken(modules: Modules, runners: Sequence[RunnerClass]) -> Iterator[str]:
    """Places (file and line) where a runner class has an `_adapter` that is none of RFC-003's."""
    for runner in runners:
        module = modules.get(runner.path)
        node = module.classes.get(runner.name) if module else None
        for statement in walk(node) if node is not None else ():
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                taken = statement.name == "_adapter"
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                called = getattr(statement.value, "func", None)
                own = getattr(called, "attr", getattr(called, "id", "")) in ("AdapterOfRunner", "get_adapter")
                names = [t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "") for t in targets]
                taken = "_adapter" in names and not own
            else:
                continue
            if taken:
                yield f"{runner.path}:{statement.lineno}"


def _resolves(node: ast.ClassDef, module: Module) -> bool:
    return any(
        isinstance(n, ast.Attribute) and n.attr == "get_adapter"
        for statement in node.body
        if _mentions(module, statement, "get_adapter")
        for n in walk(statement)
    )


def _load_calls(node: ast.ClassDef) -> list[ast.stmt]:
    """The statements of `load_model` that call the upstream's: through super(), or by the name of a class."""
    load = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "load_model"), None)
    if load is None or not load.args.args:
        return []
    found: list[ast.stmt] = []
    for statements in _statement_lists(load):
        for statement in statements:
            if isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign)) and isinstance(statement.value, ast.Call):
                call = statement.value
                passed = getattr(call.args[0], "id", None) if call.args else None
                own = _through_super(statement) or passed == load.args.args[0].arg
                alone = all(n.lineno != statement.lineno for n in statements if n is not statement)
                if getattr(call.func, "attr", None) == "load_model" and own and alone:
                    found.append(statement)
    return sorted(found, key=lambda statement: statement.lineno)


def _statement_lists(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The blocks of a function that have lines of their own: not the one of `if a: b`."""
    for node in walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(node, ast.stmt) and block[0].lineno > node.lineno:
                yield block


def _through_super(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Call) and getattr(n.func, "id", "") == "super" for n in walk(statement))


def _after(text: str, statement: ast.stmt, line: str, module: Module) -> str:
    end = statement.end_lineno or 0
    return replace_lines(text, end + 1, end, margin(module.lines, statement) + line, module.file.newline)


def _into_class(text: str, node: ast.ClassDef, module: Module) -> str:
    """First in the class body, after its docstring."""
    first = node.body[0]
    newline = module.file.newline
    if first.lineno == node.lineno or module.lines[first.lineno - 1][: first.col_offset].strip():
        # `class Runner(Base): pass`: the body begins on the line of its colon
        indent = " " * (node.col_offset + 4)
        line = module.lines[first.lineno - 1]
        before = line.encode()[: first.col_offset].decode().rstrip()
        after = line.encode()[first.col_offset :].decode().rstrip("\r\n")
        split = f"{before}\n{indent}{after}\n"
        split += f"\n{indent}{_ATTRIBUTE}" if ast.get_docstring(node, clean=False) is not None else ""
        split = split if split.endswith(_ATTRIBUTE) else f"{before}\n{indent}{_ATTRIBUTE}{indent}{after}\n"
        return replace_lines(text, first.lineno, first.lineno, split, newline)
    indent = margin(module.lines, first)
    if ast.get_docstring(node, clean=False) is not None:
        end = first.end_lineno or 0
        return replace_lines(text, end + 1, end, f"\n{indent}{_ATTRIBUTE}", newline)
    line_number = min([first.lineno, *(decorator.lineno for decorator in getattr(first, "decorator_list", []))])
    while module.lines[line_number - 2].lstrip().startswith("#"):
        line_number -= 1  # the comments above it stay with it
    blank = "" if isinstance(first, (ast.Assign, ast.AnnAssign)) else "\n"
    return replace_lines(text, line_number, line_number - 1, f"{indent}{_ATTRIBUTE}{blank}", newline)


def add_import(text: str, package: str, names: Sequence[str], module: Module) -> str:
    """Import names of the adapter package, sorted among the imports of the tree's own package.

    `text` is the module's with lines added below its imports.
    """
    (first, last), line = _import(package, names, module)
    return replace_lines(text, first, last, line, module.file.newline)


def import_lines(package: str, module: Module) -> tuple[int, int]:
    """The lines of a module that `add_import` replaces, or the gap (n, n - 1) before line n that it fills."""
    return _import(package, (), module)[0]


def _import(package: str, names: Sequence[str], module: Module) -> tuple[tuple[int, int], str]:
    code = next((n.lineno for n in module.tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))), None)
    top = [n for n in module.tree.body if code is None or n.lineno < code]
    imports = [n for n in top if isinstance(n, (ast.Import, ast.ImportFrom))]
    existing = [n for n in imports if isinstance(n, ast.ImportFrom) and n.module == package and not n.level]
    if existing:
        have = {ast.unparse(alias) for node in existing[:1] for alias in node.names}
        line = f"from {package} import {', '.join(sorted(have | set(names)))}\n"
        return (existing[0].lineno, existing[0].end_lineno or 0), line
    own = [
        n for n in imports if isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] == package.split(".")[0]
    ]
    line = f"from {package} import {', '.join(sorted(names))}\n"
    for node in own:
        if (node.module or "") > package:
            return (node.lineno, node.lineno - 1), line
    if imports:
        gap = "" if own else "\n"
        last = (own or imports)[-1].end_lineno or 0
        return (last + 1, last), gap + line
    first = module.tree.body[ast.get_docstring(module.tree, clean=False) is not None]
    return (first.lineno, first.lineno - 1), f"{line}\n"
