"""Where a plan is written: in place, into a folder, or as commits on a branch."""

from __future__ import annotations

from omni_migrate.errors import InputError
from omni_migrate.plan.phases import Plan
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


def write_plan(request: WriteRequest, source: Source, plan: Plan) -> str:
    """Write the plan where the request says; what was written, for the summary."""
    from omni_migrate.plan.apply import apply_in_place, apply_to_output

    changes = plan.net_changes()
    if request.output is not None:
        apply_to_output(source.root, changes, request.cwd / request.output)
        return f"the whole tree into {request.output}"
    if not changes:
        return f"nothing, so there is no branch {request.branch}" if request.branch else "nothing"
    if request.branch is not None:
        from omni_migrate.plan.git import commit_phases

        assert source.checkout is not None
        commits = commit_phases(source.checkout, source.root, plan, request.branch)
        return f"branch {request.branch}: {len(commits)} commits"
    apply_in_place(source.root, changes)
    return f"{len(changes)} files in place"
