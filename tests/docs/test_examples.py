"""The examples of configuration do what the pages say, on a tree of our own."""

from __future__ import annotations

import json

import pytest
from markdown_pages import pages

from omni_migrate.config import load_config
from omni_migrate.facts.markers import marker_styles
from omni_migrate.knowledge import adapters

EXAMPLES = [(page.name, block) for page in pages() for block in page.blocks("toml")]
TREE = {
    "vllm_omni/__init__.py": "",
    "vllm_omni/worker/__init__.py": "",
    "vllm_omni/worker/gpu_model_runner.py": """\
from vllm.v1.worker.gpu_model_runner import GPUModelRunner


class OmniGPUModelRunner(GPUModelRunner):
    def load_model(self, *args, **kwargs):
        super().load_model(*args, **kwargs)

    def execute(self, codes):
        codes = super().execute(codes)
        # the vocoder cannot stand leading silence
        if getattr(self.model, "trims_silence", False):
            codes = self.model.trim_silence(codes)
        return codes
""",
    "vllm_omni/model_executor/models/vocoder.py": """\
from torch import nn


class Vocoder(nn.Module):
    trims_silence = True

    def trim_silence(self, codes):
        return codes[1:]
""",
}


@pytest.fixture
def configured(checkout):
    """A checkout with the tree above and a configuration, as a page shows it."""

    def write(block: str):
        name = "pyproject.toml" if "[tool." in block else "omni-migrate.toml"
        return checkout("tree", TREE | {name: block})

    return write


@pytest.mark.parametrize(("name", "block"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_a_configuration_is_accepted(name, block, configured):
    config = load_config(configured(block))
    if config.adapters:
        assert "silence" in {spec.name for spec in adapters(config.adapters)}
    for marker in config.markers:
        assert marker["name"] in {style.name for style in marker_styles(config.markers)}
    assert config.adapters or config.markers


def test_the_guide_s_block_is_unclaimed_without_the_configuration(checkout, cli):
    report = json.loads(cli("extract-adapters", "--check", "--format", "json", cwd=checkout("tree", TREE)).stdout)
    (first, *_) = [found for found in report["findings"] if found["rule"] == "unclaimed-site"]
    assert 'capabilities = ["trims_silence"]' in first["hint"]


def test_the_guide_s_configuration_moves_the_guide_s_block(page, configured, cli):
    (block,) = page["docs/guide.md"].blocks("toml")
    root = configured(block)
    assert cli("extract-adapters", cwd=root).returncode == 0
    runner = (root / "vllm_omni/worker/gpu_model_runner.py").read_text()
    adapter = (root / "vllm_omni/worker/adapters/silence.py").read_text()
    call, before = page["docs/guide.md"].blocks("python")[:2]
    moved = before.replace("self.model", "runner.model")
    assert call.strip() in runner
    assert _stripped(before) not in _stripped(runner)
    assert _stripped(moved) in _stripped(adapter)
    assert 'ModelAdapterRegistry.register("Vocoder")' in adapter


def _stripped(text: str) -> str:
    """Without indentation, which a move changes."""
    return "\n".join(line.strip() for line in text.splitlines())
