"""The tree as a plan sees it: files from disk under the edits made so far, nothing written."""

from __future__ import annotations

import codecs
import io
import os
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_migrate.limits import files_below, read_regular
from omni_migrate.report.findings import FileChange

# Folders that hold no source of the project itself.
SKIPPED_FOLDERS = frozenset({".git", ".venv", "venv", "build", "dist", "node_modules", "__pycache__", ".tox", ".eggs"})
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class TextFile:
    """A decoded Python file and what is needed to write it back byte for byte."""

    text: str
    encoding: str
    bom: bool
    newline: str

    def encode(self, text: str) -> bytes:
        """`text` as bytes in this file's encoding; raises UnicodeEncodeError if it cannot hold it."""
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)


def decode(data: bytes) -> TextFile:
    """Decode Python source by its BOM or coding line; line ends are kept as they are.

    Raises SyntaxError (a coding that is unknown or cannot be written back, a pointer of Git LFS) or UnicodeDecodeError.
    """
    if data.startswith(_LFS_POINTER):
        raise SyntaxError("it is a pointer of Git LFS, not the file; `git lfs pull` fetches it")
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data, encoding = data[len(codecs.BOM_UTF8) :], "utf-8"
    try:
        text = data.decode(encoding)
        exact = encoding in ("utf-8", "iso-8859-1") or text.encode(encoding) == data
    except LookupError as error:
        raise SyntaxError(f"unknown encoding: {encoding} is no text encoding") from error
    if not exact:
        raise SyntaxError(f"unsafe encoding: {encoding} does not give the same bytes back")
    crlf = text.count("\r\n")
    return TextFile(text, encoding, bom, "\r\n" if crlf * 2 > text.count("\n") else "\n")


class Workspace:
    """Reads files below `root`, remembers edits, never writes. Paths are relative, with forward slashes.

    What was read or listed once is taken as unchanged for as long as the workspace lives. `unlisted` are the folders
    whose files are not known, with the reason, once the files were listed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._on_disk: dict[str, bytes] = {}
        self._listing: list[str] | None = None
        self._edited: dict[str, bytes] = {}
        self._original: dict[str, bytes | None] = {}
        self.unlisted: dict[str, str] = {}

    def exists(self, path: str) -> bool:
        return path in self._edited or (self.root / path).is_file()

    def read(self, path: str) -> bytes:
        """The file's bytes as edited so far; raises OSError if it is not there, no regular file, or too large."""
        if path in self._edited:
            return self._edited[path]
        if path not in self._on_disk:
            self._on_disk[path] = read_regular(self.root / path)
        return self._on_disk[path]

    def write(self, path: str, data: bytes) -> None:
        """Remember an edit; the disk is not touched."""
        if path not in self._original:
            self._original[path] = self._on_disk_or_none(path)
        self._edited[path] = data

    def python_files(self, below: Iterable[str] = ("",)) -> Iterator[str]:
        """Every .py file below the given folders, edits included, sorted, without duplicates."""
        if self._listing is None:
            self._listing = sorted(self._python_files_on_disk())
        prefixes = tuple(folder if not folder or folder.endswith("/") else f"{folder}/" for folder in below)
        found = {path for path in self._edited if path.endswith(".py") and path.startswith(prefixes)}
        found.update(path for path in self._listing if path.startswith(prefixes))
        yield from sorted(found)

    def _python_files_on_disk(self) -> Iterator[str]:
        top = len(str(self.root).rstrip(os.sep)) + 1

        def unlisted(folder: str, error: OSError) -> None:
            path = f"{folder}/"[top:].replace(os.sep, "/")
            self.unlisted[path] = f"cannot be listed: {error.strerror or error}"

        for file in files_below(str(self.root), SKIPPED_FOLDERS, unlisted):
            if file.endswith(".py"):
                yield file[top:].replace(os.sep, "/")

    def _on_disk_or_none(self, path: str) -> bytes | None:
        return read_regular(self.root / path) if (self.root / path).is_file() else None

    def snapshot(self) -> dict[str, bytes]:
        """The edits so far, to compute what a phase adds."""
        return dict(self._edited)

    def changes_since(self, snapshot: dict[str, bytes]) -> tuple[FileChange, ...]:
        """The changes made after `snapshot` was taken, sorted by path."""
        changed = []
        for path, after in sorted(self._edited.items()):
            before = snapshot.get(path, self._original[path])
            if before != after:
                changed.append(FileChange(path, before, after))
        return tuple(changed)
