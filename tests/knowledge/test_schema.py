"""What a configuration may say, and the one line for each thing that it may not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_migrate.config import load_config
from omni_migrate.errors import InputError
from omni_migrate.knowledge import adapters, merged_adapters, proposed_adapter, read_toml
from omni_migrate.knowledge.schema import AdapterTable, MarkerTable, check_table

MINE = '[[adapters]]\nname = "mine"\n'


# Each: a configuration, and after `=>` how the line about it begins.
WRONG = [
    tuple(case.rsplit("\n=> ", 1))
    for case in Path(__file__).with_name("wrong_configurations.txt").read_text(encoding="utf-8").strip().split("\n\n")
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said[:80] for _, said in WRONG])
def test_what_does_not_fit_is_one_line_with_its_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "omni-migrate.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_config(tmp_path)
    assert str(error.value).startswith(f"{file.as_posix()}: {said}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        MINE,
        MINE + "summary = 'with \"quotes\", a \\ and @PACKAGE@ {x}'",
        MINE + 'state = { a = 0, b = "unset", c = [1, [2.5, "x"]], d = { e = true } }',
        MINE + 'hooks = { _update_states = "a", "_preprocess._talker" = "b" }',
        '[[adapters]]\nname = "qwen3_talker"\ncapabilities = ["talker_mtp", "sings"]',
        '[[markers]]\nname = "m"\nkind = "line"\npattern = "# (mine|ours) .*"',
        '[[markers]]\nname = "m"\nkind = "divider"\npattern = "#{3,} MINE (a+b)?"',
    ],
)
def test_what_fits(tmp_path: Path, text: str) -> None:
    (tmp_path / "omni-migrate.toml").write_text(text, encoding="utf-8")
    load_config(tmp_path)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["name", "phase", "a", "#"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TABLES = st.dictionaries(
    st.sampled_from(["skip", "adapters", "markers", "other"]),
    st.one_of(
        VALUES,
        *(
            st.lists(st.dictionaries(st.sampled_from(struct.__struct_encode_fields__), VALUES, max_size=3), max_size=2)
            for struct in (AdapterTable, MarkerTable)
        ),
    ),
    max_size=3,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(TABLES)
def test_whatever_stands_there_fits_or_is_one_line(table: dict[str, Any]) -> None:
    try:
        check_table(table, "omni-migrate.toml")
    except InputError as error:
        assert str(error).startswith("omni-migrate.toml: ")
        assert "\n" not in str(error)
    else:
        adapters(table.get("adapters", ()))


def test_the_packages_own_tables_hold_to_the_same_schema() -> None:
    check_table(
        {"adapters": read_toml("adapters.toml")["adapter"], "markers": read_toml("markers.toml")["style"]}, "knowledge"
    )


@pytest.mark.parametrize("name", ["Base", "Registry", "Class", "ImportForCausalLM"])
def test_an_adapter_proposed_for_a_class_takes_no_module_of_the_package_and_no_keyword(name: str) -> None:
    spec = proposed_adapter([name])
    check_table({"adapters": [{"name": spec.name, "class": spec.class_name}]}, "proposed")
    assert spec.name not in merged_adapters([])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"skip = [\n'a'\nb", "is not TOML: "),
        (b"# \n# \xff\n", "is not UTF-8 (at line 2); save it as UTF-8"),
        (b"skip = " + b"[" * 5000 + b"]" * 5000, "is nested too deep to be read"),
        (b"skip = " + b"9" * 5000, "is not TOML: "),
        (b"#" * (17 << 20), "cannot be read: it is larger than 16 MiB"),
        (b"#" * (2 << 20), "is larger than 1 MiB, which no configuration is"),
    ],
    ids=["cut off", "not UTF-8", "nested", "a long number", "very large", "large"],
)
@pytest.mark.parametrize("name", ["omni-migrate.toml", "pyproject.toml"])
def test_what_is_no_toml_is_one_line(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        load_config(tmp_path)
    assert str(error.value).startswith(f"{tmp_path / name}: {said}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["omni-migrate.toml", "pyproject.toml"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "broken link"])
def test_what_is_no_file_is_one_line_and_nothing_waits(tmp_path: Path, name: str, kind: str) -> None:
    place = tmp_path / name
    {
        "folder": place.mkdir,
        "pipe": lambda: os.mkfifo(place),
        "broken link": lambda: place.symlink_to("absent"),
    }[kind]()
    with pytest.raises(InputError, match="cannot be read: "):
        load_config(tmp_path)
