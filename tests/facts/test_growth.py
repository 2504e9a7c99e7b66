"""What four times as long a file costs: about four times the work, counted in calls, never by the clock."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omni_migrate.facts.absence import Absence, does_nothing
from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.common_runs import common_runs
from omni_migrate.facts.markers import find_markers
from omni_migrate.facts.modules import Module, Modules
from omni_migrate.facts.sites import Claims, find_sites
from omni_migrate.knowledge import adapters, model_interface, upstream_runners
from omni_migrate.plan.catalogue import Entry, _Code, _matches
from omni_migrate.plan.workspace import Workspace, decode
from omni_migrate.report.diff import unified_diff
from omni_migrate.report.findings import FileChange

MOST = 4.7  # times the work for four times the input


def work(of: Callable[[], object]) -> int:
    """Calls of Python and C functions, and lines executed, in a run."""
    count = 0

    def trace(frame: object, event: str, _: object) -> Callable[..., object]:
        nonlocal count
        count += 1
        return trace

    def profile(frame: object, event: str, _: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    sys.settrace(trace)
    try:
        of()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return count


def grows_like_its_input(make: Callable[[int], Callable[[], object]], size: int) -> None:
    small, large = work(make(size)), work(make(4 * size))
    assert large <= MOST * small, f"{large / small:.1f} times the work for 4 times the input"


def runner_with(tmp_path: Path, body: str, beside: str = "") -> Callable[[], object]:
    text = (
        "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\n"
        f"{beside}\n\nclass OmniGPUModelRunner(GPUModelRunner):\n    def step(self, y):\n{body}        return y\n"
    )
    root = tmp_path / str(len(text))
    (root / "vllm_omni").mkdir(parents=True)
    (root / "vllm_omni/runner.py").write_text(text)

    def look() -> object:
        from omni_migrate.facts.runners import find_runners

        modules = Modules(Workspace(root))
        (runner,) = find_runners(modules, "vllm_omni", upstream_runners())
        module = modules.get(runner.path)
        assert module is not None
        return find_sites(module, runner, Claims(adapters(()), model_interface()), {})

    return look


BODIES = {
    "plain statements": "        x = y + 1\n",
    "questions to the model": "        if hasattr(self.model, 'has_preprocess'):\n            y = 1\n",
    "reads of the runner": "        self.a = self.b\n",
    "branches": "        if y > 1:\n            x = 1\n        else:\n            x = 2\n",
    "comments": "        # y\n",
    "nested functions": "        def f(z):\n            return z + y\n",
}


@pytest.mark.parametrize("statement", BODIES.values(), ids=BODIES)
def test_a_long_method_of_a_runner(statement: str, tmp_path: Path) -> None:
    grows_like_its_input(lambda size: runner_with(tmp_path, statement * size), 300)


@pytest.mark.parametrize("statement", BODIES.values(), ids=BODIES)
def test_a_long_function_beside_a_runner(statement: str, tmp_path: Path) -> None:
    def make(size: int) -> Callable[[], object]:
        return runner_with(tmp_path, "", f"def long(self, y):\n    if y:\n{statement * size}        return y\n")

    grows_like_its_input(make, 300)


def test_a_class_of_many_methods_that_is_asked_for_each(tmp_path: Path) -> None:
    def make(size: int) -> Callable[[], object]:
        root = tmp_path / str(size)
        root.mkdir()
        (root / "base.py").write_text("class Base:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(size)))
        tree = ClassTree({"base": Modules(Workspace(root))})
        return lambda: [list(tree.definitions("base.Base", f"m{n}")) for n in range(size)]

    grows_like_its_input(make, 300)


@pytest.mark.parametrize("edited", ["at the ends", "in the middle", "everywhere"])
def test_a_long_text_that_is_compared_with_its_edited_self(edited: str) -> None:
    def make(size: int) -> Callable[[], object]:
        before = [line for n in range(size) for line in (f"{n}\n", "same\n")]
        after = list(before)
        where = {"at the ends": (0, 2 * size), "in the middle": (size,), "everywhere": range(0, 2 * size, 50)}[edited]
        for place in reversed(where):
            after.insert(place, "another\n")
        return lambda: common_runs(before, after)

    grows_like_its_input(make, 1_500)


def test_a_patch_of_a_long_file_of_few_different_lines() -> None:
    def make(size: int) -> Callable[[], object]:
        lines = [line for n in range(size) for line in (f"x{n % 50} = {n % 120}\n", f"y = {n}\n")]
        before = "".join(lines).encode()
        after = "".join(("z\n" if n % 40 == 7 else "") + line for n, line in enumerate(lines)).encode()
        return lambda: unified_diff([FileChange("a.py", before, after)])

    grows_like_its_input(make, 2_000)


def test_an_entry_of_a_catalogue_and_its_long_block() -> None:
    def make(size: int) -> Callable[[], object]:
        code = "def h(q):\n    return q\n" * size
        return lambda: _Code(code).likeness(_Code(code), 0.5)

    grows_like_its_input(make, 1_000)


@pytest.mark.parametrize("call", ["int(", "bool(", "getattr(self.model, 'x', ", "(a and "])
def test_calls_inside_each_other(call: str) -> None:
    """Each level asks for the value of what is inside: a level more is not twice the work."""

    def make(size: int) -> Callable[[], object]:
        body = ast.parse(f"z = {call * size}1{')' * size}").body
        return lambda: does_nothing(body, "self", Absence(frozenset({"x"})))

    small, large = work(make(10)), work(make(40))
    assert large <= 16 * small, f"{large / small:.1f} times the work for 4 times the depth"


@pytest.mark.parametrize("marker", ["# ---- Omni-new ----", "# Omni-new"])
def test_many_markers_in_one_method(marker: str, tmp_path: Path) -> None:
    def make(size: int) -> Callable[[], object]:
        text = "class A:\n    def f(self):\n" + f"        {marker}\n        self.a = 1\n        {marker}\n" * size
        module = Module("a.py", decode(text.encode()))
        return lambda: find_markers(module)

    grows_like_its_input(make, 100)


def test_a_catalogue_of_many_methods() -> None:
    def make(size: int) -> Callable[[], object]:
        entries = [Entry("A", f"m{n}", "said", f"a.py:{n}", f"def m{n}(self):\n    return {n}") for n in range(size)]
        return lambda: _matches(entries, entries)  # type: ignore[arg-type]

    grows_like_its_input(make, 100)
