"""A checkout's own git, whatever the caller's environment says: commands that run no hook and ask nothing.

Every git command of the tool starts here. GitPython does not serve: it adds to the environment and cannot take GIT_DIR
out of it, and it reads no repository with SHA-256 names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from omni_migrate.errors import InputError

# No hook may run (reference-transaction, fsmonitor), and messages are UTF-8 whatever the user's default is.
_OPTIONS = (
    *("--no-pager", "--no-optional-locks", "--literal-pathspecs"),
    *("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "i18n.commitEncoding=utf-8"),
)
# Of git's variables, those that name the user and the installation; all others say where a repository lies.
_KEPT_VARIABLES = ("GIT_CONFIG_", "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_EXEC_PATH", "GIT_DISCOVERY_ACROSS_FILESYSTEM")
_NO_GIT = "git is not installed or not on PATH: install it"
_SETTINGS = {
    # git's own words, which are read below.
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "GIT_TERMINAL_PROMPT": "0",
    # A partial clone fetches what it lacks without a word, over whatever its configuration says: no transport is
    # allowed. Git before 2.45 knows only this.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    # An object is what its name says.
    "GIT_NO_REPLACE_OBJECTS": "1",
}


@dataclass(frozen=True)
class Repository:
    """A checkout that git commands run in; `top` is the git folder itself if there is no work tree."""

    top: Path
    git_folder: Path
    inherited: tuple[int, ...] = ()
    """Descriptors that git commands keep open: a lock is held until the last of them has ended."""

    @property
    def index(self) -> Path:
        return self.git_folder / "index"

    @property
    def bare(self) -> bool:
        return self.top == self.git_folder

    def run(self, *arguments: str, index: Path | None = None, stdin: str | bytes = b"") -> str:
        """Standard output of one git command; raises InputError with git's own first line if it fails."""
        with self.reading(*arguments, index=index, stdin=stdin) as output:
            return output.read().decode("utf-8", "surrogateescape")

    def succeeds(self, *arguments: str, index: Path | None = None) -> bool:
        try:
            self.run(*arguments, index=index)
        except InputError:
            return False
        return True

    @contextmanager
    def reading(self, *arguments: str, index: Path | None = None, stdin: str | bytes = b"") -> Iterator[IO[bytes]]:
        """A git command's standard output as it comes; git is ended where the block is left early.

        Raises InputError with git's own first line if git fails.
        """
        command = [*_git_command(), f"--git-dir={self.git_folder}", *self._work_tree(), *arguments]
        environment = _environment() | {"GIT_INDEX_FILE": str(index or self.index)}
        data = stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
            given.write(data)
            given.seek(0)
            process = _start(command, self.top, environment, given, said, self.inherited)
            assert process.stdout is not None
            try:
                yield process.stdout
                code = process.wait() if process.stdout.read(1) == b"" else 0
            finally:
                process.stdout.close()
                if process.poll() is None:
                    process.kill()
                    process.wait()
            if code != 0:
                said.seek(0)
                raise InputError(f"git {arguments[0]} failed in {self.top}: {_first_line(said.read())}")

    def _work_tree(self) -> tuple[str, ...]:
        return () if self.bare else (f"--work-tree={self.top}",)


@contextmanager
def open_repository(checkout: Path) -> Iterator[Repository]:
    """The repository whose work tree `checkout` lies in. Raises InputError if there is none, or no git."""
    if shutil.which("git") is None:
        raise InputError(f"{_NO_GIT}, or use --dry-run or --output")
    found = find_repository(checkout)
    if found is None:
        raise InputError(f"{checkout} is not in a git checkout: use --dry-run or --output")
    if found.bare:
        raise InputError(f"{checkout} is a bare repository: use --dry-run or --output")
    yield found


def find_repository(folder: Path) -> Repository | None:
    """The repository that `folder` lies in, bare or not; None if it lies in none.

    Raises InputError without git, and for a repository that git does not trust or whose files lie elsewhere.
    """
    if not folder.is_dir():
        return None
    try:
        bare, inside = _asked(folder, "--is-bare-repository", "--is-inside-work-tree").split()
        git_folder = Path(os.path.realpath(_asked(folder, "--absolute-git-dir")))
        if bare == "true":
            return Repository(git_folder, git_folder)
        top = Path(os.path.realpath(_asked(folder, "--show-toplevel"))) if inside == "true" else None
    except _NoRepositoryError:
        return None
    if top is None:
        raise InputError(f"{folder} is no work tree of the repository {git_folder}: give the folder with its files")
    return Repository(top, git_folder)


class _NoRepositoryError(Exception):
    """git finds no repository."""


def _asked(folder: Path, *questions: str) -> str:
    """What `git rev-parse` answers in a folder, which also looks whose repository it is."""
    with tempfile.TemporaryFile() as nothing, tempfile.TemporaryFile() as said:
        process = _start([*_git_command(), "rev-parse", *questions], folder, _environment(), nothing, said)
        output = process.communicate()[0]
        said.seek(0)
        line = _first_line(said.read())
    if process.returncode == 0:
        return os.fsdecode(output).removesuffix("\n")
    if "not a git repository" in line:
        raise _NoRepositoryError
    if "dubious ownership" in line:
        raise InputError(
            f"the repository of {folder} belongs to another user; "
            f"`git config --global --add safe.directory {folder.resolve()}` allows it"
        )
    raise InputError(f"git cannot read the repository of {folder}: {line}")


def _git_command() -> tuple[str, ...]:
    return ("git", *_OPTIONS)


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
    }
    return kept | _SETTINGS


def _start(
    command: list[str],
    folder: Path,
    environment: dict[str, str],
    stdin: IO[bytes],
    stderr: IO[bytes],
    inherited: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            pass_fds=inherited,
        )
    except FileNotFoundError as error:
        raise InputError(_NO_GIT) from error
    except OSError as error:
        raise InputError(f"git cannot be started in {folder}: {error.strerror or error}") from error


def _first_line(said: bytes) -> str:
    """git's reason: its first fatal line, or else its first one."""
    lines = said.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    return next((line for line in lines if line.startswith("fatal:")), lines[0])
