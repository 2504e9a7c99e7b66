"""What the runs mean: the same requests end the same however they are chunked, batched, ordered or preempted."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.parametrize("runner", ["v1", "v2"])


def codes(result):
    """The codes of each request, in order."""
    return {
        req_id: [row for step in steps for name, rows in step.items() if "codes" in name for row in rows]
        for req_id, steps in result["outputs"].items()
    }


def new_codes(result):
    """The same without the placeholder of prefill steps, of which there are as many as chunks."""
    return {req_id: [row for row in rows if row != [-1, -1, -1]] for req_id, rows in codes(result).items()}


def assert_close(left, right):
    """Hidden states of the same positions, which differ by rounding alone where the batches had other shapes."""
    assert left.keys() == right.keys()
    for req_id in left:
        assert len(left[req_id]) == len(right[req_id])
        for one, other in zip(left[req_id], right[req_id], strict=True):
            assert one == pytest.approx(other, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("other", ["talker-unchunked", "talker-one-seq", "talker-order", "talker-async"])
def test_chunks_batches_order_and_async_scheduling_change_nothing(runs, runner, other):
    one, two = runs[runner]["talker"], runs[runner][other]
    assert one["tokens"] == two["tokens"]
    assert new_codes(one) == new_codes(two)
    assert_close(one["hidden"], two["hidden"])


@pytest.mark.parametrize("name", ["seeing", "seeing-talker"])
def test_an_image_that_is_cut_into_chunks_is_seen_whole(runs, runner, name):
    one, two = runs[runner][name], runs[runner][f"{name}-unchunked"]
    assert one["tokens"] == two["tokens"]
    assert new_codes(one) == new_codes(two)
    assert_close(one["hidden"], two["hidden"])


def test_images_decide_the_tokens_of_the_requests_that_have_some(runs, runner):
    with_images, without = runs[runner]["seeing"]["tokens"], runs[runner]["seeing-nothing"]["tokens"]
    assert {req_id for req_id in without if with_images[req_id] != without[req_id]} == {"1", "2", "4", "5"}


def test_each_request_gets_codes_of_its_own(runs, runner):
    found = new_codes(runs[runner]["talker"])
    assert {req_id: len(rows) for req_id, rows in found.items()} == {str(i): 7 + i for i in range(6)}
    assert len({str(rows) for rows in found.values()}) == 6


@pytest.mark.parametrize("other", ["batched", "resident"])
def test_batched_decode_methods_and_resident_keys_do_what_the_scalar_method_does(runs, runner, other):
    assert runs[runner][other]["tokens"] == runs[runner]["talker"]["tokens"]
    assert new_codes(runs[runner][other]) == new_codes(runs[runner]["talker"])


def test_a_talker_that_calls_it_mtp_is_not_skipped(runs, runner):
    assert runs[runner]["talker-alias"]["tokens"] == runs[runner]["talker"]["tokens"]


def test_mtp_decides_the_tokens(runs, runner):
    assert runs[runner]["batched-no-mtp"]["tokens"] != runs[runner]["batched"]["tokens"]


@pytest.mark.parametrize(
    ("crowded", "roomy"),
    [
        ("crowded", "roomy"),
        ("crowded-tails", "roomy"),
        ("crowded-async", "roomy"),
        ("batched-crowded", "batched-roomy"),
        ("batched-no-mtp-crowded", "batched-no-mtp-roomy"),
        ("mrope-crowded", "mrope-roomy"),
        ("seeing-crowded", "seeing-roomy"),
    ],
)
def test_a_preempted_request_ends_like_an_unpreempted_one(runs, runner, crowded, roomy):
    one, two = runs[runner][crowded], runs[runner][roomy]
    assert one["tokens"] == two["tokens"]
    assert new_codes(one) == new_codes(two)
    assert_close(one["hidden"], two["hidden"])


def test_no_model_method_sees_a_position_twice(runs, runner):
    for name in ("crowded", "crowded-tails", "crowded-async"):
        for req_id, calls in runs[runner][name]["hooks"].items():
            seen = [c for method, *rest in calls if method == "preprocess" for c in range(rest[0], rest[0] + rest[3])]
            assert seen == list(range(len(seen))), (name, req_id)


def test_the_rows_of_the_phase_contract(runs, runner):
    calls = [rest[:4] for method, *rest in runs[runner]["talker"]["hooks"]["0"] if method == "preprocess"]
    assert calls[:4] == [[0, 5, True, 4], [4, 5, True, 1], [5, 5, False, 1], [6, 5, False, 1]]
    one_token = [rest[:4] for method, *rest in runs[runner]["talker"]["hooks"]["3"] if method == "preprocess"]
    assert one_token[:2] == [[0, 1, True, 1], [1, 1, False, 1]]


def test_mtp_runs_for_decode_rows_alone(runs, runner):
    seen = runs[runner]["talker"]["seen"]
    assert seen["mtp rows"] == seen["scalar decode"] == sum(7 + i for i in range(6))


def test_batched_methods_take_every_decode_row(runs, runner):
    for name in ("batched", "batched-no-mtp", "resident"):
        assert runs[runner][name]["seen"].get("scalar decode", 0) == 0
        decoded = sum(
            method == "preprocess_decode_batch"
            for calls in runs[runner][name]["hooks"].values()
            for method, *_ in calls
        )
        assert decoded == sum(7 + i for i in range(6))


def test_prompt_embeddings_reach_a_model_without_methods(runs, runner):
    plain, embeds = runs[runner]["plain"]["tokens"], runs[runner]["plain-embeds"]["tokens"]
    assert embeds == runs[runner]["plain-embeds-unchunked"]["tokens"]
    assert {req_id for req_id in plain if plain[req_id] != embeds[req_id]} == {"0", "2", "4"}


def test_a_seed_decides_a_request_alone(runs, runner):
    seeded, plain = runs[runner]["seeds"], runs[runner]["roomy"]
    assert seeded["seen"]["mtp with a generator"] and not plain["seen"].get("mtp with a generator")
    per_row = runs[runner]["seeds-per-row"]
    unseeded = [req_id for req_id in ("0", "3", "4") if req_id in new_codes(per_row)]
    assert all(new_codes(per_row)[req_id] for req_id in unseeded)


def test_prefix_caching_gives_the_same_tokens_again(runs, runner):
    first, (second,) = runs[runner]["prefix"], runs[runner]["prefix"]["rounds"]
    assert first["tokens"] == second["tokens"]
    assert new_codes(first) == new_codes(second)


def test_a_request_that_is_aborted_and_comes_again_starts_from_nothing(runs, runner):
    aborted, undisturbed = runs[runner]["abort"], runs[runner]["no-abort"]
    assert "0" not in aborted["tokens"]
    for req_id in ("1", "2", "3"):
        assert aborted["tokens"][req_id] == undisturbed["tokens"][req_id]
    starts = [rest for method, *rest in aborted["hooks"]["1"] if method == "preprocess" and rest[0] == 0]
    assert [start[-1] for start in starts] == [{}, {}]


def test_multimodal_outputs_are_split_by_request(runs, runner):
    for req_id, steps in runs[runner]["thinker"]["outputs"].items():
        for step in steps:
            assert set(step) == {"probe", "last.state", "rate", "unit", "hidden"}, req_id
            assert step["rate"].startswith("int64[1]") and step["unit"] == "x"
            assert step["last.state"].startswith("float32[1, 3]")
            assert step["probe"].split("]")[0].split("[")[1] == step["hidden"].split("[")[1].split(",")[0] + ", 4"


@pytest.mark.parametrize("name", ["generation", "generation-hooks"])
def test_a_generation_stage_gives_each_request_its_wave(runs, runner, name):
    chunks = {req_id: [step["audio"] for step in steps] for req_id, steps in runs[runner][name]["outputs"].items()}
    sizes = {req_id: sum(int(c.split("[")[1].split("]")[0]) for c in parts) for req_id, parts in chunks.items()}
    assert sizes == {str(i): 8 * length for i, length in enumerate((5, 9, 4, 1, 13, 6))}
    assert all(set(step) == {"audio", "rate"} for steps in runs[runner][name]["outputs"].values() for step in steps)


@pytest.mark.parametrize(("name", "kind"), [("generation-tensor", "float32[]"), ("generation-list", "float32[")])
def test_a_generation_stage_may_return_a_tensor_or_a_list(runs, runner, name, kind):
    outputs = runs[runner][name]["outputs"]
    assert len(outputs) == 6
    assert all(step["model_outputs"].startswith(kind) for steps in outputs.values() for step in steps)


def test_the_codes_of_a_talker_become_waves_in_the_next_stage(runs, runner):
    talked, waves = new_codes(runs[runner]["no-kv"]), runs[runner]["pipeline"]["outputs"]
    sizes = {r: sum(int(step["audio"].split("[")[1].split("]")[0]) for step in steps) for r, steps in waves.items()}
    assert sizes == {req_id: 8 * 3 * len(rows) for req_id, rows in talked.items()}
    assert len({str(steps) for steps in waves.values()}) == len(waves)


def test_thousands_of_requests_some_aborted_leave_nothing(runs, runner):
    result = runs[runner]["soak"]
    assert result["left"] == 0
    finished = set(result["tokens"])
    assert {str(i) for i in range(2400) if i % 7} <= finished and len(finished) < 2400


def test_kv_blocks_of_the_requests_that_ask_are_read_before_they_are_freed(runs, runner):
    result = runs[runner]["kv"]
    assert sorted(result["kv"]) == ["1", "3", "5"]
    assert all(len(layers) == 2 for layers in result["kv"].values())
    assert len({str(layers) for layers in result["kv"].values()}) == 3
    assert result["seen"]["kv extracted"] == 3
    assert result["tokens"] == runs[runner]["no-kv"]["tokens"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fault-raises", "TinyFaulty.preprocess failed for 1: RuntimeError: out of patience"),
        ("fault-no-mtp_inputs", "TinyFaulty.preprocess failed for 1: its update has no 'mtp_inputs'"),
        ("fault-arity", "TinyFaulty.preprocess failed for 1: ValueError: not enough values to unpack"),
        (
            "fault-shape",
            "TinyFaulty.preprocess failed for 1: RuntimeError: shape '[1, 128]' is invalid for input of size 127",
        ),
        ("fault-postprocess", "TinyFaulty.postprocess failed for 1: RuntimeError: no afterthought"),
        ("fault-mtp-rows", "TinyFaulty.talker_mtp failed for  … ValueError: 0 embeddings for "),
        ("ragged", "TinyRagged.forward failed for  … SplitError: output 'last.state': 3 entries for 4 requests"),
    ],
)
def test_an_error_of_a_model_method_names_the_model_the_method_and_the_request(runs, runner, name, said):
    assert all(part in runs[runner][name]["fault"] for part in said.split(" … "))


@pytest.mark.parametrize("name", ["fault-raises", "fault-no-mtp_inputs", "fault-arity", "fault-postprocess"])
def test_after_an_error_the_engine_serves_again(runs, runner, name):
    assert runs[runner][name]["after"] == runs[runner]["no-kv"]["tokens"]
