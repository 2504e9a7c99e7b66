"""A small vllm_omni of our own: runners, a mixin, a platform and models, over a vllm that records what it does."""

from __future__ import annotations

GPU_RUNNER = '''"""The runner that the others extend."""

from __future__ import annotations

import math as arithmetic
from typing import TYPE_CHECKING, Any

from vllm.logger import init_logger
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from vllm_omni.worker.mixin import PayloadMixin
from vllm_omni.worker.numbers import *  # noqa: F403

try:
    from vllm.absent import fast_path
except ImportError:
    fast_path = None

if TYPE_CHECKING:
    from vllm.sequence import Batch

logger = init_logger(__name__)

ROWS = 4


def _rounded(number: float) -> int:
    return arithmetic.ceil(number)


class OmniGPUModelRunner(PayloadMixin, GPUModelRunner):
    """Extends vLLM's."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.has_talker_mtp = False
        self.inputs: dict[str, Any] = {}

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        # Talkers bring a second forward pass.
        if hasattr(self.model, "talker_mtp"):
            self.has_talker_mtp = True
            # its rows
            self.talker_mtp_input_ids = [0] * ROWS
            self.talker_mtp = self.model.talker_mtp
        self.note("loaded", self.has_talker_mtp)

    def _init_mrope_positions(self, req_state: Any) -> None:
        image_grid = [feature["image_grid_thw"] for feature in req_state.features if "image_grid_thw" in feature]
        audio = [feature.get("audio_feature_lengths") for feature in req_state.features]
        self.note("mrope", image_grid, audio, supports=getattr(self.model, "supports_mrope", False))

    def _update_states(self, batch: Batch) -> None:
        for req_state in batch.requests:
            self._init_mrope_positions(req_state)
            self._maybe_attach_mimo_audio_req_infos(req_state, {}, req_state.req_id)
        # rows of which the model computed the positions itself
        if getattr(self.model, "precomputed_mrope_decode", False):
            self._fixup_precomputed_mrope_decode_positions(batch)
        self.note("updated", len(batch.requests))

    def _fixup_precomputed_mrope_decode_positions(self, batch: Batch) -> None:
        for row, req_state in enumerate(batch.requests):
            self.note("fixup", row, self.model.decode_position(req_state.req_id))

    def _maybe_attach_mimo_audio_req_infos(self, req_state: Any, req_infos: dict, req_id: str) -> dict:
        if self.model.__class__.__name__ != "MiMoAudioForConditionalGeneration":
            return req_infos
        req_infos = {**req_infos, "req_id": req_id, "rows": _rounded(req_state.size / ROWS)}
        logger.note("attached", req_infos)
        return req_infos

    def _preprocess(self, batch: Batch, embeds: Any = None) -> Any:
        total = 0
        if fast_path is not None:
            total = fast_path(batch)
        if hasattr(self.model, "has_preprocess") and self.model.has_preprocess:
            for row, req_state in enumerate(batch.requests):
                if row >= LIMIT:  # noqa: F405
                    break
                embeds = self.model.preprocess(req_state.req_id, embeds)
                total += row
        decode_req_ids = []
        for req_state in batch.requests:
            if self.has_talker_mtp and req_state.size == 1:
                self.talker_mtp_input_ids[len(decode_req_ids)] = req_state.size
                decode_req_ids.append(req_state.req_id)
        if self.has_talker_mtp and decode_req_ids:
            self._talker_mtp_forward(decode_req_ids, embeds)
        self.note("preprocessed", total, embeds)
        return embeds, total

    def _talker_mtp_forward(self, decode_req_ids: list[str], embeds: Any, *, scale: int = 1) -> Any:
        """The talker's second pass."""
        codes = self.talker_mtp(decode_req_ids, scale)
        if self._wants_history("talker_history"):
            codes = list(reversed(codes))
        self.note("talker", codes)
        return codes

    def _wants_history(self, name: str) -> bool:
        return bool(getattr(self.model, name, False))

    def extract_multimodal_outputs(self, hidden: Any) -> Any:
        if hasattr(self.model, "have_multimodal_outputs") and self.model.have_multimodal_outputs:
            return hidden[0], {"audio": hidden[1:]}
        return hidden, {}

    def _sample_kind(self) -> str:
        if getattr(self.model, "prefer_model_sampler", False):
            return "model"
        return "runner"

    def _model_forward(self, batch: Batch) -> Any:
        hidden = super()._model_forward(batch)
        text, outputs = self.extract_multimodal_outputs(hidden)
        model = self.model
        if getattr(model, "has_postprocess", False):
            # what the model makes of it
            outputs = {**outputs, **model.postprocess(text)}
        return text, outputs, self._sample_kind()

    @property
    def width(self) -> int:
        return ROWS
'''

MIXIN = '''"""What the runners share."""

from __future__ import annotations

from typing import Any


class PayloadMixin:
    def send(self, req_id: str) -> Any:
        payload = {"id": req_id}
        if getattr(self.model, "omni_payload_at_request_end", False):
            payload["end"] = self.model.omni_payload_at_request_end(req_id)
        self.note("sent", payload)
        return payload
'''

AR_RUNNER = '''"""The autoregressive runner."""

from typing import Any

from vllm.logger import init_logger

from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner

logger = init_logger(__name__)


def _rounded(number: float) -> int:
    return -1


class GPUARModelRunner(OmniGPUModelRunner):
    def execute_model(self, batch: Any) -> Any:
        self._update_states(batch)
        embeds, total = self._preprocess(batch, "e")
        flush = getattr(self.model, "flush_pending_metadata", None)
        if callable(flush):
            flush([request.req_id for request in batch.requests])
        result = self._model_forward(batch)
        if type(self.model).__name__ in ("MiMoAudioForConditionalGeneration",):
            self.note("mimo", _rounded(total))
        return [self.send(request.req_id) for request in batch.requests], embeds, result

    def _talker_mtp_forward(self, decode_req_ids: list, embeds: Any, *, scale: int = 1) -> Any:
        self.note("ar talker")
        return super()._talker_mtp_forward(decode_req_ids, embeds, scale=scale + 1)

    def shutdown(self) -> None:
        if getattr(self, "has_talker_mtp", False):
            self.talker_mtp = None
            self.has_talker_mtp = False
        self.note("down")
'''

NPU_RUNNER = '''"""The same on another platform."""

from typing import Any

from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner


class OmniNPUModelRunner(GPUARModelRunner, NPUModelRunner):
    def load_model(self, *args: Any, **kwargs: Any) -> None:
        NPUModelRunner.load_model(self, *args, **kwargs)
        # Talkers bring a second forward pass.
        if hasattr(self.model, "talker_mtp"):
            self.has_talker_mtp = True
            # twice as many as elsewhere
            self.talker_mtp_input_ids = [0] * 8
            self.talker_mtp = self.model.talker_mtp
        self.note("loaded on npu", self.has_talker_mtp)

    def _sample_kind(self) -> str:
        if getattr(self.model, "prefer_model_sampler", False):
            return "model"
        return "npu"
'''

MODELS = '''"""Models with one of the behaviors each, and one that has none."""


class Plain:
    def forward(self, batch):
        return [1, 2, 3]


class Talker(Plain):
    talker_history = True

    def talker_mtp(self, req_ids, scale):
        return [f"{req_id}*{scale}" for req_id in req_ids]


class FastTalker(Talker):
    pass


class GridModel(Plain):
    precomputed_mrope_decode = True
    supports_mrope = True

    def decode_position(self, req_id):
        return len(req_id)


class MiMoAudioForConditionalGeneration(Plain):
    has_preprocess = True

    def preprocess(self, req_id, embeds):
        return f"{embeds}+{req_id}"


class Everything(GridModel, MiMoAudioForConditionalGeneration, Talker):
    have_multimodal_outputs = True
    has_postprocess = True
    prefer_model_sampler = True

    def postprocess(self, text):
        return {"post": text}

    def omni_payload_at_request_end(self, req_id):
        return "end"

    def flush_pending_metadata(self, req_ids):
        self.flushed = req_ids


class Off(Plain):
    have_multimodal_outputs = False
    has_preprocess = False
    has_postprocess = False
'''

PROJECT_TEST = """from unittest.mock import MagicMock

from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner


def test_talker_pass_of_a_runner_that_was_never_initialized():
    runner = object.__new__(OmniGPUModelRunner)
    runner.model, runner.talker_mtp, runner.note = MagicMock(), lambda ids, scale: ids, MagicMock()
    assert runner._talker_mtp_forward(["a"], None) == ["a"]
"""

FILES = {
    "vllm_omni/__init__.py": "",
    "vllm_omni/version.py": '__version__ = "0.1"\n',
    "vllm_omni/worker/__init__.py": "",
    "vllm_omni/worker/numbers.py": "LIMIT = 2\n",
    "vllm_omni/worker/mixin.py": MIXIN,
    "vllm_omni/worker/gpu_model_runner.py": GPU_RUNNER,
    "vllm_omni/worker/gpu_ar_model_runner.py": AR_RUNNER,
    "vllm_omni/platforms/__init__.py": "",
    "vllm_omni/platforms/npu/__init__.py": "",
    "vllm_omni/platforms/npu/worker/__init__.py": "",
    "vllm_omni/platforms/npu/worker/npu_model_runner.py": NPU_RUNNER,
    "vllm_omni/model_executor/__init__.py": "",
    "vllm_omni/model_executor/models/__init__.py": "",
    "vllm_omni/model_executor/models/small.py": MODELS,
    "tests/worker/test_runner.py": PROJECT_TEST,
}
RUNNERS = {path for path in FILES if path.endswith(("_runner.py", "mixin.py")) and path.startswith("vllm_omni")}

STUBS = {
    "vllm/__init__.py": "",
    "vllm/sequence.py": "class Batch:\n    pass\n",
    "vllm/logger.py": """TRACE = []


class _Logger:
    def __init__(self, name):
        self.name = name

    def note(self, *values):
        TRACE.append(("log", *values))


def init_logger(name):
    return _Logger(name)
""",
    "vllm/v1/__init__.py": "",
    "vllm/v1/worker/__init__.py": "",
    "vllm/v1/worker/gpu_model_runner.py": """from vllm.logger import TRACE


class GPUModelRunner:
    def __init__(self, model):
        self._loads = model

    def note(self, *values, **named):
        TRACE.append((*values, named))

    def load_model(self):
        self.model = self._loads
        self.note("vllm loads")

    def _model_forward(self, batch):
        return self.unwrapped().forward(batch)

    def unwrapped(self):
        return self.model.unwrap() if hasattr(self.model, "unwrap") else self.model
""",
    "vllm_ascend/__init__.py": "",
    "vllm_ascend/worker/__init__.py": "",
    "vllm_ascend/worker/model_runner_v1.py": """from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class NPUModelRunner(GPUModelRunner):
    def load_model(self):
        self.note("ascend loads")
        self.model = self._loads
""",
}

DRIVER = '''"""Drives every runner with every model and prints what happened, as JSON."""

import json
from types import SimpleNamespace as Bag

from vllm.logger import TRACE
from vllm_omni.model_executor.models import small
from vllm_omni.platforms.npu.worker.npu_model_runner import OmniNPUModelRunner
from vllm_omni.worker.gpu_ar_model_runner import GPUARModelRunner
from vllm_omni.worker.gpu_model_runner import OmniGPUModelRunner


class Wrapped:
    def __init__(self, model):
        self._model = model

    def unwrap(self):
        return self._model

    def __getattr__(self, name):
        return getattr(self._model, name)


class Unregistered(small.Plain):
    def talker_mtp(self, req_ids, scale):
        return ["unregistered", scale]


def instance_only():
    model = small.Plain()
    model.precomputed_mrope_decode, model.decode_position = True, lambda req_id: 7
    return model


def models():
    names = "Plain", "Talker", "FastTalker", "GridModel", "MiMoAudioForConditionalGeneration", "Everything", "Off"
    for name in names:
        yield name, getattr(small, name)()
        yield f"wrapped {name}", Wrapped(getattr(small, name)())
    yield "unregistered", Unregistered()
    yield "instance only", instance_only()


def batch():
    grid = {"image_grid_thw": (1, 2, 3)}
    requests = [Bag(req_id="r1", size=1, features=[grid]), Bag(req_id="r22", size=9, features=[{}]),
                Bag(req_id="r3", size=1, features=[])]
    return Bag(requests=requests)


def plain(value):
    return json.loads(json.dumps(value, default=lambda other: type(other).__name__))


def attempt(story, name, call, *args, **kwargs):
    try:
        result = plain(call(*args, **kwargs))
    except Exception as error:
        result = [type(error).__name__, str(error)]
    story.append([name, result, plain(TRACE[:])])
    TRACE.clear()


def without_init(runner_class, model):
    runner = object.__new__(runner_class)
    runner.model = model
    if hasattr(model, "talker_mtp"):
        runner.has_talker_mtp, runner.talker_mtp, runner.talker_mtp_input_ids = True, model.talker_mtp, [0] * 9
    else:
        runner.has_talker_mtp = False
    return runner


def loaded(runner_class, model):
    runner = runner_class(model)
    runner.load_model()
    return runner


story = []
for runner_class in (OmniGPUModelRunner, GPUARModelRunner, OmniNPUModelRunner):
    for make in (loaded, without_init):
        for name, model in models():
            runner = make(runner_class, model)
            label = f"{runner_class.__name__} {make.__name__} {name}: "
            for step in ("_update_states", "_preprocess", "_model_forward", "execute_model"):
                if hasattr(runner_class, step):
                    attempt(story, label + step, getattr(runner, step), batch())
            attempt(story, label + "talker", runner._talker_mtp_forward, ["x"], None, scale=3)
            attempt(story, label + "mrope", runner._init_mrope_positions, batch().requests[0])
            attempt(story, label + "mimo", runner._maybe_attach_mimo_audio_req_infos, batch().requests[0], {}, "r")
            attempt(story, label + "extract", runner.extract_multimodal_outputs, [1, 2])
            attempt(story, label + "send", runner.send, "q")
            attempt(story, label + "shutdown", getattr(runner, "shutdown", runner.note))
            state = {key: value for key, value in vars(runner).items() if key not in ("_adapter", "model", "_loads")}
            story.append([label + "state", plain(state), None])
print(json.dumps(story))
'''
