"""Move a block of a method into an adapter method, and call that in its place.

Before:
    def load_model(self, *args):
        super().load_model(*args)
        talker_mtp = getattr(self.model, "talker_mtp", None)
        if talker_mtp is not None:
            self.talker_mtp = talker_mtp

After, in the runner:
    def load_model(self, *args):
        super().load_model(*args)
        self._adapter.on_model_loaded(self)

After, in the adapter:
    def on_model_loaded(self, runner):
        talker_mtp = getattr(runner.model, "talker_mtp", None)
        if talker_mtp is not None:
            runner.talker_mtp = talker_mtp

Locals that the block reads become parameters, what it assigns and the rest of the method reads is returned. A block
that can return, break or continue says so in its result. What cannot be moved faithfully is refused with a reason
(omni_migrate/facts/flow.py).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from codemods.blocks import (
    RenameReceiver,
    Statement,
    call_text,
    calls_hook,
    first_line,
    fresh_name,
    is_divider,
    locate,
    names_in,
    own_receiver,
    parse_method,
)
from omni_migrate.facts.flow import BlockFlow, FunctionNode, MethodFlow, Refusal
from omni_migrate.facts.modules import split_lines

RECEIVER_NAMES = ("runner", "model_runner", "runner_")


@dataclass(frozen=True)
class Moved:
    """A method without its block, and the adapter method that has it. Both are dedented source."""

    method: str
    hook: str
    parameters: tuple[str, ...]
    returns: tuple[str, ...]


def move_block(
    source: str,
    first: int,
    last: int,
    hook: str,
    *,
    docstring: str = "",
    adapter: str = "_adapter",
    base_indent: int = 4,
    line_length: int = 120,
    comments_stay: bool = False,
    flow: MethodFlow | None = None,
) -> Moved | Refusal:
    """Move the statements from line `first` to line `last` (1-based, in `source`) into a method named `hook`.

    `source` is one dedented method; `base_indent` is the column at which it stands in its file. Comments go with their
    statements, but for dividers above the block (`# ---- Omni-new ----`), whose other half is not in it. With
    `comments_stay` all of them stay above the call: for a block that an adapter method has already. `flow` is that of
    `source`, if it is at hand.
    """
    flow = flow or MethodFlow(parse_method(source))
    function = flow.function
    found = locate(function, first, last)
    if isinstance(found, Refusal):
        return found
    body, location = found
    block = flow.block(body, location.start, location.stop)
    if isinstance(block, Refusal):
        return block
    if calls_hook(body[location.start : location.stop], flow.receiver, adapter, hook):
        return Refusal(f"it already calls {adapter}.{hook}", first)
    names = names_in(function)
    receiver = fresh_name(RECEIVER_NAMES, names)
    signal = _Signal.choose(block, names)
    lines = split_lines(source)
    if location.field == "orelse" and lines[first - 1].lstrip().startswith("elif"):
        return Refusal("an elif is not a statement of its own", first)
    indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    if not _begins_its_line(body[location.start], indent):
        return Refusal("it stands on the line of its header", first)
    top, bottom = _with_comments(lines, first, last, indent)
    newline = "\r\n" if "\r\n" in source else "\n"
    unit = _indent_unit(lines, function)

    # libcst parses the block alone: of the method around it not one byte changes
    above, statements = _parsed_block(lines[top - 1 : bottom], indent)
    kept = [line for line in above[:1] if line.comment is None]
    kept += [line for line in above if line.comment is not None and is_divider(line.comment.value)]
    if comments_stay:
        kept = [line for line in above if line.comment is not None] + _comment_lines(statements)
    moved = [statements[0].with_changes(leading_lines=[line for line in above if line not in kept]), *statements[1:]]
    column = base_indent + len(indent.expandtabs(4))
    arguments = [flow.receiver, *block.parameters]
    calls = signal.call(f"{flow.receiver}.{adapter}.{hook}", arguments, block, column, line_length)
    instead = [indent + line.comment.value if line.comment is not None else "" for line in kept]
    for line in "\n".join(call.rstrip("\n") for call in calls).split("\n"):
        deeper = len(line) - len(line.lstrip(" "))
        instead.append(indent + unit * (deeper // 4) + line.lstrip(" ") if line else "")
    end = newline if bottom < len(lines) or lines[bottom - 1].endswith(("\n", "\r")) else ""
    method = "".join([*lines[: top - 1], newline.join(instead), end, *lines[bottom:]])

    head = f"def {hook}({', '.join((own_receiver(names, flow.receiver), receiver, *block.parameters))}):\n    pass\n"
    hook_body = _hook_body(moved, RenameReceiver(flow.receiver, receiver), block, signal, docstring)
    hook_function = cst.ensure_type(cst.parse_statement(head), cst.FunctionDef).with_changes(body=hook_body)
    hook_module = cst.Module([hook_function], default_indent=unit, default_newline=newline)
    return Moved(method, hook_module.code, block.parameters, block.returns)


def _begins_its_line(node: ast.stmt, indent: str) -> bool:
    """Whether nothing stands before a statement on its line, as in `if x: return`."""
    return bool(getattr(node, "decorator_list", [])) or node.col_offset == len(indent)


def _with_comments(lines: Sequence[str], first: int, last: int, indent: str) -> tuple[int, int]:
    """The lines of a block with its comments: those right above it, and those at the end of its last statement."""
    top, bottom = first, last
    while top > 1 and (not lines[top - 2].strip() or lines[top - 2].startswith(f"{indent}#")):
        top -= 1
    for number in range(last + 1, len(lines) + 1):
        text = lines[number - 1]
        if text.strip() and not (text.lstrip().startswith("#") and len(text) - len(text.lstrip()) > len(indent)):
            break
        if text.strip():
            bottom = number
    return top, bottom


def _parsed_block(lines: Sequence[str], indent: str) -> tuple[list[cst.EmptyLine], list[Statement]]:
    """The lines above the first statement, and the statements."""
    text = "".join(lines)
    newline = "" if text.endswith(("\n", "\r")) else "\n"
    holder = cst.ensure_type(cst.parse_module(f"if 1:\n{indent}pass\n{text}{newline}").body[0], cst.If)
    statements = list(cst.ensure_type(holder.body, cst.IndentedBlock).body)[1:]
    return [*statements[0].leading_lines], statements  # type: ignore[attr-defined]


def _indent_unit(lines: Sequence[str], function: FunctionNode) -> str:
    """What one level of the method's code is indented by."""
    text = lines[first_line(function.body[0]) - 1]
    return text[: len(text) - len(text.lstrip())] or "    "


def _hook_body(
    moved: Sequence[Statement], rename: RenameReceiver, block: BlockFlow, signal: _Signal, docstring: str
) -> cst.IndentedBlock:
    statements = [*moved]
    leading = [*statements[0].leading_lines]  # type: ignore[attr-defined]
    while leading and leading[0].comment is None:
        leading.pop(0)
    statements[0] = statements[0].with_changes(leading_lines=leading)
    body: list[cst.CSTNode] = []
    for statement in statements:
        renamed = cst.ensure_type(statement.visit(rename), type(statement))
        body.append(cst.ensure_type(renamed.visit(signal), type(statement)))
    body.extend(cst.parse_statement(line) for line in signal.end(block))
    if docstring:
        body.insert(0, cst.parse_statement(f'"""{docstring}"""'))
    return cst.IndentedBlock(body)  # type: ignore[arg-type]


def _comment_lines(statements: Sequence[Statement]) -> list[cst.EmptyLine]:
    """The comments inside a block, each on a line of its own."""
    found = _Comments()
    for place, statement in enumerate(statements):
        # what stands above the first is not inside
        (statement if place else statement.with_changes(leading_lines=())).visit(found)
    return [cst.EmptyLine(comment=comment) for comment in found.comments]


class _Comments(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.comments: list[cst.Comment] = []

    def visit_Comment(self, node: cst.Comment) -> None:
        self.comments.append(node)


class _Signal(cst.CSTTransformer):
    """How a moved block tells the method that it returned, broke or continued.

    `plain`: it only ends; `forward`: the method returns whatever the block returns; `tagged`: (how, value) pairs.
    """

    def __init__(self, kind: str, flow: str, value: str, exits: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self.kind, self.flow, self.value, self.exits = kind, flow, value, exits
        self._loops = 0

    @classmethod
    def choose(cls, block: BlockFlow, taken: set[str]) -> _Signal:
        kind = "tagged"
        if not block.exits:
            kind = "plain"
        elif set(block.exits) == {"return"} and (block.tail or not block.falls_through):
            kind = "forward"
        flow, value = fresh_name(("flow",), taken), fresh_name(("value", "outcome"), taken)
        return cls(kind, flow, value, block.exits)

    def call(self, target: str, arguments: list[str], block: BlockFlow, indent: int, length: int) -> list[str]:
        """The statements that stand where the block stood."""
        if self.kind == "plain":
            assign = f"{', '.join(block.returns)} = " if block.returns else ""
            return [call_text(target, arguments, assign, indent, length)]
        if self.kind == "forward":
            return [call_text(target, arguments, "return ", indent, length)]
        lines = [call_text(target, arguments, f"{self.flow}, {self.value} = ", indent, length)]
        if "return" in block.exits:
            lines.append(f'if {self.flow} == "return":\n    return {self.value}\n')
        jumps = sorted(set(block.exits) - {"return"})
        once = block.falls_through and all(block.exits[jump] == block.returns for jump in jumps)
        if once and block.returns:
            lines.append(self._unpack(block.returns))
        for jump in jumps:
            leave = [self._unpack(block.exits[jump])] if block.exits[jump] and not once else []
            leave.append(jump)
            if jump == jumps[-1] and not block.falls_through:
                lines.extend(leave)  # nothing else is left
            else:
                lines.append("\n    ".join([f'if {self.flow} == "{jump}":', *leave]) + "\n")
        if block.returns and not once:
            lines.append(self._unpack(block.returns))
        return lines

    def end(self, block: BlockFlow) -> list[str]:
        """The statements that end the adapter method."""
        if self.kind == "plain":
            return [f"return {', '.join(block.returns)}"] if block.returns else []
        if self.kind == "forward" or not block.falls_through:
            return []
        return [f'return "next", {_tuple(block.returns)}']

    def _unpack(self, names: tuple[str, ...]) -> str:
        return f"{', '.join(names)}{',' if len(names) == 1 else ''} = {self.value}"

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def visit_For_body(self, node: cst.For) -> None:
        self._loops += 1

    def leave_For_body(self, node: cst.For) -> None:
        self._loops -= 1

    def visit_While_body(self, node: cst.While) -> None:
        self._loops += 1

    def leave_While_body(self, node: cst.While) -> None:
        self._loops -= 1

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        if self.kind != "tagged":
            return updated_node
        value = updated_node.value or cst.Name("None")
        if isinstance(value, cst.Tuple) and not value.lpar:
            value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return updated_node.with_changes(
            value=cst.Tuple([cst.Element(cst.SimpleString('"return"')), cst.Element(value)], lpar=(), rpar=()),
            whitespace_after_return=cst.SimpleWhitespace(" "),
        )

    def leave_Break(self, original_node: cst.Break, updated_node: cst.Break) -> cst.BaseSmallStatement:
        return self._leave_loop("break", updated_node)

    def leave_Continue(self, original_node: cst.Continue, updated_node: cst.Continue) -> cst.BaseSmallStatement:
        return self._leave_loop("continue", updated_node)

    def _leave_loop(self, name: str, node: cst.Break | cst.Continue) -> cst.BaseSmallStatement:
        if self.kind != "tagged" or self._loops:
            return node
        statement = cst.ensure_type(
            cst.parse_statement(f'return "{name}", {_tuple(self.exits[name])}'), cst.SimpleStatementLine
        )
        return statement.body[0].with_changes(semicolon=node.semicolon)


def _tuple(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
