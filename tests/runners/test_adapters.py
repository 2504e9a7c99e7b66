"""The registry, and each adapter with a fake model."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch
from fake_models import Quiet, Talker
from fakes import new_request, scheduler_output
from test_hooks import model_of, prefill, step

from vllm_omni.worker.hook_adapters import DefaultModelRunnerAdapter, ModelAdapterRegistry
from vllm_omni.worker.hook_adapters.base import ModelRunnerAdapter

METHODS = (
    "on_model_loaded",
    "capture",
    "init_request_positions",
    "fixup_decode_positions",
    "preprocess",
    "postprocess",
    "extract_outputs",
    "enrich_request_info",
)


def names(model, **options):
    return [adapter.__name__ for adapter in ModelAdapterRegistry.adapter_classes(model, **options)]


@pytest.mark.parametrize("method", METHODS)
def test_the_protocol_has_the_methods_of_rfc_003_and_the_default_does_nothing(method):
    assert callable(getattr(ModelRunnerAdapter, method))
    default = DefaultModelRunnerAdapter()
    ids = torch.zeros(1)
    if method == "preprocess":
        assert default.preprocess(None, ids, None, None, None) == (ids, None, {})
    if method == "extract_outputs":
        assert default.extract_outputs(None, ids) == (ids, {})
        assert default.extract_outputs(None, (ids, "aux")) == (ids, {})
    if method == "enrich_request_info":
        assert default.enrich_request_info(None, "a", None, {"x": 1}) == {"x": 1}


def test_a_class_name_finds_its_adapter_also_for_a_subclass():
    base = type("MiMoAudioForConditionalGeneration", (), {})
    assert names(base()) == ["MiMoAudioAdapter"]
    assert names(type("Mine", (base,), {})()) == ["MiMoAudioAdapter"]


def test_capabilities_find_adapters_in_registration_order():
    assert names(Quiet()) == []
    assert names(Talker()) == ["ModelMethodsAdapter", "Qwen3TalkerAdapter"]
    grid = SimpleNamespace(precomputed_mrope_decode=True, get_mrope_input_positions=print, has_preprocess=False)
    assert names(grid) == ["MRopeAdapter", "GLMImageAdapter"]


def test_a_stage_may_name_its_adapters():
    assert names(Quiet(), named=["GLMImageAdapter", "ModelMethodsAdapter"]) == [
        "ModelMethodsAdapter",
        "GLMImageAdapter",
    ]
    with pytest.raises(ValueError, match="no adapter named 'Nobody' is registered; there are GLMImageAdapter, "):
        names(Quiet(), named=["Nobody"])


@pytest.fixture
def own_registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(ModelAdapterRegistry, "_names", dict(ModelAdapterRegistry._names))
    monkeypatch.setattr(ModelAdapterRegistry, "_order", list(ModelAdapterRegistry._order))


def test_an_adapter_may_be_registered_for_a_model_from_outside(own_registry):
    @ModelAdapterRegistry.register("Newcomer")
    class NewcomerAdapter(DefaultModelRunnerAdapter):
        pass

    assert names(type("Newcomer", (), {})()) == ["NewcomerAdapter"]


def test_what_enriches_a_request_composes_in_order(make_hooks, own_registry):
    @ModelAdapterRegistry.register("Talker")
    class FirstAdapter(DefaultModelRunnerAdapter):
        def enrich_request_info(self, runner, req_id, req_state, req_infos):
            return {**req_infos, "first": req_id}

    @ModelAdapterRegistry.register("Talker")
    class SecondAdapter(DefaultModelRunnerAdapter):
        def enrich_request_info(self, runner, req_id, req_state, req_infos):
            return {**req_infos, "second": req_infos["first"]}

    hooks = make_hooks(Talker())
    prefill(hooks, "a")
    assert model_of(hooks).calls[0]["second"] == "a" and "second" not in hooks.store["a"].info


class Seeded(Talker):
    def talker_mtp(
        self, input_ids, inputs_embeds, last_talker_hidden, text_step, generator=None, generators=(), **kwargs
    ):
        self.batch_sizes = [*getattr(self, "batch_sizes", []), input_ids.shape[0]]
        drawn = [
            torch.rand(1, generator=g) if g else torch.zeros(1) for g in generators or [generator] * len(input_ids)
        ]
        return inputs_embeds, torch.stack(drawn)


def seeded_request(req_id, seed):
    return new_request(req_id, 4, sampling_params=SimpleNamespace(extra_args={"tts_local_seed": seed}))


def draws(make_hooks, seeds, per_row=False):
    """What each request draws in two decode steps."""
    model = Seeded()
    model.talker_mtp_accepts_per_row_generators = per_row
    hooks = make_hooks(model)
    new = [seeded_request(r, seed) if seed else new_request(r, 4) for r, seed in seeds.items()]
    step(hooks, [(r, 4, 0, 4) for r in seeds], new=new)
    found = {r: [] for r in seeds}
    for i in range(2):
        step(hooks, [(r, 1, 4 + i, 4) for r in seeds])
        for r in seeds:
            found[r].append(hooks.store[r].info["codes"]["audio"].item())
    return found, hooks


@pytest.mark.parametrize("per_row", [False, True])
def test_what_a_seeded_request_draws_does_not_depend_on_its_batch(make_hooks, per_row):
    alone, _ = draws(make_hooks, {"a": 7}, per_row)
    together, hooks = draws(make_hooks, {"b": None, "a": 7, "c": 9}, per_row)
    assert together["a"] == alone["a"] and alone["a"][0] != alone["a"][1]
    assert together["b"] == [0, 0] and together["c"] != together["a"]
    assert model_of(hooks).batch_sizes == ([3, 3] if per_row else [1] * 6)


def test_generators_go_with_their_requests(make_hooks):
    _, hooks = draws(make_hooks, {"a": 7, "b": 8})
    (talker,) = [adapter for adapter in hooks.adapters if hasattr(adapter, "generators")]
    assert set(talker.generators) == {"a", "b"}
    step(hooks, [("b", 1, 6, 4)], finished=["a"])
    assert set(talker.generators) == {"b"}


def test_the_codes_key_may_be_a_string_or_a_pair_and_validity_may_be_asked_for(make_hooks):
    model = Talker()
    model.talker_mtp_output_key = "code_predictor_codes"
    model.talker_mtp_validity_key = ("meta", "codes_valid")
    hooks = make_hooks(model)
    prefill(hooks, "a")
    step(hooks, [("a", 1, 4, 4)])
    info = hooks.store["a"].info
    assert info["code_predictor_codes"].shape == (1, 3) and bool(info["meta"]["codes_valid"])


def test_the_subtalker_sampling_parameters_reach_mtp(make_hooks):
    hooks = make_hooks(Talker(), model_config={"subtalker_sampling_params": {"top_k": 5, "unknown": 1}})
    prefill(hooks, "a")
    step(hooks, [("a", 1, 4, 4)])
    assert model_of(hooks).mtp_kwargs == {"do_sample": None, "temperature": None, "top_k": 5, "top_p": None}


def test_the_width_of_mtp_may_be_the_models_own(make_hooks):
    model = Talker()
    model.mtp_hidden_size = 6
    (talker,) = [a for a in make_hooks(model).adapters if hasattr(a, "generators")]
    assert talker.buffers[-1].shape == (8, 6)


class Grid:
    """M-RoPE with positions beyond the prompt."""

    precomputed_mrope_decode = True

    def forward(self, input_ids, positions):
        return positions

    def get_mrope_input_positions(self, input_tokens, mm_features=None, image_grid_thw=None, target_h=None):
        self.asked = [*getattr(self, "asked", []), (len(input_tokens), image_grid_thw, target_h)]
        i = torch.arange(len(input_tokens) + 3)
        return torch.stack([i, i * 2, i * 3]), 5


def image(*grid):
    data = {"image_grid_thw": torch.tensor(grid)}
    return SimpleNamespace(modality="image", data=SimpleNamespace(get_data=lambda: data))


def test_positions_get_the_metadata_that_the_model_accepts(make_hooks):
    model = Grid()
    hooks = make_hooks(model)
    sampling = SimpleNamespace(extra_args={"target_h": 4, "target_w": 6})
    hooks.on_new_requests(scheduler_output(new=[new_request("a", 4, sampling_params=sampling)]))
    hooks.init_request_positions("a")
    positions, delta = model.get_mrope_input_positions([1, 2, 3, 4], [image(1, 2, 2), image(1, 4, 4)])
    assert model.asked == [(4, [[1, 2, 2], [1, 4, 4]], 4)]
    assert (positions.shape, delta) == ((3, 4), 5)


def test_a_resumed_request_keeps_its_positions_and_goes_on_along_the_line_after_them(make_hooks):
    model = Grid()
    hooks = make_hooks(model)
    hooks.on_new_requests(scheduler_output(new=[new_request("a", 4)]))
    hooks.init_request_positions("a")
    model.get_mrope_input_positions([0] * 4, [])
    hooks.init_request_positions("a")
    positions, _ = model.get_mrope_input_positions([0] * 9, [])
    assert len(model.asked) == 1
    assert positions[1].tolist() == [0, 2, 4, 6, 8, 10, 12, 12, 13]


def test_precomputed_positions_replace_the_linear_ones_of_decode_tokens_alone(make_hooks):
    model = Grid()
    hooks = make_hooks(model)
    hooks.on_new_requests(scheduler_output(new=[new_request("a", 4), new_request("b", 2)]))
    for req_id, n in (("a", 4), ("b", 2)):
        hooks.init_request_positions(req_id)
        model.get_mrope_input_positions([0] * n, [])
    hooks.host.set_rows(["b", "a"], [2, 3], [0, 3], [2, 4])
    target = torch.full((3, 6), -1)
    hooks.host.fixup_decode_positions(target)
    assert target[2].tolist() == [-1, -1, -1, 12, 15, -1]
    hooks.host.set_rows(["a"], [2], [6], [4])
    target.fill_(-1)
    hooks.host.fixup_decode_positions(target)
    assert target[0].tolist() == [6, -1, -1, -1, -1, -1]


def test_mimo_gets_its_features_and_id_in_a_copy(make_hooks):
    model = type("MiMoAudioForConditionalGeneration", (Talker,), {"talker_mtp": None})()
    hooks = make_hooks(model)
    step(hooks, [("a", 2, 0, 2)], new=[new_request("a", 2, mm_features=["f"])])
    assert model.calls[0]["req_id"] == "a" and model.calls[0]["mm_features"] == ["f"]
    assert "req_id" not in hooks.store["a"].info


@pytest.mark.parametrize("has_xdrope", [False, True])
def test_a_vllm_without_xd_rope_is_told_once(make_hooks, caplog, monkeypatch, has_xdrope):
    from vllm_omni.worker import adapter_host as module

    monkeypatch.setattr(module, "_warned", set())
    model = Quiet()
    model.get_xdrope_input_positions = print
    with caplog.at_level(logging.WARNING, "vllm_omni"):
        for _ in range(2):
            make_hooks(model, has_xdrope=has_xdrope)
    assert len(caplog.messages) == (0 if has_xdrope else 1)


class Resident(Talker):
    gpu_resident_buffer_keys = {("codes", "audio")}


def test_resident_codes_are_a_snapshot_that_a_graph_cannot_overwrite(make_hooks):
    model = Resident()
    static = torch.zeros(8, 3, dtype=torch.long)
    model.talker_mtp = lambda ids, embeds, *args, **kwargs: (embeds, static)
    hooks = make_hooks(model)
    prefill(hooks, "a")
    step(hooks, [("a", 1, 4, 4)])
    static.fill_(9)
    assert hooks.store["a"].info["codes"]["audio"].tolist() == [[0, 0, 0]]
