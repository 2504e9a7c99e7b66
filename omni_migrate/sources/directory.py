"""A folder on disk: the checkout that the user stands in, or one that is named."""

from __future__ import annotations

from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.sources.source import Source, find_root, unpacked_version

SITE_FOLDERS = frozenset({"site-packages", "dist-packages"})


def around(cwd: Path, package: str) -> Source:
    """The tree with `package` that `cwd` lies in, up to the top of its checkout. Raises InputError."""
    cwd = cwd.resolve()
    top = work_tree(cwd)
    folders = [cwd, *cwd.parents]
    root = find_root(folders[: folders.index(top) + 1] if top else folders, package)
    if root is None:
        raise InputError(
            f"no {package} here: looked for a folder {package}/ with Python files in {cwd} and above"
            f"{f' up to {top}' if top else ''}; run it in a checkout, or name a source, such as vllm-omni==0.30.0"
        )
    return _source(str(root), root, package)


def from_folder(spec: str, folder: Path, package: str) -> Source:
    """The tree in `folder`, which holds `package`, `src/package`, or is the package. Raises InputError."""
    folder = folder.resolve()
    root = find_root((folder,), package)
    if root is None:
        raise InputError(
            f"{spec}: not {package}: looked for a folder {package}/ with Python files in {folder} and {folder / 'src'}"
        )
    if root.name in SITE_FOLDERS:
        from omni_migrate.sources.installed import copy_of_package

        copied = copy_of_package(root, package)
        return Source(spec, copied, unpacked_version(root, package), "directory")
    return _source(spec, root, package)


def work_tree(folder: Path) -> Path | None:
    """The top of the git work tree that `folder` lies in; `.git` is a file in linked work trees."""
    return next((top for top in (folder, *folder.parents) if (top / ".git").exists()), None)


def _source(spec: str, root: Path, package: str) -> Source:
    checkout = work_tree(root)
    version = unpacked_version(root, package)
    if checkout in (root, root.parent if root.name == "src" else root):
        from omni_migrate.sources.git_ref import described

        version = described(checkout, "HEAD") or version
    return Source(spec, root, version, "directory", checkout)
