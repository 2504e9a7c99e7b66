"""Claims about extension points, on a small vLLM of our own: each holds, and each way to break one is noticed."""

import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omni_migrate.facts.extension_points import CLAIM_KINDS, Proof, open_vllm, proof_findings, prove
from omni_migrate.knowledge import Claim, ExtensionPoint, HookSpec, hooks

Tree = Callable[..., Path]

STATE = """
from abc import ABC
class ModelState(ABC):
    def add_request(self, req_index, new_req_data):
        return None
    def prepare_inputs(self, input_batch, req_states):
        raise NotImplementedError
class DefaultState(ModelState):
    def add_request(self, req_index, new_req_data):
        model.positions_of(new_req_data.tokens, new_req_data.features)
"""
RUNNER = """
from typing import NamedTuple
from vllm.v1.worker.gpu.state import ModelState
class StepState(NamedTuple):
    hidden_states: int
    input_batch: int
class Runner:
    def load_model(self, load_dummy_weights=False, *args, **kwargs):
        self.model = object()
        self.model_state: ModelState = ModelState()
    def add_requests(self, scheduler_output):
        for data in scheduler_output.scheduled_new_reqs:
            self.model_state.add_request(0, data)
    def execute_model(self, scheduler_output, tensors=None, dummy_run=False):
        self.add_requests(scheduler_output)
        inputs = {
            "input_ids": 1,
            "inputs_embeds": None,
            **self.model_state.prepare_inputs(1, 2),
        }
        self.execute_model_state = StepState(self.model(**inputs), 1)
"""

STATE_NAME, RUNNER_NAME = "vllm.v1.worker.gpu.state", "vllm.v1.worker.gpu.runner"


def spec(*points: tuple[str, list[Claim]], versions: str = ">=1") -> HookSpec:
    extension = tuple(ExtensionPoint(symbol, versions, "", tuple(claims)) for symbol, claims in points)
    return HookSpec("hook", "hook", "", "adapt", "low", "P0", 3, {}, extension)


EVERY = spec(
    (
        f"{STATE_NAME}.ModelState.prepare_inputs",
        [
            Claim("accepts", ("input_batch", "req_states")),
            Claim("result_overrides", f"{RUNNER_NAME}.Runner.execute_model", ("input_ids", "inputs_embeds")),
        ],
    ),
    (
        f"{STATE_NAME}.ModelState.add_request",
        [Claim("called_in", f"{RUNNER_NAME}.Runner.add_requests", on="model_state")],
    ),
    (
        f"{STATE_NAME}.DefaultState.add_request",
        [Claim("calls_with", {"name": "positions_of", "arguments": 2})],
    ),
    (f"{STATE_NAME}.DefaultState", [Claim("extends", f"{STATE_NAME}.ModelState")]),
    (
        f"{RUNNER_NAME}.Runner.execute_model",
        [
            Claim("accepts", ("scheduler_output",)),
            Claim("accepts_keywords", ("dummy_run",)),
            Claim("order", ("add_requests", "prepare_inputs")),
        ],
    ),
    (f"{RUNNER_NAME}.Runner.load_model", [Claim("accepts", ()), Claim("assigns", ("model", "model_state"))]),
    (f"{RUNNER_NAME}.StepState", [Claim("fields", ("hidden_states", "input_batch"))]),
    (f"{RUNNER_NAME}.Runner.add_requests", [Claim("mentions", ("scheduled_new_reqs",))]),
)


def proofs(tree: Tree, *changes: tuple[str, str], of: HookSpec = EVERY, version: str = "1.0") -> list[Proof]:
    state, runner = STATE, RUNNER
    for old, new in changes:
        assert old in state or old in runner
        state, runner = state.replace(old, new), runner.replace(old, new)
    folder = "vllm/v1/worker/gpu"
    root = tree(files={"vllm/__init__.py": "", f"{folder}/state.py": state, f"{folder}/runner.py": runner})
    return prove([of], open_vllm(root, version))


def broken(found: list[Proof]) -> list[tuple[str, str, str]]:
    return [(proof.claim, proof.found, proof.nearest) for proof in found if not proof.holds]


def test_every_claim_holds_and_says_where(tree: Tree) -> None:
    found = proofs(tree)
    assert broken(found) == []
    override = next(proof for proof in found if "goes over" in proof.claim)
    assert (override.path, override.line, override.found) == (
        "vllm/v1/worker/gpu/runner.py",
        19,
        "goes over input_ids, inputs_embeds",
    )
    assert override.claim == "its result goes over input_ids, inputs_embeds in Runner.execute_model"


def test_the_data_uses_known_kinds_only_and_this_test_has_them_all() -> None:
    used = {claim.kind for hook in hooks() for point in hook.points for claim in point.claims}
    assert used == set(CLAIM_KINDS) == {claim.kind for point in EVERY.points for claim in point.claims}


@pytest.mark.parametrize(
    ("old", "new", "claim", "found", "nearest"),
    [
        (
            "def prepare_inputs(self, input_batch",
            "def prepare_input(self, input_batch",
            "exists",
            "ModelState has no prepare_inputs",
            f"{STATE_NAME}.ModelState.prepare_input",
        ),
        (
            "def prepare_inputs(self, input_batch",
            "def build(self, input_batch",
            "exists",
            "ModelState has no prepare_inputs",
            f"{STATE_NAME}.ModelState.build",  # by its parameters
        ),
        (
            "input_batch, req_states)",
            "input_batch, req_states, loras)",
            "accepts input_batch, req_states",
            "also requires loras: input_batch, req_states, loras",
            "",
        ),
        (
            "input_batch, req_states)",
            "input_batch, states)",
            "accepts input_batch, req_states",
            "takes input_batch, states",
            "states",
        ),
        (
            "def load_model(self, load",
            "def load_model(self, device, load",
            "accepts no argument",
            "also requires device: device, load_dummy_weights=False, *args, **kwargs",
            "",
        ),
        (
            "dummy_run=False",
            "dummy=False",
            "accepts dummy_run by name",
            "has no dummy_run: scheduler_output, tensors=None, dummy=False",
            "dummy",
        ),
        (
            "self.model_state.add_request(0, data)",
            "self.model_state.add_requested(0, data)",
            "is called in Runner.add_requests",
            "add_requests doesn't call model_state.add_request",
            "add_requested",
        ),
        (
            "self.model_state.add_request(0, data)",
            "self.other_state.add_request(0, data)",
            "is called in Runner.add_requests",
            "add_requests doesn't call model_state.add_request",
            "",
        ),
        (
            '            "inputs_embeds": None,\n            **self.model_state.prepare_inputs(1, 2),\n',
            '            **self.model_state.prepare_inputs(1, 2),\n            "inputs_embeds": None,\n',
            "its result goes over input_ids, inputs_embeds in Runner.execute_model",
            "inputs_embeds goes over it",
            "",
        ),
        (
            '            "inputs_embeds": None,\n',
            "",
            "its result goes over input_ids, inputs_embeds in Runner.execute_model",
            "no inputs_embeds below it",
            "",
        ),
        (
            "            **self.model_state.prepare_inputs(1, 2),\n",
            "",
            "its result goes over input_ids, inputs_embeds in Runner.execute_model",
            "execute_model puts the result of prepare_inputs into no dictionary",
            "",
        ),
        (
            "positions_of(new_req_data.tokens, new_req_data.features)",
            "positions_of(new_req_data.tokens)",
            "calls positions_of with 2 arguments",
            "positions_of gets 1 arguments, not 2",
            "",
        ),
        (
            "DefaultState(ModelState)",
            "DefaultState(ABC)",
            "extends ModelState",
            "extends abc.ABC",
            "",
        ),
        (
            "    hidden_states: int\n",
            "    hidden: int\n",
            "has hidden_states, input_batch",
            "has no hidden_states",
            "hidden",
        ),
        (
            "self.model_state: ModelState =",
            "self.state =",
            "assigns model, model_state",
            "doesn't assign model_state",
            "state",
        ),
        (
            "scheduled_new_reqs",
            "new_requests",
            "names scheduled_new_reqs",
            "doesn't name scheduled_new_reqs",
            "",
        ),
    ],
)
def test_a_change_is_noticed(tree: Tree, old: str, new: str, claim: str, found: str, nearest: str) -> None:
    assert (claim, found, nearest) in broken(proofs(tree, (old, new)))


def test_calls_in_another_order_are_noticed(tree: Tree) -> None:
    first = "        self.add_requests(scheduler_output)\n"
    last = "        self.execute_model_state ="
    assert [claim for claim, _, _ in broken(proofs(tree, (first, ""), (last, first + last)))] == [
        "calls add_requests before prepare_inputs"
    ]


def test_a_class_in_another_module_is_the_nearest(tree: Tree) -> None:
    moved = spec((f"{RUNNER_NAME}.ModelState.add_request", []))
    assert broken(proofs(tree, ("from vllm.v1.worker.gpu.state import ModelState", ""), of=moved)) == [
        ("exists", f"{RUNNER_NAME} has no ModelState", f"{STATE_NAME}.ModelState.add_request")
    ]


def test_a_method_may_be_inherited_and_a_class_imported(tree: Tree) -> None:
    through = spec((f"{RUNNER_NAME}.ModelState.add_request", []), (f"{STATE_NAME}.DefaultState.prepare_inputs", []))
    assert [proof.path for proof in proofs(tree, of=through)] == ["vllm/v1/worker/gpu/state.py"] * 2


def test_a_broken_claim_is_an_error_unless_another_point_serves(tree: Tree) -> None:
    point = ExtensionPoint(f"{RUNNER_NAME}.Runner.load_model", ">=1", "", (Claim("assigns", ("model_stat",)),))
    later = ExtensionPoint("vllm.v1.worker.gpu.graphs.Graphs.capture", ">=2", "", ())
    both = HookSpec("hook", "hook", "", "adapt", "low", "P0", 3, {}, (point, later))
    wrong, unused = proof_findings(proofs(tree, of=both))
    assert (wrong.severity.value, wrong.path, wrong.line) == ("error", "vllm/v1/worker/gpu/runner.py", 8)
    assert (wrong.message, wrong.hint) == (
        "assigns model_stat: doesn't assign model_stat (hook hook)",
        "nearest: model_state",
    )
    assert (unused.severity.value, unused.path, unused.line) == ("note", "vllm/v1/worker/gpu/graphs.py", 0)
    # a version that the map doesn't cover: nothing serves the hook
    old, _ = proof_findings(proofs(tree, of=both, version="0.9"))
    assert old.severity.value == "error"


@settings(deadline=None)  # it writes a file and a loaded machine may be slow
@given(st.data())
def test_accepts_agrees_with_python(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6))
    split = data.draw(st.integers(0, len(names)))
    first_default = data.draw(st.integers(0, split))
    positional = [f"{name}=0" if index >= first_default else name for index, name in enumerate(names[:split])]
    keyword = [f"{name}=0" if data.draw(st.booleans()) else name for name in names[split:]]
    star = [data.draw(st.sampled_from(["*args", "*"]))] if keyword else data.draw(st.sampled_from([[], ["*args"]]))
    more = data.draw(st.sampled_from([[], ["**kwargs"]]))
    text = f"def f({', '.join([*positional, *star, *keyword, *more])}): pass\n"
    given_names = data.draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=6))
    space: dict[str, Any] = {}
    exec(text, space)
    try:
        inspect.signature(space["f"]).bind(*given_names)
        fits = given_names[:split] == names[: min(split, len(given_names))]
    except TypeError:
        fits = False
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vllm").mkdir()
        (Path(folder) / "vllm" / "a.py").write_text(text)
        _, proof = prove([spec(("vllm.a.f", [Claim("accepts", tuple(given_names))]))], open_vllm(Path(folder), "1.0"))
    assert proof.holds == fits


def test_a_point_of_later_versions_is_not_relied_on(tree: Tree) -> None:
    later = spec((f"{RUNNER_NAME}.Runner.capture", []), versions=">=2")
    (proof,) = proofs(tree, of=later)
    assert (proof.holds, proof.relied_on) == (False, False)
    (proof,) = proofs(tree, of=later, version="2.0rc1")
    assert proof.relied_on is False
    (proof,) = proofs(tree, of=later, version="2.1")
    assert (proof.holds, proof.relied_on) == (False, True)
