"""The test module that a phase brings for what it moved (RFC-003 §4, "a separate PR with targeted tests").

For one adapter: the registry resolves every registered class; the runners' delegates reach the adapter; and for a model
without the capability the moved code, run on stubs, gives what the default adapter gives.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from omni_migrate.facts.absence import UNSET
from omni_migrate.facts.modules import Module, module_name
from omni_migrate.knowledge import AdapterSpec
from omni_migrate.plan.adapter_files import template_text

TESTS = "tests/worker/adapters"
# What the platform's runners import besides vLLM: without it their tests are skipped.
_PLATFORM_PACKAGES = {"npu": "vllm_ascend"}


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


def adapter_test(
    spec: AdapterSpec,
    class_name: str,
    module: str,
    package: str,
    registered: Sequence[str],
    delegates: Sequence[Delegate],
    agreeing: Sequence[tuple[str, tuple[bool, ...]]],
    platform: str,
) -> str:
    """The test module of one adapter. `agreeing` are what own_defaults() found."""
    text = template_text("test_adapter.py.txt")
    imports = ["import importlib"] if delegates else []
    imports += ["from unittest.mock import MagicMock"] if delegates or agreeing else []
    needs = _PLATFORM_PACKAGES.get(platform)
    if spec.capabilities:
        text += template_text("test_capabilities.py.txt")
    if delegates:
        rows = "".join(
            f'    ("{module_name(d.path)}", "{d.runner}", "{d.method}", "{d.hook}", {d.positional}, {d.keywords!r}),\n'
            for d in delegates
        )
        text += template_text("test_delegates.py.txt").replace("@DELEGATES@", rows)
    if agreeing:
        rows = "".join(f'    ("{hook}", {list(is_model)!r}),\n' for hook, is_model in agreeing)
        text += template_text("test_defaults.py.txt").replace("@AGREEING@", rows)
    unset = sorted(name for name, value in spec.state.items() if value == UNSET)
    parts = {
        "@USED@": "DefaultModelRunnerAdapter, ModelAdapterRegistry" if agreeing else "ModelAdapterRegistry",
        "@SUMMARY@": f"{spec.summary} (RFC-003)",
        "@PACKAGE@": package,
        "@MODULE@": module,
        "@CLASS@": class_name,
        "@IMPORTS@": "\n".join(imports),
        "@SKIP@": f'pytest.importorskip("{needs}")\n\n' if needs else "",
        "@REGISTERED@": _list(registered),
        "@UNSET@": _list(unset),
        "@STATE@": repr({name: value for name, value in spec.state.items() if value != UNSET}),
    }
    for key, value in parts.items():
        text = text.replace(key, value)
    return text


def _list(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


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
