"""A V2 port that a tree has already: which hooks it has, where, which it lacks, and in what it differs from V1.

A port is every class that extends a V2 runner or a model state of vLLM, and the modules beside them that these import.
What differs is found by rules about what V1 does and V2 does not; no rule knows a release.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from omni_migrate.facts.census import MODELS_FOLDER, Census, take_census
from omni_migrate.facts.hook_sites import HookSite, find_hook_sites, imported_files, sites_of_files
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.runners import RunnerClass, find_runners
from omni_migrate.facts.sites import methods_of
from omni_migrate.facts.syntax import walk
from omni_migrate.facts.vllm_source import FunctionNode, called_name, names_in, parameters
from omni_migrate.knowledge import HookSpec, common_words, model_states
from omni_migrate.report.findings import Finding, Severity

MROPE_METHOD = "get_mrope_input_positions"
_FORCED = b"use_v2_model_runner = False"
_NAMES_V2 = re.compile(rb"""["']v2["']|\buse_v2_model_runner\b""")
# What says how many tokens a row has in the step, and what says where its prompt ends.
_SPAN_WORDS = ("num_scheduled_tokens", "query_start_loc", "query_len", "query_lens")
_PROMPT_WORDS = ("prompt_len", "prefill_len", "num_prompt_tokens", "is_prefill", "is_prefilling")
# An override of this many statements' lines that never calls super() is a fork of vLLM's method.
_FORK_LINES = 40


@dataclass(frozen=True)
class HookPort:
    """One hook on V2. `status`: "ported", "different" (a finding says in what) or "missing"; `sites` are V2's."""

    hook: str
    status: str
    sites: tuple[HookSite, ...]


@dataclass
class V2Port:
    """A port as it stands in the tree. `states` are its model-state classes; `files` every module of it.

    `skipped` maps a capability that V2 asks for by another name to the models that only have V1's.
    """

    runners: tuple[RunnerClass, ...]
    states: tuple[RunnerClass, ...]
    files: tuple[str, ...]
    hooks: tuple[HookPort, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    port = V2Port(v2, tuple(states), tuple(imported_files(modules, (*v2, *states))))
    v1 = find_hook_sites(modules, specs, package, runners) if v1_sites is None else v1_sites
    checks = _Checks(modules, specs, package, port, v1)
    port.findings = tuple(sorted(set(checks.findings())))
    port.skipped = checks.skipped
    port.hooks = tuple(checks.hooks(port.findings))
    port.findings = tuple(sorted({*port.findings, *checks.missing(port.hooks)}))
    return port


class _Checks:
    """The rules, over one port."""

    def __init__(
        self, modules: Modules, specs: Sequence[HookSpec], package: str, port: V2Port, v1: Sequence[HookSite]
    ) -> None:
        self.modules, self.specs, self.package, self.port, self.v1 = modules, specs, package, port, v1
        self.names = {spec.id: spec for spec in specs}
        self.v2 = sites_of_files(modules, specs, package, port.files)
        parsed = [module for path in port.files if (module := modules.get(path)) is not None]
        self.functions = [function for module in parsed for function in _functions(module)]
        self.words = set().union(*(names_in(module.tree) for module in parsed)) if parsed else set()
        self.skipped: dict[str, tuple[str, ...]] = {}
        self.overlay: list[HookSite] = []
        self.renamed: list[HookSite] = []

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
            sites = sites or tuple(site for site in self.renamed if site.hook == spec.id)
            status = "missing" if not sites else "different" if spec.id in differing else "ported"
            if (
                spec.id == "prompt-embeds-overlay"
            ):  # its names in a port are common words: only the overlay itself counts
                status, sites = ("ported" if self.overlay else "missing"), tuple(self.overlay)
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
        for function in self.functions:
            path, symbol = function.path, function.symbol
            if function.node.name in spec.ported_by and function.scope:
                yield HookSite(path, function.node.lineno, 0, spec.id, "override", symbol, function.node.name)
            for node in function.nodes if names & function.names else ():
                name = _name_of(node)
                if name in names:
                    yield HookSite(path, getattr(node, "lineno", 0), 0, spec.id, "read", symbol, name)
            for name, line in _asked_of_model(function) if spec.ported_by else ():
                if name in spec.ported_by:
                    yield HookSite(path, line, 0, spec.id, "call", symbol, name)

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
        for function in self.functions:
            for name, line in _asked_of_model(function):
                asked.setdefault(name, (function.path, line, function.symbol))
        pairs: dict[str, str] = {}  # V2's name -> V1's
        for name in asked:
            like = [old for old in probed_v1 - set(asked) if _is_renaming(old, name)]
            if like and name not in capabilities:
                pairs[name] = min(like, key=lambda old: (len(old), old))
        for new, old in pairs.items():
            path, line, symbol = asked[new]
            hook = next(spec.id for spec in self.specs if old in spec.names.get("capabilities", ()))
            self.renamed.append(HookSite(path, line, 0, hook, "probe", symbol, new))
        if not pairs:
            return
        every = {*pairs, *pairs.values()}
        census = take_census(self.modules.workspace, self.package, every, common=common_words())
        skipped = {new: models for new, old in pairs.items() if (models := _answering_only(census, old, new))}
        told: set[str] = set()
        for new in sorted(skipped, key=len):
            old, models = pairs[new], skipped[new]
            if new in told:
                continue
            # what goes by the same renaming and is missed by the same models, is the same fault
            also = [x for x in skipped if x.startswith(f"{new}_") and set(skipped[x]) <= set(models)]
            told |= set(also)
            self.skipped[old] = tuple(models)
            path, line, symbol = asked[new]
            more = f" (and so for {', '.join(sorted(also))})" if also else ""
            yield Finding(
                path, line, "v2-renamed-capability", Severity.ERROR, old,
                f"{symbol} asks the model for {new} where V1 asks for {old}{more}; "
                f"silently skipped: {', '.join(models)}",
                f"ask for {old}, or give these models {new}",
            )  # fmt: skip

    def _overlay(self) -> Iterator[Finding]:
        """Prompt embeddings that are kept and never laid over the step's."""
        if not any(site.hook == "prompt-embeds-overlay" for site in self.v1):
            return
        kept: tuple[str, int, str] | None = None
        for function in self.functions:
            named = [node for node in function.nodes if (_name_of(node) or "").startswith("prompt_embeds")]
            if named and _writes_embeddings(function):
                line = getattr(named[0], "lineno", function.node.lineno)
                self.overlay.append(
                    HookSite(function.path, line, 0, "prompt-embeds-overlay", "read", function.symbol, "prompt_embeds")
                )
                return
            for node in named:
                kept = kept or (function.path, getattr(node, "lineno", function.node.lineno), function.symbol)
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
        asking = [
            (function.path, getattr(node, "lineno", 0), function.symbol)
            for function in self.functions
            for node in function.nodes
            if _name_of(node) == MROPE_METHOD
        ]
        path, line, symbol = max(asking) if asking else self._home()
        told = [f"{name} requires {', '.join(words)}" for name, words in failing.items()]
        told += [f"{name} goes without {', '.join(words)}" for name, words in losing.items()]
        yield Finding(
            path, line, "v2-mrope-kwargs", Severity.ERROR if failing else Severity.WARNING, symbol,
            f"V1 gives {MROPE_METHOD} {', '.join(lost)}, V2 gives none of them" + "".join(f"; {text}" for text in told),
            "vLLM's V2 passes tokens and multimodal features only: bind the rest on the model's side",
        )  # fmt: skip

    def _models_with_mrope_keywords(self, lost: set[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
        """Model classes whose method cannot be called without some of the keywords, and those that only miss them."""
        failing: dict[str, list[str]] = {}
        losing: dict[str, list[str]] = {}
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
        for function in self.functions:
            for node in _by_length(function):
                yield Finding(
                    function.path, node.lineno, "v2-phase-by-length", Severity.ERROR, function.symbol,
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
        states = {state.name for state in self.port.states}
        for function in self.functions:
            if function.node.name == "prepare_inputs" and function.scope in states:
                path, line, symbol = function.path, function.node.lineno, function.symbol
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
        every: dict[str, list[_Function]] = {}
        for function in self.functions:
            every.setdefault(function.node.name, []).append(function)
        reached = {"prepare_inputs", *(f.node.name for f in self.functions if _fills_model_inputs(f))}
        waiting = list(reached)
        words: set[str] = set()
        while waiting:
            for function in every.get(waiting.pop(), ()):
                words |= {text for text in map(_text, function.nodes) if text is not None}
                words |= {word.arg for call in function.calls for word in call.keywords if word.arg is not None}
                if function.node.name not in ("execute_model", "sample_tokens"):
                    called = {called_name(call) for call in function.calls} & every.keys() - reached
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
                symbol = f"{state.name}.remove_request"
                yield Finding(
                    state.path, removing.lineno, "v2-lost-on-preemption", Severity.ERROR, symbol,
                    f"drops what {', '.join(dropped)} holds of a request; vLLM calls it for preempted requests too, "
                    "and adds them again as new: what the model had made of the payload is lost",
                    "key the store by request id and drop only the step's finished_req_ids",
                )  # fmt: skip

    def _refusals(self) -> Iterator[Finding]:
        """What is refused or falls back because of V2."""
        for function in self.functions:
            yield from self._refused_in(function, "")
        for path in self.modules.mentioning({"NotImplementedError", _FORCED.decode()}, self.package):
            data = self.modules.data(path)
            refuses = b"NotImplementedError" in data and _NAMES_V2.search(data)
            forces = _FORCED in data and "/worker/" in path
            if path in self.port.files or not (refuses or forces):
                continue
            found = self.modules.get(path)
            for function in _functions(found) if found is not None else ():
                yield from self._refused_in(function, "v2")

    def _refused_in(self, function: _Function, about: str) -> Iterator[Finding]:
        for node in function.nodes:
            if not isinstance(node, ast.If):
                continue
            tested = ast.unparse(node.test)
            if about and about not in tested:
                continue
            for statement in node.body:
                raised = statement.exc if isinstance(statement, ast.Raise) else None
                if raised is not None and "NotImplementedError" in ast.unparse(raised):
                    text = f"V2 is refused where `{tested}`"
                elif about and _forces_v1(statement):
                    text = f"V1 is forced where `{tested}`"
                else:
                    continue
                yield Finding(
                    function.path, statement.lineno, "v2-refused", Severity.WARNING, function.symbol, text,
                    "these stages stay on V1",
                )  # fmt: skip

    def _forks(self) -> Iterator[Finding]:
        """Overrides of a step that repeat vLLM's in place of calling it."""
        runners = {(runner.path, runner.name) for runner in self.port.runners}
        for function in self.functions:
            node = function.node
            if node.name != "execute_model" or (function.path, function.scope) not in runners:
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > _FORK_LINES and not any(_is_super_call(call, node.name) for call in function.calls):
                yield Finding(
                    function.path, node.lineno, "v2-forked-method", Severity.NOTE, function.symbol,
                    f"{lines} lines in place of vLLM's own step, which is never called",
                    "what vLLM changes in its step has to be carried over by hand",
                )  # fmt: skip


def _is_super_call(call: ast.Call, name: str) -> bool:
    return called_name(call) == name and "super()" in ast.unparse(call.func)


@dataclass(frozen=True, eq=False)
class _Function:
    """A function or method, walked once: `nodes` are all that is in it, `names` every name, attribute and text."""

    path: str
    scope: str
    node: FunctionNode
    nodes: tuple[ast.AST, ...]
    names: frozenset[str]

    @property
    def symbol(self) -> str:
        return f"{self.scope}.{self.node.name}" if self.scope else self.node.name

    @property
    def calls(self) -> list[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]


def _functions(module: Module) -> Iterator[_Function]:
    """The functions and methods of a module."""
    for node in module.tree.body:
        inner: list[FunctionNode] = list(methods_of(node)) if isinstance(node, ast.ClassDef) else []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = [node]
        scope = node.name if isinstance(node, ast.ClassDef) else ""
        for function in inner:
            nodes = tuple(walk(function))
            yield _Function(module.path, scope, function, nodes, frozenset(filter(None, map(_word, nodes))))


def _word(node: ast.AST) -> str | None:
    """What a name, an attribute or a text says."""
    return node.id if isinstance(node, ast.Name) else _name_of(node)


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _name_of(node: ast.AST) -> str | None:
    """What an attribute or a text names."""
    return node.attr if isinstance(node, ast.Attribute) else _text(node)


def _is_model(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "model"


def _asked_of_model(function: _Function) -> Iterator[tuple[str, int]]:
    """Names that a function asks of a model by getattr, hasattr or an attribute, with the line."""
    for node in function.nodes if "model" in function.names else ():
        if isinstance(node, ast.Call) and called_name(node) in ("getattr", "hasattr") and len(node.args) >= 2:
            name = _text(node.args[1])
            if name is not None and _is_model(node.args[0]):
                yield name, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_model(node.value):
            yield node.attr, node.lineno


def _is_renaming(old: str, new: str) -> bool:
    """Whether one name is the other with words in front, or with V2's mark behind: talker_mtp and mtp."""
    return (
        old.endswith(f"_{new}") or new.endswith(f"_{old}") or re.fullmatch(f"{re.escape(old)}_\\w*v2", new) is not None
    )


def _answering_only(census: Census, old: str, new: str) -> list[str]:
    """Model classes that have the old capability and not the new one."""
    has_new = {(model.name, model.path) for model in census.having(new)}
    return sorted({model.name for model in census.answering(old) if (model.name, model.path) not in has_new})


def _writes_embeddings(function: _Function) -> bool:
    """Whether a function writes into a tensor that is named after embeddings."""
    for node in function.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target: ast.AST = node.value
        elif isinstance(node, ast.Call) and called_name(node) in ("copy_", "index_copy_", "masked_scatter_"):
            target = node.func
        else:
            continue
        written = {part.attr for part in walk(target) if isinstance(part, ast.Attribute)}
        written |= {part.id for part in walk(target) if isinstance(part, ast.Name)}
        if any("embed" in name for name in written):
            return True
    return False


def _by_length(function: _Function) -> Iterator[ast.Compare]:
    """Comparisons of a span's length with one that decide alone what a row is."""
    about_phase = any("mtp" in name or "preprocess" in name or "decode" in name for name in function.names)
    compared = [node for node in function.nodes if isinstance(node, ast.Compare) and _with_one(node)]
    if not about_phase or not compared:
        return
    spans, phased = _assigned_from(function, _SPAN_WORDS), _assigned_from(function, _PROMPT_WORDS)
    guarded: set[ast.AST] = set()
    for node in function.nodes:
        # beside a test of the phase, the length decides nothing alone
        if isinstance(node, (ast.BoolOp, ast.IfExp)):
            test = node if isinstance(node, ast.BoolOp) else node.test
            if _mentions(test, _PROMPT_WORDS) or phased & names_in(test):
                guarded |= set(walk(node))
    for compare in compared:
        left = compare.left
        is_span = left.id in spans if isinstance(left, ast.Name) else _mentions(left, _SPAN_WORDS)
        if is_span and compare not in guarded:
            yield compare


def _with_one(node: ast.Compare) -> bool:
    right = node.comparators[0]
    return len(node.ops) == 1 and isinstance(right, ast.Constant) and right.value == 1


def _assigned_from(function: _Function, words: tuple[str, ...]) -> set[str]:
    """Locals that are assigned from an expression that names one of the words."""
    return {
        target.id
        for node in function.nodes
        if isinstance(node, ast.Assign) and _mentions(node.value, words)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _mentions(node: ast.AST, words: tuple[str, ...]) -> bool:
    """Whether an expression has a name that begins with one of the words."""
    return any(name.startswith(words) for name in names_in(node))


def _fills_model_inputs(function: _Function) -> bool:
    """Whether a function puts keys into a dictionary called `model_inputs`."""
    for node in function.nodes if "model_inputs" in function.names else ():
        owner: ast.AST | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            owner = node.value
        elif isinstance(node, ast.Call) and called_name(node) in ("setdefault", "update"):
            owner = getattr(node.func, "value", None)
        if isinstance(owner, ast.Name) and owner.id == "model_inputs":
            return True
    return False


def _owners_called(function: FunctionNode) -> set[str]:
    """Attributes of self on which a method calls something or of which it sets or deletes an item."""
    found = set()
    for node in walk(function):
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
