"""`extract-adapters`: from a source to the report of what moved, and the writing of it (RFC-003)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from omni_migrate.background import begin
from omni_migrate.checks.verify import verify
from omni_migrate.collector import no_collection
from omni_migrate.config import Config, load_config
from omni_migrate.errors import InputError
from omni_migrate.facts.census import Census, take_census
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.sites import Site
from omni_migrate.knowledge import AdapterSpec, adapters, common_words, model_interface
from omni_migrate.plan.adapter_files import template_comments
from omni_migrate.plan.extraction import PHASES, PLATFORM_PHASE, Extractor, moved_lines
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.plan.wiring import attribute_taken
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.findings import FileChange, Finding, Report, Severity
from omni_migrate.request import ExtractRequest
from omni_migrate.sources import Source
from omni_migrate.unreadable import refuse_unreadable, unreadable_findings
from omni_migrate.writing import Work, opened

if TYPE_CHECKING:
    from omni_migrate.plan.extraction import Move

PACKAGE = "vllm_omni"


def run(request: ExtractRequest) -> Report:
    """Plan the extraction, verify it, and write it unless the request only asks to see it.

    Raises InputError (nothing to work on, a dirty tree, a file that is needed and does not parse) and
    VerificationError (a check of the result failed; nothing was written).
    """
    writes = not (request.dry_run or request.check or request.list_sites)
    with no_collection(), opened(request, PACKAGE, writes) as work:
        return _run(request, work)


def _run(request: ExtractRequest, work: Work) -> Report:
    source = work.source
    config = load_config(source.root)
    specs = adapters(config.adapters)
    _refuse_unknown(request, specs)
    run_ = _Run(request, source, config, specs)
    if not run_.extractor.runners:
        raise InputError(
            f"{source.spec}: no model runner found: no class below {PACKAGE}/ extends a runner of vLLM or a platform"
        )
    listing = request.list_sites and not (request.dry_run or request.check)
    blocked = {} if listing else run_.unreadable()
    if work.writes:
        refuse_unreadable(blocked, "define a runner or a model")
    plan = Plan("RFC-003", ()) if listing or blocked or not run_.claimed else run_.plan()
    if plan.phases:
        run_.verify(plan)
    writing = work.prepare(plan)
    report = run_.report(plan, writing.text)
    writing.write(report)
    return report


def _refuse_unknown(request: ExtractRequest, specs: Sequence[AdapterSpec]) -> None:
    unknown = sorted(set(request.only) - {spec.name for spec in specs})
    if unknown:
        known = ", ".join(spec.name for spec in specs)
        raise InputError(f"--only {unknown[0]}: no such adapter; known are {known}")
    outside = [number for number in request.phases if number not in PHASES]
    if outside:
        raise InputError(f"--phase {outside[0]}: RFC-003 has phases 1 to {max(PHASES)}")


class _Run:
    """One run's tree, its census and what was found in it."""

    def __init__(self, request: ExtractRequest, source: Source, config: Config, specs: tuple[AdapterSpec, ...]) -> None:
        self.request, self.source, self.specs = request, source, specs
        self._claimed = {capability for spec in specs for capability in spec.capabilities}
        self._begun = begin(lambda: self._take_census(self._claimed))
        self.modules = Modules(Workspace(source.root), config.skip)
        self.extractor = self._extractor()
        self.before = self.extractor.sites()
        self.original = {
            runner.path: len(self.modules.workspace.read(runner.path).splitlines()) for runner in self.extractor.runners
        }

    def _extractor(self, found: Sequence[RunnerClass] | None = None) -> Extractor:
        interface = model_interface()
        return Extractor(self.modules, PACKAGE, self.specs, interface, self.registered, self.request.only, found)

    def _take_census(self, capabilities: Collection[str]) -> Census:
        tested = {name for spec in self.specs for name in spec.class_names}
        workspace = Workspace(self.source.root)
        return take_census(workspace, PACKAGE, capabilities, tested, self.request.progress, common_words())

    @cached_property
    def census(self) -> Census:
        """The model classes of the tree and what each can do of what an adapter claims."""
        return self._begun()

    @cached_property
    def _unclaimed(self) -> Census:
        """The same for what nobody claims, and for classes that a runner tests by name."""
        subjects = {site.subject for site in self.before if site.rule == "model-probe" and site.adapter is None}
        tested = {name for spec in self.extractor.claims.specs.values() for name in spec.class_names}
        return take_census(Workspace(self.source.root), PACKAGE, subjects, tested, self.request.progress)

    def registered(self, spec: AdapterSpec) -> list[str]:
        """The model classes that get an adapter by name: those tested by name and those with a capability of it."""
        found = {name for capability in spec.capabilities for name in self._model_names(capability)}
        return sorted(found.union(spec.class_names))

    def _model_names(self, capability: str) -> list[str]:
        """The classes with a capability that a runner may load: architectures of the registry and what extends them.

        Layers and codecs may have a method of the same name. In a tree without a registry every class counts.
        """
        census = self.census if capability in self._claimed else self._unclaimed
        loaded = {model.name for model in census.classes if model.architectures}
        return sorted(
            {
                model.name
                for model in census.having(capability)
                if not loaded or model.name in loaded or any(base.rsplit(".", 1)[-1] in loaded for base in model.bases)
            }
        )

    def _refuse_taken(self) -> None:
        """What RFC-003 calls the adapters may be something else's name in this tree."""
        adapters = self.extractor.adapters
        runners = self.extractor.runners
        foreign = adapters.foreign(runner.path for runner in runners if runner.platform)
        if foreign is not None:
            raise InputError(
                f"{foreign} is in the way: the adapters of RFC-003 go to that folder; move it elsewhere first"
            )
        taken = next(iter(attribute_taken(self.modules, runners)), None)
        if taken is not None:
            raise InputError(
                f"{taken} gives a runner an attribute _adapter of another kind, which RFC-003 needs: rename it first"
            )

    def plan(self) -> Plan:
        """Apply the phases to the workspace, each computed from what the one before left."""
        numbers = self.request.phases or tuple(PHASES)
        if 1 not in numbers and not self.extractor.adapters.exists:
            raise InputError(
                f"--phase {numbers[0]}: it builds on phase 1, which this tree does not have; run --phase 1 first"
            )
        self._refuse_taken()
        phases = []
        workspace = self.modules.workspace
        with self.request.progress.task("Extracting", total=len(numbers)) as advance:
            for number in numbers:
                snapshot, done = workspace.snapshot(), len(self.extractor.result.moves)
                self.extractor.phase(number)
                moves = tuple(moved_lines(self.extractor.result.moves[done:]))
                phases.append(Phase(number, PHASES[number], workspace.changes_since(snapshot), moves))
                advance(1)
        return Plan("RFC-003", tuple(phases))

    def unreadable(self) -> dict[str, str]:
        """Files that may define a runner or a model and cannot be read or parsed, with the reason."""
        return dict(sorted({**self.modules.unreadable, **dict(self.census.unreadable)}.items()))

    def verify(self, plan: Plan) -> None:
        """Hold the result to every check; raises VerificationError naming the rule and the site."""
        changed = [change.path for change in plan.net_changes()]
        verify(
            plan,
            Workspace(self.source.root),
            self.modules.workspace,
            generated_comments=template_comments(),
            edited={path: self.extractor.touched for path in changed if path in self.original},
            added_to={path: self.extractor.replaced for path in changed if path not in self.original},
            again=lambda: self._again(plan),
        )

    def _again(self, plan: Plan) -> tuple[FileChange, ...]:
        """What the same phases would change in the result."""
        snapshot = self.modules.workspace.snapshot()
        again = self._extractor(self.extractor.found)
        for phase in plan.phases:
            again.phase(phase.number)
        return self.modules.workspace.changes_since(snapshot)

    @property
    def claimed(self) -> bool:
        """Whether there is anything to move, or an adapter package to keep up."""
        return any(site.adapter is not None for site in self.before) or self.extractor.adapters.exists

    def report(self, plan: Plan, written: str) -> Report:
        """What was found, what moved and what stays, with the figures; `written` says what was written, and where."""
        extractor = self.extractor
        remaining = extractor.sites() if plan.phases else self.before
        moved = len(self.before) - len(remaining)
        changes = plan.net_changes()
        changed = {change.path for change in changes}
        files = (*changes, *(self._unchanged(path) for path in sorted(set(self.original) - changed)))
        reasons = {(site.symbol, site.subject): reason for site, reason in extractor.result.left.items()}
        tables = []
        if self.request.list_sites:
            tables.append(self._sites_table())
        if plan.phases:
            tables += [self._moves_table(), self._lines_table(), self._registrations_table()]
        tables = [table for table in tables if table["rows"]]
        summary: dict[str, int | float | str] = {"sites": len(self.before)}
        if plan.phases:
            summary |= {
                "moved": moved,
                "left": len(remaining),
                "adapters": len({m.adapter for m in extractor.result.moves}),
            }
        summary |= {
            "unclaimed": sum(site.adapter is None and site.unanswerable is None for site in remaining),
            "runner classes": len(extractor.runners),
        }
        if written:
            summary["written"] = written
        else:
            remaining = self._as_in_source(remaining)
        findings = [*self._site_findings(remaining, reasons, plan), *self._delegate_findings(), *self._dead_probes()]
        findings += self._patch_findings()
        findings += [self._skipped_runner(runner) for runner in extractor.skipped]
        unreadable = self.unreadable()
        findings += unreadable_findings(unreadable)
        return Report(
            command="extract-adapters",
            source_spec=self.source.spec,
            source_version=self.source.version,
            summary=summary,
            findings=tuple(sorted(findings)),
            files=tuple(files),
            failed=tuple(unreadable.items()),
            extra={
                "sites": [self._site_entry(site) for site in self.before],
                "moves": [_move_entry(move) for move in extractor.result.moves],
                "tables": tables,
            },
        )

    def _as_in_source(self, remaining: Sequence[Site]) -> list[Site]:
        """Sites that stay, with their lines in the source: until something is written, that is where they are."""
        before: dict[tuple[str, str, str], list[Site]] = {}
        for site in self.before:
            before.setdefault((site.rule, site.symbol, site.subject), []).append(site)
        found = []
        for site in reversed(remaining):  # what moved stood before what stays more often than after it
            same = before.get((site.rule, site.symbol, site.subject))
            found.append(same.pop() if same else site)
        return found[::-1]

    def _unchanged(self, path: str) -> FileChange:
        data = self.modules.workspace.read(path)
        return FileChange(path, data, data)

    def _models(self, site: Site) -> list[str]:
        """The model classes that answer a site."""
        if site.rule == "model-class-test":
            known = any(site.subject in spec.class_names for spec in self.specs)
            census = self.census if known else self._unclaimed
            return sorted({model.name for model in census.named(site.subject)})
        if site.rule == "model-probe":
            return self._model_names(site.subject)
        return []

    def _site_entry(self, site: Site) -> dict[str, object]:
        return {
            "rule": site.rule, "path": site.path, "line": site.line, "symbol": site.symbol, "subject": site.subject,
            "adapter": site.adapter, "models": self._models(site),
        }  # fmt: skip

    def _sites_table(self) -> dict[str, object]:
        rows = []
        for site in self.before:
            models = self._models(site)
            asks = site.rule in ("model-class-test", "model-probe")
            named = ", ".join(models[:4]) + (f" and {len(models) - 4} more" if len(models) > 4 else "")
            answer = named or ("no model of this tree" if asks else "")
            rows.append([site.rule, f"{site.path}:{site.line}", site.symbol, site.subject, site.adapter or "-", answer])
        columns = ["Rule", "Place", "Method", "Subject", "Adapter", "Models that answer"]
        return {"title": "Model-specific sites", "columns": columns, "rows": rows}

    def _moves_table(self) -> dict[str, object]:
        rows = [
            [str(move.phase), move.site.symbol, move.site.subject, f"{move.adapter}.{move.hook}", move.kind]
            for move in self.extractor.result.moves
        ]
        return {"title": "What moved", "columns": ["Phase", "From", "Subject", "To", "As"], "rows": rows}

    def _lines_table(self) -> dict[str, object]:
        rows = []
        for path, lines in sorted(self.original.items()):
            after = len(self.modules.workspace.read(path).splitlines())
            rows.append([path, str(lines), str(after)])
        return {"title": "Lines of the runner files", "columns": ["File", "Before", "After"], "rows": rows}

    def _registrations_table(self) -> dict[str, object]:
        used = {move.adapter for move in self.extractor.result.moves}
        rows = [
            [spec.class_name, str(len(models)), ", ".join(models)]
            for spec in self.extractor.claims.specs.values()
            if spec.class_name in used
            for models in [self.registered(spec)]
        ]
        return {"title": "Registrations", "columns": ["Adapter", "Models", "Classes"], "rows": rows}

    def _site_findings(
        self, remaining: Sequence[Site], reasons: dict[tuple[str, str], str], plan: Plan
    ) -> Iterable[Finding]:
        phases = {spec.name: spec.phase for spec in self.extractor.claims.specs.values()}
        run = {phase.number for phase in plan.phases}
        platforms = {runner.path for runner in self.extractor.runners if runner.platform}
        for site in remaining:
            if site.unanswerable is not None:
                yield Finding(
                    site.path, site.line, "site-left", Severity.WARNING, site.symbol,
                    f"{site.subject} stays: {site.unanswerable}",
                )  # fmt: skip
                continue
            if site.adapter is None:
                yield Finding(
                    site.path, site.line, "unclaimed-site", Severity.WARNING, site.symbol,
                    f"no adapter claims the capability {site.subject}",
                    self._proposal(site),
                )  # fmt: skip
                continue
            if not plan.phases:
                continue
            number = PLATFORM_PHASE if site.path in platforms else phases.get(site.adapter, 0)
            reason = reasons.get((site.symbol, site.subject), "no statement or expression around it can be moved")
            if number not in run:
                reason = f"it is moved by phase {number}, which was not asked for"
            elif self.request.only and site.adapter not in self.request.only:
                reason = f"it belongs to {site.adapter}, which was not asked for"
            yield Finding(
                site.path, site.line, "site-left", Severity.WARNING, site.symbol, f"{site.subject} stays: {reason}"
            )

    def _proposal(self, site: Site) -> str:
        models = self._models(site)
        name = site.subject.strip("_")
        answer = f"answered by {', '.join(models[:4])}" if models else "no model of this tree has it"
        return (
            f'{answer}; to move it, add to [tool.omni-migrate]: adapters = [{{ name = "{name}", phase = 6, '
            f'capabilities = ["{site.subject}"] }}]'
        )

    def _delegate_findings(self) -> Iterable[Finding]:
        for move in self.extractor.result.moves:
            if move.delegate:
                yield Finding(
                    move.site.path, move.site.line, "delegate-kept", Severity.NOTE, move.site.symbol,
                    f"its code is in {move.adapter}.{move.hook}; the name stays as a one-line delegate",
                )  # fmt: skip

    def _patch_findings(self) -> Iterable[Finding]:
        for path, patches in self.extractor.result.patches.items():
            for patch in patches:
                missing = " and ".join(patch.missing)
                yield Finding(
                    path, patch.line, "test-patch", Severity.WARNING, patch.target.rpartition(".")[2],
                    f"{patch.target} is patched, but code that moved to an adapter reads {missing}",
                    f"patch {missing} too",
                )  # fmt: skip

    def _dead_probes(self) -> Iterable[Finding]:
        for site in self.before:
            asks = site.rule in ("model-probe", "model-class-test") and site.unanswerable is None
            if asks and not self._models(site):
                yield Finding(
                    site.path, site.line, "dead-probe", Severity.WARNING, site.symbol,
                    f"no model class of this tree answers {site.subject}",
                    "remove the probe, or keep it for models outside the tree",
                )  # fmt: skip

    def _skipped_runner(self, runner: RunnerClass) -> Finding:
        return Finding(
            runner.path, runner.line, "v2-runner", Severity.NOTE, runner.name,
            "extends vLLM's V2 runner: RFC-003 is about V1, so it is left as it is",
        )  # fmt: skip


def _move_entry(move: Move) -> dict[str, object]:
    return {
        "phase": move.phase, "path": move.site.path, "symbol": move.site.symbol, "subject": move.site.subject,
        "adapter": move.adapter, "hook": move.hook, "as": move.kind, "delegate": move.delegate,
    }  # fmt: skip
