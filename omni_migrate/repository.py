"""A checkout's own git, whatever the caller's environment says: commands that run no hook and ask nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from omni_migrate.errors import InputError

if TYPE_CHECKING:
    from git import Git

# No hook may run (reference-transaction, fsmonitor), and messages are UTF-8 whatever the user's default is.
_OPTIONS = (
    *("--no-optional-locks", "--literal-pathspecs"),
    *("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "i18n.commitEncoding=utf-8"),
)


@dataclass(frozen=True)
class Repository:
    """A checkout that git commands run in, whatever GIT_DIR or GIT_INDEX_FILE the caller's environment has."""

    git: Git
    top: Path
    git_folder: Path

    @property
    def index(self) -> Path:
        return self.git_folder / "index"

    def run(self, *arguments: str, index: Path | None = None, stdin: str | bytes = b"") -> str:
        """Standard output of one git command; raises InputError with git's own first line if it fails."""
        from git import GitCommandError

        command = [
            *(self.git.GIT_PYTHON_GIT_EXECUTABLE, f"--git-dir={self.git_folder}", f"--work-tree={self.top}"),
            *(*_OPTIONS, *arguments),
        ]
        with tempfile.TemporaryFile() as file:
            file.write(stdin.encode("utf-8", "surrogateescape") if isinstance(stdin, str) else stdin)
            file.seek(0)
            try:
                output = self.git.execute(
                    command,
                    istream=file,
                    env={"GIT_INDEX_FILE": str(index or self.index)},
                    strip_newline_in_stdout=False,
                )
            except GitCommandError as error:
                said = str(error.stderr).strip().removeprefix("stderr: ").strip("' \n")
                first = said.splitlines()[0] if said else "no reason given"
                raise InputError(f"git {arguments[0]} failed in {self.top}: {first}") from error
        return str(output)

    def succeeds(self, *arguments: str) -> bool:
        try:
            self.run(*arguments)
        except InputError:
            return False
        return True


@contextmanager
def open_repository(checkout: Path) -> Iterator[Repository]:
    """The repository whose work tree `checkout` lies in. Raises InputError if there is none, or no git."""
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo
    except ImportError as error:
        raise InputError("git is not installed or not on PATH: install it, or use --dry-run or --output") from error
    try:
        repo = Repo(checkout, search_parent_directories=True)
    except (InvalidGitRepositoryError, NoSuchPathError) as error:
        raise InputError(f"{checkout} is not in a git checkout: use --dry-run or --output") from error
    with repo:
        if repo.working_tree_dir is None:
            raise InputError(f"{checkout} is a bare repository: use --dry-run or --output")
        top = Path(os.path.realpath(repo.working_tree_dir))
        yield Repository(repo.git, top, Path(os.path.realpath(repo.git_dir)))
