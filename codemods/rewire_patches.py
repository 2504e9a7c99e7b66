"""Send the patches of a module's global along to the adapters that moved code now reads it from.

Before:
    import vllm_omni.worker.gpu_model_runner as mod

    monkeypatch.setattr(mod, "set_forward_context", fake)
    forward = mocker.patch("vllm_omni.worker.gpu_model_runner.set_forward_context")

After:
    import vllm_omni.worker.gpu_model_runner as mod

    monkeypatch.setattr(mod, "set_forward_context", fake)
    monkeypatch.setattr("vllm_omni.worker.adapters.qwen3_talker.set_forward_context", fake)
    forward = mocker.patch("vllm_omni.worker.gpu_model_runner.set_forward_context")
    mocker.patch("vllm_omni.worker.adapters.qwen3_talker.set_forward_context", forward)

What patches as a decorator, as a `with` item, by assignment, or with a value that cannot be written twice, is left and
named.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from codemods.blocks import call_text
from omni_migrate.facts.flow import bound_names, walk_scope
from omni_migrate.facts.modules import Module
from omni_migrate.facts.syntax import children, walk

# What builds a value that serves as well when it is built twice.
_STAND_INS = frozenset({"AsyncMock", "MagicMock", "Mock", "SimpleNamespace", "partial"})
_MOCK_MODULES = frozenset({"mock", "unittest.mock"})
_Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Reader:
    """An adapter module that reads a name of a runner's module. `own`: it has an object of its own under that name."""

    module: str
    own: bool = False


@dataclass(frozen=True)
class LeftPatch:
    """A patch that does not reach moved code: the statement's line, what it patches, and what it should patch too."""

    line: int
    target: str
    missing: tuple[str, ...]


@dataclass
class Rewired:
    """The new text, the patches that are left (their lines as in the new text), and what was added.

    `added` are pairs: the line of the old text after which lines were added, and how many.
    """

    text: str
    left: list[LeftPatch]
    added: list[tuple[int, int]]

    def line_now(self, line: int) -> int:
        """Where a line of the old text stands in the new one."""
        return line + sum(count for after, count in self.added if after < line)


Targets = Mapping[str, Mapping[str, Sequence[Reader]]]


def rewire_patches(module: Module, targets: Targets, line_length: int = 120) -> Rewired:
    """Add the patches that are missing in a file; `targets` has the readers by runner module and name."""
    rewirer = _Rewirer(module, targets, line_length)
    rewirer.visit(module.tree.body, _Scope().within(module, module.tree.body))
    lines = list(module.lines)
    newline = module.file.newline
    for after, text in sorted(rewirer.added, reverse=True):
        if not lines[after - 1].endswith("\n"):
            lines[after - 1] += newline
        lines[after:after] = [text.replace("\n", newline)]
    rewired = Rewired("".join(lines), [], [(after, text.count("\n")) for after, text in rewirer.added])
    rewired.left += [LeftPatch(rewired.line_now(one.line), one.target, one.missing) for one in rewirer.left]
    return rewired


@dataclass(frozen=True)
class _Scope:
    """Names that stand for a module, and names that stand for a text."""

    modules: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def within(self, module: Module, body: Sequence[ast.stmt], parameters: Sequence[str] = ()) -> _Scope:
        """The names as a function's body (or the module's) has them."""
        hidden = bound_names(body).union(parameters)
        modules = {name: found for name, found in self.modules.items() if name not in hidden}
        texts = {name: found for name, found in self.texts.items() if name not in hidden}
        for node in walk_scope(body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, found in module.resolve_import(node).items():
                    modules[name] = found.module if found.name is None else f"{found.module}.{found.name}"
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                    texts[node.targets[0].id] = node.value.value
                elif (imported := _imported_by_call(node.value)) is not None:
                    modules[node.targets[0].id] = imported
        return _Scope(modules, texts)

    def dotted(self, node: ast.expr) -> str | None:
        """What an expression made of attributes refers to, from a module on."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        head = self.modules.get(node.id) if isinstance(node, ast.Name) else _imported_by_call(node)
        return ".".join([head, *reversed(parts)]) if head is not None else None

    def text(self, node: ast.expr) -> str | None:
        """The text that an expression of literals and constants makes."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            return self.texts.get(node.id)
        parts: list[str | None] = [None]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [self.text(node.left), self.text(node.right)]
        elif isinstance(node, ast.JoinedStr):
            parts = [self.text(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
        known = [part for part in parts if part is not None]
        return "".join(known) if len(known) == len(parts) else None


def _imported_by_call(node: ast.expr) -> str | None:
    """`importlib.import_module("a.b")`, `pytest.importorskip("a.b")`, `sys.modules["a.b"]`."""
    argument: ast.expr | None = None
    if isinstance(node, ast.Call) and _last_name(node.func) in ("import_module", "importorskip") and node.args:
        argument = node.args[0]
    elif isinstance(node, ast.Subscript) and _last_name(node.value) == "modules":
        argument = node.slice
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else None


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@dataclass(frozen=True)
class _Patch:
    """A call that patches: what, by which arguments of it, and `through`: how the file reads it once it is patched."""

    target: str
    given: int  # how many arguments name the target
    through: str | None


class _Rewirer:
    def __init__(self, module: Module, targets: Targets, line_length: int) -> None:
        self.module, self.targets, self.line_length = module, targets, line_length
        self.added: list[tuple[int, str]] = []  # (line after which, text)
        self.left: list[LeftPatch] = []

    def visit(self, body: Sequence[ast.stmt], scope: _Scope) -> None:
        for index, node in enumerate(body):
            patched = [
                (call, patch, missing)
                for call in _own_calls(node)
                for patch in [self._patch(call, scope)]
                if patch is not None and (missing := self._missing(patch.target, body))
            ]
            for call, patch, missing in patched:
                texts = self._statements(node, call, patch, missing, scope) if len(patched) == 1 else None
                if texts is None or not self._stands_alone(body, index):
                    self.left.append(LeftPatch(call.lineno, patch.target, missing))
                else:
                    self.added += [(node.end_lineno or node.lineno, text) for text in texts]
            for target in self._assigned(node, scope):
                if missing := self._missing(target, body):
                    self.left.append(LeftPatch(node.lineno, target, missing))
            for inner in _inner_bodies(node):
                if isinstance(node, _Functions):
                    parameters = [argument.arg for argument in walk(node.args) if isinstance(argument, ast.arg)]
                    self.visit(inner, scope.within(self.module, inner, parameters))
                else:
                    self.visit(inner, scope)

    def _patch(self, call: ast.Call, scope: _Scope) -> _Patch | None:
        """What a call patches, if it is a patch of a global that moved code reads."""
        function = _last_name(call.func)
        if function not in ("setattr", "patch", "object") or not call.args:
            return None
        target = scope.text(call.args[0])
        if target is not None and function != "object":
            return _Patch(target, 1, None) if self._readers(target) else None
        owner = scope.dotted(call.args[0])
        name = scope.text(call.args[1]) if len(call.args) > 1 else None
        if owner is None or name is None or not self._readers(f"{owner}.{name}"):
            return None
        return _Patch(f"{owner}.{name}", 2, f"{ast.unparse(call.args[0])}.{name}")

    def _readers(self, target: str) -> list[str]:
        """The same target in the adapters: of a name that they import, or of an object of their own."""
        found: list[str] = []
        for runner, names in self.targets.items():
            if target.startswith(f"{runner}."):
                name, _, attribute = target[len(runner) + 1 :].partition(".")
                for reader in names.get(name, ()):
                    if not attribute or reader.own:
                        found.append(f"{reader.module}.{name}{'.' if attribute else ''}{attribute}")
        return found

    def _missing(self, target: str, body: Sequence[ast.stmt]) -> tuple[str, ...]:
        """Those of the adapters' targets that the same block does not patch already."""
        named = {n.value for node in body for n in walk(node) if isinstance(n, ast.Constant)}
        return tuple(reader for reader in self._readers(target) if reader not in named)

    def _statements(
        self, node: ast.stmt, call: ast.Call, patch: _Patch, missing: tuple[str, ...], scope: _Scope
    ) -> list[str] | None:
        """The statements that patch the adapters too, None if that cannot be done by statements."""
        fixture = _fixture(call.func, scope)
        if fixture is None:
            return None
        receiver, function = fixture
        if isinstance(node, ast.Expr) and node.value is call:
            rest = self._rest(call, patch)
        elif isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Name):
            rest = [node.targets[0].id] if function == "patch" else None
        else:
            rest = None
        if rest is None:
            return None
        first = self.module.lines[node.lineno - 1]
        indent = first[: len(first) - len(first.lstrip())]
        texts = []
        for target in missing:
            text = call_text(f"{receiver}.{function}", [f'"{target}"', *rest], "", len(indent), self.line_length)
            texts.append("".join(f"{indent}{line}\n" for line in text.splitlines()))
        return texts

    def _rest(self, call: ast.Call, patch: _Patch) -> list[str] | None:
        """The other arguments, so that the adapters get the same object."""
        values = call.args[patch.given :]
        if any(isinstance(value, ast.Starred) for value in values) or any(k.arg is None for k in call.keywords):
            return None
        rest = [ast.get_source_segment(self.module.text, value) or "" for value in values]
        if values and not all(map(_writable_twice, values)):
            if patch.through is None or len(values) > 1:
                return None
            rest = [patch.through]
        for keyword in call.keywords:
            if not _writable_twice(keyword.value):
                return None
            rest.append(f"{keyword.arg}={ast.get_source_segment(self.module.text, keyword.value)}")
        return rest if all("\n" not in part for part in rest) else self._through(patch, call)

    def _through(self, patch: _Patch, call: ast.Call) -> list[str] | None:
        """A value that takes several lines is read back from where it has been patched in."""
        return [patch.through] if patch.through is not None and not call.keywords else None

    def _stands_alone(self, body: Sequence[ast.stmt], index: int) -> bool:
        """Whether a statement has its lines to itself, so that another can follow."""
        node = body[index]
        before = self.module.lines[node.lineno - 1].encode()[: node.col_offset].decode()
        after = self.module.lines[(node.end_lineno or 0) - 1].encode()[node.end_col_offset or 0 :].decode()
        return not before.strip() and (not after.strip() or after.lstrip().startswith("#"))

    def _assigned(self, node: ast.stmt, scope: _Scope) -> Iterator[str]:
        """Globals that moved code reads and that a statement assigns to: `mod.name = fake`."""
        for target in node.targets if isinstance(node, ast.Assign) else ():
            dotted = scope.dotted(target) if isinstance(target, ast.Attribute) else None
            if dotted is not None and self._readers(dotted):
                yield dotted


def _fixture(function: ast.expr, scope: _Scope) -> tuple[str, str] | None:
    """The fixture whose method patches at once, and that method for a dotted name; none for `mock.patch` itself."""
    if not isinstance(function, ast.Attribute):
        return None
    name, owner = function.attr, function.value
    if name == "object":
        if not isinstance(owner, ast.Attribute) or owner.attr != "patch":
            return None
        name, owner = "patch", owner.value
    dotted = scope.dotted(owner) or ""
    if not isinstance(owner, (ast.Name, ast.Attribute)) or dotted in _MOCK_MODULES:
        return None
    return ast.unparse(owner), name


def _writable_twice(value: ast.expr) -> bool:
    """Whether an expression gives an equally good value when it is written a second time."""
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
        if isinstance(node, ast.Call) and _last_name(node.func) not in _STAND_INS:
            return False
        if not isinstance(node, ast.Lambda):
            pending.extend(children(node))
    return True


def _own_calls(statement: ast.stmt) -> list[ast.Call]:
    """The calls in a statement's own expressions, decorators included, not in the statements inside it."""
    found: list[ast.Call] = []
    pending = [n for n in children(statement) if not isinstance(n, (ast.stmt, ast.ExceptHandler))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        pending.extend(n for n in children(node) if not isinstance(n, ast.stmt))
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))


def _inner_bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(statement, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield body
    for name in ("handlers", "cases"):
        for part in getattr(statement, name, []):
            yield part.body
