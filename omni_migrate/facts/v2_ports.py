"""A V2 port that a tree has already: which hooks it has, where, which it lacks, and in what it differs from V1.

A port is every class that extends a V2 runner or a model state of vLLM, and the modules beside them that these import.
What differs is found by rules about what V1 does and V2 does not; no rule knows a release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omni_migrate.facts.census import MODELS_FOLDER, Census, take_census
from omni_migrate.facts.hook_sites import HookSite, find_hook_sites, sites_of_files
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import RunnerClass, find_runners
from omni_migrate.facts.sites import methods_of
from omni_migrate.facts.vllm_source import FunctionNode, called_name, names_in, parameters
from omni_migrate.knowledge import HookSpec, common_words, model_states
from omni_migrate.report.findings import Finding, Severity

MROPE_METHOD = "get_mrope_input_positions"
# What says how many tokens a row has in the step, and what says where its prompt ends.
_SPAN_WORDS = ("num_scheduled_tokens", "query_start_loc", "query_len", "query_lens")
_PROMPT_WORDS = ("prompt_len", "prefill_len", "num_prompt_tokens", "is_prefill", "is_prefilling")
# An override of this many statements' lines that never calls super() is a fork of vLLM's method.
_FORK_LINES = 40


@dataclass(frozen=True)
class HookPort:
    """One hook on V2. `status`: "ported", "different" (a finding says in what) or "missing"; `sites` are on the V2 side."""

    hook: str
    status: str
    sites: tuple[HookSite, ...]


@dataclass
class V2Port:
    """A port as it stands in the tree. `states` are its model-state classes; `files` every module of it."""

    runners: tuple[RunnerClass, ...]
    states: tuple[RunnerClass, ...]
    files: tuple[str, ...]
    hooks: tuple[HookPort, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # capability -> models that V2 doesn't ask for it


def find_v2_port(
    modules: Modules,
    specs: Sequence[HookSpec],
    package: str,
    runners: Sequence[RunnerClass],
    v1_sites: Sequence[HookSite] | None = None,
) -> V2Port | None:
    """The tree's V2 port with a status for every hook that V1 has, None if no class extends a V2 runner.

    `runners` are those of `find_runners`, `v1_sites` those of `find_hook_sites` (found here if they are not given).
    """
    v2 = tuple(runner for runner in runners if runner.api == "V2")
    if not v2:
        return None
    states = find_runners(modules, package, dict.fromkeys(model_states(), "V2"))
    port = V2Port(v2, tuple(states), tuple(_files(modules, package, (*v2, *states))))
    v1 = find_hook_sites(modules, specs, package, runners) if v1_sites is None else v1_sites
    checks = _Checks(modules, specs, package, port, v1)
    port.findings = tuple(sorted(set(checks.findings())))
    port.skipped = checks.skipped
    port.hooks = tuple(checks.hooks(port.findings))
    port.findings = tuple(sorted({*port.findings, *checks.missing(port.hooks)}))
    return port


def _files(modules: Modules, package: str, classes: Iterable[RunnerClass]) -> list[str]:
    """The classes' modules, and what these import below their folders."""
    found = {item.path for item in classes}
    folders = tuple({f"{path.rpartition('/')[0]}/" for path in found})
    waiting = sorted(found)
    while waiting:
        module = modules.get(waiting.pop())
        for node in ast.walk(module.tree) if module is not None else ():
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for imported in module.resolve_import(node).values():  # type: ignore[union-attr]
                for name in (imported.module, f"{imported.module}.{imported.name}"):
                    base = name.replace(".", "/")
                    for path in (f"{base}.py", f"{base}/__init__.py"):
                        if path.startswith(folders) and path not in found and modules.workspace.exists(path):
                            found.add(path)
                            waiting.append(path)
    return sorted(found)


class _Checks:
    """The rules, over one port."""

    def __init__(
        self, modules: Modules, specs: Sequence[HookSpec], package: str, port: V2Port, v1: Sequence[HookSite]
    ) -> None:
        self.modules, self.specs, self.package, self.port, self.v1 = modules, specs, package, port, v1
        self.names = {spec.id: spec for spec in specs}
        self.v2 = sites_of_files(modules, specs, package, port.files)
        self.parsed = [module for path in port.files if (module := modules.get(path)) is not None]
        self.words = set().union(*(names_in(module.tree) for module in self.parsed)) if self.parsed else set()
        self.skipped: dict[str, tuple[str, ...]] = {}

    def findings(self) -> Iterator[Finding]:
        yield from self._renamed()
        yield from self._overlay()
        yield from self._mrope()
        yield from self._phase()
        yield from self._kwargs()
        yield from self._lost()
        yield from self._refusals()
        yield from self._forks()

    # which hook a rule is about, so that its status is "different"
    about = {
        "v2-no-overlay": ("prompt-embeds-overlay",),
        "v2-mrope-kwargs": ("mrope",),
        "v2-phase-by-length": ("talker-mtp", "preprocess-postprocess"),
        "v2-forward-kwargs": ("forward-kwargs", "request-token-spans"),
        "v2-lost-on-preemption": ("request-store",),
        "v2-forked-method": ("model-forward",),
    }

    def hooks(self, findings: Sequence[Finding]) -> Iterator[HookPort]:
        """A status for every hook that V1 has."""
        on_v1 = {site.hook for site in self.v1}
        differing = {hook for found in findings for hook in self._hooks_of(found)}
        for spec in self.specs:
            if spec.id not in on_v1:
                continue
            sites = tuple(site for site in self.v2 if site.hook == spec.id) or tuple(self._evidence(spec))
            status = "missing" if not sites else "different" if spec.id in differing else "ported"
            if spec.id == "prompt-embeds-overlay" and any(found.rule == "v2-no-overlay" for found in findings):
                status, sites = "missing", ()
            yield HookPort(spec.id, status, sites)

    def _hooks_of(self, found: Finding) -> Iterable[str]:
        if found.rule == "v2-renamed-capability":
            return [spec.id for spec in self.specs if found.symbol in spec.names.get("capabilities", ())]
        if found.rule == "v2-forward-kwargs":
            return [spec.id for spec in self.specs if found.symbol in spec.names.get("keys", ())]
        return self.about.get(found.rule, ())

    def _evidence(self, spec: HookSpec) -> Iterator[HookSite]:
        """Where a port names the hook in a form of its own, or overrides what serves it."""
        names = {name.rpartition(".")[2] for words in spec.names.values() for name in words} - common_words()
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                if function.name in spec.ported_by and scope:
                    symbol = f"{scope}.{function.name}"
                    yield HookSite(module.path, function.lineno, 0, spec.id, "override", symbol, function.name)
                for node in ast.walk(function) if names & self.words else ():
                    name = _name_of(node)
                    if name in names:
                        symbol = ".".join(filter(None, (scope, function.name)))
                        yield HookSite(module.path, getattr(node, "lineno", 0), 0, spec.id, "read", symbol, name)

    def missing(self, hooks: Sequence[HookPort]) -> Iterator[Finding]:
        path, line, name = self._home()
        for port in hooks:
            spec = self.names[port.hook]
            told = any(port.hook in self._hooks_of(found) for found in self.port.findings)
            if port.status == "missing" and not told:
                first = next(site for site in self.v1 if site.hook == port.hook)
                yield Finding(
                    path, line, "v2-hook-missing", Severity.WARNING, name,
                    f"{spec.name} has no counterpart on V2",
                    f"V1 has it in {first.path}:{first.line}; V2's place for it is {spec.points[0].symbol}",
                )  # fmt: skip

    def _home(self) -> tuple[str, int, str]:
        """Where a finding about the port as a whole belongs: its model state, else its first runner."""
        first = (*self.port.states, *self.port.runners)[0]
        return first.path, first.line, first.name

    def _renamed(self) -> Iterator[Finding]:
        """Capabilities that V2 asks for by another name than V1, and the models that only have V1's."""
        capabilities = {name for spec in self.specs for name in spec.names.get("capabilities", ())}
        probed_v1 = {site.name for site in self.v1 if site.role in ("probe", "call")} & capabilities
        asked: dict[str, tuple[str, int, str]] = {}
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                for name, line in _asked_of_model(function):
                    asked.setdefault(name, (module.path, line, f"{scope}.{function.name}" if scope else function.name))
        pairs = []
        for name in asked:
            if name in capabilities or name.startswith("__"):
                continue
            like = [old for old in sorted(probed_v1 - set(asked)) if _is_renaming(old, name)]
            pairs += [(old, name) for old in like[:1]]
        if not pairs:
            return
        census = take_census(
            self.modules.workspace, self.package, {name for pair in pairs for name in pair}, common=common_words()
        )
        for old, new in pairs:
            models = _answering_only(census, old, new)
            if models:
                path, line, symbol = asked[new]
                self.skipped[old] = tuple(models)
                yield Finding(
                    path, line, "v2-renamed-capability", Severity.ERROR, old,
                    f"{symbol} asks the model for {new} where V1 asks for {old}; silently skipped: {', '.join(models)}",
                    f"ask for {old}, or give these models {new}",
                )  # fmt: skip

    def _overlay(self) -> Iterator[Finding]:
        """Prompt embeddings that are kept and never laid over the step's."""
        if not any(site.hook == "prompt-embeds-overlay" for site in self.v1):
            return
        kept: tuple[str, int, str] | None = None
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                symbol = f"{scope}.{function.name}" if scope else function.name
                named = [node for node in ast.walk(function) if (_name_of(node) or "").startswith("prompt_embeds")]
                if named and _writes_embeddings(function):
                    return
                for node in named:
                    kept = kept or (module.path, getattr(node, "lineno", function.lineno), symbol)
        path, line, symbol = kept or self._home()
        first = next(site for site in self.v1 if site.hook == "prompt-embeds-overlay")
        yield Finding(
            path, line, "v2-no-overlay", Severity.ERROR, symbol,
            "a request's prompt embeddings are never laid over the embeddings of its prompt's rows",
            f"V1 does it in {first.path}; on V2 the embeddings that prepare_inputs returns take effect",
        )  # fmt: skip

    def _mrope(self) -> Iterator[Finding]:
        """M-RoPE metadata that V1 hands to the model and V2 doesn't."""
        keys = set(self.names["mrope"].names.get("keys", ())) if "mrope" in self.names else set()
        given = {site.name for site in self.v1 if site.hook == "mrope" and site.role == "store"} & keys
        lost = sorted(given - self.words)
        if not lost:
            return
        failing, losing = self._models_with_mrope_keywords(set(lost))
        path, line, symbol = self._home()
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                for node in ast.walk(function):
                    if _name_of(node) == MROPE_METHOD and (path, line, symbol) == self._home():
                        path, line = module.path, getattr(node, "lineno", 0)
                        symbol = f"{scope}.{function.name}" if scope else function.name
        told = [f"{name} requires {', '.join(words)}" for name, words in failing.items()]
        told += [f"{name} goes without {', '.join(words)}" for name, words in losing.items()]
        yield Finding(
            path, line, "v2-mrope-kwargs", Severity.ERROR if failing else Severity.WARNING, symbol,
            f"V1 gives {MROPE_METHOD} {', '.join(lost)}, V2 gives none of them" + "".join(f"; {text}" for text in told),
            "vLLM's V2 passes tokens and multimodal features only: bind the rest on the model's side",
        )  # fmt: skip

    def _models_with_mrope_keywords(self, lost: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Model classes whose method cannot be called without some of the keywords, and those that only miss them."""
        failing, losing = {}, {}
        for path in self.modules.mentioning({f"def {MROPE_METHOD}"}, f"{self.package}/{MODELS_FOLDER}"):
            module = self.modules.get(path)
            for name, node in sorted(module.classes.items()) if module is not None else ():
                for function in methods_of(node):
                    if function.name == MROPE_METHOD:
                        takes = [item for item in parameters(function, True) if item.name in lost]
                        required = [item.name for item in takes if item.required]
                        if takes:
                            (failing if required else losing)[name] = required or [item.name for item in takes]
        return failing, losing

    def _phase(self) -> Iterator[Finding]:
        """Rows routed as prefill or decode by the length of their span."""
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                for node in _by_length(function):
                    yield Finding(
                        module.path, node.lineno, "v2-phase-by-length", Severity.ERROR,
                        f"{scope}.{function.name}" if scope else function.name,
                        f"`{ast.unparse(node)}` takes a row for prefill or decode by its length: "
                        "the last chunk of a prompt may have one token",
                        "compare the computed tokens with the prompt's length",
                    )  # fmt: skip

    def _kwargs(self) -> Iterator[Finding]:
        """Keywords that V1's forward gets and V2's doesn't."""
        ids = ("forward-kwargs", "request-token-spans")
        given = [site for site in self.v1 if site.hook in ids and site.role == "store" and "runner" in site.path]
        keys = {name for hook in ids if hook in self.names for name in self.names[hook].names.get("keys", ())}
        on_v2 = self._forward_keys()
        path, line, symbol = self._home()
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                if function.name == "prepare_inputs" and scope in {state.name for state in self.port.states}:
                    path, line, symbol = module.path, function.lineno, f"{scope}.prepare_inputs"
        for name in sorted({site.name for site in given} & keys):
            if name not in on_v2:
                first = next(site for site in given if site.name == name)
                yield Finding(
                    path, line, "v2-forward-kwargs", Severity.WARNING, name,
                    f"V1 gives the model's forward {name} ({first.path}:{first.line}), {symbol} does not",
                    "put it into the dictionary that prepare_inputs returns",
                )  # fmt: skip

    def _forward_keys(self) -> set[str]:
        """Words in what builds the model's inputs: prepare_inputs, what it calls, and what fills `model_inputs`."""
        every: dict[str, list[FunctionNode]] = {}
        for module in self.parsed:
            for _, function in _functions(module.tree):
                every.setdefault(function.name, []).append(function)
        reached: set[str] = {"prepare_inputs"}
        reached |= {name for name, nodes in every.items() if any(_fills_model_inputs(node) for node in nodes)}
        waiting = list(reached)
        words: set[str] = set()
        while waiting:
            for node in every.get(waiting.pop(), ()):
                words |= {text for text in map(_text, ast.walk(node)) if text is not None}
                words |= {word.arg for call in _calls(node) for word in call.keywords if word.arg is not None}
                called = {called_name(call) for call in _calls(node)} & every.keys() - reached
                if not _runs_a_step(node):
                    reached |= called
                    waiting += called
        return words

    def _lost(self) -> Iterator[Finding]:
        """A payload store that is emptied where vLLM removes a request, which it also does on preemption."""
        for state in self.port.states:
            module = self.modules.get(state.path)
            methods = {node.name: node for node in methods_of(module.classes[state.name])} if module else {}
            if "add_request" not in methods or "remove_request" not in methods:
                continue
            stores = _owners_called(methods["add_request"])
            removing = methods["remove_request"]
            dropped = sorted(stores & _owners_called(removing))
            if dropped and "finished_req_ids" not in names_in(removing):
                yield Finding(
                    state.path, removing.lineno, "v2-lost-on-preemption", Severity.ERROR, f"{state.name}.remove_request",
                    f"drops what {', '.join(dropped)} holds of a request; vLLM calls it for preempted requests too, "
                    "and adds them again as new: what the model had made of the payload is lost",
                    "key the store by request id and drop only the step's finished_req_ids",
                )  # fmt: skip

    def _refusals(self) -> Iterator[Finding]:
        """What is refused or falls back because of V2."""
        for module in self.parsed:
            for scope, function in _functions(module.tree):
                yield from self._refused_in(module, scope, function, "")
        words = {"use_v2_model_runner", "model_runner"}
        for path in self.modules.mentioning(words, self.package):
            if path in self.port.files or f"/{MODELS_FOLDER}/" in path:
                continue
            data = self.modules.workspace.read(path)
            if b"NotImplementedError" not in data and b"use_v2_model_runner = False" not in data:
                continue
            found = self.modules.get(path)
            for scope, function in _functions(found.tree) if found is not None else ():
                yield from self._refused_in(found, scope, function, "v2")  # type: ignore[arg-type]

    def _refused_in(self, module: Module, scope: str, function: FunctionNode, about: str) -> Iterator[Finding]:
        for node in ast.walk(function):
            if not isinstance(node, ast.If):
                continue
            tested = ast.unparse(node.test)
            if about and about not in tested:
                continue
            symbol = f"{scope}.{function.name}" if scope else function.name
            for statement in node.body:
                raised = statement.exc if isinstance(statement, ast.Raise) else None
                if raised is not None and "NotImplementedError" in ast.unparse(raised):
                    text = f"V2 is refused where `{tested}`"
                elif about and _forces_v1(statement):
                    text = f"V1 is forced where `{tested}`"
                else:
                    continue
                yield Finding(
                    module.path, statement.lineno, "v2-refused", Severity.WARNING, symbol, text,
                    "these stages stay on V1",
                )  # fmt: skip

    def _forks(self) -> Iterator[Finding]:
        """Overrides of a step that repeat vLLM's in place of calling it."""
        for runner in self.port.runners:
            module = self.modules.get(runner.path)
            for function in methods_of(module.classes[runner.name]) if module is not None else ():
                lines = (function.end_lineno or function.lineno) - function.lineno + 1
                calls_super = any(
                    called_name(call) == function.name and "super()" in ast.unparse(call.func)
                    for call in _calls(function)
                )
                if function.name == "execute_model" and lines > _FORK_LINES and not calls_super:
                    yield Finding(
                        runner.path, function.lineno, "v2-forked-method", Severity.NOTE, f"{runner.name}.{function.name}",
                        f"{lines} lines in place of vLLM's own step, which is never called",
                        "what vLLM changes in its step has to be carried over by hand",
                    )  # fmt: skip


def _functions(tree: ast.Module) -> Iterator[tuple[str, FunctionNode]]:
    """Functions and methods with the class around them."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "", node
        elif isinstance(node, ast.ClassDef):
            for function in methods_of(node):
                yield node.name, function


def _calls(node: ast.AST) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _name_of(node: ast.AST) -> str | None:
    """What an attribute or a text names."""
    return node.attr if isinstance(node, ast.Attribute) else _text(node)


def _is_model(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "model"


def _asked_of_model(function: FunctionNode) -> Iterator[tuple[str, int]]:
    """Names that a function asks of a model by getattr, hasattr or an attribute, with the line."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and called_name(node) in ("getattr", "hasattr") and len(node.args) >= 2:
            name = _text(node.args[1])
            if name is not None and _is_model(node.args[0]):
                yield name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_model(node.value):
            yield node.attr, node.lineno


def _is_renaming(old: str, new: str) -> bool:
    """Whether one name is the other with words added in front or behind: talker_mtp and mtp."""
    return old != new and any(
        f"_{long}_".startswith(f"_{short}_") or f"_{long}_".endswith(f"_{short}_")
        for long, short in ((old, new), (new, old))
    )


def _answering_only(census: Census, old: str, new: str) -> list[str]:
    """Model classes that have the old capability and not the new one."""
    has_new = {(model.name, model.path) for model in census.having(new)}
    return sorted({model.name for model in census.answering(old) if (model.name, model.path) not in has_new})


def _writes_embeddings(function: FunctionNode) -> bool:
    """Whether a function writes into a tensor that is named after embeddings."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target: ast.AST = node.value
        elif isinstance(node, ast.Call) and called_name(node) in ("copy_", "index_copy_", "masked_scatter_"):
            target = node.func
        else:
            continue
        written = {part.attr for part in ast.walk(target) if isinstance(part, ast.Attribute)}
        written |= {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
        if any("embed" in name for name in written):
            return True
    return False


def _by_length(function: FunctionNode) -> Iterator[ast.Compare]:
    """Comparisons of a span's length with one that decide alone what a row is."""
    spans = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _mentions(node.value, _SPAN_WORDS)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    phased = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _mentions(node.value, _PROMPT_WORDS)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    if not any("mtp" in name or "preprocess" in name or "decode" in name for name in names_in(function)):
        return
    guarded: set[ast.AST] = set()
    for node in ast.walk(function):
        # beside a test of the phase, the length decides nothing alone
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            test = node if isinstance(node, ast.BoolOp) else node.test
            if _mentions(test, _PROMPT_WORDS) or any(getattr(part, "id", "") in phased for part in ast.walk(test)):
                guarded |= set(ast.walk(node))
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and node not in guarded and len(node.ops) == 1:
            left, right = node.left, node.comparators[0]
            is_span = (isinstance(left, ast.Name) and left.id in spans) or (
                not isinstance(left, ast.Name) and _mentions(left, _SPAN_WORDS)
            )
            if is_span and isinstance(right, ast.Constant) and right.value == 1:
                yield node


def _mentions(node: ast.AST, words: Sequence[str]) -> bool:
    return any(name.startswith(tuple(words)) for name in names_in(node))


def _fills_model_inputs(function: FunctionNode) -> bool:
    """Whether a function puts keys into a dictionary called `model_inputs`."""
    for node in ast.walk(function):
        owner: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            owner = node.value
        elif isinstance(node, ast.Call) and called_name(node) in ("setdefault", "update"):
            owner = getattr(node.func, "value", None)
        if isinstance(owner, ast.Name) and owner.id == "model_inputs":
            return True
    return False


def _runs_a_step(function: FunctionNode) -> bool:
    return function.name in ("execute_model", "sample_tokens")


def _owners_called(function: FunctionNode) -> set[str]:
    """Attributes of self on which a method calls something or of which it sets or deletes an item."""
    found = set()
    for node in ast.walk(function):
        owner: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            owner = node.value
        if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "self":
            found.add(owner.attr)
    return found


def _forces_v1(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Attribute)
        and statement.targets[0].attr == "use_v2_model_runner"
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is False
    )
