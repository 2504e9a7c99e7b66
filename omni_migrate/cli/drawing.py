"""Where a report goes: standard output, and a file. What can go wrong there is known before anything is written."""

from __future__ import annotations

import io
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from omni_migrate.cli.guard import closed_pipe_is_fine, refuse_closed_output
from omni_migrate.confined import lies_in_git_folder
from omni_migrate.errors import InputError

if TYPE_CHECKING:
    from omni_migrate.report.findings import Report

FORMAT_OF_SUFFIX = {".json": "json", ".md": "markdown", ".txt": "text"}
# What a run reads of a tree: no report takes its place.
_READ_SUFFIXES = frozenset({".py", ".pyi", ".toml", ".cfg"})


class Drawing:
    """One report on its way: its places are looked at before any work, it is drawn before anything else is written,
    and shown at the end.
    """

    def __init__(self, drawn_as: str, file: Path | None, *, diff: bool = False, output: Path | None = None) -> None:
        """Raises InputError for a closed standard output, and for a file that cannot be, or must not be, written."""
        refuse_closed_output()
        self._format, self._diff, self._file = drawn_as, diff, file
        self._drawn = self._for_file = b""
        self._beside: Path | None = None
        self._is_drawn = False
        if file is not None:
            _refuse_place(file, output)

    def __enter__(self) -> Drawing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beside is not None:
            with suppress(OSError):
                self._beside.unlink(missing_ok=True)

    def prepare(self, report: Report, root: Path) -> None:
        """Draw the report, and put it on the disk beside the file's place. Raises InputError.

        `root` is the folder that the paths of the report's files are relative to.
        """
        self._drawn = _drawn(report, self._format, self._diff, like=sys.stdout)
        self._is_drawn = True
        if self._file is None:
            return
        place = os.path.realpath(self._file)
        for change in report.files:
            if change.action != "unchanged" and place == os.path.realpath(root / change.path):
                raise InputError(f"--report {self._file}: the run itself writes that file; choose another")
        in_file = FORMAT_OF_SUFFIX.get(self._file.suffix.lower(), self._format)
        self._for_file = _drawn(report, in_file, self._diff, like=None)
        if self._file.exists() and not self._file.is_file():  # a pipe or device
            return
        self._beside = Path(place).with_name(f".omni-migrate-{secrets.token_hex(4)}.report")
        try:
            self._beside.write_bytes(self._for_file)
        except OSError as error:
            self._fail(error, "")

    def finish(self, report: Report) -> None:
        """Show the report. Raises InputError if that fails, and says then what was written all the same."""
        if not self._is_drawn:
            self.prepare(report, Path())
        written = report.summary.get("written")
        done = f"; all the same this was written: {written}" if written else ""
        if self._file is not None:
            try:
                if self._beside is not None:
                    self._beside.replace(os.path.realpath(self._file))
                else:
                    self._file.write_bytes(self._for_file)
            except OSError as error:
                self._fail(error, done)
        show_bytes(self._drawn, done)

    def _fail(self, error: OSError, done: str) -> NoReturn:
        raise InputError(f"--report {self._file}: cannot be written: {error.strerror or error}{done}") from error


def show_bytes(data: bytes, done: str = "") -> None:
    """Print what was drawn. Raises InputError, `done` added, if standard output takes it no more."""
    from omni_migrate.report.output import emit

    try:
        with closed_pipe_is_fine():
            emit(sys.stdout, data)
    except OSError as error:
        raise InputError(f"standard output cannot be written: {error.strerror or error}{done}") from error


def show_document(text: str, file: Path | None) -> None:
    """Print a document, and write it into `file` too. Raises InputError."""
    if file is not None:
        try:
            file.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise InputError(f"--report {file}: cannot be written: {error.strerror or error}") from error
    show_bytes(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def _drawn(report: Report, format: str, diff: bool, *, like: io.TextIOBase | object) -> bytes:
    """The report as bytes, as a stream `like` that one would get it; None is a file."""
    from omni_migrate.report import render

    stream = _Captured(like)
    render(report, format, diff=diff, stream=stream)
    return stream.getvalue()


class _Captured(io.TextIOWrapper):
    """Holds what is written, in the encoding and manner of another stream."""

    def __init__(self, like: object) -> None:
        self._bytes = io.BytesIO()
        encoding = getattr(like, "encoding", None) or "utf-8"
        super().__init__(self._bytes, encoding=encoding, newline="\n")
        self._terminal = bool(like is not None and getattr(like, "isatty", bool)())

    def isatty(self) -> bool:
        return self._terminal

    def getvalue(self) -> bytes:
        self.flush()
        return self._bytes.getvalue()


def _refuse_place(file: Path, output: Path | None) -> None:
    """Raise InputError for a place where no report can be, or where something else is that must not be lost."""
    place = Path(os.path.realpath(file))
    if lies_in_git_folder(place):
        raise InputError(f"--report {file}: lies in git's own folder; choose another place")
    if place.is_dir():
        raise InputError(f"--report {file}: is a folder; name a file in it")
    if not place.parent.is_dir():
        raise InputError(f"--report {file}: there is no folder {place.parent}; make it first")
    if output is not None and place.is_relative_to(os.path.realpath(output)):
        raise InputError(f"--report {file}: lies in the folder of --output, which must be empty; choose another")
    if place.suffix.lower() in _READ_SUFFIXES:
        raise InputError(f"--report {file}: such files are source, not reports; choose .md, .json or .txt")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InputError(f"--report {file}: cannot be written: no permission; choose another place")
    if place.is_file() and _is_tracked(place):
        raise InputError(f"--report {file}: git tracks that file, and a report would replace it; choose another")


def _is_tracked(place: Path) -> bool:
    from omni_migrate.repository import find_repository

    try:
        found = find_repository(place.parent)
        return found is not None and bool(found.run("ls-files", "-z", "--", str(place)))
    except InputError:
        return False  # without git, or in a repository that it does not trust, nothing can be said
