"""Payloads per request: merge, replace, devices, lifecycle, and the record of inputs."""

from __future__ import annotations

import pytest
import torch

from vllm_omni.worker.request_store import KEPT_STEPS, InputLog, InputRecord, RequestStore


def live(*req_ids, resident=()):
    store = RequestStore(resident)
    for req_id in req_ids:
        store.add(req_id)
    return store


def test_updates_merge_by_key_and_nested_dicts_by_their_own():
    store = live("a")
    store.merge("a", {"codes": {"audio": 1}, "n": 1})
    store.merge("a", {"codes": {"ref": 2}, "n": 2})
    assert store["a"].info == {"codes": {"audio": 1, "ref": 2}, "n": 2}


def test_a_dict_replaces_what_was_no_dict():
    store = live("a")
    store.merge("a", {"codes": 1})
    store.merge("a", {"codes": {"audio": 2}})
    assert store["a"].info == {"codes": {"audio": 2}}


def test_one_requests_update_leaves_the_others_alone():
    store = live("a", "b")
    shared = {"codes": {"audio": torch.zeros(1)}}
    store.merge("a", shared)
    store.merge("b", shared)
    store.merge("a", {"codes": {"audio": torch.ones(1)}})
    assert store["b"].info["codes"]["audio"].item() == 0
    assert shared["codes"]["audio"].item() == 0


def test_tensors_are_detached_also_in_lists():
    store = live("a")
    tensor = torch.zeros(2, requires_grad=True)
    store.merge("a", {"x": tensor, "many": [tensor, 1], "group": {"y": tensor}})
    info = store["a"].info
    assert not any(t.requires_grad for t in (info["x"], info["many"][0], info["group"]["y"]))


def test_resident_keys_are_cloned_where_they_are():
    store = live("a", resident={("codes", "audio")})
    buffer = torch.zeros(2)
    store.merge("a", {"codes": {"audio": buffer, "ref": buffer}})
    buffer.fill_(7)
    assert store["a"].info["codes"]["audio"].tolist() == [0, 0]
    assert store.is_resident(("codes", "audio"))
    assert not store.is_resident(("codes", "ref")) and not store.is_resident("codes")


def test_an_update_for_a_request_that_is_gone_is_dropped():
    store = live("a")
    store.begin_step({"a"}, (), ())
    store.merge("a", {"x": 1})
    store.replace("a", {"x": 1})
    assert len(store) == 0


def test_replace_drops_the_old_payload_but_keeps_streaming_progress():
    store = live("a")
    store.merge("a", {"old": 1, "meta": {"num_processed_tokens": 3, "resumable": True, "other": 1}})
    store.replace("a", {"new": 2, "meta": {"resumable": False}})
    assert store["a"].info == {"new": 2, "meta": {"resumable": False, "num_processed_tokens": 3}}


def test_a_request_is_new_once_and_updated_after_that():
    store = live("a")
    assert store.add("b")[1] == "new"
    assert store.add("a")[1] == "updated"


def test_a_preempted_request_that_is_sent_again_resumes_with_what_it_has():
    store = live("a")
    store.merge("a", {"x": 1})
    store.begin_step((), {"a"}, ())
    state, kind = store.add("a")
    assert (kind, state.info) == ("resumed", {"x": 1})
    assert store.add("a")[1] == "updated"


def test_a_request_that_v1_resumes_is_no_longer_preempted():
    store = live("a")
    store.begin_step((), {"a"}, ())
    store.begin_step((), (), {"a"})
    assert store.add("a")[1] == "updated"


def test_the_same_id_after_the_end_is_another_request():
    store = live("a")
    store.merge("a", {"x": 1})
    store.begin_step((), {"a"}, ())
    store.begin_step({"a"}, (), ())
    state, kind = store.add("a")
    assert (kind, state.info) == ("new", {})


def test_thousands_of_requests_leave_nothing():
    store = RequestStore()
    for i in range(5000):
        store.add(str(i))
        store.begin_step({str(i - 3)}, {str(i - 1)} if i % 7 == 0 else (), ())
    store.begin_step({str(i) for i in range(5000)}, (), ())
    assert len(store) == 0 and store._preempted == set()


def fed(record, start, end):
    """Positions and the values that were fed there."""
    return [(a, b, embeds[:, 0].tolist(), ids.tolist()) for a, b, embeds, ids in record.read(start, end)]


def step(log, *rows):
    """A step of decode rows `(record, position)`, each fed its position, and ten more as its id."""
    positions = [position for _, position in rows]
    log.add(
        [record for record, _ in rows], positions, torch.tensor(positions)[:, None] * 1.0, torch.tensor(positions) + 10
    )


def test_the_record_gives_back_what_was_fed():
    log = InputLog()
    record, other = InputRecord(log), InputRecord(log)
    record.add_span(0, torch.arange(4.0)[:, None], torch.arange(4))
    step(log, (other, 90), (record, 4))
    step(log, (other, 91), (record, 5))
    step(log, (record, 6))
    assert fed(record, 0, 7) == [
        (0, 4, [0, 1, 2, 3], [0, 1, 2, 3]),
        (4, 6, [4, 5], [14, 15]),
        (6, 7, [6], [16]),
    ]
    assert fed(record, 3, 5) == [(3, 4, [3], [3]), (4, 5, [4], [14])]
    assert fed(other, 0, 100) == [(90, 92, [90, 91], [100, 101])]


def test_the_record_knows_what_it_lacks():
    log = InputLog()
    record = InputRecord(log)
    step(log, (record, 7))
    step(log, (record, 9))
    assert [(a, b) for a, b, *_ in fed(record, 0, 12)] == [(7, 8), (9, 10)]


def test_spans_that_come_between_decode_rows_are_read_in_order():
    log = InputLog()
    record = InputRecord(log)
    step(log, (record, 0))
    record.add_span(1, torch.tensor([[1.0]]), torch.tensor([11]))
    step(log, (record, 2))
    assert [part[:2] for part in fed(record, 0, 3)] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("rows", [1, KEPT_STEPS, 3 * KEPT_STEPS + 5])
def test_rows_are_copied_out_of_their_steps_and_stay_in_order(rows):
    log = InputLog()
    record, others = InputRecord(log), [InputRecord(log) for _ in range(49)]
    for position in range(rows):
        step(log, *((other, position) for other in others), (record, position))
        assert len(log) < KEPT_STEPS
    assert [v for part in fed(record, 0, rows) for v in part[3]] == list(range(10, rows + 10))
    assert all(block[1].untyped_storage().nbytes() <= 4 * KEPT_STEPS for block in record._blocks)


def test_a_request_that_comes_again_under_its_id_is_not_fed_what_the_old_one_was():
    store = live("a", "b")
    old = store["a"].inputs
    step(store.fed, (old, 5), (store["b"].inputs, 5))
    store.begin_step({"a"}, (), ())
    state, _ = store.add("a")
    assert fed(state.inputs, 0, 9) == []
    assert fed(store["b"].inputs, 0, 9) == [(5, 6, [5], [15])]


def test_nothing_is_kept_of_the_last_requests():
    store = live("a")
    step(store.fed, (store["a"].inputs, 5))
    store.begin_step({"a"}, (), ())
    assert len(store.fed) == 0
