"""A commit of a checkout, read from git's objects: neither the work tree nor the index is touched."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from omni_migrate.errors import InputError
from omni_migrate.sources import cache
from omni_migrate.sources.source import Source, find_root, unpacked_version, wanted

if TYPE_CHECKING:
    import git

REGULAR_FILES = frozenset({"100644", "100755"})


def from_ref(spec: str, folder: Path, ref: str, package: str) -> Source:
    """The tree of `ref` in the checkout around `folder`, unpacked into the cache. Raises InputError."""
    git = _git(spec)
    if not ref:
        raise InputError(f"{spec}: no ref after the @; give a branch, tag or commit, such as {spec}HEAD")
    try:
        repository = git.Repo(folder, search_parent_directories=True)
    except git.InvalidGitRepositoryError as error:
        raise InputError(f"{spec}: {folder} is not in a git checkout; give the directory without @{ref}") from error
    try:
        # --end-of-options: a ref that begins with a dash stays a ref.
        tree_sha = repository.git.rev_parse("--verify", "--quiet", "--end-of-options", f"{ref}^{{tree}}")
        inside = folder.resolve().relative_to(Path(repository.working_tree_dir or repository.common_dir).resolve())
        key = ("git", tree_sha)
        tree = cache.kept(*key) or cache.keep(lambda target: _write_tree(repository, tree_sha, target), *key)
    except git.GitCommandError as error:
        raise InputError(f"{spec}: git cannot read {ref}: {_said(error, folder)}") from error
    finally:
        repository.close()
    root = find_root((tree / inside, *(tree / part for part in inside.parents)), package)
    if root is None:
        raise InputError(
            f"{spec}: not {package}: looked for a folder {package}/ with Python files in {inside} of {ref}"
        )
    return Source(spec, root, described(folder, ref) or unpacked_version(root, package), "git-ref")


def described(folder: Path, ref: str) -> str | None:
    """The version by the nearest tag: 0.30.0, or 0.30.0+3.gabc1234 three commits later; None without a tag or git."""
    try:
        git = _git(str(folder))
        said = git.Git(str(folder)).describe("--tags", "--long", ref)
    except InputError:
        return None
    except git.GitCommandError:
        return None
    found = re.fullmatch(r"v?(\d.*)-(\d+)-(g[0-9a-f]+)", said)
    if found is None:
        return None
    version, commits, commit = found.groups()
    return version if commits == "0" else f"{version}+{commits}.{commit}"


def _write_tree(repository: git.Repo, tree_sha: str, target: Path) -> None:
    listing = repository.git.ls_tree("-r", "-z", "--full-tree", tree_sha)
    for entry in filter(None, listing.split("\0")):
        about, path = entry.split("\t", 1)
        mode, _, sha = about.split()
        if mode in REGULAR_FILES and wanted(path):
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(repository.odb.stream(bytes.fromhex(sha)).read())


def _git(spec: str) -> ModuleType:
    """GitPython, which cannot be imported without git."""
    try:
        import git
    except ImportError as error:
        raise InputError(f"{spec}: git was not found; install it, or put it on PATH") from error
    return git


def _said(error: Exception, folder: Path) -> str:
    """git's own line of a GitCommandError, and what to do about it."""
    lines = [line.strip(" '") for line in str(error).replace("stderr: '", "\n").splitlines()]
    line = next((line for line in lines if line.startswith("fatal:")), "no such ref")
    if "dubious ownership" in line:
        return f"it belongs to another user; `git config --global --add safe.directory {folder.resolve()}` allows it"
    return f"{line}; see `git tag` and `git branch -a`"
