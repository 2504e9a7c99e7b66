"""Runner classes are found by what they extend, whatever their files are called."""

from __future__ import annotations

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners, platform_of
from omni_migrate.plan.workspace import Workspace

UPSTREAM = {"vllm.v1.Runner": "V1", "vllm.v2.Runner": "V2", "ascend.NPURunner": "V1"}


def found(tree, files):
    runners = find_runners(Modules(Workspace(tree(files=files))), "pkg", UPSTREAM)
    return {runner.name: runner for runner in runners}


@pytest.mark.parametrize(
    "text",
    [
        "from vllm.v1 import Runner\nclass Mine(Runner): pass\n",
        "from vllm.v1 import Runner as Base\nclass Mine(Base): pass\n",
        "import vllm.v1\nclass Mine(vllm.v1.Runner): pass\n",
        "import vllm.v1 as v1\nclass Mine(Mixin, v1.Runner): pass\n",
        "from vllm import v1\nclass Mine(v1.Runner): pass\n",
        "try:\n    from vllm.v1 import Runner\nexcept ImportError:\n    raise\nclass Mine(Runner): pass\n",
        "if True:\n    from vllm.v1 import Runner\n    class Mine(Runner): pass\n",
        "from vllm.v1 import Runner\nclass Between(Runner): pass\nclass Mine(Between): pass\n",
        "from pkg.reexport import Runner\nclass Mine(Runner): pass\n",
        "from .reexport import Runner\nclass Mine(Runner): pass\n",
        "from .reexport import Plain\nclass Mine(Plain): pass\n",
        "from vllm import v1\nBase = v1.Runner\nclass Mine(Base): pass\n",
    ],
)
def test_a_runner(tree, text):
    runners = found(tree, {"pkg/odd_name.py": text, "pkg/reexport.py": "from vllm.v1 import Runner, Runner as Plain\n"})
    assert runners["Mine"].api == "V1"
    assert runners["Mine"].upstream == ("vllm.v1.Runner",)


@pytest.mark.parametrize(
    "text",
    [
        "from elsewhere import Runner\nclass Mine(Runner): pass\n",
        "class Runner: pass\nclass Mine(Runner): pass\n",
        "from vllm.v1 import Runner\nclass Mine:\n    runner = Runner\n",
        "from vllm.v1 import Runner\nclass Mine(Runner.Output): pass\n",
        "from vllm.v1 import RunnerOutput\nclass Mine(RunnerOutput): pass\n",
    ],
)
def test_no_runner(tree, text):
    assert found(tree, {"pkg/gpu_model_runner.py": text}) == {}


def test_a_runner_of_a_runner_in_another_file_and_of_two_upstreams(tree):
    files = {
        "pkg/worker/base.py": "from vllm.v1 import Runner\nclass Base(Runner): pass\n",
        "pkg/worker/__init__.py": "from pkg.worker.base import Base\n",
        "pkg/platforms/npu/worker/npu.py": "from ascend import NPURunner\nfrom pkg.worker import Base\n"
        "class Npu(Base, NPURunner): pass\n",
    }
    runners = found(tree, files)
    assert runners["Npu"].upstream == ("ascend.NPURunner", "vllm.v1.Runner")
    assert (runners["Base"].platform, runners["Npu"].platform) == ("", "npu")
    assert list(runners) == ["Base", "Npu"]


def test_the_api_is_that_of_the_upstream_at_the_root(tree):
    text = "from vllm.v2 import Runner\nclass Second(Runner): pass\nclass Third(Second): pass\n"
    assert {name: r.api for name, r in found(tree, {"pkg/a.py": text}).items()} == {"Second": "V2", "Third": "V2"}


def test_a_mixin_that_only_runners_extend_is_one_of_them(tree):
    files = {
        "pkg/mixin.py": "class Only: pass\nclass Shared: pass\n",
        "pkg/a.py": "from vllm.v1 import Runner\nfrom .mixin import *\n"
        "from .mixin import Only, Shared\nclass A(Only, Shared, Runner): pass\n",
        "pkg/other.py": "from pkg.mixin import Shared\nclass Engine(Shared): pass\n",
    }
    runners = found(tree, files)
    assert {name: r.role for name, r in runners.items()} == {"Only": "mixin", "A": "runner"}
    assert list(runners) == ["Only", "A"]


def test_a_mixin_that_a_v2_runner_extends_too_is_left_out(tree):
    files = {
        "pkg/mixin.py": "class Both: pass\n",
        "pkg/a.py": "from vllm.v1 import Runner\nfrom pkg.mixin import Both\nclass A(Both, Runner): pass\n",
        "pkg/b.py": "from vllm.v2 import Runner\nfrom pkg.mixin import Both\nclass B(Both, Runner): pass\n",
    }
    assert set(found(tree, files)) == {"A", "B"}


def test_bases_come_before_what_extends_them(tree):
    text = "from vllm.v1 import Runner\nclass Zero(Runner): pass\nclass Alpha(Zero): pass\nclass Beta(Alpha): pass\n"
    assert list(found(tree, {"pkg/a.py": text})) == ["Zero", "Alpha", "Beta"]


def test_classes_that_extend_each_other_do_not_hang(tree):
    files = {
        "pkg/a.py": "from pkg.b import B\nfrom vllm.v1 import Runner\nclass A(B, Runner): pass\n",
        "pkg/b.py": "from pkg.a import A\nclass B(A): pass\n",
    }
    assert set(found(tree, files)) == {"A", "B"}


@pytest.mark.parametrize(
    ("path", "platform"),
    [
        ("vllm_omni/platforms/npu/worker/runner.py", "npu"),
        ("vllm_omni/worker/runner.py", ""),
        ("vllm_omni/platforms/interface.py", ""),
    ],
)
def test_platform_of_a_file(path, platform):
    assert platform_of(path) == platform
