"""What a moved method leaves behind on the runners: a delegate where its name is used, nothing else."""

from __future__ import annotations

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.knowledge import AdapterSpec
from omni_migrate.plan.extraction import Extractor
from omni_migrate.plan.workspace import Workspace

SPEC = AdapterSpec("talker", "TalkerAdapter", 3, "Talks", capabilities=("talks",), methods={"_talk": "talk"})
KEEPING = AdapterSpec("talker", "TalkerAdapter", 3, "Talks", ("talks",), methods={"_talk": "talk"}, keep=("_talk",))
ROOT = "vllm_omni/worker/runner.py"
RUNNER = """from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class Root(GPUModelRunner):
    def step(self, a):
        if hasattr(self.model, "talks"):
            self._talk(a)
        return a

    def _talk(self, a, b=1):
        # says it
        self.note(self.model.talks(a), b)

    def other(self):
        return self._talk(2, b=3)
"""
SUB = "from vllm_omni.worker.runner import Root\n\n\nclass Sub(Root):\n"


def extracted(tree, files, spec=SPEC, phases=(1, 3)):
    modules = Modules(Workspace(tree(files={ROOT: RUNNER, **files})))
    extractor = Extractor(modules, "vllm_omni", [spec], frozenset(), lambda spec: ["A"])
    for number in phases:
        extractor.phase(number)
    return extractor, lambda path: modules.workspace.read(path).decode()


DELEGATE = "    def _talk(self, a, b=1):\n        return self._adapter.talk(self, a, b)\n"


def test_a_method_that_only_the_runner_calls_is_gone_and_its_calls_reach_the_adapter(tree):
    extractor, text = extracted(tree, {})
    assert "_talk" not in text(ROOT)
    assert "return self._adapter.talk(self, 2, b=3)" in text(ROOT)
    adapter = text("vllm_omni/worker/adapters/talker.py")
    assert "    def talk(self, runner, a, b=1):\n" in adapter and "        # says it\n" in adapter
    assert "            self.talk(runner, a)\n" in adapter
    assert "def talk(self, runner, a, b=1):" in text("vllm_omni/worker/adapters/base.py")
    assert extractor.sites() == []


@pytest.mark.parametrize(
    "files",
    [
        {"vllm_omni/worker/sub.py": f"{SUB}    def _talk(self, a, b=1): pass\n"},
        {"tests/test_runner.py": "def test_talk(runner):\n    runner._talk(1)\n"},
        {"vllm_omni/engine.py": "def run(runner):\n    getattr(runner, '_talk')(1)\n"},
        {ROOT: RUNNER + "\n    def callback(self):\n        return self._talk\n"},
        {ROOT: RUNNER + "\n    def named(self):\n        return getattr(self, '_talk')\n"},
    ],
)  # fmt: skip
def test_a_name_that_is_used_elsewhere_stays_as_a_delegate(tree, files):
    extractor, text = extracted(tree, files)
    assert DELEGATE in text(ROOT)
    assert {move.delegate for move in extractor.result.moves if move.kind == "method"} == {True}


def test_a_name_that_the_data_keeps_stays(tree):
    assert DELEGATE in extracted(tree, {}, KEEPING)[1](ROOT)


def test_calls_of_a_method_that_a_subclass_overrides_stay_virtual(tree):
    sub = f"{SUB}    def _talk(self, a, b=1):\n        return a\n"
    _, text = extracted(tree, {"vllm_omni/worker/sub.py": sub})
    assert "return self._talk(2, b=3)" in text(ROOT)
    assert "self._adapter.talk_in_talk(self, a, b)" in text("vllm_omni/worker/sub.py")
    assert "runner._talk(a)" in text("vllm_omni/worker/adapters/talker.py")


def test_what_a_subclass_calls_reaches_the_adapter_too(tree):
    sub = f"{SUB}    def more(self):\n        self._talk(4)\n"
    _, text = extracted(tree, {"vllm_omni/worker/sub.py": sub})
    assert "self._adapter.talk(self, 4)" in text("vllm_omni/worker/sub.py")


def test_a_site_that_cannot_be_moved_is_named_with_the_reason(tree):
    text = RUNNER.replace("self.note(self.model.talks(a), b)", "super()._talk(self.model.talks(a))")
    extractor, _ = extracted(tree, {ROOT: text})
    assert any("super" in reason for reason in extractor.result.left.values())


@pytest.mark.parametrize(
    "method",
    [
        "def _talk(self, a, b=1): return self.model.talks(a)",
        "def _talk(self, a, b=1):  # says it: loud\n        if a:\n            self.model.talks(a)",
        "def _talk(\n        self, a: dict[str, int], b=lambda x: 1\n    ) -> 'a: b':\n        self.model.talks(a)",
        "@decorated(key={'a': 1}[x:y])\n    def _talk(self, a, b=1):\n        self.model.talks(a)",
    ],
)
def test_signatures(tree, method):
    head, tail = RUNNER.split("    def _talk")[0], RUNNER[RUNNER.index("    def other") :]
    _, text = extracted(tree, {ROOT: f"{head}    {method}\n\n{tail}"})
    assert "talks(a)" in text(ROOT) + text("vllm_omni/worker/adapters/talker.py")


def test_sibling_runners_with_a_method_of_one_name_keep_their_own(tree):
    first = "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\nclass {}(GPUModelRunner):\n"
    body = "    def _talk(self, a):\n        return self.model.talks({})\n\n"
    body += "    def go(self):\n        return self._talk(5)\n"
    files = {f"vllm_omni/worker/{n}.py": first.format(n.title()) + body.format(n[0]) for n in ("alpha", "beta")}
    files = {path: text.replace("talks(b)", "talks(a, 1)") for path, text in files.items()}
    _, text = extracted(tree, files)
    hooks = [text(path).split("self._adapter.")[1].split("(")[0] for path in files]
    assert len(set(hooks)) == 2
    for path in files:
        assert (
            "return self._talk(5)" in text(path) or text(path).count(f"_adapter.{hooks[list(files).index(path)]}(") == 2
        )


def test_only_the_adapters_of_a_phase_move(tree):
    extractor, text = extracted(tree, {}, phases=(1, 2))
    assert extractor.result.moves == []
    assert 'hasattr(self.model, "talks")' in text(ROOT)


def test_a_second_extractor_moves_nothing(tree):
    extractor, text = extracted(tree, {})
    before = text(ROOT)
    again = Extractor(extractor.modules, "vllm_omni", [SPEC], frozenset(), lambda spec: ["A"])
    for number in (1, 3):
        again.phase(number)
    assert again.result.moves == [] and text(ROOT) == before


def test_code_that_libcst_nests_too_deep_stays_with_the_reason(tree):
    text = " ".join(["'a'"] * 1_500)  # one constant to Python
    runner = RUNNER.replace("self.model.talks(a), b)", f"self.model.talks(a), {text})")
    extractor, read = extracted(tree, {ROOT: runner})
    assert any("it is nested too deep to be moved" in reason for reason in extractor.result.left.values())
    assert text in read(ROOT)
