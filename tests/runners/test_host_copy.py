"""Copies of outputs, with a fake device module in place of a GPU's; adoption; payloads; the package's independence."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
import torch

from vllm_omni.engine.payloads import (
    PayloadError,
    deserialize_additional_information,
    deserialize_prompt_embeds,
    serialize_additional_information,
    serialize_prompt_embeds,
    to_extra_args,
)
from vllm_omni.worker.adopt import adopt
from vllm_omni.worker.host_copy import HostCopy

ROOT = Path(__file__).parents[2]


class FakeDevice:
    """Records what would have happened on streams."""

    def __init__(self):
        self.log = []
        log = self.log

        class Event:
            def record(self, stream):
                log.append("record")

            def synchronize(self):
                log.append("synchronize")

        class Stream:
            def wait_stream(self, other):
                log.append(f"wait for {other}")

        self.Event, self.Stream = Event, Stream

    def current_stream(self):
        return "the main stream"

    @contextmanager
    def stream(self, stream):
        self.log.append("enter")
        yield
        self.log.append("leave")


def test_a_copy_waits_for_the_main_stream_and_blocks_only_when_it_is_wanted():
    device = FakeDevice()
    source = torch.arange(3)
    copy = HostCopy({"x": [source]}, device, device.Stream())
    assert device.log == ["enter", "wait for the main stream", "record", "leave"]
    source.zero_()
    assert copy.wait()["x"][0].tolist() == [0, 1, 2]
    assert device.log[-1] == "synchronize" and copy._source is None


class Base:
    def __init__(self):
        self.value = 1

    def name(self):
        return "base"


class Hollow:
    __slots__ = ()  # as `abc.ABC`, from which vLLM's ModelState derives


class AbstractBase(Hollow):
    def name(self):
        return "base"


class Mixin:
    def name(self):
        return f"omni {super().name()}"


class AbstractMixin(Hollow):
    def name(self):
        return f"omni {super().name()}"


@pytest.mark.parametrize(("mixin", "base"), [(Mixin, Base), (AbstractMixin, AbstractBase)])
def test_an_object_is_adopted_with_what_it_has(mixin, base):
    instance = base()
    instance.more = 2
    adopted = adopt(instance, type("Both", (mixin, base), {}))
    assert adopted is instance and adopted.name() == "omni base" and adopted.more == 2


def test_only_a_class_that_derives_from_the_objects_class_adopts_it():
    with pytest.raises(TypeError, match="Mixin does not derive from"):
        adopt(Base(), Mixin)


INFO = {"text": {"states": torch.arange(4.0).reshape(2, 2)}, "speaker": ["x"], "n": 3, "empty": torch.zeros(0, 2)}


@pytest.mark.parametrize(
    "through",
    [
        lambda p: p,
        lambda p: pickle.loads(pickle.dumps(p)),
        lambda p: msgspec.msgpack.decode(msgspec.msgpack.encode(p)),
        lambda p: msgspec.msgpack.decode(msgspec.msgpack.encode(p), type=type(p)),
    ],
)
def test_payloads_survive_serialisation_between_processes(through):
    got = deserialize_additional_information(through(serialize_additional_information(INFO)))
    assert torch.equal(got["text"]["states"], INFO["text"]["states"])
    assert (got["speaker"], got["n"], got["empty"].shape) == (["x"], 3, (0, 2))
    embeds = torch.randn(3, 2).bfloat16()
    assert torch.equal(deserialize_prompt_embeds(through(serialize_prompt_embeds(embeds))), embeds)


def test_extra_args_carry_a_payload_as_plain_values():
    extra = msgspec.msgpack.decode(msgspec.msgpack.encode(to_extra_args(INFO, torch.ones(1, 2), seed=1)))
    assert extra["seed"] == 1
    carried = extra["omni_payload"]
    assert torch.equal(deserialize_prompt_embeds(carried["prompt_embeds"]), torch.ones(1, 2))
    assert deserialize_additional_information(carried["additional_information"])["n"] == 3


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: serialize_additional_information({"a": {"b": [torch.ones(1)]}}), "payload 'a.b': a list of tensors"),
        (lambda: serialize_additional_information({"a.b": 1}), "names are strings without a dot"),
        (lambda: deserialize_additional_information(7), "payload 'additional_information': cannot decode a int"),
        (lambda: deserialize_prompt_embeds("x"), "payload 'prompt_embeds': cannot decode a str"),
        (
            lambda: deserialize_prompt_embeds({"data": b"", "shape": [1], "dtype": "float99"}),
            "'float99' is not a torch",
        ),
        (lambda: deserialize_prompt_embeds({"data": b"1", "shape": [1], "dtype": "int32"}), "1 bytes do not make"),
        (lambda: deserialize_prompt_embeds({"data": 3}), "payload 'prompt_embeds': "),
    ],
)
def test_a_broken_payload_says_which_key(call, said):
    with pytest.raises(PayloadError, match=re.escape(said)):
        call()


def test_the_runner_agnostic_modules_do_not_import_vllm():
    code = "import sys; import vllm_omni.worker.hooks; sys.exit(any(m.split('.')[0] == 'vllm' for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_nothing_outside_a_platform_names_cuda():
    found = [
        (file.name, line.strip())
        for file in (ROOT / "vllm_omni").rglob("*.py")
        if "platforms" not in file.parts
        for line in file.read_text().splitlines()
        if re.search(r"torch\.cuda\.|\.cuda\(|[\"']cuda[\"':]", line)
    ]
    assert found == []
