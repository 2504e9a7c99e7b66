"""Runner classes get the attribute and the resolution once, where they belong."""

from __future__ import annotations

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.plan.wiring import import_platform_adapters, wire
from omni_migrate.plan.workspace import Workspace

UPSTREAM = {"vllm.Runner": "V1", "ascend.Runner": "V1"}
PACKAGE = "pkg.worker.adapters"
PATH = "pkg/worker/runner.py"
NPU = "pkg/platforms/npu/worker/runner.py"


def wired(tree, files, times=1, loading=(False,)):
    modules = Modules(Workspace(tree(files=files)))
    runners = find_runners(modules, "pkg", UPSTREAM)
    for _ in range(times):
        for phase in loading:
            for runner in runners:
                wire(modules, runner, runners, PACKAGE, loading=phase)
    return {path: modules.workspace.read(path).decode() for path in files}


ROOT = '''"""Doc."""

from vllm import Runner

from pkg.zoo import x


class Root(Runner):
    """The root."""

    def load_model(self, *args):
        with x:
            super().load_model(*args)
        self.after()
'''


def test_the_root_gets_the_attribute_and_resolves_after_vllm_s_load(tree):
    assert (
        wired(tree, {PATH: ROOT})[PATH]
        == '''"""Doc."""

from vllm import Runner

from pkg.worker.adapters import AdapterOfRunner, ModelAdapterRegistry
from pkg.zoo import x


class Root(Runner):
    """The root."""

    _adapter = AdapterOfRunner()

    def load_model(self, *args):
        with x:
            super().load_model(*args)
            self._adapter = ModelAdapterRegistry.get_adapter(self.model)
        self.after()
'''
    )


def test_a_second_time_changes_nothing(tree):
    once = wired(tree, {PATH: ROOT})
    assert wired(tree, {PATH: ROOT}, times=2, loading=(False, True)) == once


def test_a_subclass_gets_nothing(tree):
    files = {PATH: ROOT, "pkg/worker/sub.py": "from pkg.worker.runner import Root\n\n\nclass Sub(Root):\n    pass\n"}
    assert wired(tree, files)["pkg/worker/sub.py"] == files["pkg/worker/sub.py"]


def test_a_root_that_extends_a_mixin_first_is_wired_and_so_is_the_mixin(tree):
    files = {
        PATH: ROOT.replace("(Runner)", "(Mixin, Runner)").replace("import x", "import Mixin, x"),
        "pkg/zoo.py": "x = 1\n\n\nclass Mixin:\n    def own(self):\n        pass\n",
    }
    result = wired(tree, files)
    assert "self._adapter = ModelAdapterRegistry.get_adapter(self.model)" in result[PATH]
    assert result["pkg/zoo.py"] == (
        "from pkg.worker.adapters import AdapterOfRunner\n\nx = 1\n\n\nclass Mixin:\n"
        "    _adapter = AdapterOfRunner()\n\n    def own(self):\n        pass\n"
    )


@pytest.mark.parametrize(
    ("call", "resolved"),
    [
        ("super().load_model()", True),
        ("x = super().load_model()", True),
        ("Runner.load_model(self)", True),
        ("self.drafter.load_model(self.model)", False),
        ("loader().load_model()", False),
        ("return super().load_model()", False),
        ("if x: super().load_model()", False),
    ],
)
def test_what_counts_as_vllm_s_load(tree, call, resolved):
    text = f"from vllm import Runner\n\n\nclass Root(Runner):\n    def load_model(self):\n        {call}\n"
    result = wired(tree, {PATH: text})[PATH]
    line = f"        {call}\n        self._adapter = ModelAdapterRegistry.get_adapter(self.model)\n"
    assert (line in result, "get_adapter" in result) == (resolved, resolved)


def test_both_ways_of_loading_resolve(tree):
    text = (
        "from vllm import Runner\n\n\nclass Root(Runner):\n    def load_model(self):\n        if self.x:\n"
        "            super().load_model()\n        else:\n            Runner.load_model(self)\n"
    )
    assert wired(tree, {PATH: text})[PATH].count("            self._adapter = ") == 2


def test_imports_of_the_package_that_are_there_keep_their_names(tree):
    text = ROOT.replace("from pkg.zoo", "from pkg.worker.adapters import DefaultModelRunnerAdapter as D\nfrom pkg.zoo")
    line = "from pkg.worker.adapters import AdapterOfRunner, DefaultModelRunnerAdapter as D, ModelAdapterRegistry\n"
    assert line in wired(tree, {PATH: text})[PATH]


PLATFORM = """from ascend import Runner

from pkg.worker.runner import Root


class Npu(Root, Runner):
    def load_model(self):
        Runner.load_model(self)
        self._adapter.npu_loaded(self)
"""
PLATFORM_ADAPTER = "class NpuAdapter:\n    def npu_loaded(self, runner):\n        pass\n"


def test_a_platform_that_loads_by_itself_resolves_in_its_own_phase(tree):
    files = {PATH: ROOT, NPU: PLATFORM}
    assert wired(tree, files)[NPU] == PLATFORM
    resolved = wired(tree, files, loading=(False, True))[NPU]
    assert "        Runner.load_model(self)\n        self._adapter = ModelAdapterRegistry.get" in resolved


def test_a_platform_that_loads_through_the_root_does_not(tree):
    text = PLATFORM.replace("Runner.load_model(self)", "super().load_model()")
    assert wired(tree, {PATH: ROOT, NPU: text}, loading=(False, True))[NPU] == text


@pytest.mark.parametrize("through", ["the registry", "the attribute"])
def test_a_platform_s_runner_imports_the_platform_s_adapters(tree, through):
    text = PLATFORM
    if through == "the registry":
        text = text.replace(
            "from pkg.worker.runner", "from pkg.worker.adapters import ModelAdapterRegistry\nfrom pkg.worker.runner"
        )
    folder = "pkg/platforms/npu/worker/adapters"
    files = {PATH: ROOT, NPU: text, f"{folder}/talker.py": PLATFORM_ADAPTER}
    modules = Modules(Workspace(tree(files=files)))
    runners = [r for r in find_runners(modules, "pkg", UPSTREAM) if r.platform]
    import_platform_adapters(modules, runners, PACKAGE, folder)
    result = modules.workspace.read(NPU).decode()
    assert "from pkg.platforms.npu.worker.adapters import " in result
    assert "from pkg.worker.adapters" not in result
    import_platform_adapters(modules, runners, PACKAGE, folder)
    assert modules.workspace.read(NPU).decode() == result


def test_a_platform_s_runner_that_uses_none_of_them_imports_none(tree):
    folder = "pkg/platforms/npu/worker/adapters"
    text = PLATFORM.replace("npu_loaded", "loaded")
    modules = Modules(Workspace(tree(files={PATH: ROOT, NPU: text, f"{folder}/talker.py": PLATFORM_ADAPTER})))
    import_platform_adapters(modules, find_runners(modules, "pkg", UPSTREAM), PACKAGE, folder)
    assert modules.workspace.read(NPU).decode() == text
