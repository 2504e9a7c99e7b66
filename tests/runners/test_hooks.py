"""The hooks of a step with a fake model: routing, MTP, overlay, preemption, outputs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_models import Batched, BatchedNoMtp, Quiet, Talker
from fakes import HIDDEN, new_request, scheduler_output

from vllm_omni.engine.payloads import PromptEmbedsPayload, serialize_additional_information, to_extra_args
from vllm_omni.worker.model_errors import ModelMethodError


def step(hooks, rows, new=(), ids=None, **scheduled):
    """One step: `rows` are `(request, span, computed, prompt length)`; the ids default to 10, 11, …"""
    output = scheduler_output(new=new, **scheduled)
    hooks.begin_step(output)
    hooks.on_new_requests(output)
    req_ids, spans, computed, prompts = zip(*rows, strict=True)
    hooks.host.set_rows(list(req_ids), spans, computed, prompts)
    n = sum(spans)
    ids = torch.arange(10, 10 + n) if ids is None else torch.tensor(ids)
    embeds, extra = hooks.prepare_prefill_embeds(ids, None), {}
    if hooks.traits.has_preprocess:
        extra = hooks.inputs.preprocess(ids, embeds, np.array(spans))
    hooks.outputs.begin_forward()
    kwargs = hooks.build_extra_kwargs() | extra
    fed = embeds[:n].clone() if embeds is not None else None
    hidden = model_of(hooks).forward(input_ids=ids, positions=torch.arange(n), inputs_embeds=embeds, **kwargs)
    hooks.process_model_output(hidden)
    return SimpleNamespace(ids=ids, fed=fed, hidden=hidden, kwargs=kwargs)


def model_of(hooks):
    return hooks.host.stage.model


def prefill(hooks, *requests, prompt=4):
    """Prefill new requests in one step, so that the next step decodes."""
    step(hooks, [(r, prompt, 0, prompt) for r in requests], new=[new_request(r, prompt) for r in requests])


def test_a_tail_of_one_token_is_prefill_and_no_mtp_row(make_hooks):
    hooks = make_hooks(Talker())
    step(hooks, [("a", 4, 0, 5)], new=[new_request("a", 5)])
    done = step(hooks, [("a", 1, 4, 5)], ids=[14])
    assert model_of(hooks).mtp_ids == []
    assert done.fed[:, 0].tolist() == [14]
    assert [(c["_omni_num_computed_tokens"], c["_omni_is_prefill"]) for c in model_of(hooks).calls] == [
        (0, True),
        (4, True),
    ]


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_mixed_batches_in_any_order_give_each_decode_row_its_own_mtp_embedding(make_hooks, order):
    hooks = make_hooks(Talker())
    prefill(hooks, "a", "b")
    spans = {"a": (1, 4, 4), "b": (1, 4, 4), "c": (3, 0, 3)}
    done = step(hooks, [(r, *spans[r]) for r in order], new=[new_request("c", 3)])
    start = 0
    for req_id in order:
        n = spans[req_id][0]
        expected = [10 + start + i + (0 if req_id == "c" else 100) for i in range(n)]
        assert done.fed[start : start + n, 0].tolist() == expected
        start += n
    for req_id in ("a", "b"):
        row = order.index(req_id)
        first = 10 + sum(spans[r][0] for r in order[:row])
        assert hooks.store[req_id].info["codes"]["audio"].tolist() == [[first, first + 1, first + 2]]
    assert "codes" not in hooks.store["c"].info


@pytest.mark.parametrize("model", [Batched, BatchedNoMtp])
def test_decode_rows_are_batched_and_prefill_rows_are_not(make_hooks, model):
    hooks = make_hooks(model())
    prefill(hooks, "a", "b", "d")
    rows = [("a", 1, 4, 4), ("b", 1, 4, 4), ("c", 1, 0, 1), ("d", 1, 4, 4)]
    done = step(hooks, rows, new=[new_request("c", 1)])
    assert model_of(hooks).batches == [["a", "b"], ["d"]]
    assert model_of(hooks).phases == [False]
    added = 100 if model is Batched else 0
    assert done.fed[:, 0].tolist() == [10 + added, 11 + added, 12, 13 + added]
    assert model_of(hooks).calls[-1]["request_id"] == "c"


def test_a_decode_span_of_two_is_neither_batched_nor_mtp(make_hooks):
    hooks = make_hooks(Batched())
    prefill(hooks, "a")
    step(hooks, [("a", 2, 4, 4)])
    assert model_of(hooks).mtp_ids == [] and not hasattr(model_of(hooks), "batches")
    assert model_of(hooks).calls[-1]["_omni_is_prefill"] is False


def test_a_position_whose_draft_was_rejected_is_prepared_anew(make_hooks):
    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    step(hooks, [("a", 3, 4, 4)], ids=[50, 51, 52], drafts={"a": [51, 52]})
    done = step(hooks, [("a", 1, 5, 4)], ids=[61])
    assert [call["ids"] for call in model_of(hooks).calls[1:]] == [[50, 51, 52], [61]]
    assert done.fed[:, 0].tolist() == [161]
    output = hooks.get_model_runner_output("base", done.hidden)
    assert output["multimodal_outputs"][0]["hidden"].shape == (1, HIDDEN)
    again = step(hooks, [("a", 6, 0, 4)], ids=[10, 11, 12, 13, 50, 61], preempted=["a"], resumed=["a"])
    assert again.fed[:, 0].tolist() == [10, 11, 12, 13, 50, 161]


def test_what_a_draft_was_fed_is_not_fed_again_after_a_preemption(make_hooks):
    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    step(hooks, [("a", 3, 4, 4)], ids=[50, 51, 52], drafts={"a": [51, 52]})
    again = step(hooks, [("a", 6, 0, 4)], ids=[10, 11, 12, 13, 50, 61], preempted=["a"], resumed=["a"])
    assert model_of(hooks).calls[-1]["ids"] == [61]
    assert again.fed[:, 0].tolist() == [10, 11, 12, 13, 50, 161]


def test_what_would_go_wrong_in_silence_is_refused_by_name(make_hooks):
    with pytest.raises(ValueError, match="Talker has a talker MTP, whose feedback cannot cross pipeline ranks"):
        make_hooks(Talker(), parallel_config=SimpleNamespace(pipeline_parallel_size=2))
    with pytest.raises(ValueError, match="Talker has preprocess or outputs per token, which V2 does not support"):
        make_hooks(Talker(), speculative_config=object(), v2=True)
    make_hooks(Talker(), speculative_config=object())
    make_hooks(Quiet(), speculative_config=object(), v2=True, parallel_config=SimpleNamespace(pipeline_parallel_size=2))


def test_stale_phase_keys_of_a_payload_do_not_reach_the_model(make_hooks):
    hooks = make_hooks(Talker())
    stale = {"_omni_is_prefill": False, "_omni_prompt_len": 0, "_omni_num_computed_tokens": 77}
    step(hooks, [("a", 4, 0, 5)], new=[new_request("a", 5, stale)])
    call = model_of(hooks).calls[0]
    assert (call["_omni_is_prefill"], call["_omni_prompt_len"], call["_omni_num_computed_tokens"]) == (True, 5, 0)


def test_a_one_token_replay_past_the_prompt_reaches_no_model_method(make_hooks):
    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    fed = [step(hooks, [("a", 1, 4 + i, 4)], ids=[50 + i]).fed for i in range(3)]
    calls, mtp = len(model_of(hooks).calls), len(model_of(hooks).mtp_ids)
    codes = hooks.store["a"].info["codes"]["audio"].tolist()
    step(hooks, [("a", 4, 0, 4)], preempted=["a"], resumed=["a"])
    for i in range(3):
        done = step(hooks, [("a", 1, 4 + i, 4)], ids=[50 + i])
        assert torch.equal(done.fed, fed[i])
    assert (len(model_of(hooks).calls), len(model_of(hooks).mtp_ids)) == (calls, mtp)
    assert hooks.store["a"].info["codes"]["audio"].tolist() == codes
    step(hooks, [("a", 1, 7, 4)], ids=[53])
    assert model_of(hooks).mtp_ids[-1] == [53]


def test_a_replay_that_ends_in_a_new_token_decodes_that_one(make_hooks):
    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    fed = [step(hooks, [("a", 1, 4 + i, 4)], ids=[50 + i]).fed for i in range(2)]
    done = step(hooks, [("a", 7, 0, 4)], ids=[10, 11, 12, 13, 50, 51, 52], preempted=["a"], resumed=["a"])
    assert done.fed[:, 0].tolist() == [10, 11, 12, 13, *(f[0, 0].item() for f in fed), 152]
    assert model_of(hooks).calls[-1]["_omni_num_computed_tokens"] == 6
    assert model_of(hooks).postprocessed == [4, 1, 1, 1]
    output = hooks.get_model_runner_output(AsyncBase(["a"]), done.hidden).get_output()
    assert output["multimodal_outputs"][0]["hidden"].shape == (1, HIDDEN)


def test_positions_that_a_prefix_cache_had_spared_are_prepared_without_touching_the_payload(make_hooks):
    hooks = make_hooks(Talker())
    step(hooks, [("a", 2, 2, 4)], new=[new_request("a", 4)], ids=[12, 13])
    meta = dict(hooks.store["a"].info["meta"])
    done = step(hooks, [("a", 4, 0, 4)], ids=[10, 11, 12, 13], preempted=["a"], resumed=["a"])
    assert done.fed[:, 0].tolist() == [10, 11, 12, 13]
    assert hooks.store["a"].info["meta"] == meta
    assert [c["ids"] for c in model_of(hooks).calls] == [[12, 13], [10, 11]]


def test_v2_sends_a_preempted_request_again_and_its_payload_is_ignored(make_hooks):
    hooks = make_hooks(Talker())
    step(hooks, [("a", 4, 0, 4)], new=[new_request("a", 4, {"n": 1})])
    hooks.store.merge("a", {"n": 2})
    step(hooks, [("a", 4, 0, 4)], new=[new_request("a", 4, {"n": 1})], preempted=["a"])
    assert hooks.store["a"].info["n"] == 2


def test_a_streaming_update_merges_and_says_so(make_hooks):
    hooks = make_hooks(Talker())
    step(hooks, [("a", 4, 0, 4)], new=[new_request("a", 4, {"n": 1, "keep": 1})])
    step(hooks, [("a", 2, 4, 6)], new=[new_request("a", 6, {"n": 2})])
    info = hooks.store["a"].info
    assert (info["n"], info["keep"], info["meta"]["num_processed_tokens"], info["meta"]["resumable"]) == (2, 1, 0, True)


def test_updates_of_running_requests_merge_or_replace(make_hooks):
    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    step(hooks, [("a", 1, 4, 4)], cached={"a": {"chunk": 1}})
    assert hooks.store["a"].info["chunk"] == 1 and "request_id" in hooks.store["a"].info
    model = Talker()
    model.replace_runtime_additional_information = True
    hooks = make_hooks(model)
    prefill(hooks, "a")
    hooks.on_new_requests(scheduler_output(cached={"a": {"chunk": 2}}))
    assert hooks.store["a"].info["chunk"] == 2 and "request_id" not in hooks.store["a"].info


def test_prompt_embeddings_lie_over_the_chunk_that_is_prefilled(make_hooks):
    embeds = torch.arange(5.0)[:, None].expand(5, HIDDEN)
    request = new_request("a", 5, sampling_params=SimpleNamespace(extra_args=to_extra_args(None, embeds)))
    hooks = make_hooks(Quiet())
    assert step(hooks, [("a", 3, 0, 5)], new=[request]).fed[:, 0].tolist() == [0, 1, 2]
    assert step(hooks, [("b", 1, 0, 1), ("a", 2, 3, 5)], new=[new_request("b", 1)]).fed[:, 0].tolist() == [10, 3, 4]
    assert step(hooks, [("a", 1, 5, 5)]).fed is None


def test_prompt_embeddings_of_the_wrong_shape_name_the_request(make_hooks):
    request = new_request("a", 5, prompt_embeds=torch.zeros(3, HIDDEN))
    with pytest.raises(ValueError, match=r"request a: prompt embeddings of shape \[3, 4\] for a prompt of 5 tokens"):
        step(make_hooks(Talker()), [("a", 5, 0, 5)], new=[request])


def test_a_payload_that_cannot_be_decoded_names_the_request_and_the_key(make_hooks):
    broken = PromptEmbedsPayload(data=b"123", shape=[1, HIDDEN], dtype="float32")
    hooks = make_hooks(Talker())
    with pytest.raises(ValueError, match="request a: payload 'prompt_embeds': 3 bytes do not make a float32 tensor"):
        hooks.on_new_requests(scheduler_output(new=[new_request("a", prompt_embeds=broken)]))


def test_a_serialised_payload_arrives_as_it_was_sent(make_hooks):
    info = {
        "text": {"states": torch.arange(6.0).reshape(2, 3)},
        "ids": [1, 2],
        "speed": 1.5,
        "half": torch.ones(2).bfloat16(),
    }
    hooks = make_hooks(Talker())
    hooks.on_new_requests(scheduler_output(new=[new_request("a", info=serialize_additional_information(info))]))
    got = hooks.store["a"].info
    assert torch.equal(got["text"]["states"], info["text"]["states"]) and torch.equal(got["half"], info["half"])
    assert (got["ids"], got["speed"]) == ([1, 2], 1.5)


def test_generated_len_counts_the_tokens_sampled_so_far_also_in_a_replay(make_hooks):
    hooks = make_hooks(Talker())
    assert info_len(step(hooks, [("a", 4, 0, 4)], new=[new_request("a", 4)])) == 0
    assert info_len(step(hooks, [("a", 1, 4, 4)])) == 1
    assert info_len(step(hooks, [("a", 1, 5, 4)])) == 2
    assert info_len(step(hooks, [("a", 3, 0, 4)], preempted=["a"], resumed=["a"])) == 3
    assert info_len(step(hooks, [("a", 4, 3, 4)])) == 3


def info_len(done):
    return done.kwargs["runtime_additional_information"][0]["generated_len"]


class AsyncBase:
    """vLLM's asynchronous output, with a plain dict in place of the output itself."""

    def __init__(self, req_ids):
        self.req_ids = req_ids

    def get_output(self):
        return self.req_ids


@pytest.fixture(autouse=True)
def outputs_without_vllm(monkeypatch):
    """The two places where an output of vLLM's own class is built."""
    import sys

    from vllm_omni.worker import binding

    monkeypatch.setattr(binding, "runner_output", lambda base, **fields: {"base": base, **fields})
    fake = SimpleNamespace(AsyncModelRunnerOutput=object)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(v1=SimpleNamespace(outputs=fake)))
    monkeypatch.setitem(sys.modules, "vllm.v1", SimpleNamespace(outputs=fake))
    monkeypatch.setitem(sys.modules, "vllm.v1.outputs", fake)


def test_each_request_gets_its_own_part_of_the_output_in_storage_of_its_own(make_hooks):
    hooks = make_hooks(Talker())
    done = step(hooks, [("a", 2, 0, 2), ("b", 3, 0, 3)], new=[new_request("a", 2), new_request("b", 3)])
    output = hooks.get_model_runner_output("base", done.hidden)
    one, two = output["multimodal_outputs"]
    assert one["probe"].flatten().tolist() == [10, 11] and two["probe"].flatten().tolist() == [12, 13, 14]
    assert one["hidden"].untyped_storage().nbytes() == 2 * HIDDEN * 4
    done.hidden.zero_()
    assert two["hidden"][0, 0].item() == 12.5


def test_an_asynchronous_output_is_a_copy_made_before_the_next_step(make_hooks):
    hooks = make_hooks(Talker())
    done = step(hooks, [("a", 2, 0, 2)], new=[new_request("a", 2)])
    pending = hooks.get_model_runner_output(AsyncBase(["a"]), done.hidden)
    done.hidden.zero_()
    step(hooks, [("a", 1, 2, 2)])
    assert pending.get_output()["multimodal_outputs"][0]["hidden"][:, 0].tolist() == [10.5, 11.5]


def test_a_request_whose_tokens_are_all_replayed_puts_nothing_out_again(make_hooks):
    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    done = step(hooks, [("a", 3, 0, 4)], preempted=["a"], resumed=["a"])
    assert hooks.get_model_runner_output("base", done.hidden)["multimodal_outputs"] == [{}]


def test_a_model_without_methods_costs_nothing_and_gets_vllms_own_output(make_hooks):
    model = Quiet()
    hooks = make_hooks(model)
    assert not hooks.needs_rows and "forward" not in vars(model)
    hooks.begin_step(scheduler_output())
    assert hooks.get_model_runner_output("base", torch.ones(1, HIDDEN)) == "base"


def test_kv_blocks_are_read_before_the_step_and_named_on_its_output_also_when_idle(make_hooks):
    from vllm_omni.worker.kv_transfer import InMemoryKVTransfer

    transfer = InMemoryKVTransfer()
    hooks = make_hooks(Quiet(), kv_transfer=transfer)
    output = scheduler_output()
    output.finished_requests_needing_kv_transfer = {"a": {"block_ids": [3, 1]}}
    cache = torch.arange(4.0)[:, None].expand(4, 2)
    hooks.outputs.extract_kv(output, [cache])
    assert transfer.taken["a"][0][:, 0].tolist() == [3, 1]
    shared = SimpleNamespace(req_ids=[])
    assert hooks.outputs.finish_idle_step(shared)["kv_extracted_req_ids"] == ["a"]
    assert not hasattr(shared, "kv_extracted_req_ids")
    hooks.outputs.extract_kv(scheduler_output(), [cache])
    assert hooks.outputs.finish_idle_step(shared) is shared


class Raises(Talker):
    def preprocess(self, input_ids, input_embeds, **info):
        raise RuntimeError("no")


class NoMtpInputs(Talker):
    def preprocess(self, input_ids, input_embeds, **info):
        ids, embeds, update = super().preprocess(input_ids, input_embeds, **info)
        update.pop("mtp_inputs", None)
        return ids, embeds, update


class WrongWidth(Talker):
    def preprocess(self, input_ids, input_embeds, **info):
        ids, embeds, update = super().preprocess(input_ids, input_embeds, **info)
        return ids, embeds[:, :2], update


class WholeNumbers(Talker):
    def preprocess(self, input_ids, input_embeds, **info):
        ids, embeds, update = super().preprocess(input_ids, input_embeds, **info)
        return ids, embeds.long(), update


class TooFew(Talker):
    def preprocess(self, input_ids, input_embeds, **info):
        ids, embeds, update = super().preprocess(input_ids, input_embeds, **info)
        return ids, embeds[:1], update


class ThreeOfFive(Batched):
    def preprocess_decode_batch(self, **kwargs):
        return super().preprocess_decode_batch(**kwargs)[:3]


class FewerUpdates(Batched):
    def preprocess_decode_batch(self, **kwargs):
        *rest, updates = super().preprocess_decode_batch(**kwargs)
        return (*rest, updates[:-1])


class BadMtp(Talker):
    def talker_mtp(self, *args, **kwargs):
        return args[1][:0], None


class BadPost(Talker):
    def postprocess(self, hidden_states, **info):
        raise KeyError("lost")


@pytest.mark.parametrize(
    ("model", "decode", "said"),
    [
        (Raises, False, "Raises.preprocess failed for a: RuntimeError: no"),
        (NoMtpInputs, True, "NoMtpInputs.preprocess failed for a: its update has no 'mtp_inputs'"),
        (WrongWidth, False, "WrongWidth.preprocess failed for a: RuntimeError: "),
        (WholeNumbers, False, "WholeNumbers.preprocess failed for a: ValueError: embeddings are torch.int64"),
        (TooFew, False, "TooFew.preprocess failed for a: ValueError: 1 embeddings for 4 tokens"),
        (ThreeOfFive, True, "ThreeOfFive.preprocess_decode_batch failed for a, b: ValueError: 3 results, not 5"),
        (
            FewerUpdates,
            True,
            "FewerUpdates.preprocess_decode_batch failed for a, b: ValueError: results for 2, 2 and 1 of 2",
        ),
        (BadMtp, True, "BadMtp.talker_mtp failed for a, b: ValueError: 0 embeddings for 2 rows"),
        (BadPost, False, "BadPost.postprocess failed for a: KeyError: 'lost'"),
    ],
)
def test_what_a_model_method_does_wrong_names_the_model_the_method_and_the_request(make_hooks, model, decode, said):
    hooks = make_hooks(model())
    with pytest.raises(ModelMethodError) as error:
        prefill(hooks, "a", "b")
        step(hooks, [("a", 1, 4, 4), ("b", 1, 4, 4)])
    assert str(error.value).startswith(said)


def test_on_requests_finished_is_called_when_there_are_any(make_hooks):
    model = Talker()
    heard = []
    model.on_requests_finished = heard.append
    hooks = make_hooks(model)
    hooks.begin_step(scheduler_output())
    hooks.begin_step(scheduler_output(finished=["a"]))
    assert heard == [{"a"}]


def test_the_extra_kwargs_of_a_model_that_asks_for_all(make_hooks):
    model = Talker()
    model.requires_request_ids = model.supports_omni_query_start_loc = True
    model.requires_request_sample_eligibility = True
    hooks = make_hooks(model, model_config={"has_sampling_extra_args": True})
    sampling = SimpleNamespace(extra_args={"x": 1})
    new = [new_request("a", 4), new_request("b", 3, sampling_params=sampling)]
    kwargs = step(hooks, [("a", 2, 0, 4), ("b", 3, 0, 3)], new=new).kwargs
    assert kwargs["request_token_spans"] == [(0, 2), (2, 5)]
    assert kwargs["request_ids"] == ["a", "b"]
    assert kwargs["omni_query_start_loc"].tolist() == [0, 2, 5]
    assert kwargs["request_sample_eligible"] == [False, True]
    assert kwargs["sampling_extra_args"] == [{}, {"x": 1}]
    assert kwargs["model_intermediate_buffer"] is kwargs["runtime_additional_information"]


def test_a_dummy_run_takes_the_persistent_embeddings_and_runs_no_model_method(make_hooks):
    hooks = make_hooks(Talker())
    hooks.host.stage.embeds_buffer.fill_(3)
    hidden = model_of(hooks).forward(input_ids=torch.zeros(2, dtype=torch.long), positions=torch.arange(2))
    assert hidden.tolist() == [[3.5] * HIDDEN] * 2
    assert model_of(hooks).calls == []


def test_a_replayed_graph_gives_the_outputs_that_were_captured(make_hooks, monkeypatch):
    from vllm_omni.worker import graph_outputs

    hooks = make_hooks(Talker())
    step(hooks, [("a", 1, 0, 1)], new=[new_request("a", 1)])
    static = {"probe": torch.tensor([[5.0]])}
    monkeypatch.setattr(graph_outputs, "_is_capturing", lambda device: True)
    hooks.outputs.graphs.keep(torch.zeros(1, HIDDEN), static)
    hooks.begin_step(scheduler_output())
    hooks.host.set_rows(["a"], [1], [1], [1])
    hooks.outputs.begin_forward()
    hooks.process_model_output(torch.zeros(1, HIDDEN))
    assert hooks.outputs.multimodal is static


class FullGraphs:
    """A compilation config with full graphs for two batch sizes."""

    max_cudagraph_capture_size = 4
    cudagraph_capture_sizes = (2, 4)
    cudagraph_mode = SimpleNamespace(has_full_cudagraphs=lambda: True)


@pytest.fixture
def graph_wrapper(monkeypatch):
    """A platform whose graph wrapper notes what it was called with."""
    import sys

    calls = []

    def wrapper(runnable, vllm_config, runtime_mode):
        def run(*args, **kwargs):
            calls.append((runtime_mode, args[0].shape[0]))
            return runnable(*args, **kwargs)

        return run

    platform = SimpleNamespace(get_static_graph_wrapper_cls=lambda: "a.Wrapper")
    fakes = {
        "vllm.config": SimpleNamespace(CUDAGraphMode=SimpleNamespace(FULL="full")),
        "vllm.platforms": SimpleNamespace(current_platform=platform),
        "vllm.utils": SimpleNamespace(),
        "vllm.utils.import_utils": SimpleNamespace(resolve_obj_by_qualname=lambda name: wrapper),
    }
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def test_mtp_is_captured_for_every_graph_size_largest_first_and_run_padded_to_one(make_hooks, graph_wrapper):
    model = Talker()
    model.talker_mtp_graph_safe = True
    hooks = make_hooks(model, compilation_config=FullGraphs())
    hooks.capture_graphs()
    assert graph_wrapper == [("full", 4), ("full", 2)]
    prefill(hooks, "a", "b", "c")
    step(hooks, [(req_id, 1, 4, 4) for req_id in "abc"], ids=[50, 51, 52])
    assert graph_wrapper[2:] == [("full", 4)]
    assert model.mtp_ids[-1][:3] == [50, 51, 52]
    assert {req_id: hooks.store[req_id].info["codes"]["audio"].tolist() for req_id in "abc"} == {
        req_id: [[first, first + 1, first + 2]] for req_id, first in (("a", 50), ("b", 51), ("c", 52))
    }


def test_a_talker_that_is_not_safe_for_graphs_gets_none(make_hooks, graph_wrapper):
    hooks = make_hooks(Talker(), compilation_config=FullGraphs())
    hooks.capture_graphs()
    prefill(hooks, "a")
    step(hooks, [("a", 1, 4, 4)])
    (talker,) = [adapter for adapter in hooks.adapters if hasattr(adapter, "generators")]
    assert graph_wrapper == [] and len(talker.buffers[0]) == 8


def test_what_a_forward_puts_out_under_capture_is_kept_for_its_replays(make_hooks, monkeypatch):
    from vllm_omni.worker import graph_outputs

    hooks = make_hooks(Talker())
    monkeypatch.setattr(graph_outputs, "_is_capturing", lambda device: True)
    for size in (4, 2):
        model_of(hooks).forward(input_ids=torch.zeros(size, dtype=torch.long), positions=torch.arange(size))
    monkeypatch.undo()
    assert [hooks.outputs.graphs.replayed(size)["probe"].shape[0] for size in (4, 2)] == [4, 2]
    assert hooks.outputs.graphs.replayed(3) is None


def test_only_a_device_says_that_it_is_capturing(monkeypatch):
    from vllm_omni.worker.graph_outputs import _is_capturing

    assert not _is_capturing(torch.device("cpu"))
    for value in (True, False):
        module = SimpleNamespace(is_current_stream_capturing=lambda value=value: value)
        monkeypatch.setattr(torch, "get_device_module", lambda device, module=module: module)
        assert _is_capturing(torch.device("meta")) is value
    monkeypatch.setattr(torch, "get_device_module", lambda device: SimpleNamespace())
    assert not _is_capturing(torch.device("meta"))


def test_outputs_of_a_device_are_copied_on_one_stream_of_their_own(make_hooks, monkeypatch):
    from vllm_omni.worker import step_outputs as module

    streams = []
    device_module = SimpleNamespace(Stream=lambda: streams.append("stream") or streams[-1])
    monkeypatch.setattr(torch, "get_device_module", lambda device: device_module)
    monkeypatch.setattr(module, "HostCopy", lambda value, device, stream: (value, device, stream))
    outputs = make_hooks(Quiet(), device=torch.device("meta")).outputs
    assert outputs._start_copy(["a"]) == (["a"], device_module, "stream")
    assert outputs._start_copy(["b"])[2] == "stream" and streams == ["stream"]
