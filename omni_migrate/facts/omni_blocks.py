"""The blocks of a platform's runners that are omni's: what must survive when the platform's methods are copied anew."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from omni_migrate.facts.flow import FunctionNode
from omni_migrate.facts.marker_twins import find_twins
from omni_migrate.facts.markers import MarkedLine, Markers, Pair, Style, calls_upstream, find_markers, marker_styles
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.syntax import walk
from omni_migrate.report.findings import Finding, Severity

Kind = Literal["marked", "line", "override", "addition", "unmarked", "namedtuple", "imports"]

# How much of a statement is shown in a location, and of a comment in a title.
_WIDTH, _TITLE_WIDTH = 80, 60
_ACRONYMS = {
    "kv": "KV",
    "mtp": "MTP",
    "id": "ID",
    "ids": "IDs",
    "cpu": "CPU",
    "gpu": "GPU",
    "npu": "NPU",
    "ec": "EC",
    "mm": "MM",
}
_NO_TITLE = re.compile(r"(?i)^(note|todo|fixme|type|noqa|yapf|fmt)\b")


@dataclass(frozen=True)
class Upstream:
    """What the platform's own code defines, where it is at hand: methods by omni class, fields by NamedTuple."""

    methods: Mapping[str, Collection[str]] = field(default_factory=dict)
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Code of omni's in a runner class. `lines` are its places (1-based, marker lines included), more than one if the
    method has the same code twice. `location` says in words where that is, `code` is dedented.

    Kinds: "marked" (a pair of markers), "line" (one-line markers), "override" (a whole method that calls the upstream
    one, or is commented as omni's), "addition" (a whole method that upstream has not), "unmarked" (a whole method of
    which that isn't known), "namedtuple" (`fields` are omni's own), "imports" (what a module needs of omni).
    """

    kind: Kind
    path: str
    class_name: str
    method: str
    title: str
    location: str
    code: str
    lines: tuple[tuple[int, int], ...]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Blocks:
    """The blocks by class (bases first) and position, the markers by file, and what is wrong beside their form."""

    blocks: tuple[Block, ...]
    markers: tuple[Markers, ...]
    findings: tuple[Finding, ...]


def find_blocks(
    modules: Modules,
    runners: Iterable[RunnerClass],
    platform: str,
    styles: Sequence[Style] | None = None,
    upstream: Upstream | None = None,
) -> Blocks:
    """The blocks of the platform's classes among `runners`. Files that do not parse are in modules.unreadable."""
    styles = marker_styles() if styles is None else styles
    chosen = [runner for runner in runners if runner.platform == platform]
    found: list[Block] = []
    tuples: list[Block] = []
    markers: list[Markers] = []
    findings: list[Finding] = []
    parsed = {path: module for path in dict.fromkeys(r.path for r in chosen) if (module := modules.get(path))}
    for path, module in parsed.items():
        reader = _Reader(module, find_markers(module, styles), upstream or Upstream())
        markers.append(reader.markers)
        names = [runner.name for runner in chosen if runner.path == path]
        blocks = [block for name in names for block in reader.class_blocks(name)]
        blocks += reader.module_blocks(names[0])
        found += sorted(blocks, key=lambda block: (names.index(block.class_name), block.lines))
        for node in module.classes.values():
            if _is_named_tuple(module, node):
                block, wrong = _named_tuple(module, node, reader.markers, upstream or Upstream(), parsed)
                tuples.append(block)
                findings += wrong
    findings += find_twins(parsed, markers)
    return Blocks(tuple(_unique_titles([*found, *tuples])), tuple(markers), tuple(sorted(findings)))


class _Reader:
    def __init__(self, module: Module, markers: Markers, upstream: Upstream) -> None:
        self.module, self.markers, self.upstream = module, markers, upstream

    def class_blocks(self, name: str) -> Iterator[Block]:
        node = self.module.classes[name]
        methods = [item for item in node.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for method in methods:
            yield from self._method_blocks(name, method)
        for pair in self.markers.pairs:
            enclosed = any(pair.first_line < method.lineno < pair.last_line for method in methods)
            if pair.scope == name and not pair.nested and not enclosed:
                span = (pair.first_line, pair.last_line)
                code = self._code(*span, pair.indent)
                title = _title_of_comments(pair.comments) or "Attributes"
                location = "in the class, outside its methods"
                yield Block("marked", self.module.path, name, "attributes", title, location, code, (span,))

    def module_blocks(self, name: str) -> Iterator[Block]:
        """What stands outside the classes: imports of omni's own names, and functions."""
        package = self.module.name.split(".")[0]
        imports = [
            node
            for node in self.module.tree.body
            if isinstance(node, ast.ImportFrom) and self.module.absolute(node).split(".")[0] == package
        ]
        if imports:
            code = "\n".join(self._code(node.lineno, node.end_lineno or 0, 0) for node in imports)
            lines = tuple((node.lineno, node.end_lineno or 0) for node in imports)
            title, location = f"Names of {package}", "at the head of the module"
            yield Block("imports", self.module.path, name, "imports", title, location, code, lines)
        for node in self.module.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield self._whole(name, node, "addition", "a function of the module, outside the class")

    def _method_blocks(self, class_name: str, method: FunctionNode) -> Iterator[Block]:
        first, last = _span(method)
        scope = f"{class_name}.{method.name}"
        pairs = [p for p in self.markers.pairs if _in_scope(p.scope, scope) and first <= p.first_line <= last]
        lines = [m for m in self.markers.lines if _in_scope(m.scope, scope) and first <= m.line <= last]
        grouped = any(p.first_line < first and last < p.last_line for p in self.markers.pairs if p.scope == class_name)
        delegates = any(
            calls_upstream(node, method.name)
            for node in (method.body if pairs else walk(method))
            if isinstance(node, ast.stmt)
        )
        own_methods = self.upstream.methods.get(class_name)
        if grouped:
            what = "overrides the upstream one and calls it" if delegates else "is marked together with its neighbours"
            yield self._whole(
                class_name, method, "override" if delegates else "addition", f"the whole method, which {what}"
            )
        elif delegates:
            location = "the whole method, which overrides the upstream one and calls it"
            yield self._whole(class_name, method, "override", location)
        elif pairs:
            yield from self._inner_blocks(class_name, method, [p for p in pairs if not p.nested], lines)
        elif any(not line.inline for line in lines):
            yield self._whole(class_name, method, "override", "the whole method, commented as omni's but not marked")
        elif lines:
            yield from self._inner_blocks(class_name, method, [], lines)
        elif own_methods is None:
            location = "the whole method; no marker says whether it is omni's"
            yield self._whole(class_name, method, "unmarked", location)
        elif method.name not in own_methods:
            yield self._whole(class_name, method, "addition", "the whole method, which upstream has not")

    def _inner_blocks(
        self, class_name: str, method: FunctionNode, pairs: Sequence[Pair], lines: Sequence[MarkedLine]
    ) -> Iterator[Block]:
        found: list[Block] = []
        for pair in pairs:
            span = (pair.first_line, pair.last_line)
            found.append(self._inner("marked", class_name, method, span, pair.indent, self._leading(pair)))
        for line in lines:
            span = (min(line.line, line.first_line), line.last_line)
            text = self.module.lines[span[0] - 1]
            indent = len(text) - len(text.lstrip())
            found.append(self._inner("line", class_name, method, span, indent, (line.comment,)))
        merged: dict[tuple[str, str], Block] = {}
        for block in sorted(found, key=lambda block: block.lines):
            key = (block.kind, block.code)
            same = merged.get(key)
            if same is None:
                merged[key] = block
            else:
                location = same.location if same.location == block.location else f"{same.location}; {block.location}"
                merged[key] = replace(same, location=location, lines=(*same.lines, *block.lines))
        yield from merged.values()

    def _inner(
        self,
        kind: Kind,
        class_name: str,
        method: FunctionNode,
        span: tuple[int, int],
        indent: int,
        comments: Sequence[str],
    ) -> Block:
        place = _Place(method, (span[0], self._last_code_line(span)))
        code = self._code(*span, indent)
        title = _title_of_comments(comments) or _title_of_code(place.inside)
        if not title:
            lines = [line.split("#")[0] for line in code.split("\n")]
            names = [name for name in re.findall(r"[A-Za-z_]\w*", "\n".join(lines)) if not keyword.iskeyword(name)]
            title = _words(names[0] if names else method.name)
        return Block(kind, self.module.path, class_name, method.name, title, place.words(), code, (span,))

    def _leading(self, pair: Pair) -> list[str]:
        """The comments of a pair that stand above its code."""
        found = []
        for line in self.module.lines[pair.first_line : pair.last_line - 1]:
            if line.strip() and not line.lstrip().startswith("#"):
                break
            found.append(line.strip())
        return found

    def _last_code_line(self, span: tuple[int, int]) -> int:
        code = (n for n in range(span[1], span[0], -1) if self.module.lines[n - 1].split("#")[0].strip())
        return next(code, span[1])

    def _whole(self, class_name: str, method: FunctionNode, kind: Kind, location: str) -> Block:
        first, last = _span(method)
        code = self._code(first, last, method.col_offset)
        title = _title_of_method(method)
        return Block(kind, self.module.path, class_name, method.name, title, location, code, ((first, last),))

    def _code(self, first: int, last: int, indent: int) -> str:
        return dedented(self.module.lines[first - 1 : last], indent)


def dedented(lines: Iterable[str], indent: int) -> str:
    """The lines without that indentation, where they have it, and with plain line ends."""
    kept = []
    for line in lines:
        line = line.rstrip()
        kept.append(line[indent:] if not line[:indent].strip() else line)
    return "\n".join(kept)


def _span(node: FunctionNode | ast.ClassDef) -> tuple[int, int]:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or node.lineno


def _in_scope(scope: str, method: str) -> bool:
    return scope == method or scope.startswith(f"{method}.")


class _Place:
    """Where lines stand in a method: what encloses them, what is in them, what comes before and after."""

    def __init__(self, method: FunctionNode, span: tuple[int, int]) -> None:
        self.span = span
        self.enclosing: list[str] = []
        self.before: ast.stmt | None = None
        self.after: ast.stmt | None = None
        self.inside: list[ast.stmt] = []
        self.within_statement = False
        self._descend(method.body[1:] if ast.get_docstring(method, clean=False) is not None else method.body)

    def _descend(self, body: Sequence[ast.stmt]) -> None:
        first, last = self.span
        around = next((s for s in body if s.lineno < first and (s.end_lineno or 0) >= last), None)
        if around is None:  # a line of a statement that begins or ends with it
            around = next((s for s in body if s.lineno <= first and (s.end_lineno or 0) > last), None)
        if around is None:
            self.inside = [s for s in body if s.lineno >= first and (s.end_lineno or 0) <= last]
            self.before = next((s for s in reversed(body) if (s.end_lineno or 0) < first), None)
            self.after = next((s for s in body if s.lineno > last), None)
            return
        branches = [branch for branch in _branches(around) if branch[1]]
        start = [branch for branch in branches if branch[1][0].lineno <= last]
        if not start:
            self.enclosing.append(f"inside `{_head(around)}`")
            self.within_statement = not branches
            return
        words, inner = start[-1]
        self.enclosing.append(words)
        self._descend(inner)

    def words(self) -> str:
        """Inside what, after what and before what it stands; of what encloses it, the innermost two."""
        parts = list(reversed(self.enclosing[-2:]))
        if self.within_statement:
            return ", ".join(parts)
        if self.before is None and self.after is None:
            parts.append("all of it")
        elif self.before is None:
            parts.append("at the beginning")
        elif self.after is None:
            parts.append("at the end")
        if self.before is not None:
            parts.append(f"after `{_head(self.before)}`")
        if self.after is not None:
            parts.append(f"before `{_head(self.after)}`")
        return ", ".join(parts)


def _branches(node: ast.stmt) -> Iterator[tuple[str, Sequence[ast.stmt]]]:
    """The bodies of a compound statement in order, and how one says that something is inside them."""
    head = f"`{_head(node)}`"
    yield f"inside {head}", getattr(node, "body", ())
    for handler in getattr(node, "handlers", ()):
        yield f"where {head} has caught {ast.unparse(handler.type) if handler.type else 'anything'}", handler.body
    for case in getattr(node, "cases", ()):
        yield f"in the case {_cut(ast.unparse(case.pattern))} of {head}", case.body
    yield f"in the else branch of {head}", getattr(node, "orelse", ())
    yield f"in the finally branch of {head}", getattr(node, "finalbody", ())


def _head(node: ast.stmt) -> str:
    """A statement in one short line."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        text = "with " + ", ".join(_short(item.context_expr) for item in node.items)
    elif isinstance(node, (ast.If, ast.While)):
        text = f"{'if' if isinstance(node, ast.If) else 'while'} {ast.unparse(node.test)}"
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        text = f"for {ast.unparse(node.target)} in {_short(node.iter)}"
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        text = f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}"
    elif isinstance(node, ast.Try):
        text = "try"
    elif isinstance(node, ast.Assign):
        text = f"{_targets(node.targets[0])} = {_short(node.value)}"
    elif isinstance(node, ast.Expr):
        text = _short(node.value)
    elif isinstance(node, ast.Return):
        text = f"return {_short(node.value)}" if node.value else "return"
    else:
        text = ast.unparse(node).split("\n")[0]
    return text.replace("`", "'") if len(text) <= _WIDTH else text[: _WIDTH - 1].replace("`", "'").rstrip() + "…"


def _targets(node: ast.expr) -> str:
    text = ast.unparse(node).strip("()")
    if isinstance(node, ast.Tuple) and len(node.elts) > 2:
        return f"{ast.unparse(node.elts[0])}, …, {ast.unparse(node.elts[-1])}"
    return text


def _short(node: ast.expr) -> str:
    """An expression, with a call's arguments left out unless they are few and plain."""
    if not isinstance(node, ast.Call):
        return ast.unparse(node)
    plain = (
        len(node.args) <= 1 and not node.keywords and all(isinstance(a, (ast.Constant, ast.Name)) for a in node.args)
    )
    return ast.unparse(node) if plain else f"{ast.unparse(node.func)}(…)"


def _title_of_comments(comments: Sequence[str]) -> str:
    """The first comment that says something, without the marker's own words, cut at the end of its first clause."""
    for comment in comments:
        text = re.sub(r"^#[\s-]*(\[Omni\]|(?i:omni-(new|specific))\b|Omni:)?[\s:-]*", "", comment)
        text = re.split(r"[.;:]\s|[.;:]$|\s\(", text, maxsplit=1)[0].strip()
        if len(text.split()) > 1 and not _NO_TITLE.match(text):
            return _cut(text[0].upper() + text[1:])
    return ""


def _cut(text: str) -> str:
    text = text.replace(" - ", ", ").replace("``", "").replace("`", "")
    return text if len(text) <= _TITLE_WIDTH else text[:_TITLE_WIDTH].rsplit(" ", 1)[0].rstrip(",") + " …"


def _title_of_code(body: Sequence[ast.stmt]) -> str:
    """What the code calls on the runner or its model first, else what it calls, else what it assigns."""
    calls = [node for statement in body for node in walk(statement) if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    methods = [call.func for call in calls if isinstance(call.func, ast.Attribute)]
    names = [func.attr for func in methods if ast.unparse(func.value) in ("self", "self.model")]
    for statement in body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            names.append(getattr(target, "attr", None) or getattr(target, "id", None) or "")
    names += [func.attr for func in methods if ast.unparse(func.value).startswith("self.")]
    names += [call.func.id for call in calls if isinstance(call.func, ast.Name)]
    return next((_words(name) for name in names if name), "")


def _title_of_method(method: FunctionNode) -> str:
    doc = ast.get_docstring(method)
    if doc:
        title = _title_of_comments(["# " + doc.split("\n\n")[0].replace("\n", " ")])
        if title:
            return title
    if method.name.startswith("__"):
        calls = [node.func for node in walk(method) if isinstance(node, ast.Call)]
        names = [name for call in calls for name in [ast.unparse(call).split(".")[0]] if re.match(r"[A-Z]\w*$", name)]
        return names[0] if names else _title_of_code(method.body[1:]) or _words(method.name)
    return _words(method.name)


def _words(name: str) -> str:
    """`_update_kv_states` -> `Update KV States`."""
    return " ".join(_ACRONYMS.get(word, word[:1].upper() + word[1:]) for word in name.strip("_").split("_") if word)


def _unique_titles(blocks: Iterable[Block]) -> Iterator[Block]:
    seen: dict[tuple[str, str, str], int] = {}
    for block in blocks:
        key = (block.class_name, block.method, block.title)
        seen[key] = seen.get(key, 0) + 1
        yield block if seen[key] == 1 else replace(block, title=f"{block.title} ({seen[key]})")


def _is_named_tuple(module: Module, node: ast.ClassDef) -> bool:
    return any(module.qualify(base) in ("typing.NamedTuple", "typing_extensions.NamedTuple") for base in node.bases)


def _named_tuple(
    module: Module, node: ast.ClassDef, markers: Markers, upstream: Upstream, others: Mapping[str, Module]
) -> tuple[Block, list[Finding]]:
    """The tuple as a block, and a finding for each other module that uses one of that name from elsewhere."""
    names = {s.target.id: s for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)}
    known = upstream.fields.get(node.name)
    marked = [m for m in markers.lines if m.scope == node.name]
    own = tuple(
        name
        for name, statement in names.items()
        if (
            name not in known
            if known is not None
            else any(m.last_line >= statement.lineno >= m.first_line for m in marked)
        )
    )
    where = (
        f"the fields of omni's are {', '.join(f'`{name}`' for name in own)}" if own else "no field is marked as omni's"
    )
    users, wrong = [], []
    for path, other in others.items():
        if other is module or node.name in other.classes:
            continue
        used = [n.lineno for n in walk(other.tree) if isinstance(n, ast.Name) and n.id == node.name]
        imported = other.imports.get(node.name)
        if imported is not None and imported.module == module.name:
            users.append(path.rpartition("/")[2])
        elif used:
            origin = f"has it from {imported.module}" if imported is not None else "does not import it"
            message = f"{node.name} is omni's own of {module.path}, but this module {origin}"
            hint = f"from {module.name} import {node.name}"
            line = imported.node.lineno if imported is not None else used[0]
            wrong.append(Finding(path, line, "tuple-import", Severity.ERROR, node.name, message, hint))
    if users:
        where += f"; {' and '.join(users)} must import it from here"
    first, last = _span(node)
    code = dedented(module.lines[first - 1 : last], node.col_offset)
    block = Block("namedtuple", module.path, node.name, "NamedTuple", "extension", where, code, ((first, last),), own)
    return block, wrong
