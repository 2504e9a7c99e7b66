"""Kills a writing run at each call that changes something, and looks at what is left, put back, and written again.

The plan of each command is computed once; what is killed, again and again, is the run from taking the lock to letting
go of it (`writing.opened`, `prepare`, `write`): all that writes. Calls are counted in a forked process: files opened
for writing, writes (killed before, and after half of the bytes), syncs, renames, links, removals, folders, modes,
owners, and git commands (killed before and after). With strace also each call within git that changes something.
"""

from __future__ import annotations

import argparse
import builtins
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kill_trees import COMMANDS, Command, write_files

from omni_migrate import writing
from omni_migrate.errors import InputError
from omni_migrate.journal import OUTPUT_LOCK, refuse_interrupted
from omni_migrate.plan.phases import Plan
from omni_migrate.report.findings import Report

MODES = ("in place", "branch", "output", "empty output")
BRANCH = "migrate"
NO_REPORT = Report("", "", None, {}, (), ())
_EVENTS = frozenset(
    f"os.{name}" for name in ("rename", "link", "remove", "mkdir", "rmdir", "chmod", "chown", "symlink", "truncate")
)
# strace: what git calls to change something. `kill` strikes when the call begins.
_GIT_CALLS = (
    "write,pwrite64,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,fsync,fdatasync,"
    "ftruncate,chmod,fchmod,fchmodat"
)
_GIT_WRITES = frozenset({"read-tree", "update-index", "hash-object", "write-tree", "commit-tree", "update-ref"}) | {
    "symbolic-ref"
}

State = dict[str, object]


# -- killing -----------------------------------------------------------------------------------------------------------


class Killer:
    """Counts the calls of this process that change something, and kills it at one of them."""

    def __init__(self, at: int) -> None:
        self.calls, self.at = 0, at

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """From now on; there is no way back, so only in a forked process."""
        sys.addaudithook(self._audit)
        fsync, run = os.fsync, subprocess.Popen.wait

        def synced(descriptor: int) -> None:
            self.call()
            fsync(descriptor)

        def waited(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
            code = run(process, timeout)
            self.call()
            return code

        os.fsync = synced  # type: ignore[assignment]
        subprocess.Popen.wait = waited  # type: ignore[assignment, method-assign]
        opened = io.open
        killer = self

        def opening(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            stream = opened(file, mode, *args, **options)
            if isinstance(stream, io.BufferedWriter):
                return _Halves(stream, killer)
            return stream

        io.open = opening  # type: ignore[assignment]
        builtins.open = opening  # type: ignore[assignment]

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            flags = args[2] if isinstance(args[2], int) else 0
            if flags & (os.O_WRONLY | os.O_RDWR) and not str(args[0]).startswith(("/dev/", "/proc/")):
                self.call()
        elif event in _EVENTS or event == "subprocess.Popen":
            self.call()


class _Halves:
    """A file whose writes can be killed when half of the bytes are written."""

    def __init__(self, stream: io.BufferedWriter, killer: Killer) -> None:
        self._stream, self._killer = stream, killer

    def write(self, data: bytes) -> int:
        half = len(data) // 2
        self._killer.call()
        self._stream.write(data[:half])
        self._stream.flush()
        self._killer.call()
        self._stream.write(data[half:])
        return len(data)

    def __enter__(self) -> _Halves:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class GitKiller:
    """Kills one git command of this process at its n-th call that changes something, and then the process."""

    def __init__(self, command: int, at: int) -> None:
        self.commands, self.command, self.at = 0, command, at

    def watch(self) -> None:
        start, wait, strace = subprocess.Popen.__init__, subprocess.Popen.wait, shutil.which("strace")
        struck: list[object] = []

        def started(process: Any, args: Any, *rest: Any, **options: Any) -> None:
            words = [str(word) for word in args]
            if any(word in _GIT_WRITES for word in words):
                self.commands += 1
                if self.commands == self.command:
                    struck.append(process)
                    inject = f"inject={_GIT_CALLS}:signal=SIGKILL:when={self.at}"
                    words = [str(strace), "-f", "-qq", "-o", os.devnull, "-e", inject, *words]
            start(process, words, *rest, **options)

        def waited(process: Any, timeout: float | None = None) -> int:
            code = wait(process, timeout)
            if process in struck and code in (-signal.SIGKILL, 128 + signal.SIGKILL):
                os.kill(os.getpid(), signal.SIGKILL)
            return code

        subprocess.Popen.__init__ = started  # type: ignore[assignment, method-assign]
        subprocess.Popen.wait = waited  # type: ignore[assignment, method-assign]


def forked(work: Callable[[], object], killer: Killer | GitKiller | None = None) -> int:
    """Run in a process of its own: 0 if it ended well, 2 if it was refused, -9 if it was killed, 3 if it failed."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 3
        try:
            if killer is not None:
                killer.watch()
            work()
            code = 0
        except InputError as error:
            code = 2
            if os.environ.get("KILLS_SAY"):
                print("refused:", error, file=sys.stderr)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# -- what is there -----------------------------------------------------------------------------------------------------


def state(root: Path) -> State:
    """Work tree (bytes, modes), HEAD, branches and index of a checkout, or the files of a folder; files of ours too."""
    found: State = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(".git/"):
            found[name] = (path.lstat().st_mode, b"" if path.is_dir() else path.read_bytes())
    git = root / ".git"
    if git.is_dir():
        found["HEAD"] = (git / "HEAD").read_text()
        found["branches"] = {p.name: p.read_text() for p in (git / "refs/heads").rglob("*") if p.suffix != ".lock"}
        listed = subprocess.run(["git", "ls-files", "-s", "-v"], cwd=root, capture_output=True, check=True)
        found["index"] = listed.stdout
    return found


def own_files(root: Path) -> list[str]:
    """What the tool, or git that it started, left behind."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if "omni-migrate" in path.name or (path.suffix == ".lock" and ".git" in path.parts)
    )


def visible(found: State) -> State:
    return {name: value for name, value in found.items() if "omni-migrate" not in name}


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Points of one command and mode, and what did not hold."""

    points: int = 0
    before: int = 0
    after: int = 0
    interrupted: int = 0
    told: int = 0
    recoveries: int = 0
    broken: list[str] = field(default_factory=list)

    @property
    def held(self) -> int:
        return self.points - len({line.partition(":")[0] for line in self.broken})


class Run:
    """One command in one mode, on fresh copies of one tree."""

    def __init__(self, folder: Path, command: Command, mode: str) -> None:
        self.folder, self.command, self.mode = folder, command, mode
        self.template, self.made = folder / "template", 0
        write_files(self.template, command.files)
        for name, files in command.bases.items():
            write_files(folder / name, files)
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
            subprocess.run(["git", *words], cwd=self.template, check=True, capture_output=True)
        self.plan: Plan = command.plan(self.template, folder)
        self.before = self.state(self.fresh())
        done = self.fresh()
        assert forked(lambda: self.write(done)) == 0
        self.after = self.state(done)
        whole = self.fresh()
        assert forked(lambda: command.engine.run(self.request(whole))) == 0
        assert self.state(whole) == self.after, "the whole command writes the same"
        assert self.after != self.before and not self.left(done)
        for place in (done, whole):
            shutil.rmtree(place)

    def fresh(self, of: Path | None = None) -> Path:
        """A folder with the checkout `tree` in it, and what is written to `out`."""
        self.made += 1
        place = self.folder / f"copy{self.made}"
        if of is not None:
            shutil.copytree(of, place, symlinks=True)
            return place
        place.mkdir()
        shutil.copytree(self.template, place / "tree", symlinks=True)
        if self.mode == "empty output":
            (place / "out").mkdir()
        return place

    def request(self, place: Path) -> Any:
        options = {"branch": BRANCH} if self.mode == "branch" else {}
        if "output" in self.mode:
            options["output"] = str(place / "out")
        request = self.command.request(place / "tree", self.folder, **options)
        if request.output is not None:
            object.__setattr__(request, "output", Path(str(request.output)))
        return request

    def write(self, place: Path) -> None:
        with writing.opened(self.request(place), "vllm_omni", True) as work:
            work.prepare(self.plan).write(NO_REPORT)

    def state(self, place: Path) -> State:
        return state(place / "out" if "output" in self.mode else place / "tree")

    def left(self, place: Path) -> list[str]:
        return [name for name in own_files(place) if not name.startswith("tree/vllm_omni/omni-migrate")]

    def refused_to_readers(self, place: Path) -> bool:
        target = place / ("out" if "output" in self.mode else "tree")
        if not target.is_dir():
            return False
        try:
            refuse_interrupted(target)
        except InputError as error:
            return "half written" in str(error)
        return False

    # -- what must hold of a killed run --

    def judge(self, place: Path, point: str, tally: Tally) -> None:
        """Readers are right or refused; put back and written again, all is as without the kill."""
        tally.points += 1
        seen = visible(self.state(place))
        if self.refused_to_readers(place):
            tally.interrupted += 1
        elif seen == self.before:
            tally.before += 1
        elif seen == self.after:
            tally.after += 1
        else:
            tally.broken.append(f"{point}: half written, and readers are not told; {self.left(place)}")
        self.judge_again(self.fresh(place), f"{point}: written again", tally)
        if "output" not in self.mode:
            self.judge_recovered(place, f"{point}: recovered", tally)
        else:
            shutil.rmtree(place)

    def judge_recovered(self, place: Path, point: str, tally: Tally) -> None:
        if not self.recover(place, tally):
            tally.broken.append(f"{point}: recover fails")
        elif self.state(place) not in (self.before, self.after) or self.left(place):
            tally.broken.append(f"{point}: not as before; {self.left(place)}")
        else:
            self.judge_again(place, f"{point} and written again", tally)
            return
        shutil.rmtree(place)

    def judge_again(self, place: Path, point: str, tally: Tally) -> None:
        """The next writing run ends as one without a kill before it; a tree that was written is as it was."""
        with suppress(InputError):
            if "output" not in self.mode:
                self.unlock(place, tally)
        code = forked(lambda: self.write(place))
        moving = self.mode == "empty output" and (place / "out" / OUTPUT_LOCK).exists()
        if code == 2 and moving:
            shutil.rmtree(place / "out")
            (place / "out").mkdir()
            code = forked(lambda: self.write(place))
        if code not in (0, 2) or self.state(place) != self.after or self.left(place):
            tally.broken.append(f"{point}: exit {code}, left {self.left(place)}")
        shutil.rmtree(place)

    def recover(self, place: Path, tally: Tally) -> bool:
        self.unlock(place, tally)
        return forked(lambda: writing.put_back(place / "tree")) == 0

    def unlock(self, place: Path, tally: Tally) -> None:
        """Where recovering names a lock of git's that it cannot know for its own, do as it says."""
        probe = self.fresh(place)
        for _ in range(4):
            try:
                writing.put_back(probe / "tree")
                break
            except InputError as error:
                said = str(error)
                locks = [path for path in (place / "tree/.git").rglob("*.lock") if path.relative_to(place).name in said]
                if not locks or "lock" not in said:
                    break
                tally.told += 1
                for lock in locks:
                    lock.unlink()
                    with suppress(FileNotFoundError):
                        (probe / lock.relative_to(place)).unlink()
        shutil.rmtree(probe)

    # -- where it is killed --

    def count(self) -> int:
        """The calls of one run that change something."""
        reader, writer = os.pipe()
        place, killer = self.fresh(), Killer(0)

        def counted() -> None:
            self.write(place)
            os.write(writer, str(killer.calls).encode())

        assert forked(counted, killer) == 0
        os.close(writer)
        shutil.rmtree(place)
        with os.fdopen(reader, "rb") as told:
            return int(told.read())

    def kill(self, at: int) -> Path:
        place = self.fresh()
        assert forked(lambda: self.write(place), Killer(at)) == -signal.SIGKILL
        return place

    def kill_at(self, points: list[int], tally: Tally) -> None:
        for at in points:
            self.judge(self.kill(at), f"call {at}", tally)

    def kill_recovering(self, points: list[int], every: int, tally: Tally) -> None:
        """Kill a run, then the recovery from it at every `every`-th of its calls, then recover."""
        for at in points:
            killed = self.kill(at)
            step = 1
            while True:
                place = self.fresh(killed)
                tree = place / "tree"
                if forked(lambda tree=tree: writing.put_back(tree), Killer(step)) != -signal.SIGKILL:
                    shutil.rmtree(place)
                    break
                tally.points += 1
                tally.recoveries += 1
                self.judge_recovered(place, f"call {at}, recovery's {step}", tally)
                step += every
            shutil.rmtree(killed)

    def kill_in_git(self, every: int, tally: Tally) -> None:
        """Kill each git command that writes at every `every`-th of its own calls."""
        command = 1
        while True:
            at, struck = 1, False
            while True:
                place, killer = self.fresh(), GitKiller(command, at)
                if forked(lambda place=place: self.write(place), killer) != -signal.SIGKILL:
                    shutil.rmtree(place)
                    break
                struck = True
                self.judge(place, f"git command {command}, call {at}", tally)
                at += every
            if not struck and command > 60:
                break
            command += 1


def spread(count: int, wanted: int) -> list[int]:
    """`wanted` of the numbers 1 to `count`."""
    if wanted >= count:
        return list(range(1, count + 1))
    return sorted({1 + round((number + 0.5) * (count - 1) / wanted) for number in range(wanted)})


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder in memory if there is one, and a git that is nobody's."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None, prefix="kills-") as name:
        folder = Path(os.path.realpath(name))
        kept = dict(os.environ)
        for variable in [variable for variable in os.environ if variable.startswith("GIT_")]:
            del os.environ[variable]
        (folder / "gitconfig").write_text("[user]\nname = Ada L\nemail = ada@example.org\n[gc]\nauto = 0\n")
        date = "2026-01-01T00:00:00Z"
        os.environ |= {"GIT_CONFIG_GLOBAL": str(folder / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
        os.environ |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        try:
            yield folder
        finally:
            os.environ.clear()
            os.environ.update(kept)


def killed(command: str, mode: str, *, points: int = sys.maxsize, recoveries: int = 0, git: int = 0) -> Tally:
    """Kill one command in one mode at `points` of its calls, its recovery from `recoveries` of them, and, at every
    `git`-th call, the git commands that it starts (0: not)."""
    tally = Tally()
    with workplace() as folder:
        run = Run(folder, COMMANDS[command], mode)
        calls = run.count()
        run.kill_at(spread(calls, points), tally)
        if recoveries and "output" not in mode:
            run.kill_recovering(spread(calls, recoveries), 1, tally)
        if git and mode == "branch" and shutil.which("strace"):
            run.kill_in_git(git, tally)
    return tally


def main() -> None:
    """Print one row for each command and mode; exit 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=sys.maxsize, help="kill at so many calls, spread (default: all)")
    parser.add_argument("--recoveries", type=int, default=12, help="kill the recovery from so many of them")
    parser.add_argument("--git", type=int, default=1, help="kill git at every so many of its calls; 0: not")
    parser.add_argument("--only", help="a command")
    options = parser.parse_args()
    print("| Command | Mode | Killed | Held | as before | as after | refused to readers | of them recoveries | told |")
    print("|---|---|---|---|---|---|---|---|---|")
    broken = []
    for command in COMMANDS:
        for mode in MODES if options.only in (None, command) else ():
            found = killed(command, mode, points=options.points, recoveries=options.recoveries, git=options.git)
            figures = (found.points, found.held, found.before, found.after, found.interrupted, found.recoveries)
            print(f"| {command} | {mode} | {' | '.join(map(str, figures))} | {found.told} |", flush=True)
            broken += [f"{command}, {mode}, {line}" for line in found.broken]
    for line in broken:
        print(line, file=sys.stderr)
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
