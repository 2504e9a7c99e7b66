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

from codemods.blocks import (
    RenameReceiver,
    call_text,
    calls_hook,
    fresh_name,
    names_in,
    own_receiver,
    parse_method,
)
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
    flow = MethodFlow(function)
    refusal = _unmovable(function, flow)
    if refusal is not None:
        return refusal
    if calls_hook([function], flow.receiver, adapter, hook):
        return Refusal(f"it already calls {adapter}.{hook}", function.lineno)
    names = names_in(function)
    receiver = fresh_name(RECEIVER_NAMES, names)
    module = cst.parse_module(source)
    node = cst.ensure_type(module.body[0], cst.FunctionDef)
    renamed = cst.ensure_type(node.body.visit(RenameReceiver(flow.receiver, receiver)), type(node.body))
    first, *others = node.params.params
    own = cst.Param(
        cst.Name(own_receiver(names, flow.receiver)), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    )
    parameters = node.params.with_changes(params=[own, first.with_changes(name=cst.Name(receiver)), *others])
    moved = node.with_changes(
        name=cst.Name(hook),
        body=renamed,
        params=parameters,
        leading_lines=[line for line in (*module.header, *node.leading_lines) if line.comment is not None],
    )
    text = _delegate_text(function, flow.receiver, hook, adapter, base_indent, line_length)
    body = cst.IndentedBlock([cst.parse_statement(text)])
    # the moved code keeps the decorators (applied twice, a lock or a trace would be too) and the comments
    delegate = cst.ensure_type(
        node.with_changes(body=body, decorators=(), leading_lines=(), lines_after_decorators=()).visit(_NoComments()),
        cst.FunctionDef,
    )
    return MovedMethod(
        module.with_changes(body=[delegate], header=(), footer=()).code,
        module.with_changes(body=[moved], header=()).code,
    )


class _NoComments(cst.CSTTransformer):
    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        if updated_node.comment is None:
            return updated_node
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        return updated_node if updated_node.comment is None else cst.RemoveFromParent()


def _unmovable(function: FunctionNode, flow: MethodFlow) -> Refusal | None:
    for decorator in function.decorator_list:
        name = getattr(decorator, "attr", None) or getattr(decorator, "id", None)
        if name in _BINDING_DECORATORS:
            return Refusal(f"@{name} changes what the method is called on", decorator.lineno)
    if not flow.receiver or function.args.posonlyargs:
        return Refusal("the function has no receiver, or takes it by position only", function.lineno)
    if isinstance(function, ast.AsyncFunctionDef):
        return Refusal("it yields or awaits", function.lineno)
    return flow.unsupported(function.body)


def _delegate_text(
    function: FunctionNode, receiver: str, hook: str, adapter: str, base_indent: int, line_length: int
) -> str:
    arguments = [receiver, *(argument.arg for argument in function.args.args[1:])]
    if function.args.vararg:
        arguments.append(f"*{function.args.vararg.arg}")
    arguments.extend(f"{argument.arg}={argument.arg}" for argument in function.args.kwonlyargs)
    if function.args.kwarg:
        arguments.append(f"**{function.args.kwarg.arg}")
    return call_text(f"{receiver}.{adapter}.{hook}", arguments, "return ", base_indent + 4, line_length)
