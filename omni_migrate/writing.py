"""Where a plan is written: in place, into a folder, or as commits on a branch; and who may write there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.journal import Held, find_checkout, locked
from omni_migrate.plan.phases import Plan
from omni_migrate.report.findings import Report
from omni_migrate.request import WriteRequest
from omni_migrate.sources import Source, resolve


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Writing:
    """A plan that is ready to be written: nothing but `write` changes anything that a user sees.

    `text` says for the summary what is written, and where; `root` is the folder that the changes are relative to.
    """

    request: WriteRequest
    root: Path | None = None
    text: str = ""
    apply: Callable[[], None] = _nothing

    def write(self, report: Report) -> None:
        """All of it, after the report of it is safe, or nothing. Raises InputError; nothing is written."""
        if self.root is not None:
            self.request.before_writing(report, self.root)
            self.apply()


@dataclass(frozen=True)
class Work:
    """A run's source, and the lock of its checkout if the run writes there."""

    request: WriteRequest
    source: Source
    writes: bool
    held: Held | None = None

    def prepare(self, plan: Plan) -> Writing:
        """All of the writing that can fail for what the plan is. Raises InputError."""
        request, root, changes = self.request, self.source.root, plan.net_changes()
        if not self.writes:
            return Writing(request)
        if request.output is not None:
            from omni_migrate.plan.output_folder import apply_to_output

            output = request.cwd / request.output
            text = f"the whole tree into {request.output}"
            return Writing(request, output, text, lambda: apply_to_output(root, changes, output))
        if not changes:
            nothing = f"nothing, so there is no branch {request.branch}" if request.branch else "nothing"
            return Writing(request, root, nothing)
        assert self.held is not None
        return _prepare_checkout(request, self.held, root, plan)


@contextmanager
def opened(request: WriteRequest, package: str, writes: bool) -> Iterator[Work]:
    """The source of a run. A checkout that is written to is locked until the end, put back if a killed run left it half
    written, and clean, before anything is read of it. Raises InputError if the result could not be written.
    """
    in_place = writes and request.output is None
    source = resolve(request.source, cwd=request.cwd, progress=request.progress, package=package, mends=in_place)
    if not in_place:
        yield Work(request, source, writes)
        return
    checkout = None if source.checkout is None else find_checkout(source.checkout)
    if checkout is None:
        raise InputError(f"{source.spec}: not a git checkout, so it is not changed: pass --dry-run or --output DIR")
    from omni_migrate.plan.apply import interruptible, recover, remove_own_files
    from omni_migrate.plan.git import refuse_dirty, refuse_untracked_tree

    with interruptible(), locked(checkout) as held:
        recover(held)
        if not request.allow_dirty:
            refuse_dirty(held)
        refuse_untracked_tree(held, source.root)
        try:
            yield Work(request, source, writes, held)
        finally:
            remove_own_files(held)


def put_back(folder: Path) -> str:
    """Put back what a killed run left half written in the checkout around `folder`; what was done, in a sentence.

    Raises InputError if there is no checkout, another run is at work, or something was edited since.
    """
    checkout = find_checkout(folder)
    if checkout is None:
        raise InputError(f"{folder} is not in a git checkout, so no run has written there")
    from omni_migrate.plan.apply import recover

    with locked(checkout) as held:
        done = recover(held)
    return f"{checkout.top}: {done or 'nothing to put back: no run was interrupted here'}"


def _prepare_checkout(request: WriteRequest, held: Held, root: Path, plan: Plan) -> Writing:
    from omni_migrate.plan.apply import apply_in_place
    from omni_migrate.plan.git import commit_phases, refuse_untracked

    changes = plan.net_changes()
    refuse_untracked(held, root, changes)
    if request.branch is None:
        return Writing(request, root, f"{len(changes)} files in place", lambda: apply_in_place(held, root, changes))
    commits = commit_phases(held, root, plan, request.branch)
    text = f"branch {request.branch}: {len(commits.names)} commits"
    return Writing(request, root, text, lambda: apply_in_place(held, root, changes, commits.switch))
