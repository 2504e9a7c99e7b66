"""What a method's locals hold of the model: itself, its class, its class's name, its architecture, attribute names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from omni_migrate.facts.helpers import Helper, holds_model
from omni_migrate.facts.syntax import walk

# What a stage's configuration calls the model's class: a test of one is specific to a model, with no model to ask.
ARCHITECTURE = frozenset({"architecture", "architectures", "model_arch"})


class Held:
    """The locals of one method. `aliases` are those that hold the model and nothing else."""

    def __init__(
        self, nodes: Iterable[ast.AST], receiver: str, aliases: set[str], helpers: Mapping[str, Helper]
    ) -> None:
        self.receiver, self.aliases, self.helpers = receiver, aliases, helpers
        self.parameters: set[str] = set()
        self._classes: set[str] = set()
        self._names: set[str] = set()
        self._architectures: dict[str, str] = {}
        self._texts: dict[str, list[str] | None] = {}
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.NamedExpr):
                self._assign(node.target, node.value)
            elif isinstance(node, (ast.For, ast.comprehension)):
                self._iterate(node.target, node.iter)
            elif isinstance(node, ast.arg):
                self.parameters.add(node.arg)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return
        if self.is_class(value):
            self._classes.add(target.id)
        if self.is_class_name(value):
            self._names.add(target.id)
        asked = self.architecture_in(value)
        if asked is not None:
            self._architectures[target.id] = asked
        self._texts[target.id] = _joined(self._texts.get(target.id, []), [value])

    def _iterate(self, target: ast.expr, over: ast.expr) -> None:
        each = over.elts if isinstance(over, (ast.Tuple, ast.List, ast.Set)) else None
        for name in (part.id for part in walk(target) if isinstance(part, ast.Name)):
            whole = each if isinstance(target, ast.Name) else None
            self._texts[name] = _joined(self._texts.get(name, []), whole)

    def is_model(self, node: ast.expr) -> bool:
        return holds_model(node, self.receiver, self.helpers, self.aliases)

    def is_attributes(self, node: ast.expr) -> bool:
        """`dir(model)`, `vars(model)`, `model.__dict__`."""
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("dir", "vars") and len(node.args) == 1:
            return self.is_model(node.args[0])
        return isinstance(node, ast.Attribute) and node.attr == "__dict__" and self.is_model(node.value)

    def is_class(self, node: ast.expr) -> bool:
        """`type(model)`, `model.__class__`, and a local that is one."""
        if isinstance(node, ast.Name):
            return node.id in self._classes
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return self.is_model(node.value)
        is_type = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "type"
        return is_type and len(node.args) == 1 and self.is_model(node.args[0])  # type: ignore[attr-defined]

    def is_class_name(self, node: ast.expr) -> bool:
        """`model.__class__.__name__`, `type(model).__qualname__`, and a local that is one."""
        if isinstance(node, ast.Name):
            return node.id in self._names
        return (
            isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__") and self.is_class(node.value)
        )

    def texts(self, node: ast.expr) -> list[str] | None:
        """The strings that a local may be, None if that cannot be said."""
        return self._texts.get(node.id) if isinstance(node, ast.Name) else None

    def architecture_in(self, node: ast.expr) -> str | None:
        """The attribute of a configuration from which an expression takes the model's architecture."""
        for part in walk(node):
            if isinstance(part, ast.Attribute) and part.attr in ARCHITECTURE:
                return part.attr
            if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "getattr" and len(part.args) >= 2:
                name = part.args[1]
                if isinstance(name, ast.Constant) and name.value in ARCHITECTURE:
                    return str(name.value)
            if isinstance(part, ast.Name) and part.id in self._architectures:
                return self._architectures[part.id]
        return None

    def architecture_tested(self, node: ast.Compare | ast.BinOp) -> str | None:
        """As `architecture_in`, if the expression compares it with text or intersects it with a set."""
        if isinstance(node, ast.BinOp):
            return self.architecture_in(node) if isinstance(node.op, ast.BitAnd) else None
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) and not isinstance(side.value, str) for side in sides):
            return None
        return self.architecture_in(node)


def _joined(known: list[str] | None, values: Iterable[ast.expr] | None) -> list[str] | None:
    """The strings that a local was known to be, and those that it is given; None as soon as one is no literal."""
    if known is None or values is None:
        return None
    literals = [value.value if isinstance(value, ast.Constant) else None for value in values]
    texts = [text for text in literals if isinstance(text, str)]
    return [*known, *texts] if len(texts) == len(literals) else None
