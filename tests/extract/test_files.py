"""Files as people have them: other line ends, a BOM, no last line end, odd class bodies and imports."""

from __future__ import annotations

import pytest
from mini_tree import AR_RUNNER, FILES, GPU_RUNNER

from omni_migrate.errors import InputError
from omni_migrate.extract import run
from omni_migrate.request import ExtractRequest

GPU = "vllm_omni/worker/gpu_model_runner.py"
AR = "vllm_omni/worker/gpu_ar_model_runner.py"


def written(mini, path, data):
    source = mini()
    (source / path).write_bytes(data)
    return source


@pytest.mark.parametrize("path", [GPU, AR])
def test_crlf_stays_crlf(mini, extract, drive, path):
    source = written(mini, path, FILES[path].replace("\n", "\r\n").encode())
    result = extract(source)
    data = (result / path).read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n")
    assert b"_adapter." in data
    assert drive(result) == drive(source)


@pytest.mark.parametrize("path", [GPU, AR])
def test_bom_stays(mini, extract, drive, path):
    source = written(mini, path, b"\xef\xbb\xbf" + FILES[path].encode())
    result = extract(source)
    assert (result / path).read_bytes().startswith(b'\xef\xbb\xbf"""')
    assert (result / path).read_bytes().count(b"\xef\xbb\xbf") == 1
    assert drive(result) == drive(source)


def test_file_without_a_last_line_end(mini, extract, drive):
    text = "class Last(OmniGPUModelRunner):\n    def load_model(self):\n        super().load_model()"
    source = written(mini, GPU, f"{GPU_RUNNER}\n\n{text}".encode())
    result = extract(source)
    assert (result / GPU).read_text().endswith(text)
    assert drive(result) == drive(source)


def test_root_runner_whose_file_ends_with_its_load_model(mini, extract, drive_code):
    runner = (
        "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\n"
        "class Only(GPUModelRunner):\n    def talk(self):\n"
        "        return 'yes' if getattr(self.model, 'talker_mtp', None) else 'no'\n\n"
        "    def load_model(self):\n        super().load_model()"
    )
    source = mini(**{path: None for path in FILES if path.startswith(("vllm_omni/worker/gpu", "vllm_omni/plat"))})
    (source / "vllm_omni/worker/only.py").write_text(runner)
    result = extract(source)
    printed = drive_code(
        result,
        """
        from vllm_omni.model_executor.models import small
        from vllm_omni.worker.only import Only
        for model in (small.Plain(), small.Talker()):
            runner = Only(model)
            runner.load_model()
            print(runner.talk(), "_adapter" in vars(runner))
        """,
    )
    assert printed == "no True\nyes True\n"


LOCALE_TEXT = "Qualität — 質"


def test_text_outside_ascii_stays(mini, extract, drive):
    text = GPU_RUNNER.replace("# Talkers bring", f"# {LOCALE_TEXT}: talkers bring")
    source = written(mini, GPU, text.encode())
    result = extract(source)
    assert LOCALE_TEXT in (result / "vllm_omni/worker/adapters/qwen3_talker.py").read_text(encoding="utf-8")
    assert drive(result) == drive(source)


@pytest.mark.parametrize(
    "body",
    [
        "class Extra(GPUModelRunner): pass\n",
        'class Extra(GPUModelRunner): """One line."""\n',
        'class Extra(GPUModelRunner):\n    """Doc."""; kind = 1\n',
        "class Extra(GPUModelRunner):\n    kind: int\n    other: str = ''\n",
        "class Extra(GPUModelRunner):\n    @property\n    def kind(self):\n        return 1\n",
        "class Extra(GPUModelRunner):\n    # about kind\n    kind = 1; other = 2\n",
        "class Extra(GPUModelRunner):\n\n    # what it is\n\n    # about kind\n    def kind(self):\n        return 1\n",
        "class Extra(\n    GPUModelRunner,\n):\n    def kind(self): return 1\n",
        "if True:\n    class Extra(GPUModelRunner):\n        def kind(self):\n            return 1\n",
        "class Extra(GPUModelRunner):\n    def load_model(self): super().load_model()\n",
        "class Extra(GPUModelRunner):\n    def load_model(self):\n        super().load_model(); self.note('x')\n",
        "class Extra(GPUModelRunner):\n    def load_model(this):\n        GPUModelRunner.load_model(this)\n",
        "class Extra(GPUModelRunner):\n    def load_model(self):\n        if True: super().load_model()\n",
        "class Extra(GPUModelRunner):\n    def load_model(self):\n        with open(__file__):\n"
        "            super().load_model()\n        self.note('x')\n",
    ],
)
def test_class_bodies(mini, extract, drive_code, body):
    probe = (
        "\n\nclass Asks(Extra):\n    def ask(self):\n        return getattr(self.model, 'talker_mtp', None) is None\n"
    )
    header = '"""Doc."""\n\nfrom vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\n'
    source = mini(**{"vllm_omni/worker/extra.py": header + body + probe})
    code = """
        from vllm_omni.model_executor.models import small
        from vllm_omni.worker.extra import Asks
        for model in (small.Plain(), small.Talker()):
            runner = Asks(model)
            runner.load_model()
            print(runner.ask(), getattr(runner, "kind", None) is None)
        """
    result = extract(source)
    assert "_adapter" in (result / "vllm_omni/worker/extra.py").read_text()
    assert drive_code(result, code) == drive_code(source, code)


@pytest.mark.parametrize(
    "head",
    [
        "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n",
        "try:\n    from vllm.v1.worker.gpu_model_runner import GPUModelRunner\nexcept ImportError:\n    raise\n",
        '"""Doc."""\ntry:\n    from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n'
        "except ImportError:\n    raise\n",
        "from __future__ import annotations\ntry:\n    from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n"
        "finally:\n    pass\n",
        "from vllm.v1.worker import gpu_model_runner as upstream\n\nGPUModelRunner = upstream.GPUModelRunner\n",
        "import vllm.v1.worker.gpu_model_runner as upstream\n",
        "from vllm.v1.worker.gpu_model_runner import GPUModelRunner as Upstream\n",
        "from vllm.v1.worker.gpu_model_runner import (\n    GPUModelRunner,  # vLLM's\n)\n",
        "from vllm.v1.worker.gpu_model_runner import GPUModelRunner; import math\n",
        "from vllm_omni.zoo import *\nfrom vllm.v1.worker.gpu_model_runner import GPUModelRunner\n",
        "from .numbers import LIMIT\nfrom vllm.v1.worker.gpu_model_runner import GPUModelRunner\n",
    ],
)
def test_heads_of_modules(mini, extract, drive_code, head):
    base = (
        "Upstream" if "Upstream" in head else "upstream.GPUModelRunner" if "import vllm" in head else "GPUModelRunner"
    )
    runner = (
        f"{head}\n\nclass Extra({base}):\n    def load_model(self):\n        super().load_model()\n\n"
        "    def ask(self):\n        return getattr(self.model, 'talker_mtp', None) is None\n\n\n"
        "from vllm_omni.worker import numbers  # noqa: E402\n\nEND = numbers\n"
    )
    source = mini(**{"vllm_omni/worker/extra.py": runner, "vllm_omni/zoo.py": "ZOO = 1\n"})
    code = """
        from vllm_omni.model_executor.models import small
        from vllm_omni.worker.extra import Extra
        for model in (small.Plain(), small.Talker()):
            runner = Extra(model)
            runner.load_model()
            print(runner.ask())
        """
    result = extract(source)
    assert drive_code(result, code) == drive_code(source, code)


def test_a_runner_file_that_does_not_parse_stops_the_run(mini, extract):
    source = written(mini, AR, AR_RUNNER.replace("class GPUAR", "class class GPUAR").encode())
    with pytest.raises(InputError, match=r"gpu_ar_model_runner\.py .*\(line 16\)"):
        extract(source)


def test_a_tree_without_runners(tree, tmp_path):
    source = tree(
        "none", {"vllm_omni/__init__.py": "", "vllm_omni/worker/gpu_model_runner.py": "class Runner:\n    pass\n"}
    )
    with pytest.raises(InputError, match="no model runner found"):
        run(ExtractRequest(str(source), tmp_path, dry_run=True))


def test_a_dry_run_writes_nothing(mini, tmp_path):
    source = mini()
    before = {path: path.read_bytes() for path in source.rglob("*.py")}
    report = run(ExtractRequest(str(source), tmp_path, dry_run=True))
    assert {path: path.read_bytes() for path in source.rglob("*.py")} == before
    assert any(file.action == "create" for file in report.files)
