"""Wheels and source archives: only the files that are read are unpacked, and none outside its folder."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import join, normpath
from typing import IO, Literal, cast

from omni_migrate.confined import leaves
from omni_migrate.errors import InputError
from omni_migrate.limits import ARCHIVE_BYTES, LINK_BYTES, MIB, Budget, Metered, read_regular, shown
from omni_migrate.sources import cache
from omni_migrate.sources.source import Source, unpacked_root, unpacked_version, wanted, write_member

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
        budget = Budget(spec, _packed_size(spec, file))
        for member in _members(file, budget):
            budget.member(member.path)
            if leaves(member.path) or (member.target is not None and leaves(member.target)):
                raise InputError(f"{spec}: its member {shown(member.path)} points outside the archive; not unpacked")
            if not wanted(member.path):
                continue
            if member.target is not None:
                links.append((member.path, member.target))
            elif member.content is not None:
                write_member(spec, folder, member.path, budget.read(member.path, member.content))
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise _damaged(spec, error) from error
    except Exception as error:
        # zlib, lzma and bz2 raise errors of their own; an OSError of theirs has no number.
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise _damaged(spec, error) from error
    for path, target in links:
        if (folder / target).is_file():
            data = read_regular(folder / target)
            budget.count(len(data))
            write_member(spec, folder, path, data)


def _members(file: Path, budget: Budget) -> Iterator[Member]:
    return _zip(file, budget) if file.name.lower().endswith(ZIP_SUFFIXES) else _tar(file, budget)


def _damaged(spec: str, error: Exception) -> InputError:
    reason = str(error).split("\n")[0].rstrip(":") or type(error).__name__
    return InputError(f"{spec}: the archive is damaged ({reason}); fetch it again")


def _zip(file: Path, budget: Budget) -> Iterator[Member]:
    with file.open("rb") as stream, zipfile.ZipFile(Metered(stream)) as archive:
        for info in archive.infolist():
            if info.is_dir():
                yield Member(info.filename, None, None)
                continue
            # Opening reads and checks the member's header; its content's checksum is checked when it is read.
            with archive.open(info) as content:
                if stat.S_ISLNK(info.external_attr >> 16):
                    target = budget.read(info.filename, content, LINK_BYTES).decode()
                    yield Member(info.filename, _target(info.filename, target), None)
                else:
                    yield Member(info.filename, None, content)


def _tar(file: Path, budget: Budget) -> Iterator[Member]:
    # The same bytes are the same names, whatever the locale says.
    with (
        _uncompressed(file) as stream,
        tarfile.open(
            fileobj=Metered(stream, budget.compare), mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as archive,
    ):
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
                raise tarfile.TarError(f"its member {shown(info.name)} is a device or pipe")
        _read_to_the_end(archive)


def _uncompressed(file: Path) -> IO[bytes]:
    """What a tar archive unpacks to, by the bytes that it begins with."""
    import bz2
    import gzip
    import lzma

    with file.open("rb") as stream:
        head = stream.read(6)
    for magic, opened in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open)):
        if head.startswith(magic):
            return cast(IO[bytes], opened(file, "rb"))
    return file.open("rb")


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """tarfile takes a cut between two members for the end: the end is a block of zeros, and a complete stream."""
    stream = archive.fileobj
    assert stream is not None
    stream.seek(archive.offset)
    if stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise EOFError("it ends before its end mark")
    while stream.read(MIB):
        pass


def _target(link: str, target: str) -> str:
    """Where a symbolic link points, seen from the archive's folder."""
    return target if target.startswith("/") else normpath(join(link, "..", target))


def _packed_size(spec: str, file: Path) -> int:
    """The archive's own size; raises InputError if it is too large."""
    size = file.stat().st_size
    if size > ARCHIVE_BYTES:
        raise InputError(
            f"{spec}: it is larger than {ARCHIVE_BYTES // MIB:,} MiB, the limit; unpack it yourself and give the "
            "directory"
        )
    return size


def _sha256(spec: str, file: Path) -> str:
    digest = hashlib.sha256()
    try:
        _packed_size(spec, file)
        with file.open("rb") as stream:
            while block := stream.read(MIB):
                digest.update(block)
    except OSError as error:
        raise InputError(f"{spec}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()
