"""The test module that a phase brings for what it moved (RFC-003 §4, "a separate PR with targeted tests").

For one adapter: the registry resolves every registered class; the runners' delegates reach the adapter; and for a model
without the capability the moved code, run on stubs, gives what the default adapter gives.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from omni_migrate.errors import InputError
from omni_migrate.facts.absence import UNSET
from omni_migrate.facts.modules import Module, module_name
from omni_migrate.knowledge import AdapterSpec
from omni_migrate.plan.adapter_files import docstring, template_text
from omni_migrate.plan.kept_files import (
    Insertion,
    after_imports,
    apply,
    below_line,
    bindings,
    bound_once,
    into_list,
    plain_list,
    same_import,
)

TESTS = "tests/worker/adapters"
# What the platform's runners import besides vLLM: without it their tests are skipped.
_PLATFORM_PACKAGES = {"npu": "vllm_ascend"}


@dataclass(frozen=True)
class _Section:
    """A table with its tests: `names` are what else it defines, `needs` what it finds in the module."""

    template: str
    width: int  # cells of a row
    key: int  # of these, how many say what the row is about
    names: tuple[str, ...]
    needs: tuple[str, ...] = ()


_SECTIONS = {
    "DELEGATES": _Section("test_delegates.py.txt", 6, 4, ("test_the_runner_dispatches_to_the_adapter",)),
    "AGREEING": _Section(
        "test_defaults.py.txt",
        2,
        1,
        ("StubRunner", "test_without_the_capability_the_moved_code_does_what_the_default_does"),
        ("model_of",),
    ),
}
# One of these, and a test module is the tool's, whatever people made of the rest.
_OWN_NAMES = {"REGISTERED", "test_a_registered_class_gets_the_adapter", "test_any_other_model_does_not", *_SECTIONS}


@dataclass(frozen=True)
class Delegate:
    """A runner's one-line delegate: what a test calls and what must be reached."""

    path: str
    runner: str
    method: str
    hook: str
    positional: int  # arguments after the receiver
    keywords: tuple[str, ...]


def registry_test(package: str) -> str:
    """The test module of phase 1."""
    return template_text("test_registry.py.txt").replace("@PACKAGE@", package)


@dataclass(frozen=True)
class AdapterTest:
    """The test module of one adapter. `package` is the adapters' package, `agreeing` are what own_defaults() found."""

    spec: AdapterSpec
    class_name: str
    module: str
    package: str
    registered: Sequence[str]
    delegates: Sequence[Delegate]
    agreeing: Sequence[tuple[str, tuple[bool, ...]]]
    platform: str

    def new(self) -> str:
        """Its text where there is none."""
        text = template_text("test_adapter.py.txt")
        imports = ["import importlib"] if self.delegates else []
        imports += ["from unittest.mock import MagicMock"] if self.delegates or self.agreeing else []
        needs = _PLATFORM_PACKAGES.get(self.platform)
        if self.spec.capabilities:
            text += template_text("test_capabilities.py.txt")
        for table, section in _SECTIONS.items():
            text += template_text(section.template) if self._rows()[table] else ""
        parts = {
            "@USED@": "DefaultModelRunnerAdapter, ModelAdapterRegistry" if self.agreeing else "ModelAdapterRegistry",
            "@PACKAGE@": self.package,
            "@MODULE@": self.module,
            "@IMPORTS@": "\n".join(imports),
            "@SKIP@": f'pytest.importorskip("{needs}")\n\n' if needs else "",
        }
        for key, value in parts.items():
            text = text.replace(key, value)
        # Last, for a summary may hold what looks like a key.
        return self._filled(text).replace("@SUMMARY@", docstring(f"{self.spec.summary} (RFC-003)."), 1)

    def added_to(self, module: Module) -> str:
        """The text of a module that is there, with the rows, and the tables with their tests, that it lacks.

        Nothing of it changes. Raises InputError if it is not the tool's, or rows can't be added to what it has become.
        """
        if not _OWN_NAMES & bindings(module).keys():
            raise InputError(f"{module.path} is in the way: omni-migrate did not make it; move it elsewhere first")
        rows, text, insertions = self._rows(), "", []
        for table, section in _SECTIONS.items():
            if not rows[table]:
                continue
            bound_once(module, section.names, (ast.FunctionDef, ast.ClassDef))
            display = self._table(module, table, section.width)
            if display is None:
                text += self._section(module, section)
            else:
                rows[table] = _without(display, rows[table], section.key)
                insertions += into_list(module, display, rows[table])
        names = ["REGISTERED"] + (["UNSET", "STATE"] if "AGREEING" in bindings(module) else [])
        for name in names:
            display = self._table(module, name, 0) if rows[name] else None
            insertions += into_list(module, display, rows[name]) if display is not None else []
        if text:
            insertions += [*self._imports(module, rows), below_line(module, len(module.lines), self._filled(text))]
        return apply(module, insertions)

    def _rows(self) -> dict[str, list[str]]:
        """The rows of each table, as source."""
        state = self.spec.state.items()
        return {
            "REGISTERED": [f'"{name}"' for name in self.registered],
            "DELEGATES": [
                f'("{module_name(d.path)}", "{d.runner}", "{d.method}", "{d.hook}", {d.positional}, {d.keywords!r})'
                for d in self.delegates
            ],
            "UNSET": [f'"{name}"' for name in sorted(name for name, value in state if value == UNSET)],
            "STATE": [f"{name!r}: {value!r}" for name, value in state if value != UNSET],
            "AGREEING": [f'("{hook}", {list(is_model)!r})' for hook, is_model in self.agreeing],
        }

    def _filled(self, text: str) -> str:
        for table, rows in self._rows().items():
            lines = "".join(f"    {row},\n" for row in rows) if table in _SECTIONS else ", ".join(rows)
            text = text.replace(f"@{table}@", lines)
        return text.replace("@CLASS@", self.class_name)

    def _table(self, module: Module, name: str, width: int) -> ast.List | ast.Dict | None:
        display = plain_list(module, name, "it gets rows for what moves now")
        rows = display.elts if isinstance(display, ast.List) else []
        wrong = isinstance(display, ast.Dict) != (name == "STATE")
        if display is not None and (wrong or (width and any(len(_cells(row)) != width for row in rows))):
            raise InputError(
                f"{module.path}:{display.lineno} {name} has other rows than omni-migrate writes, and gets some for "
                "what moves now: give your table another name"
            )
        return display

    def _section(self, module: Module, section: _Section) -> str:
        """A table and its tests, of which the module has nothing yet, and which finds in it what it needs."""
        bound = bindings(module)
        taken = next((name for name in section.names if name in bound), None)
        missing = next((name for name in section.needs if name not in bound), None)
        if taken is not None:
            line = getattr(bound[taken][0], "lineno", 0)
            raise InputError(
                f"{module.path}:{line} {taken} is in the way of the tests for what moves now: give it another name"
            )
        if missing is not None:
            raise InputError(
                f"{module.path} has no {missing} any more, which the tests for what moves now need: restore it"
            )
        return template_text(section.template)

    def _imports(self, module: Module, rows: Mapping[str, Sequence[str]]) -> list[Insertion]:
        """What new sections import and the module does not."""
        needed = {"pytest": "pytest", "MagicMock": "unittest.mock", self.class_name: self.module}
        needed |= {"importlib": "importlib"} if rows["DELEGATES"] else {}
        needed |= {"DefaultModelRunnerAdapter": self.package} if rows["AGREEING"] else {}
        lines = [
            f"import {name}" if name == source else f"from {source} import {name}"
            for name, source in needed.items()
            if not same_import(module, name, source)
        ]
        return [after_imports(module, lines)] if lines else []


def refuse_foreign_test(module: Module) -> None:
    """Raises InputError if a test module of the registry is there that the tool did not make."""
    if "test_a_model_that_nobody_registered_gets_the_default" not in bindings(module):
        raise InputError(f"{module.path} is in the way: omni-migrate did not make it; move it elsewhere first")


def _cells(row: ast.expr) -> list[ast.expr]:
    """The cells of a table's row, also of `pytest.param(...)`."""
    return row.elts if isinstance(row, (ast.Tuple, ast.List)) else row.args if isinstance(row, ast.Call) else []


def _without(display: ast.List | ast.Dict, rows: Sequence[str], key: int) -> list[str]:
    """The rows whose first `key` cells no row of the table has: one that a person edited stays as it is."""
    elements = display.elts if isinstance(display, ast.List) else []
    have = {tuple(map(ast.unparse, _cells(element)[:key])) for element in elements}
    parsed = ((row, ast.parse(row, mode="eval").body) for row in rows)
    return [row for row, node in parsed if tuple(map(ast.unparse, _cells(node)[:key])) not in have]


def delegate_of(module: Module, runner: str, method: str, hook: str) -> Delegate | None:
    """The delegate as it stands in the runner's module; None if it takes `*args` or `**kwargs`."""
    node = module.classes.get(runner)
    for function in node.body if node is not None else ():
        if isinstance(function, ast.FunctionDef) and function.name == method:
            if function.args.vararg or function.args.kwarg:
                return None
            keywords = tuple(argument.arg for argument in function.args.kwonlyargs)
            return Delegate(module.path, runner, method, hook, len(function.args.args) - 1, keywords)
    return None


def own_defaults(
    base: Module, adapter: Module, class_name: str, helpers: Collection[str], models: Collection[tuple[str, str]]
) -> list[tuple[str, tuple[bool, ...]]]:
    """The adapter's hooks whose default says something itself, instead of running the adapter's code.

    With each comes, for every parameter after the runner, whether it is the loaded model (`models` has them by hook and
    name). Hooks that probe through one of the runner's `helpers` are left out: a stub has no such helper.
    """
    default = base.classes.get("DefaultModelRunnerAdapter")
    owner = adapter.classes.get(class_name)
    if default is None or owner is None:
        return []
    own = {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef)}
    found = []
    for node in default.body:
        if isinstance(node, ast.FunctionDef) and node.name in own:
            runs_owner = any(isinstance(child, ast.ImportFrom) for child in node.body)
            plain = not (node.args.vararg or node.args.kwarg or node.args.kwonlyargs)
            helped = any(isinstance(n, ast.Attribute) and n.attr in helpers for n in ast.walk(own[node.name]))
            if plain and not runs_owner and not helped:
                names = [argument.arg for argument in node.args.args[2:]]
                found.append((node.name, tuple((node.name, name) in models for name in names)))
    return found
