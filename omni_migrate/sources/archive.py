"""Wheels and source archives: only the files that are read are unpacked, and none outside its folder."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from posixpath import join, normpath
from typing import IO, Literal

from omni_migrate.errors import InputError
from omni_migrate.sources import cache
from omni_migrate.sources.source import Source, unpacked_root, unpacked_version, wanted

ZIP_SUFFIXES = (".whl", ".zip")
TAR_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar")


@dataclass(frozen=True)
class Member:
    """A file or link of an archive. `target` is where a link points, within the archive."""

    path: str
    target: str | None
    content: IO[bytes] | None


def from_file(spec: str, file: Path, package: str) -> Source:
    """The source in a wheel or source archive, unpacked into the cache. Raises InputError."""
    if not file.name.lower().endswith(ZIP_SUFFIXES + TAR_SUFFIXES):
        raise InputError(f"{spec}: not a wheel or source archive; known are {', '.join(ZIP_SUFFIXES + TAR_SUFFIXES)}")
    key = ("file", _sha256(spec, file))
    tree = cache.kept(*key) or cache.keep(lambda folder: unpack(spec, file, folder), *key)
    root = unpacked_root(spec, tree, package)
    kind: Literal["wheel", "archive"] = "wheel" if file.suffix.lower() == ".whl" else "archive"
    return Source(spec, root, unpacked_version(root, package), kind)


def unpack(spec: str, file: Path, folder: Path) -> None:
    """Unpack the Python and configuration files of `file` into `folder`.

    Raises InputError if the archive is damaged, or has a member that would lie outside `folder`.
    """
    links: list[tuple[str, str]] = []
    try:
        for member in _zip(file) if file.name.lower().endswith(ZIP_SUFFIXES) else _tar(file):
            if _leaves(member.path) or (member.target is not None and _leaves(member.target)):
                raise InputError(f"{spec}: its member {member.path!r} points outside the archive; not unpacked")
            if not wanted(member.path):
                continue
            if member.target is not None:
                links.append((member.path, member.target))
            elif member.content is not None:
                _write(folder / member.path, member.content.read())
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise _damaged(spec, error) from error
    except Exception as error:
        # zlib, lzma and bz2 raise errors of their own; an OSError of theirs has no number.
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise _damaged(spec, error) from error
    for path, target in links:
        if (folder / target).is_file():
            _write(folder / path, (folder / target).read_bytes())


def _damaged(spec: str, error: Exception) -> InputError:
    reason = str(error).split("\n")[0].rstrip(":") or type(error).__name__
    return InputError(f"{spec}: the archive is damaged ({reason}); fetch it again")


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _leaves(path: str) -> bool:
    """Whether a member's path leaves the archive's folder, on any operating system."""
    windows = PureWindowsPath(path)
    return path.startswith(("/", "\\")) or bool(windows.drive) or ".." in windows.parts or "\0" in path


def _zip(file: Path) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.is_dir():
                yield Member(info.filename, None, None)
            elif stat.S_ISLNK(info.external_attr >> 16):
                yield Member(info.filename, _target(info.filename, archive.read(info).decode()), None)
            else:
                # Opening reads and checks the member's header; its content's checksum is checked when it is read.
                with archive.open(info) as content:
                    yield Member(info.filename, None, content)


def _tar(file: Path) -> Iterator[Member]:
    with tarfile.open(file) as archive:
        for info in archive:
            if info.issym():
                yield Member(info.name, _target(info.name, info.linkname), None)
            elif info.islnk():
                yield Member(info.name, info.linkname, None)
            elif info.isdir():
                yield Member(info.name, None, None)
            elif info.isfile():
                yield Member(info.name, None, archive.extractfile(info))
            else:
                raise tarfile.TarError(f"its member {info.name!r} is a device or pipe")
        _read_to_the_end(archive)


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """tarfile takes a cut between two members for the end: the end is a block of zeros, and a complete stream."""
    stream = archive.fileobj
    assert stream is not None
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise EOFError("it ends before its end mark")
    while stream.read(1 << 20):
        pass


def _target(link: str, target: str) -> str:
    """Where a symbolic link points, seen from the archive's folder."""
    return target if target.startswith("/") else normpath(join(link, "..", target))


def _sha256(spec: str, file: Path) -> str:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{spec}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()
