"""The hooks as data: RFC-005's thirteen under its names, priorities as it sets them, and what may stand in an entry."""

import re

from packaging.specifiers import SpecifierSet

from omni_migrate.facts.extension_points import CLAIM_KINDS
from omni_migrate.knowledge import HookSpec, hooks, model_states, read_toml

# RFC-005 §2, in its order.
RFC = (
    "additional_information storage",
    "_decode_and_store_request_payloads",
    "_collect_additional_information_for_prefill",
    "_build_model_kwargs_extra",
    "_process_additional_information_updates",
    "_merge_additional_information_update",
    "extract_multimodal_outputs",
    "_model_forward override",
    "M-RoPE extensions",
    "XD-RoPE",
    "Talker MTP",
    "has_preprocess / has_postprocess",
    "OmniModelRunnerOutput",
)
# RFC-005 §4.4 by name, and §3.2: compatibility and effort.
PRIORITIES = {
    "_model_forward override": "P0",
    "extract_multimodal_outputs": "P0",
    "OmniModelRunnerOutput": "P0",
    "additional_information storage": "P1",
    "M-RoPE extensions": "P1",
    "Talker MTP": "P2",
    "has_preprocess / has_postprocess": "P2",
    "XD-RoPE": "P3",
}
ASSESSED = {
    "additional_information storage": ("adapt", "medium"),
    "_decode_and_store_request_payloads": ("adapt", "medium"),
    "_collect_additional_information_for_prefill": ("adapt", "high"),
    "_build_model_kwargs_extra": ("compatible", "low"),
    "_model_forward override": ("adapt", "medium"),
    "extract_multimodal_outputs": ("compatible", "low"),
    "M-RoPE extensions": ("adapt", "high"),
    "Talker MTP": ("adapt", "high"),
    "OmniModelRunnerOutput": ("adapt", "medium"),
}


def by_name() -> dict[str, HookSpec]:
    return {spec.name: spec for spec in hooks()}


def test_the_rfcs_thirteen_come_first_in_its_order():
    assert tuple(spec.name for spec in hooks())[:13] == RFC
    assert len({spec.id for spec in hooks()}) == len(hooks()) == 19


def test_what_the_rfc_sets_is_as_it_sets_it_and_the_rest_is_said_to_be_chosen():
    named = by_name()
    for name in RFC:
        spec = named[name]
        assert ("priority" in spec.chosen) == (name not in PRIORITIES)
        assert ("effort" in spec.chosen) == ("compatibility" in spec.chosen) == (name not in ASSESSED)
        assert spec.priority == PRIORITIES.get(name, spec.priority)
        assert (spec.compatibility, spec.effort) == ASSESSED.get(name, (spec.compatibility, spec.effort))
    assert all(set(spec.chosen) == {"compatibility", "effort", "priority", "phase"} for spec in hooks()[13:])


def test_every_entry_is_well_formed():
    for spec in hooks():
        assert spec.priority in ("P0", "P1", "P2", "P3")
        assert spec.compatibility in ("compatible", "adapt")
        assert spec.effort in ("low", "medium", "high")
        assert spec.points
        names = [part for names in spec.names.values() for name in names for part in name.split(".")]
        assert all(name.isidentifier() for name in names)
        for point in spec.points:
            SpecifierSet(point.versions)
            assert point.symbol.startswith("vllm.") and point.claims
            assert {claim.kind for claim in point.claims} <= set(CLAIM_KINDS)


def test_a_name_of_one_kind_belongs_to_one_hook():
    claimed = [(kind, name) for spec in hooks() for kind, names in spec.names.items() for name in names]
    assert len(claimed) == len(set(claimed))


def test_nothing_is_found_by_a_line_a_file_or_a_release():
    assert not re.search(r"\b\d+\.\d+\.\d+\b|:\d+", str(read_toml("hooks.toml")["hook"]))


def test_model_states_are_vllms():
    assert all(name.startswith("vllm.v1.worker.gpu.model_states.") for name in model_states())
