"""What a user sees when a command ends early: one line on standard error, and an exit code of the documented table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omni_migrate.errors import EXIT_INPUT, EXIT_VERIFICATION, InputError, OmniMigrateError

EXIT_INTERRUPTED = 130
SHOW_TRACEBACK = "OMNI_MIGRATE_TRACEBACK"


def exit_code_of(command: Callable[[], int | None]) -> int:
    """Run a command; whatever it raises is told in one line."""
    try:
        return command() or 0
    except OmniMigrateError as error:
        _tell(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _tell("interrupted")
        return EXIT_INTERRUPTED
    except MemoryError:
        _tell("error: out of memory; free some, or limit the run with --only or --phase")
        return EXIT_INPUT
    except OSError as error:
        _tell(f"error: {_reason(error)}")
        _drop_output()
        return EXIT_INPUT
    except Exception as error:
        _tell(f"error: this is a bug in omni-migrate: {type(error).__name__}: {error}; {_keep_traceback()}")
        return EXIT_VERIFICATION


@contextmanager
def closed_pipe_is_fine() -> Iterator[None]:
    """Write to standard output inside; a reader that has gone (`| head`) is no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def keep_standard_streams() -> None:
    """Give a closed standard stream's number to the null device: no file that is opened later may get it.

    What is written to a standard output that was closed fails, as it must; a closed standard error takes everything.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def refuse_closed_output() -> None:
    """Raise InputError if standard output is closed: what a run has to say would be lost after it had written."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):  # not a file of the system, as in tests
        return
    try:
        os.write(number, b"")
    except BrokenPipeError:
        return
    except OSError as error:
        raise InputError(
            f"standard output cannot be written: {error.strerror}; redirect it to {os.devnull} if you do not want it"
        ) from error


def _drop_output() -> None:
    """Give up what could not be written: the interpreter would try, and fail, once more when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(line: str) -> None:
    from omni_migrate.report.output import printable

    with suppress(OSError, ValueError):  # a standard error that takes nothing changes no exit code
        print("omni-migrate: " + printable(" ".join(line.split())), file=sys.stderr, flush=True)


def _reason(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; the operating system refused, check space and permissions"


def _keep_traceback() -> str:
    import traceback

    text = traceback.format_exc()
    if os.environ.get(SHOW_TRACEBACK):
        print(text, file=sys.stderr, end="")
        return "please report it with the traceback above"
    try:
        file = _log_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError:
        return f"set {SHOW_TRACEBACK}=1 to see the traceback, and report it"
    return f"please report it with the traceback in {file}"


def _log_file() -> Path:
    import time

    from omni_migrate.sources.cache import cache_folder

    return cache_folder() / "logs" / time.strftime(f"traceback-%Y%m%d-%H%M%S-{os.getpid()}.txt")
