"""The user's git: refuse a dirty checkout, and a branch with one signed-off commit per phase.

Commits are made from git's plumbing on an index of their own: what the user has staged is neither swept in nor lost,
and no hook or signing key can ask a question or change a commit on the way (`git commit --amend -S` signs later).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.plan.apply import apply_in_place, interruptible, uninterrupted
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.repository import Repository, open_repository

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_NEW_FILE = "100644"


def refuse_dirty(checkout: Path) -> None:
    """Raise InputError if the checkout that `checkout` lies in has any change that is not committed.

    Staged, modified and untracked files count, ignored ones do not; so does a merge or rebase under way.
    """
    with open_repository(checkout) as repo:
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


def commit_phases(checkout: Path, source_root: Path, plan: Plan, branch: str) -> tuple[str, ...]:
    """Commit each phase on the new branch `branch` from HEAD, and switch to it; the commits' names in order.

    The plan's paths are relative to `source_root`. A phase that changes nothing gets no commit; a plan that changes
    nothing, no branch. Raises InputError, before anything is done, for a branch that exists or has a bad name, a
    repository without a commit, no identity, or a file of the plan with uncommitted changes. If anything fails later,
    there is no branch, and HEAD, the index and the work tree are as they were.
    """
    with open_repository(checkout) as repo, interruptible(), tempfile.TemporaryDirectory() as folder:
        head = _head(repo)
        _check_branch(repo, branch)
        sign_off = f"Signed-off-by: {_signer(repo)}"
        own_index = Path(folder) / "index"
        repo.run("read-tree", head, index=own_index)
        paths = {
            change.path: _path_in_git(repo, source_root, change.path)
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
        if len(commits) > 1:
            _switch(repo, source_root, plan, branch, commits[-1], "".join(entries.values()))
        return tuple(commits[1:])


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


def _path_in_git(repo: Repository, source_root: Path, path: str) -> str:
    """Where git knows the file, a symbolic link resolved as the change is written through it."""
    target = Path(os.path.realpath(source_root / path))
    if not target.is_relative_to(repo.top):
        raise InputError(f"{path} lies outside the checkout {repo.top}: leave --branch out, or use --output")
    return target.relative_to(repo.top).as_posix()


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


def _switch(repo: Repository, source_root: Path, plan: Plan, branch: str, tip: str, entries: str) -> None:
    """Bring work tree, branch, index and HEAD to the last commit, or leave all four as they were."""
    full = f"refs/heads/{branch}"
    index = repo.index.read_bytes() if repo.index.exists() else None
    head = repo.run("rev-parse", "HEAD").strip()
    on_branch = repo.run("rev-parse", "--symbolic-full-name", "HEAD").strip()  # "HEAD" itself if detached

    def point_git_at_tip() -> None:
        with uninterrupted():
            repo.run("update-ref", "-m", "omni-migrate: created", full, tip, "")
            repo.run("update-index", "-z", "--index-info", stdin=entries)
            repo.run("symbolic-ref", "-m", f"omni-migrate: moving to {branch}", "HEAD", full)

    try:
        apply_in_place(source_root, plan.net_changes(), then=point_git_at_tip)
    except BaseException:
        with uninterrupted():
            if repo.succeeds("show-ref", "--verify", "--quiet", full):
                _point_back(repo, on_branch, head, index)
                repo.succeeds("update-ref", "-d", full, tip)
        raise
    repo.succeeds("update-index", "-q", "--refresh")


def _point_back(repo: Repository, on_branch: str, head: str, index: bytes | None) -> None:
    if on_branch != "HEAD":
        repo.run("symbolic-ref", "HEAD", on_branch)
    else:
        repo.run("update-ref", "--no-deref", "HEAD", head)
    if index is None:
        repo.index.unlink(missing_ok=True)
    elif repo.index.read_bytes() != index:
        copy = repo.index.with_name("index.omni-migrate")
        copy.write_bytes(index)
        copy.replace(repo.index)
