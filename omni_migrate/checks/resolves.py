"""check-resolves: what the tree's classes and imports found within the tree before, they still find.

Looked at: `self.x`, `cls.x` and `super().x` in every class that is, or inherits from, a changed one, its mixins
included; attributes of a class by its name or of an instance made of it in the same file; attributes of anything that
is called a runner, if no class has them any more; imports of changed modules, and their names and attributes as dotted
strings or `setattr`-like pairs; new imports. Not looked at: what only exists outside the tree, names computed at run
time. Files are searched as bytes first, and parsed only if they can matter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from omni_migrate.checks.definitions import ClassFacts, Import, ModuleFacts, dotted, module_facts
from omni_migrate.facts.syntax import walk
from omni_migrate.report.findings import Finding, Severity

RULE = "check-resolves"
_CLASS = re.compile(rb"^[ \t]*class[ \t]+(\w+)[ \t]*\(([^)]*)", re.MULTILINE)
_WORD = re.compile(rb"\w+")
_LAST_WORD = re.compile(rb"(\w+)\s*$")
_IMPORTED_AS = re.compile(rb" as (\w+)")
_ASSIGNED = re.compile(rb"^(\w+) = ([\w.]+)$", re.MULTILINE)

Key = tuple[str, str]
"""A class: the path of its file and its qualified name in there."""


class Tree(Protocol):
    """A tree of files to read; `omni_migrate.plan.workspace.Workspace` is one."""

    def read(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def python_files(self, below: Iterable[str] = ("",)) -> Iterator[str]: ...


def resolves(
    before: Tree, after: Tree, changed_paths: Iterable[str], hosts: frozenset[str] = frozenset({"runner"})
) -> list[Finding]:
    """A finding for each use that found its target in `before` and does not in `after`, and each new import that fails.

    `hosts` are the names under which moved code knows the object that it moved out of: what a changed file sets on
    one (`runner.x = ...`) counts as an attribute of the runner.
    """
    changed = sorted({path for path in changed_paths if path.endswith(".py")})
    unchanged: dict[str, ModuleFacts | None] = {}
    old, new = _Index(before, changed, unchanged), _Index(after, changed, unchanged)
    lost_names = _lost_names(old, new, changed)
    seeds = _seeds(old, new, changed)
    findings = set(_new_imports(old, new, changed))
    if lost_names or seeds:
        sources = {path: data for path in after.python_files() if (data := _data(after, path)) is not None}
        lost_attributes: dict[Key, set[str]] = {}
        still: set[str] = set()
        if seeds:
            given = {name for path in changed for name in _set_on(new.module(path), hosts)}
            family = _family(old, new, sources, seeds)
            broken: dict[tuple[str, int, str, str], set[str]] = {}
            for key in family:
                gone = old.attributes(key) - new.attributes(key) - given
                still |= new.attributes(key) | given
                if gone:
                    lost_attributes[key] = gone
                for use in _uses_within(old, new, key, gone):
                    broken.setdefault(use, set()).add(key[1])
            findings.update(_broken_use(use, classes) for use, classes in broken.items())
        gone_for_all = {name for gone in lost_attributes.values() for name in gone} - still
        gone_for_all -= _defined_elsewhere(sources, changed, gone_for_all)
        findings.update(_uses_elsewhere(new, sources, lost_names, lost_attributes, gone_for_all))
    return sorted(findings, key=lambda found: (found.path, found.line, found.message))


def _data(tree: Tree, path: str) -> bytes | None:
    """A file's bytes; None if it cannot be read, which is a reason not to write unless the user skips it."""
    try:
        return tree.read(path)
    except OSError:
        return None


class _Index:
    """Facts of one tree, each file parsed at most once; those of `unchanged` files are shared by both trees."""

    def __init__(self, tree: Tree, changed: Iterable[str], unchanged: dict[str, ModuleFacts | None]) -> None:
        self.tree = tree
        self._changed = frozenset(changed)
        self._own: dict[str, ModuleFacts | None] = {}
        self._unchanged = unchanged
        self._orders: dict[Key, list[Key]] = {}
        self._exists: dict[str, bool] = {}
        self.roots = sorted({"", *(self._root(path) for path in changed)})

    def exists(self, path: str) -> bool:
        if path not in self._exists:
            self._exists[path] = self.tree.exists(path)
        return self._exists[path]

    def module(self, path: str) -> ModuleFacts | None:
        """Facts of the file; None if it is not there or does not parse."""
        modules = self._own if path in self._changed else self._unchanged
        if path not in modules:
            data = _data(self.tree, path) if self.exists(path) else None
            modules[path] = module_facts(data) if data is not None else None
        return modules[path]

    def module_path(self, importer: str, wanted: Import, submodule: str = "") -> str | None:
        """The file that an import in `importer` names, or that of a submodule of it; None if it is not in the tree."""
        parts = [*wanted.module.split("."), *submodule.split(".")]
        tail = "/".join(part for part in parts if part)
        if wanted.level:
            folders = importer.split("/")[:-1]
            climb = wanted.level - 1
            bases = ["".join(f"{folder}/" for folder in folders[: len(folders) - climb])]
        else:
            bases = self.roots
        for base in bases:
            for candidate in (f"{base}{tail}.py", f"{base}{tail}/__init__.py" if tail else f"{base}__init__.py"):
                if self.exists(candidate):
                    return candidate
        return None

    def resolve(self, path: str, name: str, depth: int = 0) -> Key | None:
        """The class in the tree that `name`, plain or dotted, names in the file, through imports and re-exports."""
        module = self.module(path)
        if module is None or depth > 8:
            return None
        if name in module.classes:
            return path, name
        first, _, rest = name.partition(".")
        if first in module.renamed and module.renamed[first] != first:
            return self.resolve(path, ".".join(filter(None, (module.renamed[first], rest))), depth + 1)
        for wanted in module.aliases.get(first, ()):
            found = self._resolve_import(path, wanted, rest, depth)
            if found is not None:
                return found
        local = [each for each in module.classes if each.endswith(f".<locals>.{name}")]
        return (path, local[0]) if local else None

    def _resolve_import(self, path: str, wanted: Import, rest: str, depth: int) -> Key | None:
        names = [name for name in (wanted.name, *rest.split(".")) if name]
        for count in range(len(names) - 1, -1, -1):
            target = self.module_path(path, wanted, ".".join(names[:count]))
            if target is not None:
                return self.resolve(target, ".".join(names[count:]), depth + 1)
        return None

    def order(self, key: Key) -> list[Key]:
        """The class and its bases within the tree, in the order of look-up (left to right, shared bases last)."""
        if key not in self._orders:
            visited: list[Key] = []
            self._visit(key, visited, set())
            self._orders[key] = [each for number, each in enumerate(visited) if each not in visited[number + 1 :]]
        return self._orders[key]

    def _visit(self, key: Key, visited: list[Key], open_keys: set[Key]) -> None:
        facts = self.class_facts(key)
        if facts is None or key in open_keys:
            return
        visited.append(key)
        for base in facts.bases:
            found = self.resolve(key[0], base)
            if found is not None:
                self._visit(found, visited, open_keys | {key})

    def class_facts(self, key: Key) -> ClassFacts | None:
        module = self.module(key[0])
        return module.classes.get(key[1]) if module else None

    def attributes(self, key: Key) -> set[str]:
        """Every attribute that the class defines or inherits within the tree, on the class or on instances."""
        return {name for each in self.order(key) if (facts := self.class_facts(each)) for name in facts.own}

    def _root(self, path: str) -> str:
        """The folder that the file's outermost package lies in, with a slash at its end, or ""."""
        folders = path.split("/")[:-1]
        while folders and self.exists("/".join([*folders, "__init__.py"])):
            folders.pop()
        return "".join(f"{folder}/" for folder in folders)


def _lost_names(old: _Index, new: _Index, changed: Iterable[str]) -> dict[str, set[str]]:
    """Path -> top-level names that its module no longer has."""
    lost: dict[str, set[str]] = {}
    for path in changed:
        before, after = old.module(path), new.module(path)
        if before is not None and not (after is not None and after.is_open):
            gone = before.names - (after.names if after is not None else set())
            if gone:
                lost[path] = gone
    return lost


def _seeds(old: _Index, new: _Index, changed: Iterable[str]) -> set[Key]:
    """The classes of changed files that define less than before, have other bases, or are gone."""
    seeds = set()
    for path in changed:
        before = old.module(path)
        for name, facts in before.classes.items() if before else ():
            now = new.class_facts((path, name))
            if now is None or facts.own - now.own or facts.bases != now.bases:
                seeds.add((path, name))
    return seeds


def _family(old: _Index, new: _Index, sources: dict[str, bytes], seeds: set[Key]) -> list[Key]:
    """The seeds that are still there and every class of the tree that inherits from one, before or after."""
    headers = [
        (path, match.group(1), set(_WORD.findall(match.group(2))))
        for path, data in sources.items()
        if b"class" in data
        for match in _CLASS.finditer(data)
    ]
    names = {name.rpartition(".")[2].encode() for _, name in seeds}
    renamed = _renamed(sources.values())
    files: set[str] = set()
    while True:
        names |= {alias for original, alias in renamed if original in names}
        found = {(path, name) for path, name, bases in headers if bases & names}
        files |= {path for path, _ in found}
        more = names | {name for _, name in found}
        if more == names:
            break
        names = more
    family = set(seeds)
    for path in files:
        for index in (old, new):
            module = index.module(path)
            family |= (
                {(path, name) for name in module.classes if seeds & set(index.order((path, name)))} if module else set()
            )
    return sorted(key for key in family if new.class_facts(key) is not None)


def _renamed(sources: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """(name, other name) of each `name as other` and `other = name` in the files."""
    pairs = []
    for data in sources:
        for match in _IMPORTED_AS.finditer(data):
            word = _LAST_WORD.search(data, max(0, match.start() - 80), match.start())
            if word:
                pairs.append((word.group(1), match.group(1)))
        pairs += [(name.rpartition(b".")[2], other) for other, name in _ASSIGNED.findall(data)]
    return pairs


def _uses_within(old: _Index, new: _Index, key: Key, gone: set[str]) -> Iterator[tuple[str, int, str, str]]:
    """(path, line, class of the method, what it looks up) of each use that for an instance of `key` finds nothing."""
    order_before, order_after = old.order(key), new.order(key)
    for place in order_after:
        facts = new.class_facts(place)
        if facts is None:
            continue
        for name, line in facts.uses:
            if name in gone:
                yield place[0], line, place[1], f"self.{name}"
        if place in order_before:
            above_before = _shared(old, order_before[order_before.index(place) + 1 :])
            above_after = _shared(new, order_after[order_after.index(place) + 1 :])
            for name, line in facts.super_uses:
                if name in above_before - above_after:
                    yield place[0], line, place[1], f"super().{name}"


def _broken_use(use: tuple[str, int, str, str], classes: set[str]) -> Finding:
    path, line, owner, what = use
    listed = sorted(classes)
    shown = ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
    return _finding(path, line, f"{owner}.{what.rpartition('.')[2]}", f"{what} finds nothing any more in {shown}")


def _shared(index: _Index, keys: Iterable[Key]) -> set[str]:
    return {name for key in keys if (facts := index.class_facts(key)) for name in facts.shared}


def _uses_elsewhere(
    new: _Index,
    sources: dict[str, bytes],
    lost_names: dict[str, set[str]],
    lost_attributes: dict[Key, set[str]],
    anywhere: set[str],
) -> Iterator[Finding]:
    """Imports of names that are gone, and attributes that are gone: of classes, of their instances, and, if no runner
    has them `anywhere`, of what is called a runner.
    """
    attributes = {name for gone in lost_attributes.values() for name in gone}
    wanted = attributes | {name for gone in lost_names.values() for name in gone}
    full_names = _dotted(new, lost_names, lost_attributes)
    needles = [name.encode() for name in attributes]
    # a module's name alone is taken from it by name: a file that does not mention the module cannot
    by_module = [(_stem(path), [name.encode() for name in gone]) for path, gone in lost_names.items() if gone]
    for path, data in sources.items():
        taken = any(stem in data and any(name in data for name in gone) for stem, gone in by_module)
        if not taken and not any(needle in data for needle in needles):
            continue
        module = new.module(path)
        if module is None:
            continue
        for wanted_import, line in module.imports:
            target = new.module_path(path, wanted_import) if wanted_import.name else None
            name = wanted_import.name or ""
            if target in lost_names and name in lost_names[target] and not new.module_path(path, wanted_import, name):
                yield _finding(path, line, name, f"{name} is imported from {target}, which has it no more")
        instances = _instances(new, path, module)
        for line, receiver, name in _attribute_uses(module, wanted):
            where = _receiver_module(new, path, module, receiver)
            if where in lost_names and name in lost_names[where]:
                yield _finding(path, line, name, f"{receiver}.{name}: {where} has it no more")
            key = instances.get(receiver) or new.resolve(path, receiver)
            if key is not None and name in lost_attributes.get(key, ()):
                yield _finding(path, line, f"{key[1]}.{name}", f"{receiver}.{name} finds nothing any more in {key[1]}")
            elif key is None and "runner" in receiver.rpartition(".")[2].lower() and name in anywhere:
                yield _finding(path, line, name, f"{receiver}.{name} finds nothing any more in any runner")
        for node in walk(module.node):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in full_names:
                yield _finding(path, node.lineno, node.value, f'"{node.value}" names what is not there any more')


def _stem(path: str) -> bytes:
    """The last part of a module's name."""
    parts = path.removesuffix(".py").split("/")
    return (parts[-2] if parts[-1] == "__init__" and len(parts) > 1 else parts[-1]).encode()


def _dotted(new: _Index, lost_names: dict[str, set[str]], lost_attributes: dict[Key, set[str]]) -> set[str]:
    """The full names, as `mock.patch` takes them, of what is gone."""
    pairs = [(path, name) for path, gone in lost_names.items() for name in gone]
    pairs += [(key[0], f"{key[1]}.{name}") for key, gone in lost_attributes.items() for name in gone]
    full = set()
    for path, name in pairs:
        for root in new.roots:
            if path.startswith(root):
                module = path[len(root) :].removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                full.add(f"{module}.{name}")
    return full


def _receiver_module(new: _Index, path: str, module: ModuleFacts, receiver: str) -> str | None:
    """The file of the module that `receiver` names in this file."""
    first, _, rest = receiver.partition(".")
    for wanted in module.aliases.get(first, ()):
        names = ".".join(filter(None, (wanted.name, rest)))
        target = new.module_path(path, wanted, names)
        if target is not None:
            return target
    return None


def _attribute_uses(module: ModuleFacts, wanted: set[str]) -> Iterator[tuple[int, str, str]]:
    """(line, receiver as dotted text, name) of each look-up of a wanted name on anything but `self` and `cls`.

    `getattr(x, "name")` without a default and pytest's and mock's patching of `x, "name"` look the name up too. What
    the file itself sets on the receiver is there.
    """
    uses: list[tuple[int, str, str]] = []
    given: set[tuple[str, str]] = set()
    for node in walk(module.node):
        if isinstance(node, ast.Attribute) and node.attr in wanted:
            if isinstance(node.ctx, ast.Store) and id(node) not in module.augmented:
                given.add((dotted(node.value), node.attr))
            else:
                uses.append((node.lineno, dotted(node.value), node.attr))
        elif isinstance(node, ast.Call) and len(node.args) >= 2 and _looks_up(node):
            second = node.args[1]
            if isinstance(second, ast.Constant) and second.value in wanted:
                uses.append((node.lineno, dotted(node.args[0]), str(second.value)))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):  # SimpleNamespace(name=...)
            keywords = [keyword.arg for keyword in node.value.keywords if keyword.arg in wanted]
            given.update((dotted(target), str(name)) for target in node.targets for name in keywords)
    for line, receiver, name in uses:
        if receiver not in ("", "self", "cls") and (receiver, name) not in given:
            yield line, receiver, name


def _looks_up(call: ast.Call) -> bool:
    function = dotted(call.func)
    lenient = any(keyword.arg in ("raising", "create") for keyword in call.keywords)
    if function == "getattr":
        return len(call.args) == 2
    return function == "delattr" or (function.endswith((".setattr", ".delattr", "patch.object")) and not lenient)


def _instances(new: _Index, path: str, module: ModuleFacts) -> dict[str, Key]:
    """Variables of the file that are assigned an instance of a class of the tree: `C(...)` or `...__new__(C)`."""
    found: dict[str, Key] = {}
    for node in walk(module.node):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = dotted(node.value.func)
            if made.endswith("__new__") and node.value.args:
                made = dotted(node.value.args[0])
            key = new.resolve(path, made) if made else None
            if key is not None:
                found.update({dotted(target): key for target in node.targets})
    return found


def _defined_elsewhere(sources: dict[str, bytes], changed: Iterable[str], names: set[str]) -> set[str]:
    """Which of the names some unchanged file gives to a class of its own: what is called a runner may be one."""
    found = set()
    for name in names:
        needle = name.encode()
        pattern = re.compile(rb"(?:def\s+|self\.)" + needle + rb"\b\s*[(:=]")
        for path in sources.keys() - set(changed):
            if needle in sources[path] and pattern.search(sources[path]):
                found.add(name)
                break
    return found


def _new_imports(old: _Index, new: _Index, changed: Iterable[str]) -> Iterator[Finding]:
    """Imports that a changed file did not have before, of a module or name that the tree should have and has not."""
    for path in changed:
        module, before = new.module(path), old.module(path)
        known = {wanted for wanted, _ in before.imports} if before else set()
        for wanted, line in module.imports if module else ():
            if wanted in known or not _is_of_tree(new, path, wanted):
                continue
            target = new.module_path(path, wanted)
            name = wanted.name
            if name is not None and new.module_path(path, wanted, name) is not None:
                continue
            provided = new.module(target) if target is not None else None
            if target is None:
                shown = "." * wanted.level + wanted.module
                yield _finding(path, line, shown, f"the new import finds no module {shown} in the tree")
            elif (
                name not in (None, "*") and provided is not None and not provided.is_open and name not in provided.names
            ):
                yield _finding(path, line, str(name), f"the new import finds no {name} in {target}")


def _is_of_tree(new: _Index, path: str, wanted: Import) -> bool:
    if wanted.level:
        return True
    top = wanted.module.split(".")[0]
    return any(new.exists(f"{root}{top}/__init__.py") for root in new.roots)


def _set_on(module: ModuleFacts | None, hosts: frozenset[str]) -> set[str]:
    """The attributes that the module's code sets on an object that it knows as one of `hosts`."""
    if module is None:
        return set()
    names: set[str] = set()
    for node in walk(module.node):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node.value) in hosts:
            names.update({node.attr} if id(node) not in module.augmented else ())
        elif isinstance(node, ast.Call) and dotted(node.func) == "setattr" and len(node.args) == 3:
            owner, name = node.args[:2]
            if dotted(owner) in hosts and isinstance(name, ast.Constant):
                names.add(str(name.value))
    return names


def _finding(path: str, line: int, symbol: str, message: str) -> Finding:
    return Finding(path, line, RULE, Severity.ERROR, symbol, message)
