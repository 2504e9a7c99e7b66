"""The tree as a plan sees it: files from disk under the edits made so far, nothing written."""

from __future__ import annotations

import codecs
import io
import os
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from omni_migrate.report.findings import FileChange

# Folders that hold no source of the project itself.
SKIPPED_FOLDERS = frozenset({".git", ".venv", "venv", "build", "dist", "node_modules", "__pycache__", ".tox", ".eggs"})


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

    Raises SyntaxError (unknown coding) or UnicodeDecodeError.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data, encoding = data[len(codecs.BOM_UTF8) :], "utf-8"
    text = data.decode(encoding)
    crlf = text.count("\r\n")
    return TextFile(text, encoding, bom, "\r\n" if crlf * 2 > text.count("\n") else "\n")


class Workspace:
    """Reads files below `root`, remembers edits, never writes. Paths are relative, with forward slashes.

    What was read or listed once is taken as unchanged for as long as the workspace lives.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._on_disk: dict[str, bytes] = {}
        self._listing: list[str] | None = None
        self._edited: dict[str, bytes] = {}
        self._original: dict[str, bytes | None] = {}

    def exists(self, path: str) -> bool:
        return path in self._edited or (self.root / path).is_file()

    def read(self, path: str) -> bytes:
        """The file's bytes as edited so far; raises OSError if it is not there."""
        if path in self._edited:
            return self._edited[path]
        if path not in self._on_disk:
            self._on_disk[path] = (self.root / path).read_bytes()
        return self._on_disk[path]

    def write(self, path: str, data: bytes) -> None:
        """Remember an edit; the disk is not touched."""
        if path not in self._original:
            self._original[path] = (self.root / path).read_bytes() if (self.root / path).is_file() else None
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
        top = len(str(self.root)) + 1
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
            for name in files:
                if name.endswith(".py"):
                    yield f"{folder}/{name}"[top:].replace(os.sep, "/")

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
