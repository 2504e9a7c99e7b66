"""Move an expression of a method into an adapter method that answers it, and ask the adapter in its place.

Before:
    elif getattr(self.model, "has_preprocess", False):
        input_ids = self.input_ids.gpu[:num_input_tokens]

After, in the runner:
    elif self._adapter.has_preprocess(self):
        input_ids = self.input_ids.gpu[:num_input_tokens]

After, in the adapter:
    def has_preprocess(self, runner):
        return getattr(runner.model, "has_preprocess", False)

For a probe in the middle of upstream's code, where no statement belongs to the model alone. Locals that the expression
reads become parameters. An expression that binds a name, or reads one that its own statement binds, is refused.
"""

from __future__ import annotations

import ast

import libcst as cst

from codemods.blocks import RenameReceiver, fresh_name, names_in, parse_method
from codemods.move_block import RECEIVER_NAMES, Moved
from omni_migrate.facts.flow import MethodFlow, Refusal, bound_names, free_names, walk_scope

Span = tuple[int, int, int, int]  # first line, first column, last line, last column: as in ast, columns in UTF-8 bytes


def span_of(node: ast.expr) -> Span:
    """Where an expression stands."""
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def extract_expression(
    source: str, span: Span, hook: str, *, docstring: str = "", adapter: str = "_adapter"
) -> Moved | Refusal:
    """Replace the expression at `span` of a dedented method by a call of the adapter method `hook`."""
    function = parse_method(source)
    if not function.args.args:
        return Refusal("the function has no receiver", function.lineno)
    expression, statement = _find(function, span)
    if expression is None or statement is None:
        return Refusal("no expression stands there", span[0])
    flow = MethodFlow(function)
    inside = list(ast.walk(expression))
    if any(isinstance(node, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for node in inside):
        return Refusal("it binds a name, yields or awaits", span[0])
    refusal = flow.unsupported([ast.copy_location(ast.Expr(expression), expression)])
    if refusal is not None:
        return refusal
    reads = (_free(expression) & flow.locals) - {flow.receiver}
    bound_nearby = _bound_in_statement(statement, expression)
    unbound = reads - flow.bound_before(statement) | reads & bound_nearby
    if unbound:
        return Refusal(f"{', '.join(sorted(unbound))} may be unbound or changing where the expression stands", span[0])
    parameters = tuple(sorted(reads, key=flow.order()))
    receiver = fresh_name(RECEIVER_NAMES, names_in(function))
    lines = source.splitlines(keepends=True)
    text = _slice(lines, span)
    call = f"{flow.receiver}.{adapter}.{hook}({', '.join((flow.receiver, *parameters))})"
    moved = cst.parse_expression(f"({text})").visit(RenameReceiver(flow.receiver, receiver))
    code = cst.Module([]).code_for_node(moved)  # type: ignore[arg-type]
    if "\n" not in code:
        code = code[1:-1]
    summary = f'    """{docstring}"""\n' if docstring else ""
    head = f"def {hook}({', '.join(('self', receiver, *parameters))}):\n"
    return Moved(_replace(lines, span, call), f"{head}{summary}    return {code}\n", parameters, ())


def _find(function: ast.AST, span: Span) -> tuple[ast.expr | None, ast.stmt | None]:
    """The outermost expression of that span and the statement that evaluates it, not in a nested scope."""
    statement: ast.stmt | None = None
    for node in walk_scope(getattr(function, "body", [])):
        if isinstance(node, ast.expr) and span_of(node) == span:
            for candidate in walk_scope(getattr(function, "body", [])):
                if isinstance(candidate, ast.stmt) and any(child is node for child in _own_expressions(candidate)):
                    statement = candidate
            return node, statement
    return None, None


def _own_expressions(statement: ast.stmt) -> list[ast.AST]:
    """The expressions that a statement evaluates itself, not those of the statements inside it."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [
        child for child in ast.iter_child_nodes(statement) if not isinstance(child, (ast.stmt, ast.ExceptHandler))
    ]
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (ast.Lambda, ast.stmt)):
            pending.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt))
    return found


def _bound_in_statement(statement: ast.stmt, expression: ast.expr) -> set[str]:
    """Names that the same statement binds around the expression: walrus and comprehension targets."""
    inside = {id(node) for node in ast.walk(expression)}
    bound: set[str] = set()
    for node in _own_expressions(statement):
        if id(node) in inside:
            continue
        if isinstance(node, ast.NamedExpr):
            bound.add(node.target.id)
        elif isinstance(node, ast.comprehension):
            bound |= {name.id for name in ast.walk(node.target) if isinstance(name, ast.Name)}
    if isinstance(statement, (ast.For, ast.With)):
        bound |= bound_names([statement]) if isinstance(statement, ast.With) else set()
    return bound


def _free(expression: ast.expr) -> set[str]:
    wrapper = ast.Lambda(args=ast.arguments([], [], None, [], [], None, []), body=expression)
    return free_names(wrapper)


def _slice(lines: list[str], span: Span) -> str:
    first, start, last, stop = span
    if first == last:
        return lines[first - 1].encode()[start:stop].decode()
    parts = [lines[first - 1].encode()[start:].decode(), *lines[first : last - 1]]
    return "".join([*parts, lines[last - 1].encode()[:stop].decode()])


def _replace(lines: list[str], span: Span, text: str) -> str:
    first, start, last, stop = span
    head = lines[first - 1].encode()[:start].decode()
    tail = lines[last - 1].encode()[stop:].decode()
    return "".join([*lines[: first - 1], head + text + tail, *lines[last:]])
