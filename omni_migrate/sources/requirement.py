"""A published release, fetched once by pip with the user's own configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_migrate.errors import InputError
from omni_migrate.limits import ARCHIVE_BYTES, MIB
from omni_migrate.progress import Progress
from omni_migrate.sources import cache
from omni_migrate.sources.archive import unpack
from omni_migrate.sources.source import Source, unpacked_root, unpacked_version

POLL_SECONDS = 0.2
# Only Python files are read, so a wheel for any Python and any Linux will do.
PYTHON_VERSIONS = ("3.11", "3.12", "3.10", "3.13")
PLATFORMS = tuple(
    f"{family}_{machine}"
    for machine in ("x86_64", "aarch64")
    for family in (*(f"manylinux_2_{minor}" for minor in range(5, 45)), "manylinux2014", "manylinux1", "linux")
)
UNREACHABLE = re.compile(
    # A 404 is an index that answers: it has no such package.
    r"^.*(?:connection broken by|max retries exceeded|could not fetch url (?!.*: 404 )|read timed out).*$",
    re.IGNORECASE | re.MULTILINE,
)
NEAREST = 6
# The archive, and what pip unpacks of a source archive.
FETCHED_BYTES = 2 * ARCHIVE_BYTES


@dataclass(frozen=True)
class Attempt:
    """What pip said, and the file that it fetched, if it did."""

    output: str
    file: Path | None

    @property
    def versions(self) -> list[str]:
        listed = re.search(r"\(from versions: ([^)]*)\)", self.output)
        return [] if listed is None or listed.group(1) == "none" else listed.group(1).split(", ")

    @property
    def unreachable(self) -> str | None:
        """Why a page could not be had, in pip's words without its objects' addresses."""
        line = UNREACHABLE.search(self.output)
        if line is None:
            return None
        return re.sub(r"^WARNING: Retrying \(.*?\)\) after |<[^>]*>: ", "", line.group(0).strip())[:200]

    @property
    def error(self) -> str:
        errors = re.findall(r"^ERROR: (.+)$", self.output, re.MULTILINE)
        lines = self.output.strip().splitlines()
        return str(errors[0]) if errors else (lines[-1].strip() if lines else "pip said nothing")


def from_requirement(spec: str, requirement: str, package: str, progress: Progress) -> Source:
    """The release that pip picks, from the cache if an exact pin is kept there. Raises InputError."""
    tree = _kept(requirement) or _fetch(spec, requirement, progress)
    root = unpacked_root(spec, tree, package)
    return Source(spec, root, unpacked_version(root, package) or tree.parent.name, "requirement")


def _kept(requirement: str) -> Path | None:
    """The tree of an exact pin, if it was fetched before; the network is not asked."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    wanted = Requirement(requirement)
    name = canonicalize_name(wanted.name)
    if not any(part.operator == "==" and "*" not in part.version for part in wanted.specifier):
        return None
    versions = [v for v in cache.kept_names("release", name) if wanted.specifier.contains(v, prereleases=True)]
    return next(filter(None, (cache.kept("release", name, version) for version in versions)), None)


def _fetch(spec: str, requirement: str, progress: Progress) -> Path:
    from importlib.util import find_spec

    if not sys.executable or find_spec("pip") is None:
        raise InputError(
            f"{spec}: {sys.executable or 'this Python'} has no pip to fetch it with; run "
            f"`{sys.executable or 'python'} -m ensurepip`, or fetch it yourself and give the file"
        )
    with cache.scratch() as folder:
        said = ""
        versions: set[str] = set()
        for number, options in enumerate(_attempts()):
            attempt = _download(spec, requirement, options, folder / str(number), progress)
            if attempt.file is not None:
                return _publish(spec, attempt.file)
            said += attempt.output
            versions.update(attempt.versions)
            if attempt.unreachable and not versions:
                raise _unreachable(spec, requirement, attempt.unreachable)
            if number == 0 and "no matching distribution" not in attempt.output.lower():
                raise InputError(f"{spec}: pip cannot fetch it: {attempt.error}")
    raise _unknown(spec, requirement, versions, said)


def _attempts() -> Iterator[list[str]]:
    """pip's options: as this machine would install it, then for others, whose wheels are as good to read."""
    yield []
    platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
    for python in PYTHON_VERSIONS:
        abis = ["--abi", f"cp{python.replace('.', '')}", "--abi", "abi3", "--abi", "none"]
        yield ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *abis, *platforms]


def _download(spec: str, requirement: str, options: list[str], folder: Path, progress: Progress) -> Attempt:
    """Run pip once; its temporary files lie in `folder`, so that their size is the progress."""
    fetched, temporary, log = folder / "fetched", folder / "tmp", folder / "pip.log"
    temporary.mkdir(parents=True)
    command = [sys.executable, str(Path(__file__).with_name("pip_without_build.py")), "download", "--no-deps"]
    command += ["--ignore-requires-python", *options, "--dest", str(fetched), requirement]
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "TEMP": str(temporary),
        "TMP": str(temporary),
        # What is read below: pip's messages, with why a page could not be had. pip has nobody to ask.
        "PIP_QUIET": "0",
        "PIP_VERBOSE": "2",
        "PIP_NO_COLOR": "1",
        "PIP_PROGRESS_BAR": "off",
        "PIP_NO_INPUT": "1",
        "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    with log.open("wb") as stream, progress.task(f"fetching {spec}", unit="bytes") as advance:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment
        )
        try:
            seen = 0
            while process.poll() is None:
                size = _size(folder)
                if size > FETCHED_BYTES:
                    raise InputError(
                        f"{spec}: pip fetched more than {FETCHED_BYTES // MIB:,} MiB, the limit; fetch it yourself and "
                        "give the file"
                    )
                advance(max(size - seen, 0))
                seen = max(size, seen)
                try:
                    process.wait(POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    output = log.read_text(encoding="utf-8", errors="replace")
    if "No space left on device" in output or "Disk quota exceeded" in output:
        raise cache.unwritable("no space left on the device")
    files = sorted(fetched.iterdir()) if process.returncode == 0 and fetched.is_dir() else []
    return Attempt(output, files[0] if files else None)


def _size(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            # pip removes files while they are counted.
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def _publish(spec: str, file: Path) -> Path:
    """Unpack what pip fetched into the cache, under its own name and version."""
    from packaging.utils import (
        InvalidSdistFilename,
        InvalidWheelFilename,
        canonicalize_version,
        parse_sdist_filename,
        parse_wheel_filename,
    )

    try:
        wheel = file.suffix == ".whl"
        name, version = parse_wheel_filename(file.name)[:2] if wheel else parse_sdist_filename(file.name)
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise InputError(
            f"{spec}: pip fetched {file.name}, whose name says no version; give the file itself"
        ) from error
    return cache.keep(lambda target: unpack(spec, file, target), "release", name, canonicalize_version(version))


def _unreachable(spec: str, requirement: str, reason: str) -> InputError:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    name = canonicalize_name(Requirement(requirement).name)
    whole = (version for version in cache.kept_names("release", name) if cache.kept("release", name, version))
    there = ", ".join(f"{name}=={version}" for version in whole)
    return InputError(
        f"{spec}: pip could not reach a package index: {reason}; check the network and pip's configuration, or "
        f"give {f'what is in the cache ({there})' if there else 'a directory, a wheel or an archive'}"
    )


def _unknown(spec: str, requirement: str, versions: set[str], output: str) -> InputError:
    """No such release: the nearest of those that pip named."""
    from packaging.requirements import Requirement
    from packaging.version import VERSION_PATTERN, InvalidVersion, Version

    # An old pip also names what is no version by today's rules.
    known = sorted(Version(version) for version in versions if re.fullmatch(VERSION_PATTERN, version, re.VERBOSE))
    if not known:
        looked = re.search(r"^Looking in (?:indexes|links): .+$", output, re.MULTILINE)
        where = f" ({looked.group(0)})" if looked else ""
        return InputError(f"{spec}: pip finds no package of that name{where}; check the name and pip's configuration")
    try:
        asked = max(Version(part.version) for part in Requirement(requirement).specifier)
    except InvalidVersion:
        asked = known[-1]
    after = sum(version < asked for version in known)
    first = max(min(after - NEAREST // 2, len(known) - NEAREST), 0)
    near = ", ".join(map(str, known[first : first + NEAREST]))
    return InputError(f"{spec}: no such release; the nearest that pip knows are {near}")
