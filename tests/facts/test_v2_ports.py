"""V2 ports of our own: one where every fault is absent, and each fault by itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omni_migrate.facts.modules import Modules
from omni_migrate.facts.runners import find_runners
from omni_migrate.facts.v2_ports import V2Port, find_v2_port
from omni_migrate.knowledge import hooks, upstream_runners
from omni_migrate.plan.workspace import Workspace

Tree = Callable[..., Path]

V1 = """
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class OmniRunner(GPUModelRunner):
    def _update_states(self, output):
        for new in output.scheduled_new_reqs:
            self.model_intermediate_buffer[new.req_id] = new.additional_information
            self.requests[new.req_id].prompt_embeds_cpu = new.prompt_embeds

    def _init_mrope_positions(self, state):
        kwargs = dict(image_grid_thw=state.grids, use_audio_in_video=False)
        self.model.get_mrope_input_positions(state.tokens, **kwargs)

    def _preprocess(self, output):
        for row in self.rows:
            pe = self.requests[row.req_id].prompt_embeds_cpu
            self.inputs_embeds[row.span].copy_(pe)
        if getattr(self.model, "has_preprocess", False):
            self.model.preprocess(output)
        if getattr(self.model, "talker_mtp", None) is not None:
            self.talker_mtp = self.model.talker_mtp

    def _build_model_kwargs_extra(self):
        extra = {}
        extra["runtime_additional_information"] = list(self.model_intermediate_buffer.values())
        extra["request_token_spans"] = self.spans
        return extra

    def _model_forward(self, **kwargs):
        return super()._model_forward(**kwargs, **self._build_model_kwargs_extra())
"""

STATE = """
from vllm.v1.worker.gpu.model_states.default import DefaultModelState


class OmniState(DefaultModelState):
    def add_request(self, req_index, new_req_data):
        super().add_request(req_index, new_req_data)
        self.payloads.keep(new_req_data.req_id, new_req_data.additional_information, new_req_data.prompt_embeds)
        self.grids = {"image_grid_thw": 1, "use_audio_in_video": 2}
        self.model.get_mrope_input_positions = self.positions

    def finish(self, finished_req_ids):
        for req_id in finished_req_ids:
            self.payloads.drop(req_id)

    def prepare_inputs(self, input_batch, req_states):
        inputs = super().prepare_inputs(input_batch, req_states)
        embeds = self.embeds
        for i, req_id in enumerate(input_batch.req_ids):
            num_tokens = int(input_batch.num_scheduled_tokens[i])
            is_prefill = req_states.computed[i] < req_states.prompt_len[i]
            if is_prefill:
                embeds[:num_tokens].copy_(self.payloads[req_id].prompt_embeds)
            if num_tokens == 1 and not is_prefill and hasattr(self.model, "talker_mtp"):
                self.model.talker_mtp(embeds)
        if getattr(self.model, "has_preprocess", False):
            self.model.preprocess(inputs)
        return {**inputs, "inputs_embeds": embeds, **self.extra(input_batch)}

    def extra(self, input_batch):
        return {"runtime_additional_information": list(self.payloads), "request_token_spans": self.spans}
"""

RUNNER = """
from vllm.v1.worker.gpu.model_runner import GPUModelRunner
from vllm_omni.worker_v2.state import OmniState


class OmniRunnerV2(GPUModelRunner):
    def execute_model(self, scheduler_output, *args, **kwargs):
        return super().execute_model(scheduler_output, *args, **kwargs)
"""

MODELS = """
import torch.nn as nn


class TalkerA(nn.Module):
    has_preprocess = True

    def talker_mtp(self, embeds):
        return embeds

    def get_mrope_input_positions(self, input_tokens, mm_features=None, *, image_grid_thw):
        return input_tokens, 0


class TalkerB(nn.Module):
    def talker_mtp(self, embeds):
        return embeds

    mtp = talker_mtp

    def get_mrope_input_positions(self, input_tokens, mm_features=None, use_audio_in_video=False):
        return input_tokens, 0
"""

FILES = {
    "vllm_omni/__init__.py": "",
    "vllm_omni/worker/runner.py": V1,
    "vllm_omni/worker_v2/runner.py": RUNNER,
    "vllm_omni/worker_v2/state.py": STATE,
    "vllm_omni/model_executor/models/talkers.py": MODELS,
}


def port_of(tree: Tree, *changes: tuple[str, str], **more: str) -> V2Port | None:
    files = dict(FILES)
    for old, new in changes:
        assert sum(old in text for path, text in files.items() if "worker_v2" in path) == 1, old
        files = {path: text.replace(old, new) if "worker_v2" in path else text for path, text in files.items()}
    files |= {f"vllm_omni/{name.replace('__', '/')}.py": text for name, text in more.items()}
    modules = Modules(Workspace(tree(files=files)))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    return find_v2_port(modules, hooks(), "vllm_omni", runners)


def faults(tree: Tree, *changes: tuple[str, str], **more: str) -> list[tuple[str, str, int]]:
    port = port_of(tree, *changes, **more)
    assert port is not None
    return [(found.rule, found.path.removeprefix("vllm_omni/"), found.line) for found in port.findings]


def test_a_tree_without_v2_runner_has_no_port(tree: Tree) -> None:
    modules = Modules(Workspace(tree(files={"vllm_omni/__init__.py": "", "vllm_omni/worker/runner.py": V1})))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    assert find_v2_port(modules, hooks(), "vllm_omni", runners) is None


def test_where_every_fault_is_absent_there_is_no_finding(tree: Tree) -> None:
    port = port_of(tree)
    assert port is not None
    assert port.findings == ()
    assert port.files == ("vllm_omni/worker_v2/runner.py", "vllm_omni/worker_v2/state.py")
    assert {hook.hook: hook.status for hook in port.hooks} == dict.fromkeys(
        [
            "request-store", "payload-decode", "prompt-embeds-overlay", "forward-kwargs", "model-forward", "mrope",
            "talker-mtp", "preprocess-postprocess", "request-token-spans",
        ],
        "ported",
    )  # fmt: skip


def test_where_a_hook_is_ported(tree: Tree) -> None:
    port = port_of(tree)
    assert port is not None
    talker = next(hook for hook in port.hooks if hook.hook == "talker-mtp")
    assert [(site.symbol, site.line, site.role) for site in talker.sites] == [
        ("OmniState.prepare_inputs", 24, "probe"),
        ("OmniState.prepare_inputs", 25, "call"),
    ]


def test_a_renamed_capability_names_the_models_that_are_skipped(tree: Tree) -> None:
    port = port_of(tree, ('"talker_mtp")', '"mtp")'), ("self.model.talker_mtp(", "self.model.mtp("))
    assert port is not None
    (found,) = port.findings
    assert (found.rule, found.line, found.symbol) == ("v2-renamed-capability", 24, "talker_mtp")
    assert found.message.endswith("asks the model for mtp where V1 asks for talker_mtp; silently skipped: TalkerA")
    assert port.skipped == {"talker_mtp": ("TalkerA",)}
    assert next(hook.status for hook in port.hooks if hook.hook == "talker-mtp") == "different"


def test_a_new_name_beside_the_old_one_is_no_renaming(tree: Tree) -> None:
    old = '        if getattr(self.model, "has_preprocess"'
    assert faults(tree, (old, '        if hasattr(self.model, "mtp"):\n            pass\n' + old)) == []


def test_a_renamed_capability_that_every_model_has_is_no_fault(tree: Tree) -> None:
    models = MODELS.replace("    def get_mrope", "    mtp = talker_mtp\n\n    def get_mrope", 1)
    change = (('"talker_mtp")', '"mtp")'), ("self.model.talker_mtp(", "self.model.mtp("))
    assert [rule for rule, _, _ in faults(tree, *change, model_executor__models__talkers=models)] == []


def test_prompt_embeddings_that_are_kept_and_never_laid_over(tree: Tree) -> None:
    assert faults(tree, ("embeds[:num_tokens].copy_(self.payloads[req_id].prompt_embeds)", "pass")) == [
        ("v2-no-overlay", "worker_v2/state.py", 8)
    ]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('{"use_audio_in_video": 2}', "V2 gives none of them; TalkerA requires image_grid_thw"),
        ('{"image_grid_thw": 1}', "V2 gives none of them; TalkerB goes without use_audio_in_video"),
    ],
)
def test_mrope_metadata_that_v2_never_names(tree: Tree, keys: str, message: str) -> None:
    port = port_of(tree, ('{"image_grid_thw": 1, "use_audio_in_video": 2}', keys))
    assert port is not None
    (found,) = port.findings
    assert (found.rule, found.line, found.symbol) == ("v2-mrope-kwargs", 10, "OmniState.add_request")
    assert found.message.endswith(message)
    assert found.severity.value == ("error" if "requires" in message else "warning")


@pytest.mark.parametrize(
    "test",
    [
        "num_tokens == 1 and hasattr(",
        "hasattr(self, 'x') and num_tokens == 1 and hasattr(",
        "int(input_batch.num_scheduled_tokens[i]) == 1 and hasattr(",
        "not num_tokens > 1 and hasattr(",
    ],
)
def test_a_phase_by_the_length_of_a_span(tree: Tree, test: str) -> None:
    assert faults(tree, ("num_tokens == 1 and not is_prefill and hasattr(", test)) == [
        ("v2-phase-by-length", "worker_v2/state.py", 24)
    ]


@pytest.mark.parametrize(
    "test",
    [
        "not is_prefill and num_tokens == 1 and hasattr(",
        "num_tokens == 1 and req_states.computed[i] >= req_states.prompt_len[i] and hasattr(",
        "len(self.rows) == 1 and hasattr(",
        "num_tokens == 2 and hasattr(",
    ],
)
def test_a_length_beside_a_test_of_the_phase_is_none(tree: Tree, test: str) -> None:
    assert faults(tree, ("num_tokens == 1 and not is_prefill and hasattr(", test)) == []


def test_a_keyword_that_the_forward_misses(tree: Tree) -> None:
    port = port_of(tree, (', "request_token_spans": self.spans', ""))
    assert port is not None
    assert [(found.rule, found.symbol, found.line) for found in port.findings] == [
        ("v2-forward-kwargs", "request_token_spans", 16)
    ]


def test_a_keyword_for_something_else_than_the_forward_is_missing_too(tree: Tree) -> None:
    elsewhere = '    def other(self):\n        return {"request_token_spans": 1}\n\n    def finish('
    changes = ((', "request_token_spans": self.spans', ""), ("    def finish(", elsewhere))
    port = port_of(tree, *changes)
    assert port is not None
    assert [found.symbol for found in port.findings] == ["request_token_spans"]
    assert next(hook.status for hook in port.hooks if hook.hook == "request-token-spans") == "different"


def test_payloads_dropped_where_preempted_requests_are_removed(tree: Tree) -> None:
    removing = "    def remove_request(self, req_id):\n        self.payloads.drop(req_id)\n\n    def finish("
    assert faults(tree, ("    def finish(", removing)) == [("v2-lost-on-preemption", "worker_v2/state.py", 12)]


def test_a_removal_that_leaves_the_payload_is_no_fault(tree: Tree) -> None:
    removing = "    def remove_request(self, req_id):\n        self.slots.pop(req_id)\n\n    def finish("
    assert faults(tree, ("    def finish(", removing)) == []


def test_refusals_in_the_runner_the_worker_and_the_configuration(tree: Tree) -> None:
    refusing = """    def check(self, config):
        if config.pipeline_parallel_size > 1:
            raise NotImplementedError("pipeline parallelism")

    def execute_model("""
    worker = """
class XPUWorker:
    def init_device(self):
        if self.use_v2_model_runner:
            self.use_v2_model_runner = False
"""
    config = """
def check(runner, platform):
    if runner == "v2" and platform == "npu":
        raise NotImplementedError(platform)
    if platform == "tpu":
        raise NotImplementedError(platform)
"""
    found = faults(tree, ("    def execute_model(", refusing), worker__xpu_worker=worker, config=config)
    assert found == [
        ("v2-refused", "config.py", 4),
        ("v2-refused", "worker/xpu_worker.py", 5),
        ("v2-refused", "worker_v2/runner.py", 9),
    ]


def test_a_step_that_repeats_vllms(tree: Tree) -> None:
    long = "        self.step()\n" * 41 + "        return None"
    own = "        return super().execute_model(scheduler_output, *args, **kwargs)"
    assert faults(tree, (own, long)) == [("v2-forked-method", "worker_v2/runner.py", 7)]
    assert faults(tree, (own, long + "\n" + own)) == []


def test_a_hook_without_counterpart(tree: Tree) -> None:
    port = port_of(
        tree,
        ('        if getattr(self.model, "has_preprocess", False):\n            self.model.preprocess(inputs)\n', ""),
    )
    assert port is not None
    (found,) = port.findings
    assert (found.rule, found.symbol) == ("v2-hook-missing", "OmniState")
    assert found.message == "has_preprocess / has_postprocess has no counterpart on V2"
    assert next(hook for hook in port.hooks if hook.hook == "preprocess-postprocess").status == "missing"


def test_our_own_port_has_no_fault() -> None:
    modules = Modules(Workspace(Path(__file__).parents[2]))
    runners = find_runners(modules, "vllm_omni", upstream_runners())
    port = find_v2_port(modules, hooks(), "vllm_omni", runners)
    assert port is not None
    assert port.findings == ()
    assert {hook.status for hook in port.hooks} == {"ported"}
