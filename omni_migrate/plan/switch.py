"""Bringing git to a new branch: branch, index and HEAD, and each of them back.

The new index is prepared as a file of the run's own, and the user's is copied. While files are written the run holds
git's own `index.lock`, a second name of the journal, so that it is known for whose it is whatever ends the run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.journal import JOURNAL, BranchStep, Held, sync_folder
from omni_migrate.repository import Repository, open_repository

NEW_INDEX = "omni-migrate-index"
OLD_INDEX = f"{NEW_INDEX}.before"
OWN_FILES = (NEW_INDEX, f"{NEW_INDEX}.lock", OLD_INDEX)
# An index of one file, which does not share another with the user's.
_WHOLE = ("-c", "core.splitIndex=false")


@contextmanager
def held_repository(held: Held) -> Iterator[Repository]:
    """The checkout's git, whose commands hold the lock too: if this process is killed, they may go on for a moment."""
    with open_repository(held.checkout.top) as repo:
        if (repo.top, repo.git_folder) != (held.checkout.top, held.checkout.git_folder):
            raise InputError(f"{held.checkout.top}: git takes {repo.git_folder} for its repository: use --output")
        yield replace(repo, inherited=(held.descriptor,))


@dataclass(frozen=True)
class Switch:
    """A branch that is ready to be switched to: its commits are made, its index lies in the git folder."""

    step: BranchStep
    before: bytes | None
    """The user's index as it was copied; None if there is none."""

    def hold_index(self, held: Held) -> None:
        """Take git's lock of the index, and see that it is as it was copied. Raises InputError."""
        lock = held.own("index.lock")
        try:
            try:
                os.link(held.own(JOURNAL), lock)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                with lock.open("xb") as file:
                    file.write(held.own(JOURNAL).read_bytes())
        except FileExistsError:
            raise _locked(lock) from None
        index = held.own("index")
        if (index.read_bytes() if index.exists() else None) != self.before:
            raise InputError(f"{index} changed meanwhile: nothing was written, run again")

    def forward(self, held: Held) -> None:
        """Make the branch, replace the index, move HEAD; the files are in place."""
        step, full = self.step, f"refs/heads/{self.step.branch}"
        new = held.own(NEW_INDEX)
        with held_repository(held) as repo:
            repo.succeeds(*_WHOLE, "update-index", "-q", "--refresh", index=new)
            _sync(new)
            if _head(repo) != (step.head_ref, step.head):
                raise InputError(f"HEAD of {repo.top} moved meanwhile: nothing was written, run again")
            repo.run("update-ref", "-m", "omni-migrate: created", full, step.tip, "")
            new.replace(held.own("index"))
            sync_folder(held.checkout.git_folder)
            repo.run("symbolic-ref", "-m", f"omni-migrate: moving to {step.branch}", "HEAD", full)


def prepare(held: Held, repo: Repository, branch: str, tip: str, entries: str) -> Switch:
    """Copy the index and make the new one with `entries` (lines of `update-index --index-info`), in the git folder."""
    for name in ("index.lock", "HEAD.lock"):
        if os.path.lexists(held.own(name)):
            raise _locked(held.own(name))
    index, new, old = (held.own(name) for name in ("index", NEW_INDEX, OLD_INDEX))
    before = index.read_bytes() if index.exists() else None
    if before is not None:
        for copy in (old, new):
            copy.write_bytes(before)
            shutil.copymode(index, copy)
        _sync(old)
    listed = _listing(repo, index)
    repo.run(*_WHOLE, "update-index", "-z", "--index-info", index=new, stdin=entries)
    head_ref, head = _head(repo)
    step = BranchStep(branch, tip, head_ref, head, listed, _listing(repo, new))
    return Switch(step, before)


def check_undo(held: Held, step: BranchStep) -> None:
    """Raise InputError if branch, HEAD or index are neither as before nor as the run left them: nothing is touched."""
    again = f"run `omni-migrate recover {held.checkout.top}` again"
    with held_repository(held) as repo:
        lock = held.own("index.lock")
        if os.path.lexists(lock) and not _is_ours(held, lock, JOURNAL):
            raise _locked(lock)
        lock = held.own("HEAD.lock")
        if os.path.lexists(lock) and lock.read_bytes() != f"ref: refs/heads/{step.branch}\n".encode():
            raise _locked(lock)
        if _branch(repo, step) not in (None, step.tip):
            raise InputError(
                f"branch {step.branch} moved after a run was interrupted: keep it under another name "
                f"(git branch -m {step.branch} NAME), then {again}"
            )
        head_ref, head = _head(repo)
        if (head_ref, head) != (step.head_ref, step.head) and head_ref != f"refs/heads/{step.branch}":
            where = step.head_ref.removeprefix("refs/heads/") if step.head_ref else f"--detach {step.head}"
            raise InputError(f"HEAD moved after a run was interrupted: switch back (git switch {where}), then {again}")
        if _listing(repo, held.own("index")) not in (step.index_before, step.index_after):
            raise InputError(
                f"the index changed after a run was interrupted: take back what you staged (git restore --staged), "
                f"then {again}"
            )


def undo(held: Held, step: BranchStep) -> None:
    """HEAD, index and branch as before; safe to be run again if it is cut off."""
    full = f"refs/heads/{step.branch}"
    with held_repository(held) as repo:
        held.own("HEAD.lock").unlink(missing_ok=True)  # looked at by check_undo
        _branch_lock(repo, step).unlink(missing_ok=True)
        if _head(repo)[0] == full:
            if step.head_ref is not None:
                repo.run("symbolic-ref", "-m", "omni-migrate: put back", "HEAD", step.head_ref)
            else:
                repo.run("update-ref", "--no-deref", "-m", "omni-migrate: put back", "HEAD", step.head)
        if _listing(repo, held.own("index")) != step.index_before:
            if held.own(OLD_INDEX).exists():
                held.own(OLD_INDEX).replace(held.own("index"))
            else:
                held.own("index").unlink(missing_ok=True)
            sync_folder(held.checkout.git_folder)
        if _branch(repo, step) is not None:
            repo.run("update-ref", "-d", full, step.tip)


def clean_locks(held: Held, journal: str, step: BranchStep | None) -> None:
    """Let go of git's lock of the index, if it is the run's own."""
    lock = held.own("index.lock")
    if step is not None and os.path.lexists(lock) and _is_ours(held, lock, journal):
        lock.unlink()


def _is_ours(held: Held, lock: Path, journal: str) -> bool:
    mine = held.own(journal)
    return os.path.samestat(lock.lstat(), mine.lstat()) or (lock.is_file() and lock.read_bytes() == mine.read_bytes())


def _branch_lock(repo: Repository, step: BranchStep) -> Path:
    """git's lock of the branch; the branch is this run's, so nobody else has a reason to hold it."""
    common = repo.run("rev-parse", "--git-common-dir").strip()
    return repo.top / common / f"refs/heads/{step.branch}.lock"


def _branch(repo: Repository, step: BranchStep) -> str | None:
    said = repo.run("for-each-ref", "--format=%(refname) %(objectname)", f"refs/heads/{step.branch}").split()
    return dict(zip(said[::2], said[1::2], strict=True)).get(f"refs/heads/{step.branch}")


def _head(repo: Repository) -> tuple[str | None, str]:
    """The reference that HEAD names (None: detached), and its commit. Raises InputError without a commit."""
    name = repo.run("rev-parse", "--symbolic-full-name", "HEAD").strip()
    return None if name == "HEAD" else name, repo.run("rev-parse", "--verify", "HEAD^{commit}").strip()


def _listing(repo: Repository, index: Path) -> str:
    """A hash of what an index lists, flags included; the times in it, which `git status` refreshes, do not count."""
    listed = repo.run("ls-files", "--stage", "-v", "-z", index=index)
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()


def _sync(file: Path) -> None:
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())


def _locked(lock: Path) -> InputError:
    return InputError(
        f"{lock} exists: another git is running, or one was killed; if none runs, delete it and run again"
    )
