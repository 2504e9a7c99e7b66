"""Rows, phases, and how outputs are split by request."""

from __future__ import annotations

import pytest
import torch

from vllm_omni.worker.step import Row, SplitError, build_rows, flatten, set_phase, split_by_request


@pytest.mark.parametrize(
    ("prompt_len", "computed", "span", "is_prefill", "is_decode_step"),
    [
        (5, 0, 4, True, False),
        (5, 4, 1, True, False),
        (5, 5, 1, False, True),
        (5, 6, 1, False, True),
        (1, 0, 1, True, False),
        (5, 5, 2, False, False),
    ],
)
def test_the_table_of_the_phase_contract(prompt_len, computed, span, is_prefill, is_decode_step):
    row = Row("a", 3, 3 + span, computed, prompt_len)
    assert (row.is_prefill, row.is_decode_step) == (is_prefill, is_decode_step)


def test_the_phase_keys_win_over_what_the_payload_says():
    info = {"_omni_is_prefill": True, "_omni_prompt_len": 99, "_omni_num_computed_tokens": -1, "kept": 1}
    set_phase(info, Row("a", 0, 1, 5, 5))
    assert info == {"_omni_is_prefill": False, "_omni_prompt_len": 5, "_omni_num_computed_tokens": 5, "kept": 1}


def test_rows_follow_the_batch_and_know_what_was_prepared_before():
    rows = build_rows(["b", "a", "c"], [4, 1, 3], [0, 7, 4], [9, 5, 6], [0, 7, 6])
    assert rows == [Row("b", 0, 4, 0, 9), Row("a", 4, 5, 7, 5), Row("c", 5, 8, 4, 6, replayed=2)]
    assert rows[2].fresh() == Row("c", 7, 8, 6, 6)
    assert rows[2].fresh().is_decode_step


def test_a_row_that_is_all_replay_has_an_empty_fresh_part():
    (row,) = build_rows(["a"], [2], [3], [5], [9])
    assert row.replayed == 2
    assert row.fresh().start == row.fresh().end == 2


ROWS = [Row("a", 0, 2, 0, 9), Row("b", 2, 3, 5, 5), Row("c", 3, 5, 3, 4, replayed=1)]


def test_a_tensor_with_a_row_per_token_is_cut_at_the_spans():
    parts = split_by_request(torch.arange(5), ROWS, 8)
    assert [part.tolist() for part in parts] == [[0, 1], [2], [4]]
    padded = split_by_request(torch.arange(8), ROWS, 8)
    assert [part.tolist() for part in padded] == [[0, 1], [2], [4]]


def test_a_tensor_with_a_row_per_request_is_taken_apart():
    assert [part.tolist() for part in split_by_request(torch.arange(3), ROWS, 8)] == [[0], [1], [2]]


def test_plain_values_and_single_rows_belong_to_every_request():
    parts = split_by_request({"rate": torch.tensor([24000]), "unit": "s", "scale": torch.tensor(2.0)}, ROWS, 8)
    assert all(part["rate"].tolist() == [24000] and part["unit"] == "s" and part["scale"] == 2 for part in parts)


def test_nested_dicts_are_split_and_none_is_left_out():
    parts = split_by_request({"codes": {"audio": [1, None, 3]}}, ROWS, 8)
    assert parts == [{"codes": {"audio": 1}}, {"codes": {}}, {"codes": {"audio": 3}}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"codes": {"audio": [1, 2]}}, "output 'codes.audio': 2 entries for 3 requests"),
        ({"wave": torch.zeros(4)}, "output 'wave': 4 rows are neither one per token (5) nor one per request (3)"),
    ],
)
def test_what_is_ambiguous_is_refused_by_name(value, said):
    with pytest.raises(SplitError) as error:
        split_by_request(value, ROWS, 8)
    assert str(error.value) == said


def test_flatten_joins_names_with_dots():
    assert flatten({"codes": {"audio": 1, "ref": {"a": 2}}, "x": 3}) == {"codes.audio": 1, "codes.ref.a": 2, "x": 3}


@pytest.mark.parametrize(
    "rows", [ROWS, [row._replace(replayed=min(1, row.end - row.start)) for row in ROWS]], ids=["new", "replayed"]
)
@pytest.mark.parametrize("value", [torch.arange(8.0), torch.arange(3.0), torch.tensor([7.0]), [torch.ones(2)] * 3])
def test_parts_of_their_own_hold_the_same_and_share_no_storage(value, rows):
    cut, own = split_by_request(value, rows, 8), split_by_request(value, rows, 8, own=True)
    assert [part.tolist() for part in own] == [part.tolist() for part in cut]
    theirs = {part.untyped_storage().data_ptr() for part in cut if part.numel()}
    assert theirs.isdisjoint(part.untyped_storage().data_ptr() for part in own)
