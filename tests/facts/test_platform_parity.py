"""What a GPU runner does for omni and a platform's runner of the same name does not."""

from __future__ import annotations

import pytest

from omni_migrate.facts.class_tree import ClassTree
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.platform_parity import Item, compare
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import platforms, upstream_runners
from omni_migrate.plan.npu_findings import parity_findings
from omni_migrate.plan.workspace import Workspace
from omni_migrate.report.findings import Severity

VLLM = """
class GPUModelRunner:
    def execute_model(self, batch):
        ids = self.prepare(batch)
        out = self.model(ids)
        return out

    def shutdown(self):
        pass

    def prepare(self, batch):
        return batch, 0
"""
ASCEND = """
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

class NPUModelRunner(GPUModelRunner):
    def execute_model(self, batch):
        ids = self.prepare(batch)
        out = self.model(ids)
        return out
"""
GPU_BASE = """
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

class OmniGPUModelRunner(GPUModelRunner):
    def shared(self):
        return self.model.hook()
"""
GPU = """
from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner
from vllm_omni.worker.mixins import PayloadMixin

class State(NamedTuple):
    logits: int
    payload: int

class GPUARModelRunner(OmniGPUModelRunner):
    def execute_model(self, batch):
        ids = self.prepare(batch)
        out = self.model(ids)
        return out
"""
MIXIN = """
class PayloadMixin:
    def receive(self):
        self.payloads = []

    def send(self):
        pass

def asks_to_flush(model):
    return getattr(model, "flush", False)
"""
NPU_BASE = """
from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner
from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

class OmniNPUModelRunner(OmniGPUModelRunner, NPUModelRunner):
    pass
"""
NPU = """
from vllm_omni.platforms.npu.worker.npu_model_runner import OmniNPUModelRunner
from vllm_omni.worker.mixins import PayloadMixin

class State(NamedTuple):
    logits: int
    payload: int

class NPUARModelRunner(OmniNPUModelRunner):
    def execute_model(self, batch):
        ids = self.prepare(batch)
        out = self.model(ids)
        return out
"""
XPU = """
from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner

class XPUARModelRunner(GPUARModelRunner):
    def shutdown(self):
        super().shutdown()
"""
STEP = "        out = self.model(ids)\n"


@pytest.fixture
def items(tree):
    """Compares the runners of a small tree, `gpu` and `npu` being the text of the two AR runners."""

    def run(
        gpu: str = GPU, npu: str = NPU, gpu_base: str = GPU_BASE, upstream: bool = True, older: str = ""
    ) -> list[Item]:
        omni = {
            "vllm_omni/worker/gpu_model_runner.py": gpu_base,
            "vllm_omni/worker/gpu_ar_model_runner.py": gpu,
            "vllm_omni/worker/mixins.py": MIXIN,
            "vllm_omni/platforms/npu/worker/npu_model_runner.py": NPU_BASE,
            "vllm_omni/platforms/npu/worker/npu_ar_model_runner.py": npu,
            "vllm_omni/platforms/xpu/worker/xpu_ar_model_runner.py": XPU,
        }
        trees = {"vllm_omni": Modules(Workspace(tree("omni", omni)))}
        if upstream:
            trees["vllm"] = Modules(Workspace(tree("vllm", {"vllm/v1/worker/gpu_model_runner.py": VLLM})))
            ascend = {"vllm_ascend/worker/model_runner_v1.py": ASCEND}
            trees["vllm_ascend"] = Modules(Workspace(tree("ascend", ascend)))
        runners = find_runners(trees["vllm_omni"], "vllm_omni", upstream_runners())
        others = []
        if older:
            base = tree("older", {"vllm/v1/worker/gpu_model_runner.py": older})
            others = [ClassTree(trees | {"vllm": Modules(Workspace(base))})]
        interface = frozenset({"compute_logits"})
        return list(compare(ClassTree(trees), runners, platforms(), interface, older=others))

    return run


def lacking(found: list[Item]) -> list[tuple[str, str, str]]:
    return [(item.kind, item.name, item.sure) for item in found if item.state == "lacks"]


def test_the_same_on_both_sides_lacks_nothing(items):
    assert lacking(items()) == []
    assert lacking(items(upstream=False)) == []


def test_xpu_inherits_what_the_gpu_has(items):
    gpu = GPU.replace("(OmniGPUModelRunner)", "(OmniGPUModelRunner, PayloadMixin)").replace(
        STEP, STEP + '        getattr(self.model, "flush")()\n'
    )
    found = [item for item in items(gpu) if item.platform == "xpu"]
    assert {(item.kind, item.name): item.state for item in found} == {
        ("base", "PayloadMixin"): "inherits",
        ("method", "receive"): "inherits",
        ("method", "send"): "inherits",
        ("method", "execute_model"): "inherits",
    }


def test_a_mixin_that_is_no_base_of_the_platforms_class(items):
    gpu = GPU.replace("(OmniGPUModelRunner)", "(OmniGPUModelRunner, PayloadMixin)")
    assert lacking(items(gpu)) == [("base", "PayloadMixin", "certain")]
    npu = NPU.replace("(OmniNPUModelRunner)", "(OmniNPUModelRunner, PayloadMixin)")
    assert lacking(items(gpu, npu)) == []


def test_an_override_that_the_platform_does_without(items):
    gpu = GPU + "\n    def shutdown(self):\n        self.close()\n\n    def close(self):\n        pass\n"
    (method,) = [item for item in items(gpu) if item.state == "lacks"]
    assert (method.kind, method.name, method.sure) == ("method", "shutdown", "likely")
    assert method.why == "it runs GPUModelRunner.shutdown instead; 1 helpers too"
    assert (method.gpu.line, method.place.symbol) == (15, "NPUARModelRunner")


def test_a_method_that_shared_code_calls_and_nothing_defines(items):
    base = GPU_BASE.replace("self.model.hook()", "self.finish()")
    gpu = GPU + "\n    def finish(self):\n        pass\n"
    assert lacking(items(gpu, gpu_base=base)) == [("method", "finish", "certain")]
    asked = base.replace("return self.finish()", 'return self.finish() if hasattr(self, "finish") else None')
    assert lacking(items(gpu, gpu_base=asked)) == [("method", "finish", "likely")]


def test_a_method_that_the_platform_has_inline(items):
    gpu = (
        GPU.replace(STEP, STEP + "        self.note(out)\n")
        + "\n    def note(self, out):\n        self.log.write(out, 1)\n"
    )
    npu = NPU.replace(STEP, STEP + "        self.log.write(out, 1)\n")
    assert lacking(items(gpu, npu)) == []


def test_what_only_a_gpu_needs_is_unsure(items):
    gpu = GPU + "\n    def stream(self):\n        return torch.cuda.Stream(self.device)\n"
    assert lacking(items(gpu)) == [("method", "stream", "unsure")]


@pytest.mark.parametrize("probe", ['getattr(self.model, "flush", None)', 'hasattr(self.get_model(), "flush")'])
def test_a_probe_that_the_platforms_method_does_not_make(items, probe):
    gpu = GPU.replace(STEP, STEP + f"        if {probe}:\n            pass\n")
    assert lacking(items(gpu)) == [("probe", "flush", "certain")]
    elsewhere = NPU + f"\n    def other(self):\n        return {probe}\n"
    assert lacking(items(gpu, elsewhere)) == [("probe", "flush", "likely")]
    through_a_helper = elsewhere.replace(STEP, STEP + "        self.other()\n")
    assert lacking(items(gpu, through_a_helper)) == []


def test_what_vllms_models_have_is_no_probe_of_omnis(items):
    found = items(GPU.replace(STEP, STEP + "        self.model.compute_logits(out)\n"))
    assert [item for item in found if item.kind == "probe"] == []


def test_an_inherited_method_that_is_never_called(items):
    gpu = GPU.replace(STEP, STEP + "        self.shared()\n")
    assert lacking(items(gpu)) == [("call", "shared", "likely")]
    assert lacking(items(gpu, NPU.replace(STEP, STEP + "        self.shared()\n"))) == []


def test_a_fix_of_a_statement(items):
    fix = "        if out.rows != batch.rows:\n            raise ValueError(batch)\n"
    assert lacking(items(GPU.replace(STEP, STEP + fix))) == [("statement", "if out.rows != batch.rows", "likely")]
    assert lacking(items(GPU.replace(STEP, STEP + fix), NPU.replace(STEP, STEP + fix))) == []


def test_a_statement_of_another_upstream_version_is_no_gap(items):
    statement = "        self.capturer.clear_buffer(batch)\n"
    gpu = GPU.replace(STEP, STEP + statement)
    assert lacking(items(gpu)) == [("statement", "self.capturer.clear_buffer(batch)", "likely")]
    assert lacking(items(gpu, older=VLLM.replace(STEP, STEP + statement))) == []


def test_a_statement_of_upstreams_is_no_gap(items):
    npu = NPU.replace("        ids = self.prepare(batch)\n", "        ids = batch.ids\n")
    assert lacking(items(npu=npu)) == []


def test_a_platforms_own_words_are_known(items):
    gpu = GPU.replace(STEP, STEP + "        self.graph = CUDAGraphWrapper(torch.accelerator, out)\n")
    npu = NPU.replace(STEP, STEP + "        self.graph = ACLGraphWrapper(torch.npu, out)\n")
    assert lacking(items(gpu, npu)) == []


def test_a_field_of_the_state(items):
    gpu = GPU.replace("    payload: int\n", "    payload: int\n    step: int = 0\n")
    (field,) = [item for item in items(gpu) if item.state == "lacks"]
    assert (field.kind, field.name, field.gpu.line, field.place.line) == ("field", "step", 8, 5)
    used = "        self.state = State(1, 2)\n"
    npu = NPU.replace("    payload: int\n", "").replace(STEP, STEP + used + "        logits, payload = self.state\n")
    wrong = [item for item in items(npu=npu) if item.state == "lacks" and item.kind == "arity"]
    assert [(item.name, item.sure, item.place.line) for item in wrong] == [("state", "certain", 13)]


def test_a_number_of_results(items):
    gpu = GPU + "\n    def run(self):\n        return 1, 2\n"
    npu = NPU + "\n    def run(self):\n        return 1, 2, 3\n"
    assert ("arity", "run", "likely") in lacking(items(gpu, npu))
    unpacked = npu.replace(STEP, STEP + "        a, b = self.run()\n")
    assert ("arity", "run", "certain") in lacking(items(gpu, unpacked))


def test_a_parameter(items):
    gpu = GPU + "\n    def save(self, states, states_cpu=None):\n        self.kept = states\n"
    npu = NPU + "\n    def save(self, states):\n        self.kept = states\n"
    assert lacking(items(gpu, npu)) == [("keyword", "states_cpu", "likely")]
    assert lacking(items(gpu, npu.replace("self, states)", "self, states, **kwargs)"))) == []


def test_findings_name_both_sides_and_how_sure(items):
    gpu = GPU.replace("(OmniGPUModelRunner)", "(OmniGPUModelRunner, PayloadMixin)")
    (finding,) = parity_findings(items(gpu))
    assert (finding.rule, finding.severity, finding.line) == ("parity-base", Severity.WARNING, 9)
    assert finding.path == "vllm_omni/platforms/npu/worker/npu_ar_model_runner.py"
    assert finding.message == (
        "NPUARModelRunner does not extend PayloadMixin, which GPUARModelRunner has (gpu_ar_model_runner.py:9): "
        "2 methods of PayloadMixin (certain)"
    )
    base = GPU_BASE.replace("self.model.hook()", "self.finish()")
    (error,) = parity_findings(items(GPU + "\n    def finish(self):\n        pass\n", gpu_base=base))
    assert error.severity is Severity.ERROR


@pytest.mark.parametrize(
    "asking",
    [
        "        if self.model.flush:\n            pass\n",
        '        mine = self.model\n        if hasattr(mine, "flush"):\n            pass\n',
        '        if hasattr(mine := self.get_model(), "flush"):\n            mine.flush()\n',
        "        if asks(self.model):\n            pass\n",
    ],
)
def test_other_ways_to_ask_the_model(items, asking):
    """By a plain attribute, through another name, or in a function of another module."""
    helper = "from vllm_omni.worker.mixins import asks_to_flush as asks\n"
    gpu = GPU.replace(STEP, STEP + '        if getattr(self.model, "flush", False):\n            pass\n')
    npu = helper + NPU.replace(STEP, STEP + asking)
    assert lacking(items(gpu)) == [("probe", "flush", "certain")]
    assert lacking(items(gpu, npu)) == []
    if "asks(" not in asking:
        assert lacking(items(GPU.replace(STEP, STEP + asking))) == [("probe", "flush", "certain")]


def test_a_name_that_is_also_something_else_is_not_the_model(items):
    other = (
        '        mine = self.model\n        mine = self.other\n        if hasattr(mine, "flush"):\n            pass\n'
    )
    gpu = GPU.replace(STEP, STEP + other)
    assert [item.kind for item in items(gpu) if item.kind == "probe"] == []


def test_a_mixin_whose_methods_the_platform_has_itself(items):
    gpu = GPU.replace("(OmniGPUModelRunner)", "(OmniGPUModelRunner, PayloadMixin)")
    npu = NPU + "\n    def receive(self):\n        self.payloads = []\n"
    assert lacking(items(gpu, npu)) == [("base", "PayloadMixin", "certain")]
    assert lacking(items(gpu, npu + "\n    def send(self):\n        pass\n")) == []


def test_a_runner_of_another_name(items):
    """It is compared with the GPU runner that it shares most methods with; one method says nothing."""
    finish = "\n    def finish(self):\n        pass\n"
    gpu = GPU.replace(STEP, STEP + "        self.model.flush()\n")
    renamed = NPU.replace("NPUAR", "AscendAR")
    assert [item for item in items(gpu, renamed) if item.platform_class == "AscendARModelRunner"] == []
    found = [item for item in items(gpu + finish, renamed + finish) if item.state == "lacks"]
    assert [(item.platform_class, item.name) for item in found] == [("AscendARModelRunner", "flush")]


def test_a_field_is_omnis_where_vllm_has_no_such_tuple(items):
    gpu = GPU.replace("    payload: int\n", "    payload: int\n    codes: int = 0\n")
    assert ("field", "codes", "likely") in lacking(items(gpu))
    assert ("field", "codes", "unsure") in lacking(items(gpu, upstream=False))
