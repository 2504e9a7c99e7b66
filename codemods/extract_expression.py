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
reads become parameters, those of a comprehension around it included, and in a nested function or lambda the parameters
of that one. What binds a name, or reads what a nested function takes from around it, is refused.
"""

from __future__ import annotations

import ast
import io

import libcst as cst

from codemods.blocks import RenameReceiver, calls_hook, fresh_name, names_in, own_receiver, parse_method
from codemods.move_block import RECEIVER_NAMES, Moved
from omni_migrate.facts.flow import (
    FunctionNode,
    MethodFlow,
    Refusal,
    argument_names,
    bound_names,
    free_names,
    receiver_of,
    walk_scope,
)
from omni_migrate.facts.syntax import children, walk

Span = tuple[int, int, int, int]  # first line, first column, last line, last column: as in ast, columns in UTF-8 bytes


def span_of(node: ast.expr) -> Span:
    """Where an expression stands."""
    return node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def extract_expression(
    source: str,
    span: Span,
    hook: str,
    *,
    docstring: str = "",
    adapter: str = "_adapter",
    flow: MethodFlow | None = None,
) -> Moved | Refusal:
    """Replace the expression at `span` of a dedented method by a call of the adapter method `hook`.

    `flow` is that of `source`, if it is at hand.
    """
    flow = flow or MethodFlow(parse_method(source))
    function = flow.function
    receiver = receiver_of(function)
    if not receiver:
        return Refusal("the function has no receiver", function.lineno)
    expression, statement = _find(function, span)
    scopes: tuple[ast.AST, ...] = ()
    if expression is None or statement is None:
        expression, scopes = _find_nested(function, span)
        if expression is None:
            return Refusal("no expression stands there", span[0])
    refusal = _unmovable(expression, function, flow)
    if refusal is not None:
        return refusal
    if calls_hook([expression], receiver, adapter, hook):
        return Refusal(f"it already calls {adapter}.{hook}", span[0])
    if statement is not None:
        around = _comprehension_targets(statement, expression)
        reads = (_free(expression) & (flow.locals | around)) - {receiver}
        unbound = reads - flow.bound_before(statement) - around
    else:
        taken, own = _bound_in(scopes)
        if receiver in taken:
            return Refusal(f"{receiver} is something else in the nested function", span[0])
        reads = (_free(expression) & (flow.locals | taken)) - {receiver}
        unbound = reads - own
    if unbound:
        return Refusal(f"{', '.join(sorted(unbound))} may be unbound where the expression stands", span[0])
    parameters = tuple(sorted(reads, key=flow.order()))
    lines = list(io.StringIO(source, newline=""))  # as the tokenizer counts lines; splitlines() breaks at form feeds
    call = f"{receiver}.{adapter}.{hook}({', '.join((receiver, *parameters))})"
    text = _slice(lines, span)
    method = _replaced(lines, span, call, function, expression)
    if method is None or not _stands_alone(text, expression):
        return Refusal("a call cannot stand in its place", span[0])
    names = names_in(function)
    new = fresh_name(RECEIVER_NAMES, names)
    module = cst.parse_module(f"({text})").visit(RenameReceiver(receiver, new))
    code = module.code
    if "\n" not in code and "\r" not in code:
        code = code[1:-1]
    head = f"def {hook}({', '.join((own_receiver(names, receiver), new, *parameters))}):"
    body = [head, *([f'    """{docstring}"""'] if docstring else []), f"    return {code}", ""]
    newline = "\r\n" if "\r\n" in source else "\n"
    return Moved(method, newline.join(body), parameters, ())


def _unmovable(expression: ast.expr, function: FunctionNode, flow: MethodFlow) -> Refusal | None:
    """Why an expression cannot be evaluated by another method, if so."""
    line = expression.lineno
    inside = list(walk(expression))
    if any(isinstance(node, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for node in inside):
        return Refusal("it binds a name, yields or awaits", line)
    if isinstance(getattr(expression, "ctx", None), (ast.Store, ast.Del)):
        return Refusal("it is assigned to", line)
    for node in walk(function):
        if isinstance(node, ast.JoinedStr) and node is not expression and _contains(node, expression):
            return Refusal("it stands in an f-string", line)
    refusal = flow.unsupported([ast.copy_location(ast.Expr(expression), expression)])
    if refusal is not None:
        return refusal
    if flow.receiver in flow.rebound:
        return Refusal(f"the method rebinds {flow.receiver}", line)
    own = _free(expression) & flow.locals
    if own & flow.rebound_later:
        return Refusal(f"{', '.join(sorted(own & flow.rebound_later))} is rebound by a nested function", line)
    lazy = (node for node in inside if isinstance(node, (ast.Lambda, ast.GeneratorExp)) and not flow.is_consumed(node))
    shared = {name for node in lazy for name in free_names(node) & flow.rebound}
    if shared:
        return Refusal(f"{', '.join(sorted(shared))} is shared with a function that outlives the expression", line)
    return None


def _replaced(lines: list[str], span: Span, call: str, function: ast.AST, expression: ast.expr) -> str | None:
    """The source with a call in the expression's place; None if it would not be read as just that."""
    wanted = ast.dump(_Substitute(expression, call).visit(parse_method("".join(lines))))
    for text in (call, f"({call})", f" {call}"):  # a generator's parentheses may be its caller's; `return[1]`
        source = _replace(lines, span, text)
        try:
            if ast.dump(ast.parse(source).body[0]) == wanted:
                return source
        except SyntaxError:
            continue
    return None


def _stands_alone(text: str, expression: ast.expr) -> bool:
    """Whether the text means the same outside its statement, as a slice or an unpacking does not."""
    try:
        return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(expression)
    except SyntaxError:
        return False


class _Substitute(ast.NodeTransformer):
    """Puts a call where, in another tree of the same source, an expression of that kind and span stands."""

    def __init__(self, old: ast.expr, new: str) -> None:
        self.old, self.new, self.done = old, new, False

    def visit(self, node: ast.AST) -> ast.AST:
        same = isinstance(node, ast.expr) and type(node) is type(self.old) and span_of(node) == span_of(self.old)
        if same and not self.done:
            self.done = True
            return ast.parse(self.new, mode="eval").body
        return ast.NodeTransformer.generic_visit(self, node)


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


def _find_nested(function: ast.AST, span: Span) -> tuple[ast.expr | None, tuple[ast.AST, ...]]:
    """The outermost expression of that span in a nested scope, and the scopes around it, the innermost last."""
    pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(node, ()) for node in getattr(function, "body", [])]
    while pending:
        node, scopes = pending.pop()
        if isinstance(node, ast.expr) and span_of(node) == span:
            return node, scopes
        for child in children(node):
            pending.append((child, (*scopes, node) if _is_inside(child, node) else scopes))
    return None, ()


def _is_inside(child: ast.AST, node: ast.AST) -> bool:
    """Whether a node opens a scope that has this child of it, as it doesn't have defaults and decorators."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return isinstance(child, ast.stmt)
    if isinstance(node, ast.Lambda):
        return child is node.body
    return isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))


def _bound_in(scopes: tuple[ast.AST, ...]) -> tuple[set[str], set[str]]:
    """Every name that nested scopes bind, and of those the parameters of the innermost that always have a value."""
    taken: set[str] = set()
    own: set[str] = set()
    for scope in scopes:
        inside: set[str] = set()
        parameters: set[str] = set()
        if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            parameters = set(argument_names(scope.args))
        if isinstance(scope, ast.Lambda):
            inside = {node.target.id for node in walk(scope.body) if isinstance(node, ast.NamedExpr)}
        elif isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside = bound_names(scope.body)
        else:
            inside = {n.id for n in walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        taken |= inside | parameters
        own = parameters - inside
    return taken, own


def _own_expressions(statement: ast.stmt) -> list[ast.AST]:
    """The expressions that a statement evaluates itself, not those of the statements inside it."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [
        child for child in children(statement) if not isinstance(child, (ast.stmt, ast.ExceptHandler))
    ]
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, (ast.Lambda, ast.stmt)):
            pending.extend(child for child in children(node) if not isinstance(child, ast.stmt))
    return found


def _comprehension_targets(statement: ast.stmt, expression: ast.expr) -> set[str]:
    """Names that the comprehensions around an expression have bound where it is evaluated."""
    bound: set[str] = set()
    for node in _own_expressions(statement):
        if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if expression is node or not _contains(node, expression):
            continue
        for generator in node.generators:
            if _contains(generator.iter, expression):
                break
            bound |= {name.id for name in walk(generator.target) if isinstance(name, ast.Name)}
            if any(_contains(test, expression) for test in generator.ifs):
                break
    return bound


def _contains(node: ast.AST, inner: ast.AST) -> bool:
    return any(part is inner for part in walk(node))


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
