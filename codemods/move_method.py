"""Move a whole method of a runner into its adapter; where its name must stay, a one-line delegate does.

Before:
    def _talker_mtp_forward(self, decode_req_ids, inputs_embeds):
        with set_forward_context(None, self.vllm_config):
            ...

After, in the runner (or nothing at all, if nobody else calls it):
    def _talker_mtp_forward(self, decode_req_ids, inputs_embeds):
        return self._adapter.talker_mtp_forward(self, decode_req_ids, inputs_embeds)

After, in the adapter:
    def talker_mtp_forward(self, runner, decode_req_ids, inputs_embeds):
        with set_forward_context(None, runner.vllm_config):
            ...

Decorators, annotations, defaults, the docstring and comments go with the code. A method that asks for its class
(`super()`, a mangled name) is refused.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst

from codemods.blocks import RenameReceiver, call_text, fresh_name, names_in, parse_method
from codemods.move_block import RECEIVER_NAMES
from omni_migrate.facts.flow import FunctionNode, MethodFlow, Refusal

# Decorators that change what the first parameter is, or what the name is.
_BINDING_DECORATORS = frozenset({"staticmethod", "classmethod", "property", "cached_property", "setter", "overload"})


@dataclass(frozen=True)
class MovedMethod:
    """The one-line delegate for the runner, and the adapter method. Both are dedented source."""

    delegate: str
    hook: str


def move_method(
    source: str, hook: str, *, adapter: str = "_adapter", base_indent: int = 4, line_length: int = 120
) -> MovedMethod | Refusal:
    """Move the dedented method `source` into an adapter method named `hook`."""
    function = parse_method(source)
    refusal = _unmovable(function)
    if refusal is not None:
        return refusal
    old = function.args.args[0].arg
    receiver = fresh_name(RECEIVER_NAMES, names_in(function))
    module = cst.parse_module(source)
    node = cst.ensure_type(module.body[0], cst.FunctionDef)
    renamed = cst.ensure_type(node.body.visit(RenameReceiver(old, receiver)), type(node.body))
    first = node.params.params[0]
    runner = first.with_changes(name=cst.Name(receiver), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    has_more = len(node.params.params) > 1 or node.params.star_arg is not cst.MaybeSentinel.DEFAULT
    has_more = has_more or bool(node.params.kwonly_params) or node.params.star_kwarg is not None
    keep_comma = first.comma if has_more else cst.MaybeSentinel.DEFAULT
    parameters = [
        cst.Param(cst.Name("self"), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))),
        runner.with_changes(comma=keep_comma),
        *node.params.params[1:],
    ]
    moved = node.with_changes(
        name=cst.Name(hook), body=renamed, params=node.params.with_changes(params=parameters), leading_lines=[]
    )
    comments = [line for line in node.leading_lines if line.comment is not None]
    moved = moved.with_changes(leading_lines=comments)
    return MovedMethod(
        _delegate(node, module, function, hook, adapter, base_indent, line_length), cst.Module([moved]).code
    )


def _unmovable(function: FunctionNode) -> Refusal | None:
    if not function.args.args or function.args.posonlyargs:
        return Refusal("the function has no receiver", function.lineno)
    for decorator in function.decorator_list:
        name = getattr(decorator, "attr", None) or getattr(decorator, "id", None)
        if name in _BINDING_DECORATORS:
            return Refusal(f"@{name} changes what the method is called on", decorator.lineno)
    flow = MethodFlow(function)
    if any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in ast.walk(function)):
        return Refusal("it yields or awaits", function.lineno)
    return flow.unsupported(function.body)


def _delegate(
    node: cst.FunctionDef,
    module: cst.Module,
    function: FunctionNode,
    hook: str,
    adapter: str,
    base_indent: int,
    line_length: int,
) -> str:
    receiver = function.args.args[0].arg
    arguments = [receiver, *(argument.arg for argument in function.args.args[1:])]
    if function.args.vararg:
        arguments.append(f"*{function.args.vararg.arg}")
    arguments.extend(f"{argument.arg}={argument.arg}" for argument in function.args.kwonlyargs)
    if function.args.kwarg:
        arguments.append(f"**{function.args.kwarg.arg}")
    text = call_text(f"{receiver}.{adapter}.{hook}", arguments, "return ", base_indent + 4, line_length)
    body = cst.IndentedBlock([cst.parse_statement(text)])
    blank = [line for line in node.leading_lines if line.comment is None][:1]
    # the moved code keeps the decorators: applied twice, a lock or a trace would be too
    bare = node.with_changes(body=body, decorators=(), leading_lines=blank, lines_after_decorators=())
    return module.with_changes(body=[bare], header=(), footer=()).code
