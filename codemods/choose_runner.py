"""Let a worker choose between its V1 model runner and a V2 one (RFC-005, 4.5).

Before:
    def init_device(self):
        ...
        if self.use_v2_model_runner:
            # V2 has no omni hooks.
            logger.warning("GPUARWorker forces V1.")
            self.use_v2_model_runner = False

        # Construct the model runner
        self.model_runner = GPUARModelRunner(self.vllm_config, self.device)

After:
    def init_device(self):
        ...
        if self.use_v2_model_runner and (reason := v1_reason(self.vllm_config)):
            # V2 has no omni hooks.
            logger.warning("OMNI GPUARWorker forces v1 model runner: %s", reason)
            self.use_v2_model_runner = False

        # Construct the model runner
        if self.use_v2_model_runner:
            from vllm_omni.worker.gpu_ar_model_runner_v2 import GPUARModelRunnerV2

            self.model_runner = GPUARModelRunnerV2(self.vllm_config, self.device)
            self.model_runner.kv_transfer = FinishedKVTransfer(self.model_runner)
        else:
            self.model_runner = GPUARModelRunner(self.vllm_config, self.device)

A worker without the guard gets it. The V2 class is imported where it is wanted, since V2 needs Triton. Whoever calls
this imports `v1_reason` and what else the branch names.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omni_migrate.facts.flow import Refusal
from omni_migrate.facts.syntax import walk

REASON = "v1_reason"


@dataclass(frozen=True)
class V2Choice:
    """The V2 runner of a worker: module and class, and a class of hers to give its `kv_transfer` (or none)."""

    module: str
    name: str
    kv_transfer: str = ""


def choose_runner(source: str, worker: str, choice: V2Choice) -> str | Refusal:
    """`source` is the worker's whole module; only the lines of the guard and of the construction change.

    A worker that chooses already comes back as it is. What is of no known shape is refused with its line.
    """
    edit = _planned(source, worker, choice)
    return edit if isinstance(edit, Refusal) else edit.text()


def choice_lines(source: str, worker: str, choice: V2Choice) -> list[tuple[int, int]]:
    """The lines that `choose_runner` may change: 1-based, inclusive; (n, n - 1) is the gap before line n."""
    edit = _planned(source, worker, choice)
    return [] if isinstance(edit, Refusal) else edit.spans()


def _planned(source: str, worker: str, choice: V2Choice) -> _Edit | Refusal:
    edit = _Edit(source)
    tree = ast.parse(source)
    node = next((n for n in walk(tree) if isinstance(n, ast.ClassDef) and n.name == worker), None)
    if node is None:
        return Refusal(f"there is no class {worker}", 1)
    built = [found for method in _methods(node) for found in _constructions(method)]
    if any(_chooses(found) for found in built):
        return edit
    if len(built) != 1:
        line = built[1].statement.lineno if built else node.lineno
        return Refusal(f"{worker} builds its model runner in {len(built) or 'no'} places, not in one", line)
    found = built[0]
    return _guard(edit, tree, node, found) or _construct(edit, found, choice) or edit


@dataclass(frozen=True)
class _Construction:
    """`self.model_runner = Class(self.vllm_config, self.device)`, and where it stands."""

    method: ast.FunctionDef
    block: list[ast.stmt]
    statement: ast.Assign | ast.AnnAssign

    @property
    def receiver(self) -> str:
        return self.method.args.args[0].arg

    @property
    def call(self) -> ast.expr | None:
        return self.statement.value


class _Edit:
    """Replaces stretches of lines of a text; the rest of it stays byte for byte."""

    def __init__(self, source: str) -> None:
        self.lines = list(io.StringIO(source, newline=""))
        ends = [line[len(line.rstrip("\r\n")) :] for line in self.lines]
        self.newline = "\r\n" if ends.count("\r\n") * 2 > len(ends) else "\n"
        self._changes: list[tuple[int, int, str]] = []

    def replace(self, first: int, last: int, new: Sequence[str]) -> None:
        """Lines `first` to `last` (1-based); last = first - 1 inserts before `first`."""
        self._changes.append((first, last, "".join(f"{line}{self.newline}" for line in new)))

    def within(self, node: ast.expr, last: ast.expr, new: str) -> None:
        """From the start of one expression to the end of another, on one line."""
        line = self.lines[node.lineno - 1].encode()
        text = (line[: node.col_offset] + new.encode() + line[last.end_col_offset :]).decode()
        self._changes.append((node.lineno, node.lineno, text))

    def spans(self) -> list[tuple[int, int]]:
        return sorted((first, last) for first, last, _ in self._changes)

    def text(self) -> str:
        lines = list(self.lines)
        for first, last, new in sorted(self._changes, reverse=True):
            lines[first - 1 : last] = [new]
        return "".join(lines)

    def margin(self, node: ast.stmt) -> str:
        line = self.lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def step(self, method: ast.FunctionDef) -> str:
        """What a method's body is indented by, beyond its head."""
        return self.margin(method.body[0]).removeprefix(self.margin(method))


def _methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.args.args:
            yield method


def _constructions(method: ast.FunctionDef) -> Iterator[_Construction]:
    receiver = method.args.args[0].arg
    for parent in walk(method):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            for statement in block if isinstance(block, list) else ():
                if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not isinstance(statement.value, ast.Call):
                    continue
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                if any(_is_attribute(target, receiver, "model_runner") for target in targets):
                    yield _Construction(method, block, statement)  # type: ignore[arg-type]


def _is_attribute(node: ast.AST | None, receiver: str, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and getattr(node.value, "id", None) == receiver


def _chooses(found: _Construction) -> bool:
    """Whether the construction is a branch of the choice that this codemod writes."""
    parents = (n for n in walk(found.method) if isinstance(n, ast.If))
    return any(
        found.block in (parent.body, parent.orelse)
        and _is_attribute(parent.test, found.receiver, "use_v2_model_runner")
        and bool(parent.orelse)
        and any(isinstance(n, ast.ImportFrom) for n in parent.body)
        for parent in parents
    )


def _guard(edit: _Edit, tree: ast.Module, worker: ast.ClassDef, found: _Construction) -> Refusal | None:
    """Let the guard ask for a reason, or put one before the construction."""
    receiver, block, at = found.receiver, found.block, found.block.index(found.statement)
    message = f'"OMNI {worker.name} forces v1 model runner: %s", reason'
    asked = f"{receiver}.use_v2_model_runner and (reason := {REASON}({receiver}.vllm_config))"
    guard = block[at - 1] if at else None
    attributes = [n for n in walk(found.method) if isinstance(n, ast.Attribute)]
    uses = [n for n in attributes if _is_attribute(n, receiver, "use_v2_model_runner")]
    if not uses:
        if not any(isinstance(n, ast.Name) and n.id == "logger" for n in walk(tree)):
            return Refusal(f"{worker.name} has no logger to say why V1 runs", found.statement.lineno)
        indent, step, line = edit.margin(found.statement), edit.step(found.method), found.statement.lineno
        while line > 1 and edit.lines[line - 2].lstrip().startswith("#"):
            line -= 1
        edit.replace(
            line,
            line - 1,
            [
                f"{indent}if {asked}:",
                f"{indent}{step}logger.warning({message})",
                f"{indent}{step}{receiver}.use_v2_model_runner = False",
                "",
            ],
        )
        return None
    line = uses[0].lineno
    if not isinstance(guard, ast.If) or not _is_attribute(guard.test, receiver, "use_v2_model_runner"):
        return Refusal(f"{worker.name} asks for use_v2_model_runner in a way that is not known", line)
    warnings = [n.value for n in guard.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    resets = [n for n in guard.body if isinstance(n, ast.Assign) and _resets(n, receiver)]
    known = len(guard.body) == len(warnings) + len(resets) and len(warnings) == len(resets) == 1 and not guard.orelse
    if not known or len(uses) != 2 or not _one_line(warnings[0]) or not isinstance(warnings[0].func, ast.Attribute):
        return Refusal(f"{worker.name} forces V1 in a way that is not known", guard.lineno)
    (warning,) = warnings
    if len(warning.args) != 1 or warning.keywords or not _one_line(guard.test) or warning.lineno == guard.lineno:
        return Refusal(f"{worker.name} forces V1 in a way that is not known", guard.lineno)
    edit.within(guard.test, guard.test, asked)
    edit.within(warning.args[0], warning.args[0], message)
    return None


def _resets(node: ast.Assign, receiver: str) -> bool:
    value = node.value
    return (
        len(node.targets) == 1
        and _is_attribute(node.targets[0], receiver, "use_v2_model_runner")
        and isinstance(value, ast.Constant)
        and value.value is False
    )


def _one_line(node: ast.expr) -> bool:
    return node.lineno == node.end_lineno


def _construct(edit: _Edit, found: _Construction, choice: V2Choice) -> Refusal | None:
    """The construction becomes the choice; the V1 one moves into its else branch, as it is written."""
    receiver, statement = found.receiver, found.statement
    call = statement.value
    given = [ast.unparse(argument) for argument in call.args] if isinstance(call, ast.Call) else []
    if given != [f"{receiver}.vllm_config", f"{receiver}.device"] or getattr(call, "keywords", None):
        return Refusal(
            "the model runner is built with other arguments than the config and the device", statement.lineno
        )
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    indent, step = edit.margin(statement), edit.step(found.method)
    lines = [line.rstrip("\r\n") for line in edit.lines[first - 1 : last]]
    alone = all(n is statement or n.lineno > last or (n.end_lineno or 0) < first for n in found.block)
    strings = any(isinstance(n, (ast.Constant, ast.JoinedStr)) and not _one_line(n) for n in walk(statement))
    if not alone or strings or not lines[0].startswith(indent + ast.unparse(_target(statement))):
        return Refusal("the construction of the model runner shares its line", first)
    transfer = [f"{indent}{step}{receiver}.model_runner.kv_transfer = {choice.kv_transfer}({receiver}.model_runner)"]
    edit.replace(
        first,
        last,
        [
            f"{indent}if {receiver}.use_v2_model_runner:",
            f"{indent}{step}from {choice.module} import {choice.name}",
            "",
            f"{indent}{step}{receiver}.model_runner = {choice.name}({receiver}.vllm_config, {receiver}.device)",
            *(transfer if choice.kv_transfer else []),
            f"{indent}else:",
            *(f"{step}{line}" if line else line for line in lines),
        ],
    )
    return None


def _target(statement: ast.Assign | ast.AnnAssign) -> ast.expr:
    return statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
