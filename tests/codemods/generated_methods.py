"""Random methods for the property tests: every construct that a runner's method has, small enough to run.

`generate(rng)` takes anything with the methods of `random.Random`, so that hypothesis can shrink what it draws.
Loops are finite: `for` goes over copies and literals, `while` asks `self.tick()`.
"""

from __future__ import annotations

import ast
from random import Random

INTEGERS = ("x", "y", "größe", "k")
ARGUMENTS = ("a", "b")
RECEIVERS = ("self", "runner")  # before and after a move


def generate(rng: Random, statements: int = 14) -> str:
    """One dedented method `method(self, a, b, xs)`."""
    return _Writer(rng, statements).method()


def constructs(nodes: list[ast.stmt]) -> set[str]:
    """The constructs of the issue's list that occur in these statements."""
    found: set[str] = set()
    for node in (inner for statement in nodes for inner in ast.walk(statement)):
        name = type(node).__name__
        if name in _NAMED:
            found.add(_NAMED[name])
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            found.add("loop else")
        elif isinstance(node, ast.Try):
            found |= {part for part in ("handlers", "orelse", "finalbody") if getattr(node, part)}
        elif isinstance(node, ast.With):
            found.add("suppress" if "suppress" in ast.unparse(node.items[-1].context_expr) else "recording with")
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            found.add("chained comparison")
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            found.add("bare annotation")
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in RECEIVERS:
            found.add("attribute read" if isinstance(node.ctx, ast.Load) else "attribute write")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[0] in RECEIVERS:
            found.add("method call")
        elif isinstance(node, ast.match_case) and node.guard:
            found.add("match guard")
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add("except as")
        elif isinstance(node, ast.Raise) and node.exc is None:
            found.add("bare raise")
    return found


_NAMED = {
    "AnnAssign": "annotated assignment",
    "Assert": "assert",
    "AugAssign": "augmented assignment",
    "Break": "break",
    "ClassDef": "nested class",
    "Continue": "continue",
    "Delete": "del",
    "DictComp": "dict comprehension",
    "For": "for",
    "FunctionDef": "nested function",
    "GeneratorExp": "generator expression",
    "If": "if",
    "IfExp": "conditional expression",
    "Import": "import",
    "ImportFrom": "import from",
    "JoinedStr": "f-string",
    "Lambda": "lambda",
    "ListComp": "list comprehension",
    "Match": "match",
    "MatchMapping": "mapping pattern",
    "MatchSequence": "sequence pattern",
    "NamedExpr": "walrus",
    "Nonlocal": "nonlocal",
    "Raise": "raise",
    "Return": "return",
    "SetComp": "set comprehension",
    "Starred": "star",
    "While": "while",
}

CONSTRUCTS = frozenset(_NAMED.values()) | {
    "loop else",
    "handlers",
    "orelse",
    "finalbody",
    "suppress",
    "recording with",
    "chained comparison",
    "bare annotation",
    "attribute read",
    "attribute write",
    "method call",
    "match guard",
    "except as",
    "bare raise",
}


class _Writer:
    def __init__(self, rng: Random, statements: int) -> None:
        self.rng = rng
        self.left = statements
        self.comments = 0
        self.ended = False  # whether the block written last is left before its end

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) >= 100 - percent

    def pick(self, *options: str) -> str:
        return options[self.rng.randrange(len(options))]

    # -- expressions; `known` are the names that are bound here, as far as the writer can tell

    def name(self, known: set[str]) -> str:
        integers = [name for name in (*ARGUMENTS, *INTEGERS) if name in known]
        if not integers or self.chance(2):
            return self.pick(*INTEGERS)
        return self.pick(*integers)

    def value(self, known: set[str], depth: int = 0) -> str:
        """An expression, an integer most of the time."""
        if depth > 2 or self.chance(35):
            return self.pick(self.name(known), str(self.rng.randrange(4)), self.name(known))
        if self.chance(12):
            value, new = self.value(known, depth + 1), self.pick(*INTEGERS)
            known.add(new)
            return f"({new} := {value})"
        if "f" in known and self.chance(12):
            call = f"f({self.value(known, depth + 1)})"
            return self.pick(call, call, "self.call(f)")
        if "lazy" in known and self.chance(15):
            return "sum(lazy)"
        if "floor" in known and self.chance(20):
            return f"floor({self.value(known, depth + 1)})"
        # what is evaluated once, in any case, may bind names for what follows
        outer = known if self.chance(50) else set(known)
        one = self.value(outer, depth + 1)
        if outer is known:
            return self.pick(
                f"{one} + {self.value(known, depth + 1)}",
                f"self.note({one})",
                f"self.risky({one})",
                f"max(*xs, {one}, {self.value(known, depth + 1)})",
                f"self.note(  # {self.comment()}\n        {one},\n    {self.name(known)})",
                "self.n",
                f"xs[{self.rng.randrange(2)}]",
                f"({one} or {self.name(known)})",
            )
        return self.pick(
            f"({one} if {self.name(known)} > 1 else {self.name(known)})",
            f"int(0 <= {self.name(known)} < {one})",
            f"({self.name(known)} and {one})",
            f'len(f"{{{self.name(known)}}}-{{self.n!r:>{{3}}}}")',
            f"sum([{one} + i for i in xs if i > {self.name(known)}])",
            f"sum({one} for i in xs)",
            f"sum({{i: {one} for i in (1, 2)}}.values())",
            f"len({{i + {one} for i in xs}})",
            f"(lambda q: q + {one})({self.name(known)})",
            f"int(any(({self.pick(*INTEGERS)} := i) > {self.name(known)} for i in xs))",
        )

    def comment(self) -> str:
        self.comments += 1
        return f"note {self.comments}"

    # -- statements

    def simple(self, known: set[str], in_handler: bool) -> str:
        kind = self.rng.randrange(22)
        if kind == 0:
            return f"self.n = {self.value(known)}"
        if kind == 1:
            return f"self.n += {self.value(known)}"
        if kind == 2:
            return f"self.note({self.value(known)}, k={self.value(known)})"
        if kind == 3:
            return f"xs.append({self.value(known)})"
        if kind == 4:
            return f"xs[0] = {self.value(known)}"
        if kind == 5:
            name = self.name(known)
            return f"{name} += {self.value(known)}"
        if kind == 6:
            first, rest = self.pick(*INTEGERS), self.value(known)
            known.add(first)
            return f"{first}, *self.rest = {rest}, *xs"
        if kind == 7:
            name, value = self.pick(*INTEGERS), self.value(known)
            known.add(name)
            return f"{name}: int = {value}"
        if kind == 8 and self.chance(40):
            return f"{self.pick(*INTEGERS)}: int"
        if kind == 9 and self.chance(60):
            bound = sorted(known & set(INTEGERS))
            if bound:
                name = self.pick(*bound)
                known.discard(name)
                return f"del {name}"
        if kind == 10:
            known.add("floor")
            return self.pick("from math import floor", "import math", "import os.path as where")
        if kind == 11 and self.chance(35):
            body = self.value(known - {"f"})
            known.add("f")
            return f"f = lambda q=0: {body} + q"
        if kind == 12 and self.chance(40):
            body = self.value(known - {"lazy"}, 1)
            known.add("lazy")
            return f"lazy = (i + {body} for i in {self.pick('xs', '(1, 2)')})"
        if kind == 13:
            return f"assert {self.value(known)} >= 0, {self.value(set(known))}"
        if kind == 14 and in_handler:
            return "raise"
        if kind == 15:
            return f'self.note("""one\n  # no comment\ntwo {self.rng.randrange(3)}""")'
        if kind == 16:
            name, one = self.pick(*INTEGERS), self.value(known, 1)
            known.add(name)
            return f"{name} = {one} + \\\n        1"
        if kind == 17 and self.chance(50):
            return "del self.n"
        if kind == 18:
            return self.pick("pass", "xs.reverse()", "self.seen(1)")
        name, value = self.pick(*INTEGERS), self.value(known)
        known.add(name)
        return f"{name} = {value}"

    def leave(self, known: set[str], loop: bool) -> str:
        options = [f"return {self.value(known)}", f"raise ValueError({self.value(known)})", "return"]
        options.append(f"return {self.name(known)}, {self.value(known)}")
        if "f" in known:
            options.append("return f")
        if loop:
            options += ["break", "continue", "break", "continue"]
        return self.pick(*options)

    def block(self, known: set[str], loop: bool, handler: bool, depth: int) -> list[str]:
        lines: list[str] = []
        count = 1 + self.rng.randrange(4 if depth else 8)
        for position in range(count):
            if position and self.left <= 0:
                break
            self.left -= 1
            if self.chance(8):
                lines.append("")
            if self.chance(15):
                lines.append(f"# {self.comment()}")
            if depth and position == count - 1 and self.chance(35):
                lines.append(self.leave(known, loop))
                self.ended = True
                break
            self.ended = False
            lines += self.statement(known, loop, handler, depth)
            if self.ended:
                break  # no dead code
        if self.chance(8):
            lines.append(f"# {self.comment()}")
        return lines

    def statement(self, known: set[str], loop: bool, handler: bool, depth: int) -> list[str]:
        kind = self.rng.randrange(26) if depth < 4 else 25
        if kind < 4:
            return self.if_(known, loop, handler, depth)
        if kind == 4:
            return self.for_(known, handler, depth)
        if kind == 5:
            return self.while_(known, handler, depth)
        if kind < 8:
            return self.try_(known, loop, handler, depth)
        if kind == 8:
            return self.with_(known, loop, handler, depth)
        if kind == 9:
            return self.match_(known, loop, handler, depth)
        if kind == 10 and self.chance(60):
            return self.function(known)
        if kind == 11 and self.chance(50):
            value = self.name(known)
            body = [
                "class Local:",
                f"    field = {value}",
                "    def get(self):",
                f"        return self.field + {value}",
            ]
            return [*body, f"self.note(Local().get(), {value})"]
        line = self.simple(known, handler)
        if "\n" not in line and self.chance(10):
            line += f"; {self.simple(known, handler)}"
        if self.chance(12):
            line += f"  # {self.comment()}"
        return [line]

    def nest(self, header: str, body: list[str]) -> list[str]:
        if self.chance(10):
            header += f"  # {self.comment()}"
        return [header, *("    " + line if line else line for line in body)]

    def if_(self, known: set[str], loop: bool, handler: bool, depth: int) -> list[str]:
        test = f"if {self.value(known)} > {self.value(known, 1)}:"
        if self.chance(20):
            return [f"{test} {self.leave(known, loop)}"]
        branches = [set(known)]
        lines = self.nest(test, self.block(branches[0], loop, handler, depth + 1))
        ended = self.ended
        if self.chance(25):
            branches.append(set(known))
            if self.chance(30):
                lines.append(f"# {self.comment()}")
            lines += self.nest(f"elif {self.value(set(known), 1)}:", self.block(branches[-1], loop, handler, depth + 1))
            ended &= self.ended
        if self.chance(45):
            branches.append(set(known))
            lines += self.nest("else:", self.block(branches[-1], loop, handler, depth + 1))
            self.ended &= ended
        else:
            branches.append(set(known))
            self.ended = False
        known |= set.intersection(*branches)
        known &= set.intersection(*branches)
        return lines

    def for_(self, known: set[str], handler: bool, depth: int) -> list[str]:
        target = self.pick(*INTEGERS)
        over = self.pick("list(xs)", "(1, 2, 3)", f"range({self.rng.randrange(1, 4)})", "xs[:2]")
        inner = {*known, target}
        lines = self.nest(f"for {target} in {over}:", self.block(inner, True, handler, depth + 1))
        known &= inner
        if self.chance(30):
            lines += self.nest("else:", self.block(set(known), False, handler, depth + 1))
        self.ended = False
        return lines

    def while_(self, known: set[str], handler: bool, depth: int) -> list[str]:
        test = self.pick("self.tick()", f"self.tick() and {self.value(set(known), 1)}")
        inner = set(known)
        lines = self.nest(f"while {test}:", self.block(inner, True, handler, depth + 1))
        known &= inner
        if self.chance(30):
            lines += self.nest("else:", self.block(set(known), False, handler, depth + 1))
        self.ended = False
        return lines

    def try_(self, known: set[str], loop: bool, handler: bool, depth: int) -> list[str]:
        ends = [set(known)]
        lines = self.nest("try:", self.block(ends[0], loop, handler, depth + 1))
        ended = self.ended
        before = known & ends[0]
        finally_only = self.chance(20)
        if not finally_only:
            caught = self.pick("ValueError", "Exception", "(ValueError, AssertionError)", "NameError")
            as_ = self.chance(50)
            ends.append(set(before))
            body = self.block(ends[-1], loop, True, depth + 1)
            if as_:
                body.insert(0, "self.seen(e)")
            lines += self.nest(f"except {caught} as e:" if as_ else f"except {caught}:", body)
            handled = self.ended
            if not ended and self.chance(30):
                lines += self.nest("else:", self.block(ends[0], loop, handler, depth + 1))
                ended = self.ended
            ended &= handled
        if finally_only or self.chance(25):
            lines += self.nest("finally:", self.block(set(before), False, handler, depth + 1))
            ended |= self.ended
        self.ended = ended
        known |= set.intersection(*ends)
        known &= set.intersection(*ends)
        return lines

    def with_(self, known: set[str], loop: bool, handler: bool, depth: int) -> list[str]:
        name, tag = self.pick(*INTEGERS), self.rng.randrange(5)
        if self.chance(50):
            known.add(name)
            header = f"with self.cm({tag}) as {name}:"
            return self.nest(header, self.block(known, loop, handler, depth + 1))
        swallowing = self.chance(60)
        header = f"with self.cm({tag}), suppress(ValueError):" if swallowing else f"with self.cm({tag}), self.cm(9):"
        inner = set(known)
        lines = self.nest(header, self.block(inner, loop, handler, depth + 1))
        if not swallowing:
            known |= inner
        else:
            self.ended = False
        known &= inner
        return lines

    def match_(self, known: set[str], loop: bool, handler: bool, depth: int) -> list[str]:
        name = self.pick(*INTEGERS)
        value = self.value(known)
        subject, patterns = {
            "number": (f"({value})", [("0 | 1", ()), (f"int() as {name}", (name,)), (name, (name,))]),
            "list": ("xs", [("[]", ()), (f"[{name}, *_]", (name,)), (f"[1, *{name}]", ()), ("_", ())]),
            "dict": (
                f"{{'u': {value}, 'w': 1}}",
                [("{'v': 1}", ()), (f"{{'u': {name}, **others}}", (name,)), ("_", ())],
            ),
        }[self.pick("number", "list", "dict")]
        lines: list[str] = []
        ends, ended = [], True
        for pattern, captured in patterns:
            inner = {*known, *captured}
            refutable = pattern not in (name, "_")
            guard = f" if {self.value(inner, 1)}" if refutable and self.chance(40) else ""
            if not refutable or self.chance(70):
                lines += self.nest(f"case {pattern}{guard}:", self.block(inner, loop, handler, depth + 1))
                ends.append(inner)
                ended &= self.ended
        self.ended = ended and not refutable
        if not lines:
            return [f"self.note({value})"]
        known &= set.intersection(*ends)
        if len(patterns) and not refutable:
            known |= set.intersection(*ends)
        return self.nest(f"match {subject}:", lines)

    def function(self, known: set[str]) -> list[str]:
        shared = sorted(known & {*self.firm, *ARGUMENTS})
        inner = known - {"f"}  # no recursion: how deep it goes depends on the frames around it
        body = []
        if shared and self.chance(45):
            name = self.pick(*shared)
            body = [f"nonlocal {name}", f"{name} = {self.value(inner, 1)} + q"]
        for name in INTEGERS:  # a walrus in the function's own body would make a local of it
            inner.discard(name) if name not in known else None
        body.append(
            f"return self.note({self.value(inner, 1)})" if self.chance(70) else "return lambda q=0: self.note(q)"
        )
        default = self.value(known, 2)
        known.add("f")
        return self.nest(f"def f(q={default}):", body)

    def method(self) -> str:
        known = {*ARGUMENTS, "xs"}
        self.firm = set()  # certainly locals of the method: `nonlocal` is a syntax error for others
        body = []
        for name in INTEGERS:
            if self.chance(60):
                body.append(f"{name} = {self.rng.randrange(5)}")
                known.add(name)
                self.firm.add(name)
        body += self.block(known, False, False, 0)
        if self.chance(85):
            outs = sorted(known - ({"xs", "floor"} if self.chance(30) else {"xs", "floor", "f", "lazy"}))
            body.append(f"return [{', '.join(outs)}]")
        text = "\n".join(["def method(self, a, b, xs):", *_indent(body)])
        return text + "\n"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line if line else line for line in lines]
