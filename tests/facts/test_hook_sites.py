"""Hook sites in small trees: which forms of a name are one, whose it is, and what is none."""

from collections.abc import Callable
from pathlib import Path

from omni_migrate.facts.hook_sites import HookSite, dead_definitions, dead_hook_findings, find_hook_sites
from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.knowledge import hooks, upstream_runners
from omni_migrate.plan.workspace import Workspace

Tree = Callable[..., Path]


def found(tree: Tree, **files: str) -> tuple[Modules, list[HookSite]]:
    texts = {
        f"vllm_omni/{name.replace('__', '/') if '/' not in name else name}.py": text for name, text in files.items()
    }
    modules = Modules(Workspace(tree(files={"vllm_omni/__init__.py": "", **texts})))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    return modules, find_hook_sites(modules, hooks(), "vllm_omni", runners)


def told(sites: list[HookSite]) -> list[tuple[int, str, str, str]]:
    return [(site.line, site.hook, site.role, site.name) for site in sites]


def test_the_owner_decides_what_a_name_is(tree: Tree) -> None:
    text = """
def step(self, new_request):
    self.model_intermediate_buffer[new_request.req_id] = {}
    info = new_request.model_intermediate_buffer
    return {"model_intermediate_buffer": info}
"""
    assert told(found(tree, worker__a=text)[1]) == [
        (3, "request-store", "read", "model_intermediate_buffer"),
        (4, "payload-decode", "read", "model_intermediate_buffer"),
        (5, "forward-kwargs", "store", "model_intermediate_buffer"),
    ]


def test_a_payload_decoded_inline_is_a_site_whatever_the_method_is_called(tree: Tree) -> None:
    text = """
import numpy as np
class Runner:
    def _update_states(self, output):
        for new in output.scheduled_new_reqs:
            array = np.frombuffer(new.prompt_embeds.data)
            setattr(self.requests[new.req_id], "prompt_embeds_cpu", array)
"""
    sites = found(tree, worker__a=text)[1]
    assert [(site.hook, site.role, site.symbol) for site in sites] == [
        ("payload-decode", "call", "Runner._update_states"),
        ("prompt-embeds-overlay", "store", "Runner._update_states"),
    ]


def test_imports_locals_annotations_and_texts_are_no_sites(tree: Tree) -> None:
    text = '''
"""has_preprocess"""
from .outputs import OmniModelRunnerOutput
def f(text_step: int, output: OmniModelRunnerOutput) -> "OmniOutput":
    talker_mtp = text_step  # self.talker_mtp
    return talker_mtp
'''
    assert found(tree, worker__a=text)[1] == []


def test_common_words_count_on_the_model_only(tree: Tree) -> None:
    text = "def f(self, buffers):\n    buffers.preprocess()\n    self.model.preprocess(1)\n"
    assert told(found(tree, worker__a=text)[1]) == [(3, "preprocess-postprocess", "call", "preprocess")]


def test_a_probe_through_a_helper_is_one(tree: Tree) -> None:
    text = 'def f(self):\n    return self._flag(self.model, "has_postprocess")\n'
    assert told(found(tree, worker__a=text)[1]) == [(2, "preprocess-postprocess", "probe", "has_postprocess")]


def test_code_moved_to_an_adapter_is_found_with_its_call(tree: Tree) -> None:
    runner = "class R:\n    def _f(self, ids):\n        return self._adapter.talker_mtp_forward(self, ids)\n"
    adapter = "class A:\n    def talker_mtp_forward(self, runner, ids):\n        return runner.talker_mtp(ids)\n"
    sites = found(tree, worker__runner=runner, worker__adapters__talker=adapter)[1]
    assert [(site.path.rpartition("/")[2], site.role, site.name) for site in sites] == [
        ("talker.py", "definition", "talker_mtp_forward"),
        ("talker.py", "call", "talker_mtp"),
        ("runner.py", "call", "talker_mtp_forward"),
    ]


def test_models_and_v2_runners_are_not_the_v1_side(tree: Tree) -> None:
    v2 = """
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
class V2(GPUModelRunner):
    def f(self):
        return self.model.has_preprocess
"""
    model = "class Talker:\n    has_preprocess = True\n"
    assert found(tree, worker__v2=v2, model_executor__models__talker=model)[1] == []


def test_a_base_of_a_runner_is_looked_at_wherever_it_stands(tree: Tree) -> None:
    base = "class Mixin:\n    def f(self):\n        return self.model.has_preprocess\n"
    runner = """
from vllm.v1.worker.gpu_model_runner import GPUModelRunner
from vllm_omni.core.cache.mixin import Mixin
class Runner(Mixin, GPUModelRunner):
    pass
"""
    assert [site.path for site in found(tree, worker__runner=runner, core__cache__mixin=base)[1]] == [
        "vllm_omni/core/cache/mixin.py"
    ]


def test_a_hook_that_nothing_calls_is_dead_unless_a_file_elsewhere_names_it(tree: Tree) -> None:
    text = "class R:\n    def _build_model_kwargs_extra(self):\n        return {}\n"
    modules, sites = found(tree, worker__a=text)
    (found_dead,) = dead_hook_findings(dead_definitions(modules, sites, "vllm_omni"))
    assert (found_dead.rule, found_dead.severity.value, found_dead.path, found_dead.line, found_dead.symbol) == (
        "dead-hook",
        "note",
        "vllm_omni/worker/a.py",
        2,
        "R._build_model_kwargs_extra",
    )
    modules, sites = found(tree, worker__a=text, audex="def f(runner):\n    runner._build_model_kwargs_extra()\n")
    assert dead_definitions(modules, sites, "vllm_omni") == []


def test_a_class_or_a_delegate_is_never_dead(tree: Tree) -> None:
    delegate = "    def _init_talker_mtp(self):\n        return self._adapter.on_model_loaded(self)\n"
    modules, sites = found(tree, worker__a="class OmniOutput:\n    pass\nclass R:\n" + delegate)
    assert {site.role for site in sites} == {"definition", "call"}
    assert dead_definitions(modules, sites, "vllm_omni") == []


def test_what_only_a_v2_runner_imports_is_not_the_v1_side(tree: Tree) -> None:
    v2 = "from vllm.v1.worker.gpu.model_runner import GPUModelRunner\nfrom vllm_omni.worker import own, both\n"
    v1 = "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\nfrom vllm_omni.worker.both import f\n"
    probe = "def f(self):\n    return self.model.has_preprocess\n"
    files = {"worker__v2": f"{v2}class V2(GPUModelRunner): ...\n", "worker__v1": f"{v1}class V1(GPUModelRunner): ...\n"}
    files["worker/__init__"] = ""
    sites = found(tree, worker__own=probe, worker__both=probe, **files)[1]
    assert [site.path for site in sites] == ["vllm_omni/worker/both.py"]


def test_an_override_of_vllms_method_is_never_dead(tree: Tree) -> None:
    modules, sites = found(tree, worker__a="class R:\n    def _model_forward(self):\n        pass\n")
    assert told(sites) == [(2, "model-forward", "override", "_model_forward")]
    assert dead_definitions(modules, sites, "vllm_omni") == []
