"""A commit of a checkout, read from git's objects: neither the work tree nor the index is touched.

Files are the bytes that git keeps: no filter, no other line ends, no Git LFS. Links and submodules are left out.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from omni_migrate.errors import InputError
from omni_migrate.limits import MIB, Budget, shown
from omni_migrate.repository import Repository, find_repository
from omni_migrate.sources import cache
from omni_migrate.sources.source import Source, find_root, unpacked_version, wanted, write_member

REGULAR_FILES = frozenset({"100644", "100755"})


def from_ref(spec: str, folder: Path, ref: str, package: str) -> Source:
    """The tree of `ref` in the checkout around `folder`, unpacked into the cache. Raises InputError."""
    if not ref:
        raise InputError(f"{spec}: no ref after the @; give a branch, tag or commit, such as {spec}HEAD")
    try:
        repository = find_repository(folder)
    except InputError as error:
        raise InputError(f"{spec}: git cannot read {ref}: {error}") from error
    if repository is None:
        raise InputError(f"{spec}: {folder} is not in a git checkout; give the directory without @{ref}")
    try:
        # --end-of-options: a ref that begins with a dash stays a ref.
        name = repository.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{tree}}").strip()
    except InputError as error:
        raise InputError(
            f"{spec}: git cannot read {ref}: {_reason(error)}; see `git tag` and `git branch -a`"
        ) from error
    inside = Path(os.path.realpath(folder)).relative_to(repository.top)
    # The repository is part of the key: git takes an object's name on trust, so one checkout's is not another's.
    key = ("git", hashlib.sha256(os.fsencode(repository.git_folder)).hexdigest()[:16], name)
    tree = cache.kept(*key) or cache.keep(lambda target: _write_tree(spec, repository, name, target), *key)
    root = find_root((tree / inside, *(tree / part for part in inside.parents)), package)
    if root is None:
        raise InputError(
            f"{spec}: not {package}: looked for a folder {package}/ with Python files in {inside} of {ref}"
        )
    return Source(spec, root, described(folder, ref) or unpacked_version(root, package), "git-ref")


def described(folder: Path, ref: str) -> str | None:
    """The version by the nearest tag: 0.30.0, or 0.30.0+3.gabc1234 three commits later; None without a tag or git."""
    try:
        repository = find_repository(folder)
        if repository is None:
            return None
        commit = repository.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").strip()
        said = repository.run("describe", "--tags", "--long", commit).strip()
    except InputError:
        return None
    found = re.fullmatch(r"v?(\d.*)-(\d+)-(g[0-9a-f]+)", said)
    if found is None:
        return None
    version, commits, commit = found.groups()
    return version if commits == "0" else f"{version}+{commits}.{commit}"


def _write_tree(spec: str, repository: Repository, tree_name: str, target: Path) -> None:
    budget = Budget(spec)
    files: list[tuple[str, str]] = []
    try:
        with repository.reading("ls-tree", "-r", "-z", "--full-tree", tree_name) as listing:
            for entry in _records(listing):
                about, path = entry.split("\t", 1)
                mode, _, name = about.split()
                budget.member(path)
                if mode in REGULAR_FILES and wanted(path):
                    files.append((path, name))
        names = "".join(f"{name}\n" for _, name in files)
        with repository.reading("cat-file", "--batch", stdin=names) as blobs:
            for path, _ in files:
                data = _blob(budget, path, blobs)
                if data is None:
                    break
                write_member(spec, target, path, data)
    except InputError as error:
        if "promisor" in str(error) or "lazy fetching" in str(error):
            raise InputError(
                f"{spec}: this partial clone lacks files of the commit, and nothing is fetched without your word; "
                "check it out once, or run `git fetch --refetch --no-filter`"
            ) from error
        raise error if str(error).startswith(spec) else InputError(f"{spec}: {error}") from error


def _records(stream: IO[bytes]) -> Iterator[str]:
    """The parts of a stream that end with a zero byte, as they come."""
    rest = b""
    while block := stream.read(1 << 16):
        *whole, rest = (rest + block).split(b"\0")
        yield from map(os.fsdecode, whole)
        if len(rest) > MIB:
            raise InputError("a path of more than 1 MiB in it; nothing is read")


def _blob(budget: Budget, path: str, stream: IO[bytes]) -> bytes | None:
    """The next object of `git cat-file --batch`; None where git ended early, for a reason of its own."""
    header = stream.readline(1024).decode("utf-8", "replace").rstrip("\n")
    if not header:
        return None
    if not (found := re.fullmatch(r"[0-9a-f]+ blob (\d+)", header)):
        raise InputError(f"{budget.spec}: git has no {shown(path)} of it ({header}); see `git fsck`")
    data = budget.read_exactly(path, stream, int(found.group(1)))
    return data if stream.read(1) else None


def _reason(error: InputError) -> str:
    """git's own reason; --quiet leaves none for a ref that is not there."""
    reason = str(error).partition(": ")[2]
    return "no such ref" if reason == "no reason given" else reason
