"""The binding that fits the in-tree V2 runners to a tree: read from the tree's classes and V1 runners, and written."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omni_migrate.facts.modules import Modules
from omni_migrate.knowledge import model_interface, read_toml
from omni_migrate.runners import in_tree_worker


class BindingError(Exception):
    """A name that the binding needs and the tree does not have, or has in more than one place; one line."""


@dataclass(frozen=True)
class BindingFacts:
    """What a tree calls the things that the V2 runners need. `imports` maps a name to its module.

    `connector_tests` are functions of the model's configuration, `connector_archs` model names, by which the V1 runners
    decide to have a connector of their own. `unported` are capabilities of models, sorted.
    """

    imports: Mapping[str, str]
    payload_fields: tuple[str, ...]
    request_fields: frozenset[str]
    cached_fields: frozenset[str]
    entry_fields: frozenset[str]
    talker_names: tuple[str, ...]
    talker_key: str | tuple[str, ...]
    tensors_only: bool
    prefix_cache: bool
    kv_metadata: str
    connector_tests: tuple[str, ...]
    connector_archs: tuple[str, ...]
    unported: tuple[str, ...]


def read_binding(modules: Modules, package: str, own: Collection[str]) -> BindingFacts:
    """The facts of a tree; `own` are the paths of the port itself, which are not read.

    Raises BindingError.
    """
    names = read_toml("v2_port.toml")["names"]
    reader = _Reader(modules, package, own, names)
    return reader.read()


class _Reader:
    def __init__(self, modules: Modules, package: str, own: Collection[str], names: Mapping[str, Any]) -> None:
        self.modules, self.package, self.own, self.names = modules, package, own, names
        paths = [p for p in modules.workspace.python_files((f"{package}/worker",)) if p not in own]
        self.worker = [module for path in paths if (module := modules.get(path)) is not None]

    def read(self) -> BindingFacts:
        names = self.names
        imports = {names[key]: self._home(names[key]) for key in ("model_output", "runner_output", "kv_manager")}
        decoder = self._home(names["decoder"], optional=True)
        if decoder:
            imports[names["decoder"]] = decoder
        tests, archs = self._connectors(imports)
        text = "\n".join(module.text for module in self.worker)
        if f"{names['flatten']}(" in text:
            imports[names["flatten"]] = self._home(names["flatten"])
        return BindingFacts(
            imports=imports,
            payload_fields=self._payload_fields(),
            request_fields=self._fields(names["new_request"]),
            cached_fields=self._fields(names["cached_request"]),
            entry_fields=frozenset() if decoder else self._fields("AdditionalInformationEntry"),
            talker_names=tuple(name for name in names["talker"] if re.search(rf'\.{name}\b|"{name}"', text)),
            talker_key=self._talker_key(),
            tensors_only=f"def {names['tensors_only']}(" in text,
            prefix_cache=names["prefix_cache"] in text,
            kv_metadata=self._kv_metadata(),
            connector_tests=tests,
            connector_archs=archs,
            unported=tuple(sorted(self._unported())),
        )

    def _home(self, name: str, optional: bool = False) -> str:
        """The module that defines a class or function of this name."""
        found = []
        for path in self.modules.mentioning({f"class {name}", f"def {name}"}, self.package):
            module = self.modules.get(path) if path not in self.own else None
            for node in module.tree.body if module else ():
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                    found.append((f"{path}:{node.lineno}", module.name))  # type: ignore[union-attr]
        unread = self.modules.unread_definition(name, self.package) if not found else ""
        if not found and optional and not unread:
            return ""
        if len(found) != 1:
            places = ", ".join(place for place, _ in found) or "no module"
            raise BindingError(f"{name} is defined in {places}{f' that is read: {unread}' if unread else ''}")
        return found[0][1]

    def _fields(self, name: str) -> frozenset[str]:
        """The annotated fields of a class of the tree."""
        home = self._home(name).replace(".", "/")
        module = self.modules.get(f"{home}.py") if self.modules.workspace.exists(f"{home}.py") else None
        module = module or self.modules.get(f"{home}/__init__.py")
        node = module.classes[name] if module else None
        return frozenset(
            s.target.id
            for s in (node.body if node else ())
            if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
        )

    def _payload_fields(self) -> tuple[str, ...]:
        """The payload fields that the V1 runners fill in the output they build."""
        filled = set()
        for node in self._nodes:
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == self.names["runner_output"]:
                given = {k.arg for k in node.keywords if not (isinstance(k.value, ast.Constant) and not k.value.value)}
                filled |= given & set(self.names["payload_fields"])
        if not filled:
            raise BindingError(f"no runner puts payloads into {self.names['runner_output']}")
        return tuple(field for field in self.names["payload_fields"] if field in filled)

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        kinds = (ast.Call, ast.FunctionDef)
        return [node for module in self.worker for node in ast.walk(module.tree) if isinstance(node, kinds)]

    def _talker_key(self) -> str | tuple[str, ...]:
        """Where the V1 runner puts MTP's codes unless the model says: a probe's default, or the key that it writes."""
        for node in self._nodes:
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "getattr" or len(node.args) != 3:
                continue
            if getattr(node.args[1], "value", None) == self.names["talker_key"]:
                default = ast.literal_eval(node.args[2])
                if default is not None:
                    return tuple(default) if isinstance(default, tuple) else str(default)
        for node in self._nodes:
            if isinstance(node, ast.FunctionDef) and node.name in self.names["talker_method"]:
                written = [n for n in ast.walk(node) if isinstance(n, ast.Dict) and len(n.keys) == 1]
                keys = {n.keys[0].value for n in written if isinstance(n.keys[0], ast.Constant)}
                if len(keys) == 1:
                    return str(keys.pop())
        raise BindingError(f"the runners do not say where {self.names['talker'][0]}'s codes go")

    def _kv_metadata(self) -> str:
        """How the V1 runner asks a model for the metadata of a KV transfer: "", `id` alone, or with `tokens`."""
        named, method = [n for n in self._nodes if isinstance(n, ast.Call)], self.names["kv_metadata"]
        calls = [node for node in named if getattr(node.func, "attr", "") == method]
        if any(keyword.arg == "num_computed_tokens" for node in calls for keyword in node.keywords):
            return "tokens"
        return "id" if calls else ""

    def _connectors(self, imports: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """On what the V1 runners set up a connector: functions of the model's configuration, names of models."""
        tests: set[str] = set()
        archs: set[str] = set()
        for module in self.worker:
            for function in ast.walk(module.tree):
                if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                    for condition in _conditions(function, self.names["connector_setup"]):
                        for node in ast.walk(condition):
                            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                                known = module.imports.get(node.func.id)
                                if known is not None and known.name and len(node.args) == 1:
                                    tests.add(node.func.id)
                                    imports[node.func.id] = known.module
                            elif isinstance(node, ast.Name):
                                archs |= _assigned_strings(function, node.id)
        return tuple(sorted(tests)), tuple(sorted(archs))

    def _unported(self) -> set[str]:
        """Attributes of models that the V1 runners ask for and the in-tree modules do not know."""
        known = set(re.findall(r"\w+", b"\n".join(in_tree_worker().values()).decode()))
        known |= model_interface() | set(read_toml("v2_port.toml")["spared"])
        found = set()
        for node in self._nodes:
            if not isinstance(node, ast.Call) or len(node.args) < 2:
                continue
            function, owner, asked = getattr(node.func, "id", ""), node.args[0], node.args[1]
            of_model = getattr(owner, "id", getattr(owner, "attr", "")) == "model"
            if function in ("getattr", "hasattr") and of_model and isinstance(asked, ast.Constant):
                found.add(str(asked.value))
        return found - known


def _conditions(function: ast.FunctionDef, called: str) -> Iterator[ast.expr]:
    """The conditions of `if` statements whose body calls a method of that name."""
    for node in ast.walk(function):
        if isinstance(node, ast.If) and any(getattr(n, "attr", "") == called for s in node.body for n in ast.walk(s)):
            yield node.test


def _assigned_strings(function: ast.FunctionDef, name: str) -> set[str]:
    """The strings of a set that a function assigns to a name."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Set):
            continue
        if any(getattr(target, "id", "") == name for target in node.targets):
            return {str(e.value) for e in node.value.elts if isinstance(e, ast.Constant)}
    return set()


def write_binding(facts: BindingFacts) -> bytes:
    """The binding's module."""
    from omni_migrate.plan.adapter_files import template_text

    names = read_toml("v2_port.toml")["names"]
    public = ",".join(f'\n    "{name}"' for name in sorted(needed_names() | PUBLIC, key=_export_order))
    values = {
        "ALL": public,
        "IMPORTS": "\n".join(_import_lines(facts.imports)),
        "TALKER_NAMES": _literal(facts.talker_names),
        "TALKER_KEY": _literal(facts.talker_key),
        "PAYLOAD_FIELDS": _literal(facts.payload_fields),
        "UNPORTED": _literal(facts.unported),
        "CONSTANTS": _connector_constant(facts),
        "INFO": _info(facts, names["decoder"]),
        "DECODER": _decoder(facts),
        "CACHED": _cached(facts, names["decoder"]),
        "PAYLOADS": _PAYLOADS_OF_TENSORS if facts.tensors_only else "",
        "FLATTEN": f"{names['flatten']}(outputs)" if names["flatten"] in facts.imports else "dict(outputs)",
        "RUNNER_OUTPUT": names["runner_output"],
        "REASONS": _reasons(facts),
        "KV_MANAGER": names["kv_manager"],
        "KV_METADATA": _kv_request(facts, names["kv_metadata"]),
    }
    text = template_text("v2_binding.py.txt")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.encode()


PUBLIC = frozenset({"RequestPayload", "FinishedKVTransfer", "v1_reason"})
"""What the binding has beside the names that the in-tree modules take from it."""


def _export_order(name: str) -> tuple[bool, bool, str]:
    """Constants, classes, functions, as ruff sorts them."""
    return (not name.isupper(), not name[0].isupper(), name)


_PAYLOADS_OF_TENSORS = """\
    if payloads is not None:
        payloads = [_tensors(payload) for payload in payloads]
        payloads = payloads if any(payloads) else None
"""


def _import_lines(imports: Mapping[str, str]) -> Iterator[str]:
    homes: dict[str, list[str]] = {}
    for name, module in imports.items():
        homes.setdefault(module, []).append(name)
    for module in sorted(homes):
        yield f"from {module} import {', '.join(sorted(homes[module]))}"


def _literal(value: str | tuple[str, ...]) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    items = ", ".join(f'"{item}"' for item in value)
    line = f"({items}{',' if len(value) == 1 else ''})"
    if len(line) <= 90:
        return line
    return "(\n" + "".join(f'    "{item}",\n' for item in value) + ")"


def _connector_constant(facts: BindingFacts) -> str:
    if not facts.connector_archs:
        return ""
    return f'CONNECTED = {_literal(facts.connector_archs)}\n"""Models whose runner has a connector of its own."""\n'


def _info(facts: BindingFacts, decoder: str) -> str:
    decode = decoder if decoder in facts.imports else "_information"
    lines = [f"    info = {decode}(new_request.additional_information)"]
    if "model_intermediate_buffer" in facts.request_fields:
        lines.append("    info = info or dict(new_request.model_intermediate_buffer or {})")
    return "\n".join(lines)


def _decoder(facts: BindingFacts) -> str:
    text = ""
    if facts.tensors_only:
        text += '''
def _tensors(payload: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The wire takes tensors alone: numbers and lists of them become tensors, anything else is left out."""
    kept: dict[str, torch.Tensor] = {}
    for name, value in payload.items():
        if isinstance(value, torch.Tensor):
            kept[name] = value
        elif isinstance(value, bool | int | float | list | tuple):
            try:
                kept[name] = torch.tensor(value)
            except (ValueError, TypeError, RuntimeError):
                continue
    return kept

'''
    if facts.entry_fields:
        others = [name for name in ("list_data", "scalar_data") if name in facts.entry_fields]
        value = f"entry.{others[0]}"
        if len(others) > 1:
            value = f"entry.{others[0]} if entry.{others[0]} is not None else entry.{others[1]}"
        text += f'''
def _information(payload: Any) -> dict[str, Any]:
    """The dict of a payload; of one that is a dict already, itself."""
    if payload is None or isinstance(payload, dict):
        return payload or {{}}
    info: dict[str, Any] = {{}}
    for name, entry in payload.entries.items():
        if entry.tensor_data is not None:
            kind = getattr(torch, entry.tensor_dtype)
            info[name] = torch.frombuffer(bytearray(entry.tensor_data), dtype=kind).reshape(entry.tensor_shape)
        else:
            info[name] = {value}
    return info

'''
    return text


def _cached(facts: BindingFacts, decoder: str) -> str:
    if "additional_information" not in facts.cached_fields:
        return "    return {}"
    decode = decoder if decoder in facts.imports else "_information"
    return (
        '    updates = getattr(cached_requests, "additional_information", None) or {}\n'
        f"    return {{req_id: {decode}(update) for req_id, update in updates.items() if update}}"
    )


def _reasons(facts: BindingFacts) -> str:
    text = ""
    if facts.prefix_cache:
        text += """\
    if vllm_config.cache_config.enable_prefix_caching and getattr(config, "engine_output_type", None) != "text":
        return "the prefix cache of hidden states is not ported to V2"
"""
    tests = [f"{name}(config)" for name in facts.connector_tests]
    if facts.connector_archs:
        text += '    archs = {getattr(config, "model_arch", None), *(getattr(config, "architectures", None) or ())}\n'
        tests.append("archs & set(CONNECTED)")
    if tests:
        text += f"""\
    if {" or ".join(tests)}:
        return "its runner has a connector of its own, which is not ported to V2"
"""
    return text


def _kv_request(facts: BindingFacts, method: str) -> str:
    if not facts.kv_metadata:
        return ""
    tokens = ', num_computed_tokens=request.get("seq_len")' if facts.kv_metadata == "tokens" else ""
    return f'''\
        model = runner.get_model()
        if hasattr(model, "{method}"):
            known = model.{method}(req_id{tokens}) or {{}}
            request = {{**request, "custom_metadata": {{**(request.get("custom_metadata") or {{}}), **known}}}}
'''


def binding_path(package: str) -> str:
    """Where the binding stands."""
    return posixpath.join(package, "worker", "binding.py")


def needed_names() -> frozenset[str]:
    """The names that the in-tree modules take from their binding."""
    found: set[str] = set()
    for path, data in in_tree_worker().items():
        if path == "binding.py":
            continue
        for node in ast.walk(ast.parse(data)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("worker.binding"):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "binding":
                found.add(node.attr)
    return frozenset(found)
