"""The user's git: what counts as dirty, and one signed-off commit per phase (ANCHORS.md trap 12)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omni_migrate.errors import InputError
from omni_migrate.journal import Held, find_checkout, locked
from omni_migrate.plan import git as plan_git
from omni_migrate.plan.apply import apply_in_place, recover, remove_own_files
from omni_migrate.plan.phases import Phase, Plan
from omni_migrate.report.findings import FileChange
from omni_migrate.repository import Repository

BRANCH = "migrate"


@contextmanager
def holding(folder: Path) -> Iterator[Held]:
    checkout = find_checkout(folder)
    assert checkout is not None
    with locked(checkout) as held:
        yield held


def refuse_dirty(folder: Path) -> None:
    with holding(folder) as held:
        plan_git.refuse_dirty(held)


def commit_phases(checkout: Path, source_root: Path, plan: Plan, branch: str) -> tuple[str, ...]:
    """Commits and switch, as a run does them."""
    with holding(checkout) as held:
        try:
            commits = plan_git.commit_phases(held, source_root, plan, branch)
            if commits.switch is not None:
                apply_in_place(held, source_root, plan.net_changes(), commits.switch)
        finally:
            remove_own_files(held)
    return commits.names


@pytest.fixture(autouse=True)
def own_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees, or writes, the configuration of the machine that it runs on."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    (tmp_path / "gitconfig").write_text(
        '[user]\nname = Ada L\nemail = ada@example.org\n[protocol "file"]\nallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit: two modules, an executable, an ignore file."""
    root = tmp_path / "checkout"
    (root / "pkg").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "pkg/a.py").write_bytes(b"a = 1\n")
    (root / "pkg/b.py").write_bytes(b"b = 1\r\n")
    (root / "run.py").write_bytes(b"run = 1\n")
    (root / "run.py").chmod(0o755)
    (root / ".gitignore").write_bytes(b"*.log\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root


def state(root: Path) -> tuple[object, ...]:
    """Everything that a run which fails must leave alone: HEAD, branches, the index, the work tree."""
    files = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts}
    return (
        git(root, "rev-parse", "--symbolic-full-name", "HEAD"),
        git(root, "rev-parse", "HEAD"),
        git(root, "for-each-ref"),
        git(root, "ls-files", "-s"),
        git(root, "status", "--porcelain"),
        files,
    )


def plan() -> Plan:
    """Two phases; the second goes on with a file of the first."""
    return Plan(
        "RFC-003",
        (
            Phase(
                2,
                "default adapter",
                (
                    FileChange("pkg/a.py", b"a = 1\n", b"a = 2\n"),
                    FileChange("pkg/new.py", None, b"new = 1\n"),
                    FileChange("run.py", b"run = 1\n", b"run = 2\n"),
                ),
                ("load_model: buffers -> DefaultAdapter",),
            ),
            Phase(
                3,
                "talker",
                (
                    FileChange("pkg/a.py", b"a = 2\n", b"a = 3\n"),
                    FileChange("pkg/b.py", b"b = 1\r\n", b"b = 2\r\n"),
                ),
                (),
            ),
        ),
    )


# --- what is dirty ------------------------------------------------------------------------------------------------


def test_a_clean_checkout_passes_and_ignored_files_do_not_count(checkout: Path) -> None:
    (checkout / "debug.log").write_bytes(b"")
    refuse_dirty(checkout)
    refuse_dirty(checkout / "pkg")


def test_the_user_hiding_untracked_files_does_not_hide_them_from_the_check(checkout: Path) -> None:
    git(checkout, "config", "status.showUntrackedFiles", "no")
    (checkout / "new.py").write_bytes(b"")
    with pytest.raises(InputError, match=r"new\.py"):
        refuse_dirty(checkout)


def modify(root: Path) -> None:
    (root / "pkg/a.py").write_bytes(b"edited\n")


def stage_only(root: Path) -> None:
    modify(root)
    git(root, "add", "pkg/a.py")
    (root / "pkg/a.py").write_bytes(b"a = 1\n")


def stage_new(root: Path) -> None:
    (root / "pkg/a.py.new").write_bytes(b"")
    git(root, "add", "-A")


def leave_untracked(root: Path) -> None:
    (root / "pkg/a.py.bak").write_bytes(b"")


def delete(root: Path) -> None:
    (root / "pkg/a.py").unlink()


def rename(root: Path) -> None:
    git(root, "mv", "pkg/a.py", "pkg/a.py2")


def make_executable(root: Path) -> None:
    (root / "pkg/a.py").chmod(0o755)


DIRT = [modify, stage_only, stage_new, leave_untracked, delete, rename, make_executable]


@pytest.mark.parametrize("soil", DIRT, ids=lambda soil: soil.__name__)
def test_each_kind_of_change_is_refused_and_named(checkout: Path, soil: object) -> None:
    assert callable(soil)
    soil(checkout)
    for place in (checkout, checkout / "pkg"):
        with pytest.raises(InputError, match=r"uncommitted changes \(.*pkg/a\.py.*--allow-dirty$") as refused:
            refuse_dirty(place)
        assert "\n" not in str(refused.value)


def test_at_most_three_files_are_named(checkout: Path) -> None:
    for number in range(5):
        (checkout / f"n{number}.py").write_bytes(b"")
    with pytest.raises(InputError, match=r"\(n0\.py, n1\.py, n2\.py and 2 more\)"):
        refuse_dirty(checkout)


def test_a_merge_under_way_is_refused_even_if_nothing_else_differs(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "-b", "side")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "side")
    git(checkout, "checkout", "-q", "main")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "main")
    git(checkout, "merge", "-q", "--no-commit", "--no-ff", "side")
    with pytest.raises(InputError, match="a merge is under way"):
        refuse_dirty(checkout)


def test_a_stopped_rebase_is_refused(checkout: Path) -> None:
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    subprocess.run(
        ["git", "rebase", "-q", "--force-rebase", "-x", "false", "HEAD~1"], cwd=checkout, capture_output=True
    )
    with pytest.raises(InputError, match="a rebase is under way"):
        refuse_dirty(checkout)


def test_worktrees_submodules_detached_heads_and_new_repositories(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "-q", str(tmp_path / "worktree"), "-b", "side")
    git(checkout, "worktree", "add", "-q", "--detach", str(tmp_path / "detached"))
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    refuse_dirty(outer)
    (outer / "x.py").write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.py"):
        refuse_dirty(outer)
    git(outer, "submodule", "add", "-q", str(checkout), "sub")
    git(outer, "add", "-A")
    git(outer, "commit", "-q", "-m", "outer")
    for place in (tmp_path / "worktree", tmp_path / "detached", outer, outer / "sub/pkg"):
        refuse_dirty(place)
    for place in (tmp_path / "worktree", tmp_path / "detached", outer / "sub"):
        (place / "pkg/a.py").write_bytes(b"edited\n")
        with pytest.raises(InputError, match=r"pkg/a\.py"):
            refuse_dirty(place)
    with pytest.raises(InputError, match=r"\(sub\)"):
        refuse_dirty(outer)


def test_the_environment_of_a_hook_does_not_lead_to_another_repository(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other/.git/index"))
    refuse_dirty(checkout)


# --- commits ------------------------------------------------------------------------------------------------------


def test_each_phase_is_a_signed_off_commit_of_exactly_its_changes(checkout: Path) -> None:
    commits = commit_phases(checkout, checkout, plan(), BRANCH)
    assert git(checkout, "log", "--format=%H", "main..HEAD").split() == list(reversed(commits))
    assert git(checkout, "log", "-1", "--format=%B", commits[0]).strip() == (
        "omni-migrate: RFC-003 phase 2: default adapter\n\n"
        "- load_model: buffers -> DefaultAdapter\n\n"
        "Signed-off-by: Ada L <ada@example.org>"
    )
    assert git(checkout, "log", "-1", "--format=%B", commits[1]).strip() == (
        "omni-migrate: RFC-003 phase 3: talker\n\nSigned-off-by: Ada L <ada@example.org>"
    )
    assert git(checkout, "show", "--format=", "--name-status", commits[0]).split() == [
        *("M", "pkg/a.py", "A", "pkg/new.py", "M", "run.py")
    ]
    assert git(checkout, "show", f"{commits[0]}:pkg/a.py") == "a = 2\n"
    assert git(checkout, "show", "--format=", "--name-status", commits[1]).split() == ["M", "pkg/a.py", "M", "pkg/b.py"]
    assert git(checkout, "ls-tree", "HEAD", "run.py").startswith("100755")
    assert git(checkout, "symbolic-ref", "HEAD").strip() == f"refs/heads/{BRANCH}"
    assert git(checkout, "status", "--porcelain") == ""
    assert (checkout / "pkg/b.py").read_bytes() == b"b = 2\r\n"


def test_a_plan_that_changes_nothing_makes_no_branch(checkout: Path) -> None:
    before = state(checkout)
    same = FileChange("pkg/a.py", b"a = 1\n", b"a = 1\n")
    assert commit_phases(checkout, checkout, Plan("RFC-003", (Phase(1, "none", (same,), ()),)), BRANCH) == ()
    assert state(checkout) == before


def test_a_source_in_a_subfolder_a_worktree_and_a_detached_head(checkout: Path, tmp_path: Path) -> None:
    change = FileChange("a.py", b"a = 1\n", b"a = 2\n")
    small = Plan("RFC-003", (Phase(1, "one", (change,), ()),))
    git(checkout, "worktree", "add", "-q", "--detach", str(tmp_path / "detached"))
    git(checkout, "worktree", "add", "-q", str(tmp_path / "worktree"), "-b", "side")
    for number, place in enumerate((checkout, tmp_path / "detached", tmp_path / "worktree")):
        commit_phases(place / "pkg", place / "pkg", small, f"migrate-{number}")
        assert git(place, "show", "--format=", "--name-only", "HEAD").split() == ["pkg/a.py"]
        assert git(place, "status", "--porcelain", "--branch").split() == ["##", f"migrate-{number}"]


def test_with_dirt_allowed_the_users_changes_are_neither_swept_in_nor_lost(checkout: Path) -> None:
    (checkout / "staged.py").write_bytes(b"staged\n")
    (checkout / "half.py").write_bytes(b"staged\n")
    git(checkout, "add", "staged.py", "half.py")
    (checkout / "half.py").write_bytes(b"staged\nand not\n")
    (checkout / "untracked.py").write_bytes(b"")
    commits = commit_phases(checkout, checkout, plan(), BRANCH)
    touched = git(checkout, "diff", "--name-only", "main", commits[-1]).split()
    assert touched == ["pkg/a.py", "pkg/b.py", "pkg/new.py", "run.py"]
    assert git(checkout, "status", "--porcelain").splitlines() == ["AM half.py", "A  staged.py", "?? untracked.py"]
    assert git(checkout, "show", ":half.py") == "staged\n"


@pytest.mark.parametrize("staged", [False, True])
def test_a_planned_file_with_changes_of_the_users_own_is_refused(checkout: Path, staged: bool) -> None:
    (checkout / "pkg/a.py").write_bytes(b"mine\n")
    if staged:
        git(checkout, "add", "pkg/a.py")
        (checkout / "pkg/a.py").write_bytes(b"a = 1\n")
        planned = plan()
    else:
        change = FileChange("pkg/a.py", b"mine\n", b"mine, migrated\n")
        planned = Plan("RFC-003", (Phase(1, "one", (change,), ()),))
    before = state(checkout)
    with pytest.raises(InputError, match=r"pkg/a\.py has uncommitted changes"):
        commit_phases(checkout, checkout, planned, BRANCH)
    assert state(checkout) == before


def test_line_ends_that_git_converts_are_no_change_of_the_users(checkout: Path) -> None:
    (checkout / ".gitattributes").write_bytes(b"crlf.py text eol=crlf\n")
    (checkout / "crlf.py").write_bytes(b"1\r\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "crlf")
    change = FileChange("crlf.py", b"1\r\n", b"2\r\n")
    commit_phases(checkout, checkout, Plan("RFC-003", (Phase(1, "one", (change,), ()),)), BRANCH)
    assert git(checkout, "show", "HEAD:crlf.py") == "2\n"
    assert (checkout / "crlf.py").read_bytes() == b"2\r\n"
    assert git(checkout, "status", "--porcelain") == ""


def test_a_link_is_written_through_in_the_commit_too(checkout: Path) -> None:
    (checkout / "link.py").symlink_to("pkg/a.py")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "link")
    change = FileChange("link.py", b"a = 1\n", b"a = 2\n")
    commit_phases(checkout, checkout, Plan("RFC-003", (Phase(1, "one", (change,), ()),)), BRANCH)
    assert git(checkout, "show", "--format=", "--name-only", "HEAD").split() == ["pkg/a.py"]
    assert git(checkout, "status", "--porcelain") == ""


def test_hooks_signing_and_editors_cannot_stop_or_change_a_commit(checkout: Path) -> None:
    hooks = checkout / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "prepare-commit-msg",
    ):
        (hooks / name).write_text("#!/bin/sh\necho ran >> hooks.log\nexit 1\n")
        (hooks / name).chmod(0o755)
    for key, value in (("commit.gpgSign", "true"), ("gpg.program", "false"), ("core.editor", "false")):
        git(checkout, "config", key, value)
    assert len(commit_phases(checkout, checkout, plan(), BRANCH)) == 2
    assert not (checkout / "hooks.log").exists()


# --- refusals before anything is done -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, reason",
    [
        ("main", "branch main exists"),
        ("main/new", "cannot be made beside main"),
        ("deep", "cannot be made beside deep/er"),
        ("a..b", "is no name for a branch"),
        ("-f", "is no name for a branch"),
        ("HEAD", "is no name for a branch"),
        ("with space", "is no name for a branch"),
        ("", "is no name for a branch"),
        ("@{-1}", "is no name for a branch"),
    ],
)
def test_a_branch_that_cannot_be_made(checkout: Path, name: str, reason: str) -> None:
    git(checkout, "branch", "deep/er")
    before = state(checkout)
    with pytest.raises(InputError, match=reason):
        commit_phases(checkout, checkout, plan(), name)
    assert state(checkout) == before


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    with pytest.raises(InputError, match="has no commit yet"):
        commit_phases(tmp_path, tmp_path, plan(), BRANCH)


def test_no_identity_is_one_line_before_anything_is_done(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "gitconfig").write_text("")
    before = state(checkout)
    with pytest.raises(InputError, match=r"no identity .* set user\.name and user\.email") as refused:
        commit_phases(checkout, checkout, plan(), BRANCH)
    assert "\n" not in str(refused.value)
    assert state(checkout) == before


# --- failures midway ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("git failed"), SystemExit(143)], ids=repr)
def test_a_failure_at_any_git_command_leaves_all_as_it_was(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, detached: bool
) -> None:
    if detached:
        git(checkout, "checkout", "-q", "--detach")
    (checkout / "staged.py").write_bytes(b"staged\n")
    git(checkout, "add", "staged.py")
    before = state(checkout)
    run = Repository.run
    stop_at = called = 0

    def stop(self: Repository, *arguments: str, **options: object) -> str:
        nonlocal called
        called += 1
        if called == stop_at and "--refresh" not in arguments:
            raise error
        return run(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "run", stop)
    while True:
        stop_at, called = stop_at + 1, 0
        index = (checkout / ".git/index").read_bytes()
        try:
            commit_phases(checkout, checkout, plan(), BRANCH)
            break
        except BaseException as raised:
            assert type(raised) is type(error) or isinstance(raised, InputError)
        assert (checkout / ".git/index").read_bytes() == index
        assert state(checkout) == before, f"stopped at command {stop_at}"
        assert not list(checkout.rglob(".omni-migrate*"))
    assert stop_at > 20


def test_a_file_that_cannot_be_written_leaves_no_branch(checkout: Path) -> None:
    (checkout / "run.py").chmod(0o555)
    before = state(checkout)
    with pytest.raises(InputError, match=r"run\.py is read-only"):
        commit_phases(checkout, checkout, plan(), BRANCH)
    assert state(checkout) == before


def test_a_locked_index_leaves_no_branch(checkout: Path) -> None:
    (checkout / ".git/index.lock").write_bytes(b"")
    before = state(checkout)
    with pytest.raises(InputError, match=r"index\.lock exists: another git is running"):
        commit_phases(checkout, checkout, plan(), BRANCH)
    assert state(checkout) == before


# --- what git does not hold is not modified -----------------------------------------------------------------------

CHANGE = FileChange("pkg/a.py", b"a = 1\n", b"a = 2\n")
OTHER = FileChange("pkg/other.py", b"mine\n", b"theirs\n")


def prepare_untracked(root: Path, change: FileChange = OTHER) -> None:
    with holding(root) as held:
        plan_git.refuse_untracked(held, root, [CHANGE, change])


def ignore(root: Path) -> None:
    (root / ".git/info").mkdir(exist_ok=True)
    (root / ".git/info/exclude").write_text("other.py\n")


def ignore_by_file(root: Path) -> None:
    (root / ".gitignore").write_text("other.py\n")


def do_nothing(root: Path) -> None:
    pass


def announce(root: Path) -> None:
    git(root, "add", "-N", "pkg/other.py")


def make_a_link_to_it(root: Path) -> None:
    (root / "pkg/other.py").rename(root / "kept.py")
    (root / "pkg/other.py").symlink_to("../kept.py")
    git(root, "add", "pkg/other.py")


def put_it_in_a_repository_of_its_own(root: Path) -> None:
    git(root / "pkg", "init", "-q", "inner")
    (root / "pkg/other.py").rename(root / "pkg/inner/other.py")
    git(root / "pkg/inner", "add", "other.py")
    (root / "pkg/other.py").symlink_to("inner/other.py")


WAYS = [do_nothing, ignore, ignore_by_file, announce, make_a_link_to_it, put_it_in_a_repository_of_its_own]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_file_that_git_does_not_track_is_refused_by_name(checkout: Path, way: Callable[[Path], None]) -> None:
    (checkout / "pkg/other.py").write_bytes(b"mine\n")
    way(checkout)
    with pytest.raises(InputError, match=r"git does not track \S+\.py, .*git add.*--output") as refused:
        prepare_untracked(checkout)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_git_is_told_to_overlook_is_refused_by_name(checkout: Path, flag: str, there: bool) -> None:
    git(checkout, "update-index", flag, "pkg/b.py")
    change = FileChange("pkg/b.py", b"b = 1\r\n", b"b = 2\r\n")
    if not there:
        (checkout / "pkg/b.py").unlink()
        change = FileChange("pkg/b.py", None, b"b = 2\r\n")
    with pytest.raises(InputError, match=r"pkg/b\.py: git is told to overlook changes of it"):
        prepare_untracked(checkout, change)


def test_a_tracked_file_that_is_gone_is_not_made_anew(checkout: Path) -> None:
    (checkout / "pkg/b.py").unlink()
    with pytest.raises(InputError, match=r"pkg/b\.py is tracked by git but not there"):
        prepare_untracked(checkout, FileChange("pkg/b.py", None, b"new\n"))


def test_tracked_edited_staged_and_new_files_are_no_fault(checkout: Path) -> None:
    (checkout / "pkg/b.py").write_bytes(b"edited\n")
    (checkout / "pkg/staged.py").write_bytes(b"mine\n")
    git(checkout, "add", "pkg/staged.py")
    for change in (
        FileChange("pkg/b.py", b"edited\n", b"2\n"),
        FileChange("pkg/staged.py", b"mine\n", b"2\n"),
        FileChange("pkg/new.py", None, b"2\n"),
    ):
        prepare_untracked(checkout, change)


def test_a_tree_that_its_outer_repository_ignores_is_refused(checkout: Path) -> None:
    (checkout / "lib.log/pkg").mkdir(parents=True)
    (checkout / "lib.log/pkg/a.py").write_bytes(b"a = 1\n")
    with holding(checkout) as held:
        plan_git.refuse_untracked_tree(held, checkout / "pkg")
        with pytest.raises(InputError, match=r"git tracks nothing of .*lib\.log .*--output"):
            plan_git.refuse_untracked_tree(held, checkout / "lib.log")


# --- what the user does after a kill ------------------------------------------------------------------------------


@pytest.fixture
def half_switched(checkout: Path) -> Path:
    """A checkout whose run was killed when branch, index and HEAD were the new ones."""
    if os.fork() == 0:
        with holding(checkout) as held:
            commits = plan_git.commit_phases(held, checkout, plan(), BRANCH)
            Path.unlink = lambda *_, **__: None  # type: ignore[assignment, method-assign]
            run = Repository.run

            def killed(self: Repository, *arguments: str, **options: object) -> str:
                said = run(self, *arguments, **options)  # type: ignore[arg-type]
                if arguments[0] == "symbolic-ref":
                    os.kill(os.getpid(), signal.SIGKILL)
                return said

            Repository.run = killed  # type: ignore[assignment, method-assign]
            apply_in_place(held, checkout, plan().net_changes(), commits.switch)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL
    assert git(checkout, "symbolic-ref", "HEAD").strip() == f"refs/heads/{BRANCH}"
    return checkout


def put_back(root: Path) -> str:
    with holding(root) as held:
        return recover(held)


def test_branch_head_and_index_are_put_back(half_switched: Path, tmp_path: Path) -> None:
    git(half_switched, "status")
    assert put_back(half_switched) == f"put back 4 files and the branch {BRANCH} of a run that was interrupted"
    assert git(half_switched, "status", "--porcelain", "--branch").split() == ["##", "main"]
    assert git(half_switched, "branch", "--format", "%(refname:short)").split() == ["main"]
    assert not [path for path in half_switched.rglob("*") if "omni-migrate" in path.name or path.suffix == ".lock"]


def commit_on_it(root: Path) -> None:
    git(root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "mine")
    git(root, "update-ref", "HEAD", git(root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "mine").strip())


def go_elsewhere(root: Path) -> None:
    git(root, "branch", "elsewhere", "main")
    git(root, "symbolic-ref", "HEAD", "refs/heads/elsewhere")


def stage_something(root: Path) -> None:
    (root / ".git/index.lock").unlink()
    (root / "mine.py").write_bytes(b"mine\n")
    git(root, "add", "mine.py")


def leave_a_lock(root: Path) -> None:
    (root / ".git/index.lock").unlink()
    (root / ".git/index.lock").write_bytes(b"")


@pytest.mark.parametrize(
    "what, said",
    [
        (commit_on_it, "branch migrate moved .* git branch -m migrate"),
        (go_elsewhere, "HEAD moved .* git switch main"),
        (stage_something, "the index changed .* git restore --staged"),
        (leave_a_lock, r"index\.lock exists: another git is running, or one was killed"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_the_user_did_with_git_after_a_kill_is_not_undone(
    half_switched: Path, what: Callable[[Path], None], said: str
) -> None:
    what(half_switched)
    before = state(half_switched)
    with pytest.raises(InputError, match=said.replace(" .* ", ".*")):
        put_back(half_switched)
    assert state(half_switched) == before


@pytest.mark.parametrize("way", ["split index", "sha256", "worktree", "submodule", "separate git folder"])
def test_kinds_of_repositories(checkout: Path, tmp_path: Path, way: str) -> None:
    root = checkout
    if way == "split index":
        git(checkout, "update-index", "--split-index")
    elif way == "sha256":
        root = tmp_path / "sha256"
        git(tmp_path, "init", "-q", "-b", "main", "--object-format=sha256", str(root))
        for name in ("pkg", "run.py"):
            (checkout / name).rename(root / name)
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
    elif way == "worktree":
        root = tmp_path / "worktree"
        git(checkout, "worktree", "add", "-q", str(root), "-b", "side")
    elif way == "submodule":
        git(tmp_path, "init", "-q", "-b", "main", "outer")
        git(tmp_path / "outer", "submodule", "add", "-q", str(checkout), "sub")
        root = tmp_path / "outer/sub"
    else:
        git(checkout, "init", "-q", "--separate-git-dir", str(tmp_path / "apart.git"))
    assert len(commit_phases(root, root, plan(), BRANCH)) == 2
    assert git(root, "status", "--porcelain", "--branch").split() == ["##", BRANCH]
    assert git(root, "fsck", "--strict") == ""


def test_a_checkout_of_another_user_is_refused(checkout: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file to another user needs root")
    for path in (checkout, checkout / ".git"):
        os.chown(path, 12345, 12345)
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    for act in (lambda: refuse_dirty(checkout), lambda: commit_phases(checkout, checkout, plan(), BRANCH)):
        with pytest.raises(InputError, match=r"belongs to another user.*safe\.directory"):
            act()
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before
