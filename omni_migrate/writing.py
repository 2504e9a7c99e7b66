"""Where a plan is written: in place, into a folder, or as commits on a branch."""

from __future__ import annotations

from omni_migrate.errors import InputError
from omni_migrate.plan.phases import Plan
from omni_migrate.report.findings import Report
from omni_migrate.request import WriteRequest
from omni_migrate.sources import Source


def refuse_unwritable(request: WriteRequest, source: Source, writes: bool) -> None:
    """Say before any work that the result could not be written. Raises InputError."""
    if not writes or request.output is not None:
        return
    if source.checkout is None:
        raise InputError(f"{source.spec}: not a git checkout, so it is not changed: pass --dry-run or --output DIR")
    from omni_migrate.plan.apply import recover

    recover(source.root)  # a run that was killed while it wrote leaves a journal, and must not count as a dirty tree
    if not request.allow_dirty:
        from omni_migrate.plan.git import refuse_dirty

        refuse_dirty(source.checkout)


def will_write(request: WriteRequest, plan: Plan) -> str:
    """What `write_plan` is going to write, in words for the summary."""
    changes = plan.net_changes()
    if request.output is not None:
        return f"the whole tree into {request.output}"
    if not changes:
        return f"nothing, so there is no branch {request.branch}" if request.branch else "nothing"
    if request.branch is not None:
        return f"branch {request.branch}: {len(plan.commits())} commits"
    return f"{len(changes)} files in place"


def write_plan(request: WriteRequest, source: Source, plan: Plan, report: Report) -> None:
    """Write the plan where the request says, after the report of it is safe. Raises InputError; nothing is written."""
    from omni_migrate.plan.apply import apply_in_place, apply_to_output

    changes = plan.net_changes()
    request.before_writing(report, source.root if request.output is None else request.cwd / request.output)
    if request.output is not None:
        apply_to_output(source.root, changes, request.cwd / request.output)
    elif changes and request.branch is not None:
        from omni_migrate.plan.git import commit_phases

        assert source.checkout is not None
        commit_phases(source.checkout, source.root, plan, request.branch)
    elif changes:
        apply_in_place(source.root, changes)
