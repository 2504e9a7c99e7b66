"""The user's git: refuse what could not be brought back, and one signed-off commit per phase.

Commits are made from git's plumbing on an index of their own: what the user has staged is neither swept in nor lost,
and no hook or signing key can ask a question or change a commit on the way (`git commit --amend -S` signs later).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.journal import Held
from omni_migrate.plan.apply import written_place
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.plan.switch import NEW_INDEX, Switch, held_repository, prepare
from omni_migrate.report.findings import FileChange
from omni_migrate.repository import Repository

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
_NEW_FILE = "100644"


def refuse_dirty(held: Held) -> None:
    """Raise InputError if the checkout has any change that is not committed.

    Staged, modified and untracked files count, ignored ones do not; so does a merge or rebase under way.
    """
    with held_repository(held) as repo:
        for name, what in _UNDER_WAY.items():
            if (repo.git_folder / name).exists():
                raise InputError(f"{what} is under way in {repo.top}: finish or abort it, or pass --allow-dirty")
        options = ("--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=none", "--no-renames")
        paths = [entry[3:] for entry in repo.run("status", *options).split("\0") if entry]
        if paths:
            named = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
            raise InputError(
                f"{repo.top} has uncommitted changes ({named}): commit or stash them, or pass --allow-dirty"
            )


def refuse_untracked(held: Held, root: Path, changes: Iterable[FileChange]) -> None:
    """Raise InputError for a planned file that git does not hold: it could not be brought back.

    Ignored, untracked and only announced files (`git add -N`), files of a submodule, and files that git is told to
    overlook or not to check out. A new file may be made, where neither git nor the folder has one.
    """
    wanted: dict[str, FileChange] = {}
    for change in changes:
        place = written_place(held.checkout, root, change.path)
        wanted[place.relative_to(held.checkout.top).as_posix()] = change
    with held_repository(held) as repo:
        listed = _entries(repo.run("ls-files", "-s", "-v", "-z", "--", *wanted)) if wanted else {}
        options = ("--name-only", "-z", "--diff-filter=A", "--ignore-submodules=all", "--no-ext-diff")
        announced = set(repo.run("diff-files", *options, "--", *wanted).split("\0")) if wanted else set()
    for path, change in wanted.items():
        flag = listed[path][0][0] if path in listed else ""
        if flag == "S" or flag.islower():
            raise InputError(
                f"{path}: git is told to overlook changes of it: first `git update-index --no-skip-worktree "
                f"--no-assume-unchanged {path}`, or `git sparse-checkout disable`"
            )
        if change.before is not None and (not flag or path in announced):
            raise InputError(
                f"git does not track {path}, so what is in it could not be brought back: "
                "`git add` it, or move it away, or use --output"
            )
        if change.before is None and flag:
            raise InputError(f"{path} is tracked by git but not there: `git restore` it, or commit that it is gone")


def refuse_untracked_tree(held: Held, root: Path) -> None:
    """Raise InputError if git tracks nothing of the tree, as in a folder that an outer repository ignores."""
    below = Path(os.path.realpath(root)).relative_to(held.checkout.top).as_posix()
    with held_repository(held) as repo:
        if not repo.run("ls-files", "-z", "--", below):
            raise InputError(
                f"git tracks nothing of {root} ({held.checkout.top} is the checkout around it): "
                "make it a repository of its own, or use --output"
            )


@dataclass(frozen=True)
class Commits:
    """The commits of a plan, made but named by no branch yet; `switch` is None if there are none."""

    names: tuple[str, ...]
    switch: Switch | None


def commit_phases(held: Held, source_root: Path, plan: Plan, branch: str) -> Commits:
    """Commit each phase, from HEAD, and prepare the new branch `branch`; nothing that git shows has changed then.

    The plan's paths are relative to `source_root`. A phase that changes nothing gets no commit; a plan that changes
    nothing, no branch. Raises InputError for a branch that exists or has a bad name, a repository without a commit, no
    identity, or a file of the plan with uncommitted changes.
    """
    with held_repository(held) as repo:
        head = _head(repo)
        _check_branch(repo, branch)
        sign_off = f"Signed-off-by: {_signer(repo)}"
        own_index = held.own(NEW_INDEX)
        repo.run("read-tree", head, index=own_index)
        paths = {
            change.path: written_place(held.checkout, source_root, change.path).relative_to(repo.top).as_posix()
            for phase in plan.phases
            for change in phase.changes
        }
        modes = _modes(repo, plan, paths, own_index)
        entries: dict[str, str] = {}
        commits = [head]
        for phase in plan.phases:
            for change in phase.changes:
                path = paths[change.path]
                entries[path] = f"{modes[path]} {_blob(repo, path, change.after, own_index, write=True)}\t{path}\0"
            repo.run("update-index", "-z", "--index-info", index=own_index, stdin="".join(entries.values()))
            tree = repo.run("write-tree", index=own_index).strip()
            if tree != repo.run("rev-parse", f"{commits[-1]}^{{tree}}").strip():
                message = _message(plan, phase, sign_off)
                commits.append(repo.run("commit-tree", tree, "-p", commits[-1], "-F", "-", stdin=message).strip())
        own_index.unlink()
        if len(commits) == 1:
            return Commits((), None)
        switch = prepare(held, repo, branch, commits[-1], "".join(entries.values()))
        if switch.step.head != head:
            raise InputError(f"HEAD of {repo.top} moved meanwhile: nothing was written, run again")
        return Commits(tuple(commits[1:]), switch)


def _head(repo: Repository) -> str:
    if not repo.succeeds("rev-parse", "--verify", "--quiet", "HEAD^{commit}"):
        raise InputError(f"{repo.top} has no commit yet to branch from: make one, or leave --branch out")
    return repo.run("rev-parse", "HEAD").strip()


def _check_branch(repo: Repository, branch: str) -> None:
    full = f"refs/heads/{branch}"
    if branch.startswith("-") or branch == "HEAD" or not repo.succeeds("check-ref-format", full):
        raise InputError(f"{branch!r} is no name for a branch: choose another --branch")
    parts = branch.split("/")
    outer = ["refs/heads/" + "/".join(parts[:count]) for count in range(1, len(parts))]
    for name in repo.run("for-each-ref", "--format=%(refname)", full, *outer).splitlines():
        if name == full:
            raise InputError(f"branch {branch} exists: choose another --branch, or delete it (git branch -D {branch})")
        if name in outer or name.startswith(full + "/"):
            raise InputError(
                f"branch {branch} cannot be made beside {name.removeprefix('refs/heads/')}: choose another"
            )


def _signer(repo: Repository) -> str:
    """`Name <email>` of the committer as configured; what git would guess from the machine's name is no identity."""
    try:
        for who in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
            identity = repo.run("-c", "user.useConfigOnly=true", "var", who)
    except InputError as error:
        raise InputError(
            "git has no identity to sign the commits off with: set user.name and user.email (git config --global)"
        ) from error
    return identity.rsplit(" ", 2)[0]


def _modes(repo: Repository, plan: Plan, paths: dict[str, str], own_index: Path) -> dict[str, str]:
    """Each file's mode in git; raises InputError for a file whose commit would hold more than the plan's change."""
    listed = sorted(set(paths.values()))
    committed = _entries(repo.run("ls-files", "-s", "-z", "--", *listed, index=own_index))
    staged = _entries(repo.run("ls-files", "-s", "-z", "--", *listed))
    modes: dict[str, str] = {}
    for change in (change for phase in plan.phases for change in phase.changes):
        path = paths[change.path]
        if path in modes:
            continue
        entry = committed.get(path, [])
        mode = entry[0].split()[0] if entry else _NEW_FILE
        planned = [] if change.before is None else [f"{mode} {_blob(repo, path, change.before, own_index)} 0"]
        if not staged.get(path, []) == entry == planned:
            raise InputError(
                f"{change.path} has uncommitted changes, which its commit would take in: commit them first"
            )
        modes[path] = mode
    return modes


def _entries(listing: str) -> dict[str, list[str]]:
    """Path -> "mode object stage" of `git ls-files -s -z`; several entries while a merge is under way."""
    entries: dict[str, list[str]] = {}
    for line in filter(None, listing.split("\0")):
        entry, path = line.split("\t", 1)
        entries.setdefault(path, []).append(entry)
    return entries


def _blob(repo: Repository, path: str, data: bytes, index: Path, write: bool = False) -> str:
    """The name of the object that git makes of `data` at `path`, line ends converted as the checkout asks."""
    options = ("-w",) if write else ()
    return repo.run("hash-object", *options, "--stdin", f"--path={path}", index=index, stdin=data).strip()


def _message(plan: Plan, phase: Phase, sign_off: str) -> str:
    subject = f"omni-migrate: {plan.rfc} phase {phase.number}: {phase.title}"
    body = "".join(f"- {move}\n" for move in phase.moves)
    return f"{subject}\n\n" + (f"{body}\n" if body else "") + f"{sign_off}\n"
