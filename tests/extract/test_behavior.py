"""The runners of the small tree do the same before and after: driven with every model, loaded or never initialized."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mini_tree import AR_RUNNER, GPU_RUNNER, MODELS, NPU_RUNNER


def same_story(before, after):
    assert len(before) == len(after)
    assert [step for step, other in zip(before, after, strict=True) if step != other] == []


def test_every_runner_does_the_same_with_every_model(mini, extract, drive):
    source = mini()
    result = extract(source)
    before = drive(source)
    assert any("talker" in str(step) for step in before)
    same_story(before, drive(result))


def test_a_loaded_model_gets_the_adapters_that_it_needs(mini, extract, drive_code):
    seen = drive_code(
        extract(mini()),
        """
        from vllm_omni.model_executor.models import small
        from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner
        for model in (small.Plain(), small.Talker(), small.Off()):
            runner = GPUARModelRunner(model)
            runner.load_model()
            print(*[base.__name__ for base in type(runner._adapter).__mro__ if "capabilities" in vars(base)])
        """,
    )
    plain, talker, off = (set(line.split()) - {"DefaultModelRunnerAdapter"} for line in seen.splitlines())
    assert plain == set()
    assert talker == {"Qwen3TalkerAdapter"}
    assert off == {"OmniOutputAdapter", "PostprocessAdapter", "PreprocessAdapter"}


def test_a_platform_s_runner_gets_the_platform_s_adapters(mini, extract, drive_code):
    seen = drive_code(
        extract(mini()),
        """
        from vllm_omni.model_executor.models import small
        from vllm_omni.platforms.npu.worker.npu_model_runner import OmniNPUModelRunner
        runner = OmniNPUModelRunner(small.Talker())
        runner.load_model()
        print(len(runner.talker_mtp_input_ids), type(runner._adapter).__mro__)
        """,
    )
    assert seen.startswith("8 ") and "NpuQwen3TalkerAdapter" in seen


# One change to a runner each: before, after. All are run before and after, with every model.
CHANGES = {
    "a moved method that guards itself": (
        "gpu",
        '        if getattr(self.model, "precomputed_mrope_decode", False):\n            self._fixup',
        "        self._fixup",
        '        for row, req_state in enumerate(batch.requests):\n            self.note("fixup',
        '        if not getattr(self.model, "precomputed_mrope_decode", False):\n            return\n'
        '        for row, req_state in enumerate(batch.requests):\n            self.note("fixup',
    ),
    "a moved method whose answer is used": (
        "gpu",
        '        if getattr(self.model, "precomputed_mrope_decode", False):\n            self._fixup'
        "_precomputed_mrope_decode_positions(batch)",
        '        self.note("fixed", self._fixup_precomputed_mrope_decode_positions(batch=batch))',
        "    def _fixup_precomputed_mrope_decode_positions(self, batch: Batch) -> None:\n",
        "    def _fixup_precomputed_mrope_decode_positions(self, batch: Batch) -> Any:\n"
        '        if not getattr(self.model, "precomputed_mrope_decode", False):\n            return "nothing"\n',
    ),
    "load_model without vLLM's": (
        "gpu",
        "        super().load_model(*args, **kwargs)\n",
        "        self.model = self._loads\n",
    ),
    "load_model that returns vLLM's answer": (
        "gpu",
        '        self.note("loaded", self.has_talker_mtp)\n',
        '        self.note("loaded", self.has_talker_mtp)\n        return super().load_model()\n',
    ),
    "an import that is used in what moves alone, with a comment": (
        "gpu",
        "import math as arithmetic\n",
        "import math as arithmetic\nimport string  # the alphabet\n",
        '            self.note("fixup", row,',
        '            self.note("fixup", string.digits, row,',
    ),
    "a constant of the module that is bound twice": (
        "gpu",
        "ROWS = 4\n",
        "if arithmetic.pi > 3:\n    ROWS = 4\nelse:\n    ROWS = 5\n",
    ),
    "a helper of the module that takes the place of an import": (
        "gpu",
        "def _rounded(",
        "arithmetic_floor = arithmetic.floor\n\n\ndef _rounded(",
    ),
    "a local that holds the model for a while": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        model = self.model\n        first = getattr(model, "has_preprocess", None)\n        model = batch\n'
        '        self.note("updated", first, getattr(model, "has_preprocess", "no"))',
    ),
    "statements around that share a line": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        self.note("a"); self.note("b") if hasattr(self.model, "has_preprocess") else self.note("c")',
    ),
    "a second test of a class name": (
        "gpu",
        "        return embeds, total\n\n    def _talker",
        '        if type(self.model).__name__ == "GridModel":\n            self.note("grid")\n'
        "        return embeds, total\n\n    def _talker",
    ),
    "part of a class name": (
        "gpu",
        "        return embeds, total\n\n    def _talker",
        '        if "Talker" in type(self.model).__name__:\n            self.note("some talker")\n'
        "        return embeds, total\n\n    def _talker",
    ),
    "a class whose subclass is another name": (
        "gpu",
        "        return embeds, total\n\n    def _talker",
        "        from vllm_omni.model_executor.models.small import Talker\n"
        '        if isinstance(self.model, Talker):\n            self.note("is a talker")\n'
        "        return embeds, total\n\n    def _talker",
    ),
    "a guard that returns": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        self.note("updated", len(batch.requests))\n'
        '        if not hasattr(self.model, "has_postprocess"):\n            return\n'
        '        self.note("postprocesses", self.model.has_postprocess)',
    ),
    "a guard that goes on with the next row": (
        "gpu",
        "            self._init_mrope_positions(req_state)",
        '            if not getattr(self.model, "has_preprocess", False):\n                continue\n'
        "            self._init_mrope_positions(req_state)",
    ),
    "a probe in an argument": (
        "gpu",
        'self.note("updated", len(batch.requests))',
        'self.note("updated", getattr(self.model, "has_preprocess", None), rows=hasattr(self.model, "preprocess"))',
    ),
    "a probe in a nested function": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        def row(number):\n            return number if hasattr(self.model, "has_preprocess") else -number\n\n'
        '        self.note("updated", [row(number) for number in range(3)])',
    ),
    "two adapters in one test": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        if hasattr(self.model, "has_preprocess") and not getattr(self.model, "has_postprocess", False):\n'
        '            self.note("half")\n        self.note("updated", len(batch.requests))',
    ),
    "a probe in elif": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        if not batch.requests:\n            self.note("empty")\n'
        '        elif getattr(self.model, "has_preprocess", False):\n            self.note("elif")\n'
        '        else:\n            self.note("else")',
    ),
    "two statements on a line": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        flag = getattr(self.model, "has_preprocess", False); self.note("flag", flag)',
    ),
    "an answer that is used later": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        wants = getattr(self.model, "has_preprocess", False)\n        self.note("before")\n'
        '        if wants:\n            self.note("wanted")\n        self.note("after", wants)',
    ),
    "a probe behind a helper that a subclass overrides": (
        "ar",
        "    def shutdown(self)",
        "    def _wants_history(self, name: str) -> bool:\n        return not getattr(self.model, name, False)\n\n"
        "    def shutdown(self)",
    ),
    "a helper that a subclass overrides, asked in a block": (
        "both",
        (
            '        self.note("updated", len(batch.requests))',
            '        if self._wants("has_preprocess"):\n            self.note("wanted")\n'
            '        self.note("updated", len(batch.requests))\n\n'
            "    def _wants(self, name: str) -> bool:\n        return bool(getattr(self.model, name, False))",
        ),
        (
            "    def shutdown(self)",
            "    def _wants(self, name: str) -> bool:\n        return True\n\n    def shutdown(self)",
        ),
    ),
    "an import of its own folder inside the method": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        if hasattr(self.model, "has_preprocess"):\n            from .numbers import LIMIT\n'
        '            from . import numbers\n\n            self.note("limit", LIMIT, numbers.LIMIT)',
    ),
    "an effect in the default of a probe": (
        "gpu",
        'self.note("updated", len(batch.requests))',
        'self.note("updated", getattr(self.model, "has_preprocess", self.note("asked")))',
    ),
    "an exception that is swallowed": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        "        try:\n            total = self.model.has_preprocess + 1\n        except AttributeError:\n"
        '            total = 0\n            self.note("none")\n        self.note("updated", total)',
    ),
    "a default value that is a constant of the module": (
        "gpu",
        'decode_req_ids: list[str], embeds: Any, *, scale: int = 1) -> Any:\n        """The',
        'decode_req_ids: list[str], embeds: Any, *, scale: int = ROWS) -> Any:\n        """The',
    ),
    "an annotation that only the runner's module has": (
        "gpu",
        "    def extract_multimodal_outputs(self, hidden: Any) -> Any:",
        "    def extract_multimodal_outputs(self, hidden: Any) -> 'OmniGPUModelRunner | None':",
    ),
    "a global of the module that is assigned": (
        "gpu",
        '        if hasattr(self.model, "have_multimodal_outputs")',
        '        global ROWS\n        ROWS += 1\n        if hasattr(self.model, "have_multimodal_outputs")',
    ),
    "a method with a decorator": (
        "gpu",
        "    def _init_mrope_positions",
        "    @staticmethod\n    def _twice(value):\n        return value * 2\n\n    def _init_mrope_positions",
    ),
    "load_model that returns what vLLM's does": (
        "gpu",
        "        super().load_model(*args, **kwargs)\n",
        "        loaded = super().load_model(*args, **kwargs)\n        assert loaded is None\n",
    ),
    "load_model in two ways": (
        "gpu",
        "        super().load_model(*args, **kwargs)\n",
        "        if args:\n            super().load_model(*args)\n"
        "        else:\n            super().load_model(**kwargs)\n",
    ),
    "load_model after a helper's": (
        "gpu",
        "        super().load_model(*args, **kwargs)\n",
        "        self._loads.load_model(3) if hasattr(self._loads, 'load_model') else None\n"
        "        super().load_model(*args, **kwargs)\n",
    ),
    "a private name of the class": (
        "gpu",
        '        if hasattr(self.model, "have_multimodal_outputs")',
        '        self.__seen = 1\n        if hasattr(self.model, "have_multimodal_outputs")',
    ),
    "an attribute of the model that is set": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        if hasattr(self.model, "has_preprocess"):\n            self.model.rows = len(batch.requests)\n'
        '            self.note("rows", self.model.rows)',
    ),
    "a comprehension that probes": (
        "gpu",
        'self.note("updated", len(batch.requests))',
        'self.note("updated", [r.req_id for r in batch.requests if getattr(self.model, "has_preprocess", False)])',
    ),
    "a while loop that probes": (
        "gpu",
        '        self.note("updated", len(batch.requests))',
        '        rows = 3\n        while rows and getattr(self.model, "has_preprocess", False):\n'
        '            rows -= 1\n        self.note("rows", rows)',
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_runner_does_the_same(change, mini, extract, drive):
    where, *texts = CHANGES[change]
    gpu, ar = GPU_RUNNER, AR_RUNNER
    if where == "both":
        gpu, ar = changed(gpu, *texts[0]), changed(ar, *texts[1])
    elif where == "gpu":
        gpu = changed(gpu, *texts)
    else:
        ar = changed(ar, *texts)
    source = mini(**{"vllm_omni/worker/gpu_model_runner.py": gpu, "vllm_omni/worker/gpu_ar_model_runner.py": ar})
    same_story(drive(source), drive(extract(source)))


def changed(text, *pairs):
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def test_the_same_block_that_means_another_function_elsewhere_is_not_shared(mini, extract, drive):
    helper = "def shout(value):\n    return value.{}()\n"
    block = (
        '        if getattr(self.model, "prefer_model_sampler", False):\n            self.note(shout("Sampler"))\n'
        '            return "model"\n'
    )
    old = '        if getattr(self.model, "prefer_model_sampler", False):\n            return "model"\n'
    source = mini(
        **{
            "vllm_omni/worker/loud.py": helper.format("upper"),
            "vllm_omni/platforms/npu/worker/quiet.py": helper.format("lower"),
            "vllm_omni/worker/gpu_model_runner.py": changed(
                GPU_RUNNER, old, block, "from vllm_omni.worker.mixin", "from vllm_omni.worker.loud import shout\n"
                "from vllm_omni.worker.mixin",
            ),
            "vllm_omni/platforms/npu/worker/npu_model_runner.py": changed(
                NPU_RUNNER, old, block, "from vllm_omni.worker.gpu_ar", "from vllm_omni.platforms.npu.worker.quiet "
                "import shout\nfrom vllm_omni.worker.gpu_ar",
            ),
        }
    )  # fmt: skip
    before = drive(source)
    assert "SAMPLER" in str(before) and "sampler" in str(before)
    same_story(before, drive(extract(source)))


def test_a_subclass_of_a_model_that_is_tested_by_name_is_not_that_model(mini, extract, drive):
    subclass = "\n\nclass FastTalker(MiMoAudioForConditionalGeneration):\n    pass\n"
    source = mini(**{"vllm_omni/model_executor/models/small.py": MODELS + subclass})
    same_story(drive(source), drive(extract(source)))


def test_the_project_s_own_tests_pass_and_so_do_those_that_came_with_the_phases(mini, extract, stubs):
    result = extract(mini())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=result, env=stubs(result), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
