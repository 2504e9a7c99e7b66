"""The user's own configuration, and what is said of one that is wrong."""

from __future__ import annotations

import pytest

from omni_migrate.config import Config, load_config
from omni_migrate.errors import InputError


def test_no_configuration_is_the_default(tmp_path):
    assert load_config(tmp_path) == Config()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'vllm-omni'\n")
    assert load_config(tmp_path) == Config()


def test_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        "[tool.omni-migrate]\nskip = ['vllm_omni/old/*.py']\n[[tool.omni-migrate.adapters]]\nname = 'mine'\n"
    )
    assert load_config(tmp_path) == Config(("vllm_omni/old/*.py",), ({"name": "mine"},))


def test_the_own_file_stands_beside_a_pyproject_of_others(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    (tmp_path / "omni-migrate.toml").write_text("skip = ['b.py']\n")
    assert load_config(tmp_path).skip == ("b.py",)


def test_a_src_layout_is_configured_above_it(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.omni-migrate]\nskip = ['a.py']\n")
    assert load_config(tmp_path / "src").skip == ("a.py",)


def test_a_byte_order_mark_is_no_part_of_it(tmp_path):
    (tmp_path / "omni-migrate.toml").write_bytes(b"\xef\xbb\xbfskip = []\r\n")
    assert load_config(tmp_path) == Config()


def test_a_pyproject_that_does_not_parse_is_named_with_its_line(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = \n")
    with pytest.raises(InputError, match=r"pyproject\.toml: is not TOML: .*line 2"):
        load_config(tmp_path)


def test_a_table_that_is_none(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool]\nomni-migrate = 1\n")
    with pytest.raises(InputError, match=r"omni-migrate\]: expected a table, got int"):
        load_config(tmp_path)
