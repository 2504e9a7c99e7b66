"""The census on the published releases: exact counts, and how they differ with what one counts as having."""

from pathlib import Path

import pytest

from omni_migrate.facts.census import INSTANCE_ATTRIBUTE, Census, take_census
from omni_migrate.plan.workspace import Workspace
from omni_migrate.sources import resolve

pytestmark = pytest.mark.release

CAPABILITIES = (
    "has_preprocess",
    "has_postprocess",
    "talker_mtp",
    "have_multimodal_outputs",
    "make_omni_output",
    "precomputed_mrope_decode",
    "get_kv_transfer_metadata",
)
MIMO = "MiMoAudioForConditionalGeneration"

# Classes that answer each of CAPABILITIES, in that order.
ANSWERING = {
    "0.14.0": (2, 1, 1, 3, 2, 0, 0),
    "0.16.0": (4, 2, 2, 7, 4, 1, 0),
    "0.18.0": (6, 4, 3, 14, 7, 1, 1),
    "0.20.0": (7, 5, 3, 25, 8, 1, 1),
    "0.22.0": (11, 9, 3, 33, 12, 1, 1),
    "0.24.0": (15, 14, 5, 44, 16, 1, 1),
    "0.26.0": (17, 14, 5, 48, 22, 1, 1),
    "0.28.0": (22, 18, 6, 58, 32, 1, 1),
    "0.30.0": (23, 18, 7, 59, 36, 1, 1),
}


def census_of(version: str) -> Census:
    source = resolve(f"vllm-omni=={version}", cwd=Path.cwd())
    return take_census(Workspace(source.root), "vllm_omni", CAPABILITIES, [MIMO])


@pytest.fixture(scope="module")
def newest() -> Census:
    return census_of("0.30.0")


@pytest.mark.parametrize("version", ANSWERING)
def test_every_release_can_be_counted(version):
    census = census_of(version)
    assert census.unreadable == ()
    assert tuple(len(census.answering(name)) for name in CAPABILITIES) == ANSWERING[version]


def written_in_the_class(census: Census, capability: str, value: str | None) -> set[str]:
    """Classes whose own text gives the capability that value, as one counts by reading."""
    return {
        model.name
        for model in census.answering(capability)
        if any(item.owner == model.name and item.value == value for item in model.of(capability))
    }


def names(census: Census, capability: str) -> set[str]:
    return {model.name for model in census.answering(capability)}


def test_has_preprocess_is_true_in_21_classes_and_23_may_answer(newest):
    written = written_in_the_class(newest, "has_preprocess", "True")
    assert len(written) == 21
    # One computes it from its stage, one inherits it: Ascend 310P's stand-in for the Qwen3-TTS talker.
    assert names(newest, "has_preprocess") - written == {
        "MiniCPMO45OmniForConditionalGeneration",
        "_Qwen3TTSTalker310P",
    }
    # As many again say False; `hasattr` doesn't tell them apart.
    assert len(newest.having("has_preprocess")) == 43


def test_has_preprocess_is_off_in_qwen3_omni_but_for_the_talker_stage(newest):
    (model,) = newest.named("Qwen3OmniMoeForConditionalGeneration")
    assert [(item.how, item.line, item.value) for item in model.of("has_preprocess")] == [
        (INSTANCE_ATTRIBUTE, 141, "False"),
        (INSTANCE_ATTRIBUTE, 210, "True"),
    ]


def test_talker_mtp_is_a_method_of_six_classes_and_inherited_by_one(newest):
    assert written_in_the_class(newest, "talker_mtp", None) == {
        "Audio8TTSSlowARForConditionalGeneration",
        "FishSpeechSlowARForConditionalGeneration",
        "MossTTSLocalTalkerForGeneration",
        "PersonaPlexTalkerForConditionalGeneration",
        "Qwen3OmniMoeForConditionalGeneration",
        "Qwen3TTSTalkerForConditionalGeneration",
    }
    (heir,) = newest.named("_Qwen3TTSTalker310P")
    assert heir.path == "vllm_omni/platforms/npu/_310p/patch/qwen3_tts.py"
    assert [item.owner for item in heir.of("talker_mtp")] == ["Qwen3TTSTalkerForConditionalGeneration"]


def test_have_multimodal_outputs_is_written_in_55_classes_and_inherited_by_four(newest):
    written = written_in_the_class(newest, "have_multimodal_outputs", "True")
    assert len(written) == 55
    assert names(newest, "have_multimodal_outputs") - written == {
        "BreezeCode2Wav",
        "MiniMaxH3Encoder",
        "_Qwen3TTSCode2Wav310P",
        "_Qwen3TTSTalker310P",
    }


def test_make_omni_output_is_written_in_33_classes_and_inherited_by_three(newest):
    written = written_in_the_class(newest, "make_omni_output", None)
    assert len(written) == 33
    assert names(newest, "make_omni_output") - written == {
        "BreezeCode2Wav",
        "_Qwen3TTSCode2Wav310P",
        "_Qwen3TTSTalker310P",
    }


def test_only_glm_image_has_precomputed_decode_positions(newest):
    (model,) = newest.answering("precomputed_mrope_decode")
    (definition,) = model.of("precomputed_mrope_decode")
    assert (model.name, definition.path, definition.line, definition.value) == (
        "GlmImageForConditionalGeneration",
        "vllm_omni/model_executor/models/glm_image/glm_image_ar.py",
        2046,
        "True",
    )


@pytest.mark.parametrize(
    ("version", "architectures"),
    [("0.16.0", ("MiMoAudioModel",)), ("0.30.0", ("MiMoAudioModel", "MiMoV2ASRForCausalLM"))],
)
def test_the_class_whose_name_runners_test_is_registered_under_other_names(version, architectures):
    (model,) = census_of(version).named(MIMO)
    assert model.architectures == architectures


def test_every_published_architecture_finds_its_class(newest):
    assert sum(len(model.architectures) for model in newest.classes) == 92
