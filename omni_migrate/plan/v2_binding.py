"""The binding that fits the in-tree V2 runners to a tree: read from the tree's classes and V1 runners, and written."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omni_migrate.facts.helpers import holds_model, probing_helpers
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.facts.sites import model_aliases
from omni_migrate.facts.syntax import children, walk
from omni_migrate.knowledge import model_interface, read_toml, upstream_runners
from omni_migrate.runners import in_tree_worker


class BindingError(Exception):
    """A name that the binding needs and the tree does not have, or has in more than one place; one line."""


@dataclass(frozen=True)
class BindingFacts:
    """What a tree calls the things that the V2 runners need. `imports` maps a name to its module.

    `connector_tests` are functions of the model's configuration, `connector_archs` model names, by which the V1 runners
    decide to have a connector of their own. `unported` are capabilities of models, sorted; `assigned` are the
    models that give themselves one when they are built, which their class does not tell, with its name.
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
    assigned: tuple[tuple[str, str], ...]


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
        paths = {path for path in modules.searched(f"{package}/worker") if path not in own}
        runners = find_runners(modules, package, upstream_runners())
        paths |= {r.path for r in runners if r.api == "V1" and not r.platform and r.path not in own}
        self.worker = [module for path in sorted(paths) if (module := modules.get(path)) is not None]

    def read(self) -> BindingFacts:
        names = self.names
        imports = {names[key]: self._home(names[key]) for key in ("model_output", "runner_output", "kv_manager")}
        decoder = self._home(names["decoder"], optional=True)
        if decoder:
            imports[names["decoder"]] = decoder
        tests, archs = self._connectors(imports)
        text = "\n".join(module.text for module in self.worker)
        if any(self._calls(names["flatten"])):
            imports[names["flatten"]] = self._home(names["flatten"])
        unported = tuple(sorted(self._unported()))
        return BindingFacts(
            imports=imports,
            payload_fields=self._payload_fields(),
            request_fields=self._fields(names["new_request"]),
            cached_fields=self._fields(names["cached_request"]),
            entry_fields=frozenset() if decoder else self._fields("AdditionalInformationEntry"),
            talker_names=tuple(name for name in names["talker"] if name in self._named),
            talker_key=self._talker_key(),
            tensors_only=any(self._calls(names["tensors_only"])),
            prefix_cache=names["prefix_cache"] in text,
            kv_metadata=self._kv_metadata(),
            connector_tests=tests,
            connector_archs=archs,
            unported=unported,
            assigned=tuple(sorted(self._assigned(unported))),
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
        known, output = set(self.names["payload_fields"]), self.names["runner_output"]
        filled = set()
        for module, call in self._calls(output):
            if call.args or any(keyword.arg is None for keyword in call.keywords):
                raise BindingError(f"{module.path}:{call.lineno} does not say by name what it puts into {output}")
            filled |= known & {k.arg for k in call.keywords if not _is_nothing(k.value)}
        for _, node in self._nodes:  # output.multimodal_outputs = payloads
            if isinstance(node, ast.Assign) and not _is_nothing(node.value):
                stored = [t for t in node.targets if isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name)]
                filled |= known & {t.attr for t in stored if getattr(t.value, "id", "") != "self"}
        if not filled:
            raise BindingError(f"no runner puts payloads into {output}")
        return tuple(field for field in self.names["payload_fields"] if field in filled)

    @cached_property
    def _nodes(self) -> list[tuple[Module, ast.AST]]:
        kinds = (ast.Call, ast.FunctionDef, ast.Assign, ast.Attribute, ast.Constant)
        return [(module, n) for module in self.worker for n in walk(module.tree) if isinstance(n, kinds)]

    @cached_property
    def _named(self) -> frozenset[str]:
        """Every attribute and string of the runners; a comment or docstring names nothing."""
        names = (getattr(node, "attr", getattr(node, "value", None)) for _, node in self._nodes)
        return frozenset(name for name in names if isinstance(name, str))

    def _calls(self, name: str) -> Iterator[tuple[Module, ast.Call]]:
        """The calls of a class, function or method of this name, also under the name that an import gives it."""
        for module, node in self._nodes:
            if isinstance(node, ast.Call):
                function = node.func
                called = getattr(function, "attr", None)
                if isinstance(function, ast.Name):
                    imported = module.imports.get(function.id)
                    called = imported.name if imported is not None else function.id
                if called == name:
                    yield module, node

    def _talker_key(self) -> str | tuple[str, ...]:
        """Where the V1 runner puts MTP's codes unless the model says: a probe's default, or the key that it writes."""
        probe, found, places = self.names["talker_key"], set(), []
        for module, node in self._calls("getattr"):
            if len(node.args) == 3 and _literal_of(module, node.args[1]) == probe:
                default = _literal_of(module, node.args[2])
                if isinstance(default, (str, tuple)):
                    found.add(default)
                    places.append(f"{module.path}:{node.lineno}")
                elif not _is_nothing(node.args[2]):
                    raise BindingError(f"{module.path}:{node.lineno} has a default of {probe} that is not known")
        if len(found) > 1:
            raise BindingError(f"{', '.join(places)} have different defaults of {probe}")
        if found:
            return found.pop()
        for _, method in self._nodes:
            if isinstance(method, ast.FunctionDef) and method.name in self.names["talker_method"]:
                written = [n for n in walk(method) if isinstance(n, ast.Dict) and len(n.keys) == 1]
                keys = {n.keys[0].value for n in written if isinstance(n.keys[0], ast.Constant)}
                if len(keys) == 1:
                    return str(keys.pop())
        raise BindingError(f"the runners do not say where {self.names['talker'][0]}'s codes go")

    def _kv_metadata(self) -> str:
        """How the V1 runner asks a model for the metadata of a KV transfer: "", `id` alone, or with `tokens`."""
        method = self.names["kv_metadata"]
        calls = [node for _, node in self._calls(method)]
        if any(keyword.arg == "num_computed_tokens" for node in calls for keyword in node.keywords):
            return "tokens"
        if not calls and method in self._named:
            raise BindingError(f"the runners ask a model for {method} in a way that is not known")
        return "id" if calls else ""

    def _connectors(self, imports: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """On what the V1 runners set up a connector: functions of the model's configuration, names of models."""
        tests: dict[str, str] = {}
        archs: set[str] = set()
        for module in self.worker:
            for function in (n for n in walk(module.tree) if isinstance(n, ast.FunctionDef)):
                for call, conditions in _set_up(function, self.names["connector_setup"]):
                    known = [_asked(module, function, condition) for condition in conditions]
                    if not any(known):
                        raise BindingError(
                            f"{module.path}:{call.lineno} sets up a connector of the runner's own on a condition that "
                            "is not known"
                        )
                    for found in filter(None, known):
                        tests |= found[0]
                        archs |= found[1]
        imports |= tests
        return tuple(sorted(tests)), tuple(sorted(archs))

    def _unported(self) -> set[str]:
        """Attributes of models that the V1 runners ask for and the in-tree modules do not know."""
        known = set(re.findall(r"\w+", b"\n".join(in_tree_worker().values()).decode()))
        known |= model_interface() | set(read_toml("v2_port.toml")["spared"])
        found = set()
        helpers = self._helpers()
        for module in self.worker:
            held = self._held(module)
            for call in (n for n in walk(module.tree) if isinstance(n, ast.Call) and n.args):
                named, owner = getattr(call.func, "id", getattr(call.func, "attr", "")), call.args[0]
                of_model = getattr(owner, "id", getattr(owner, "attr", "")) == "model" or id(owner) in held
                place = 1 if named in ("getattr", "hasattr") and of_model else helpers.get(named, len(call.args))
                asked = _literal_of(module, call.args[place]) if place < len(call.args) else None
                if isinstance(asked, str):
                    found.add(asked)
        return found - known

    def _assigned(self, unported: Collection[str]) -> set[tuple[str, str]]:
        """The classes of models that assign one of these to `self`, with the name."""
        found = set()
        paths = self.modules.mentioning({f".{name}" for name in unported}, f"{self.package}/model_executor")
        for module in filter(None, map(self.modules.get, paths)):
            for owner in module.classes.values():
                for node in (n for n in walk(owner) if isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    stored = [t.attr for t in targets if isinstance(t, ast.Attribute)]
                    found |= {(owner.name, name) for name in stored if name in unported and not _is_nothing(node.value)}
        return found

    def _helpers(self) -> dict[str, int]:
        """The runners' own functions that ask the model for an attribute, with the argument that names it."""
        functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        for module in self.worker:
            functions |= {n.name: n for n in module.tree.body if isinstance(n, ast.FunctionDef)}
            for node in module.classes.values():
                methods |= {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        found = probing_helpers(methods, functions)
        return {name: helper.place for name, helper in found.items() if helper.place >= 0 and not helper.capabilities}

    def _held(self, module: Module) -> set[int]:
        """The expressions of a module, by identity, that hold the model under another name."""
        held = set()
        for function in (n for n in walk(module.tree) if isinstance(n, ast.FunctionDef)):
            nodes = list(walk(function))
            names = [n for n in nodes if isinstance(n, (ast.Name, ast.Call))]
            for argument in function.args.args:  # an adapter is given the runner
                aliases = model_aliases(function, argument.arg, nodes)
                held |= {id(n) for n in names if holds_model(n, argument.arg, {}, aliases)}
        return held


def _is_nothing(node: ast.expr | None) -> bool:
    """`None`, `[]`, `{}`, `False`."""
    if isinstance(node, ast.Constant):
        return not node.value
    return not getattr(node, "elts", getattr(node, "keys", True))


def _literal_of(module: Module, node: ast.expr) -> Any:
    """The value of a literal, or of a name that the module assigns one to; None if it is neither."""
    if isinstance(node, ast.Name):
        given = [
            n.value for n in module.tree.body
            if isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value is not None
            and any(getattr(t, "id", "") == node.id for t in (n.targets if isinstance(n, ast.Assign) else [n.target]))
        ]  # fmt: skip
        if len(given) != 1:
            return None
        node = given[0]
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _set_up(function: ast.FunctionDef, called: str) -> Iterator[tuple[ast.Call, list[ast.expr]]]:
    """The calls of a method of that name in a function, each with the conditions of the `if`s around it."""
    pending: list[tuple[ast.AST, list[ast.expr]]] = [(statement, []) for statement in function.body]
    while pending:
        node, conditions = pending.pop()
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == called:
            yield node, conditions
        if isinstance(node, ast.If):
            pending += [(n, [*conditions, node.test]) for n in node.body] + [(n, conditions) for n in node.orelse]
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            pending += [(n, conditions) for n in children(node)]


def _asked(module: Module, function: ast.FunctionDef, condition: ast.expr) -> tuple[dict[str, str], set[str]] | None:
    """What a condition asks: functions of the configuration with their modules, and names of models; None if another.

    Of `a and b` one side that is known will do, since it holds wherever the whole does; of `a or b` both must be.
    """
    if isinstance(condition, ast.BoolOp):
        sides = [_asked(module, function, side) for side in condition.values]
        known = [side for side in sides if side is not None]
        if isinstance(condition.op, ast.And):
            return known[0] if known else None
        if len(known) < len(sides):
            return None
        return {k: v for side in known for k, v in side[0].items()}, set().union(*(side[1] for side in known))
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1:
        operator, other = condition.ops[0], condition.comparators[0]
        if isinstance(operator, ast.IsNot) and isinstance(other, ast.Constant) and other.value is None:
            condition = condition.left
        elif isinstance(operator, ast.In):
            archs = _strings(module, function, other)
            return ({}, archs) if archs else None
    if isinstance(condition, ast.BinOp) and isinstance(condition.op, ast.BitAnd):
        left, right = condition.left, condition.right
        archs = _strings(module, function, left) or _strings(module, function, right)
        return ({}, archs) if archs else None
    if isinstance(condition, ast.Call) and len(condition.args) == 1 and not condition.keywords:
        home, _, name = (module.qualify(condition.func) or "").rpartition(".")
        return ({name: home}, set()) if home else None
    return None


def _strings(module: Module, function: ast.FunctionDef, node: ast.expr) -> set[str]:
    """The strings of a collection that is written there, or assigned once to a name, in the function or the module."""
    if isinstance(node, ast.Name):
        assigned = [n for n in (*walk(function), *module.tree.body) if isinstance(n, (ast.Assign, ast.AnnAssign))]
        given = [
            n.value for n in assigned
            if any(getattr(t, "id", "") == node.id for t in (n.targets if isinstance(n, ast.Assign) else [n.target]))
        ]  # fmt: skip
        return _strings(module, function, given[0]) if len(given) == 1 and given[0] is not None else set()
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("frozenset", "set", "tuple") and node.args:
        return _strings(module, function, node.args[0])
    elements = node.elts if isinstance(node, (ast.Set, ast.List, ast.Tuple)) else []
    strings = {e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)}
    return strings if len(strings) == len(elements) else set()


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
        "CONSTANTS": _connector_constant(facts) + _assigned_constant(facts),
        "ASSIGNED": _ASSIGNED if facts.assigned else "",
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


_ASSIGNED = """\
    names = {base.__name__ for base in model.__mro__}
    asked = asked or next((name for owner, name in ASSIGNED if owner in names), None)
"""


def _assigned_constant(facts: BindingFacts) -> str:
    if not facts.assigned:
        return ""
    rows = "".join(f'    ("{owner}", "{name}"),\n' for owner, name in facts.assigned)
    return f'ASSIGNED = (\n{rows})\n"""Models that give themselves such a thing when they are built."""\n'


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
        for node in walk(ast.parse(data)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("worker.binding"):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "binding":
                found.add(node.attr)
    return frozenset(found)
