"""How much of a source is read: the limits, their reasons, and the readers that hold them on what is really read.

Sizes that a header declares are not believed: every reader here stops where the limit is.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import IO, NoReturn

from omni_migrate.errors import InputError

MIB = 1 << 20
# The largest Python file of vLLM 0.32 has 0.3 MiB.
FILE_BYTES = 16 * MIB
# All that is kept of an archive or commit; of vLLM's wheel 37 MiB.
TREE_BYTES = 512 * MIB
# The archive itself, and what a compressed tar unpacks to, kept or not.
ARCHIVE_BYTES = 4096 * MIB
# vLLM's source packs 4 times as a wheel and 5 times as .tar.gz, zeros 1,000 times; small archives may do as they like.
RATIO, RATIO_FREE_BYTES = 200, 64 * MIB
# Files, links and folders: twice a large checkout.
MEMBERS = 100_000
# Folders within folders; vLLM's files lie 7 deep.
DEPTH = 64
# Where a link points.
LINK_BYTES = 4096
# A zip's reader unpacks all that it reads at once: 4 KiB of LZMA are 30 MiB at most.
_BLOCK = 4096


class Budget:
    """What one archive or commit may cost. `packed` is the size of the archive, None without compression."""

    def __init__(self, spec: str, packed: int | None = None) -> None:
        self.spec = spec
        self._packed = packed
        self._members = 0
        self._bytes = 0

    def member(self, path: str) -> None:
        """Count a member; raises InputError for one too many, or one too deep."""
        self._members += 1
        if self._members > MEMBERS:
            self._refuse(f"has more than {MEMBERS:,} members")
        if path.count("/") > DEPTH:
            self._refuse_member(path, f"lies more than {DEPTH} folders deep")

    def read(self, path: str, stream: IO[bytes], limit: int = FILE_BYTES) -> bytes:
        """All of a member's stream; raises InputError if that is more than a limit."""
        pieces = []
        size = 0
        while piece := stream.read(_BLOCK):
            size += len(piece)
            if size > limit:
                self._refuse_member(path, f"is larger than {_size(limit)}")
            pieces.append(piece)
        self.count(size)
        return b"".join(pieces)

    def read_exactly(self, path: str, stream: IO[bytes], size: int) -> bytes:
        """So many bytes, or what there is of them; raises InputError if that is more than a limit."""
        if size > FILE_BYTES:
            self._refuse_member(path, f"is larger than {_size(FILE_BYTES)}")
        self.count(size)
        return stream.read(size)

    def count(self, size: int) -> None:
        """Count the bytes of a file that is kept; raises InputError if they are too many."""
        self._bytes += size
        if self._bytes > TREE_BYTES:
            self._refuse(f"has more than {_size(TREE_BYTES)} of source")
        self.compare(self._bytes)

    def compare(self, unpacked: int) -> None:
        """Raises InputError if so many bytes came out of an archive of this size."""
        if self._packed is None:
            return
        if unpacked > ARCHIVE_BYTES:
            self._refuse(f"unpacks to more than {_size(ARCHIVE_BYTES)}")
        if unpacked > max(RATIO_FREE_BYTES, RATIO * self._packed):
            self._refuse(f"unpacks to more than {RATIO} times its size")

    def _refuse_member(self, path: str, why: str) -> NoReturn:
        raise InputError(f"{self.spec}: its member {shown(path)} {why}, {_ADVICE}")

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"{self.spec}: it {why}, {_ADVICE}")


_ADVICE = "the limit; nothing is unpacked. If you trust it, unpack it yourself and give the directory"


class Metered(io.RawIOBase):
    """A stream of an archive, read forward in steps: no header can ask for more than a file's limit at once.

    `unpacked` is told how far the stream was read.
    """

    def __init__(self, stream: IO[bytes], unpacked: Callable[[int], None] = lambda position: None) -> None:
        self._stream = stream
        self._unpacked = unpacked

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """As of any stream; raises ValueError if a header's size asks for more than `FILE_BYTES` at once."""
        asked = FILE_BYTES + 1 if size is None or size < 0 else size
        data = self._stream.read(min(asked, FILE_BYTES + 1))
        if len(data) > FILE_BYTES:
            raise ValueError(f"a header asks for more than {_size(FILE_BYTES)}")
        self._unpacked(self._stream.tell())
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes forward by reading, so that what is skipped counts; of compressed streams it is unpacked anyway."""
        if whence != os.SEEK_SET or offset <= self._stream.tell():
            return self._stream.seek(offset, whence)
        while (left := offset - self._stream.tell()) > 0 and self.read(min(left, MIB)):
            pass
        return self._stream.tell()

    def tell(self) -> int:
        return self._stream.tell()


def read_regular(file: str | os.PathLike[str]) -> bytes:
    """A file of a folder. Raises OSError, also for a pipe, socket, device or folder, and for more than `FILE_BYTES`."""
    # Without O_NONBLOCK, opening a pipe waits for somebody who writes.
    number = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(number, "rb") as stream:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(file))
        data = stream.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {_size(FILE_BYTES)}", os.fspath(file))
    return data


def files_below(
    folder: str, skip: Collection[str] = (), unlisted: Callable[[str, OSError], None] = lambda folder, error: None
) -> Iterator[str]:
    """Every file below a folder, links to files included, in no order; links to folders are not followed.

    Folders whose name is in `skip` are left out; one that cannot be listed is told to `unlisted`.
    """
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if not _is_folder(entry):
                        yield entry.path
                    elif not entry.is_symlink() and entry.name not in skip:
                        waiting.append(entry.path)
        except OSError as error:
            unlisted(place, error)


@contextmanager
def cpu_seconds(limit: float, said: str) -> Iterator[None]:
    """Raise InputError with `said` if what is within computes for longer; not on Windows, nor off the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> NoReturn:
        raise InputError(said)

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def shown(path: str) -> str:
    """A path of somebody else's in a message: no control characters, and not a page long."""
    text = ascii(path) if not path.isprintable() else repr(path)
    return text if len(text) <= 120 else f"{text[:80]}...{text[-37:]}"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _size(number: int) -> str:
    return f"{number // MIB:,} MiB"
