"""Give a runner class its adapter: the `_adapter` attribute, and its resolution once the model is loaded."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from omni_migrate.facts.modules import Module, Modules, module_name
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.plan.method_text import replace_lines

_ATTRIBUTE = "_adapter = AdapterOfRunner()\n"
_RESOLVE = "self._adapter = ModelAdapterRegistry.get_adapter(self.model)\n"


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
    known = {f"{module_name(other.path)}.{other.name}" for other in runners if other is not runner}
    is_root = not any(base in known for base in runner.bases)
    text = module.text
    needed: list[str] = []
    if is_root or (runner.role == "mixin" and not loading):
        if not loading or runner.platform:
            load = _load_call(node)
            if load is not None and runner.role == "runner" and not _resolves(node):
                text = _after(text, load, _RESOLVE, module)
                needed.append("ModelAdapterRegistry")
            if not any(_is_attribute(statement) for statement in node.body):
                text = _into_class(text, node, module)
                needed.append("AdapterOfRunner")
    elif loading and runner.platform and not _resolves(node):
        load = _load_call(node)
        if load is not None and not _through_super(load):
            text = _after(text, load, _RESOLVE, module)
            needed.append("ModelAdapterRegistry")
    if needed:
        text = add_import(text, package, needed, module)
        modules.workspace.write(runner.path, module.file.encode(text))


def _is_attribute(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(getattr(target, "id", None) == "_adapter" for target in targets)


def _resolves(node: ast.ClassDef) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "get_adapter" for n in ast.walk(node))


def _load_call(node: ast.ClassDef) -> ast.stmt | None:
    """The statement of `load_model` that calls the upstream's."""
    load = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "load_model"), None)
    for statement in ast.walk(load) if load is not None else ():
        if isinstance(statement, (ast.Expr, ast.Assign)) and isinstance(statement.value, ast.Call):
            called = statement.value.func
            if isinstance(called, ast.Attribute) and called.attr == "load_model":
                return statement
    return None


def _through_super(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Call) and getattr(n.func, "id", "") == "super" for n in ast.walk(statement))


def _after(text: str, statement: ast.stmt, line: str, module: Module) -> str:
    end = statement.end_lineno or 0
    return replace_lines(text, end + 1, end, " " * statement.col_offset + line, module.file.newline)


def _into_class(text: str, node: ast.ClassDef, module: Module) -> str:
    """First in the class body, after its docstring."""
    first = node.body[0]
    indent = " " * first.col_offset
    if ast.get_docstring(node, clean=False) is not None:
        end = first.end_lineno or 0
        return replace_lines(text, end + 1, end, f"\n{indent}{_ATTRIBUTE}", module.file.newline)
    line = min([first.lineno, *(decorator.lineno for decorator in getattr(first, "decorator_list", []))])
    blank = "" if isinstance(first, (ast.Assign, ast.AnnAssign)) else "\n"
    return replace_lines(text, line, line - 1, f"{indent}{_ATTRIBUTE}{blank}", module.file.newline)


def add_import(text: str, package: str, names: Sequence[str], module: Module) -> str:
    """Import names of the adapter package, sorted among the imports of the tree's own package."""
    existing = [n for n in module.tree.body if isinstance(n, ast.ImportFrom) and n.module == package]
    if existing:
        have = {alias.name for node in existing for alias in node.names}
        names = sorted(have | set(names))
        node = existing[0]
        line = f"from {package} import {', '.join(names)}\n"
        return replace_lines(text, node.lineno, node.end_lineno or 0, line, module.file.newline)
    top = package.split(".")[0]
    imports = [n for n in module.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    own = [n for n in imports if isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] == top]
    line = f"from {package} import {', '.join(sorted(names))}\n"
    for node in own:
        if (node.module or "") > package:
            return replace_lines(text, node.lineno, node.lineno - 1, line, module.file.newline)
    last = (own or imports)[-1].end_lineno or 0
    gap = "" if own else "\n"
    return replace_lines(text, last + 1, last, gap + line, module.file.newline)
