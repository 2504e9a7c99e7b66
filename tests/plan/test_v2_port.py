"""The V2 port of a small tree: which files, what the binding says, what is refused and what is left."""

from __future__ import annotations

import ast
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from codemods.carry_prefill_tokens import carry_prefill_tokens
from omni_migrate.checks.names import names
from omni_migrate.checks.parses import parses
from omni_migrate.checks.untouched import untouched
from omni_migrate.errors import InputError, VerificationError
from omni_migrate.facts.modules import Modules
from omni_migrate.plan import v2_port
from omni_migrate.plan.v2_binding import needed_names
from omni_migrate.plan.v2_port import PHASES, V2Port
from omni_migrate.plan.workspace import Workspace
from omni_migrate.runners import in_tree_worker

WORKER = "vllm_omni/worker"
RUNNER = """
class OmniRunner:
    def __init__(self):
        ARCHS = {"ArchB", "ArchA"}
        if self.config.arch in ARCHS or sends_payloads(self.model_config):
            self.init_omni_connectors()

    def talk(self):
        key = getattr(self.model, "talker_mtp_output_key", ("codes", "audio"))
        return key, self.talker_mtp, hasattr(self.model, "dreams"), getattr(self.model, "has_preprocess", False)

    def sample_tokens(self):
        return OmniModelRunnerOutput(req_ids=[], pooler_output=payloads, multimodal_outputs=None)

    def execute_model(self):
        self.model.get_kv_transfer_metadata(req_id)
"""
WORKERS = '''"""Workers."""

from vllm.logger import init_logger

from vllm_omni.worker.runner import OmniRunner

logger = init_logger(__name__)


class {name}(Base):
    def init_device(self):
        if self.use_v2_model_runner:
            logger.warning("V1.")
            self.use_v2_model_runner = False
        self.model_runner = OmniRunner(self.vllm_config, self.device)
'''
TREE = {
    "vllm_omni/__init__.py": "",
    "vllm_omni/worker/__init__.py": "",
    "vllm_omni/outputs.py": "class OmniModelRunnerOutput:\n    multimodal_outputs: list | None = None\n",
    "vllm_omni/templates.py": "class OmniOutput:\n    pass\n",
    "vllm_omni/kv.py": "class OmniKVTransferManager:\n    pass\n",
    "vllm_omni/wire.py": "def deserialize_additional_information(payload):\n    return payload\n",
    "vllm_omni/sched.py": (
        "class OmniNewRequestData:\n    additional_information: object = None\n\n\n"
        "class OmniCachedRequestData:\n    additional_information: dict\n\n\n"
        "def wrap(nr, embeds):\n"
        "    return OmniNewRequestData(\n"
        "        req_id=nr.req_id,\n        block_ids=nr.block_ids,\n        lora_request=nr.lora_request,\n"
        "        prompt_embeds=embeds,\n    )\n"
    ),
    "vllm_omni/worker/connectors.py": "def sends_payloads(config):\n    return False\n",
    "vllm_omni/worker/runner.py": "from vllm_omni.worker.connectors import sends_payloads\n" + RUNNER,
    "vllm_omni/worker/gpu_ar_worker.py": WORKERS.format(name="GPUARWorker"),
    "vllm_omni/worker/gpu_generation_worker.py": WORKERS.format(name="GPUGenerationWorker"),
    "vllm_omni/platforms/xpu/worker/worker.py": WORKERS.format(name="XPUARWorker"),
}


def port(root):
    modules = Modules(Workspace(root))
    return V2Port(modules, "vllm_omni"), modules.workspace


def planned(root):
    ported, workspace = port(root)
    return ported.plan(), ported, workspace


def write(root, plan) -> None:
    for change in plan.net_changes():
        (root / change.path).parent.mkdir(parents=True, exist_ok=True)
        (root / change.path).write_bytes(change.after)


def binding_of(root) -> dict[str, object]:
    """The constants of the binding, and its source."""
    source = port(root)[0].binding.decode()
    found = {"source": source}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and node.targets[0].id != "__all__":
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def test_the_phases_bring_each_module_once_and_as_it_is_in_tree(tree):
    plan, ported, _ = planned(tree(files=TREE))
    assert [phase.number for phase in plan.phases] == list(PHASES)
    created = [change.path for phase in plan.phases for change in phase.changes if change.before is None]
    assert len(created) == len(set(created))
    assert set(created) == {*ported.files, f"{WORKER}/binding.py"}
    for change in plan.net_changes():
        if change.path in ported.files:
            assert change.after == in_tree_worker()[change.path.removeprefix(f"{WORKER}/")]


def test_the_closure_has_what_the_v2_runners_import_and_no_v1_runner(tree):
    ported, _ = port(tree(files=TREE))
    assert {path.removeprefix(f"{WORKER}/") for path in ported.files} >= {
        "hooks.py", "model_traits.py", "step_inputs.py", "step_outputs.py", "step.py", "request_store.py",
        "host_copy.py", "async_output.py", "kv_transfer.py", "adopt.py",
        "gpu_model_runner_v2.py", "gpu_ar_model_runner_v2.py", "gpu_generation_model_runner_v2.py",
        "hook_adapters/__init__.py", "hook_adapters/base.py", "hook_adapters/registry.py",
    }  # fmt: skip
    assert not {f"{WORKER}/{name}" for name in ("gpu_model_runner.py", "mixins.py", "__init__.py")} & set(ported.files)


def test_no_v2_module_is_imported_before_it_is_wanted(tree):
    _, _, workspace = planned(tree(files=TREE))
    for name in ("gpu_ar_worker.py", "gpu_generation_worker.py", "binding.py", "hooks.py", "step_outputs.py"):
        module = ast.parse(workspace.read(f"{WORKER}/{name}"))
        imported = {node.module for node in module.body if isinstance(node, ast.ImportFrom)}
        assert not any("_v2" in name or name.startswith("vllm.v1.worker.gpu.") for name in imported)


def test_the_binding_says_what_the_tree_has(tree):
    found = binding_of(tree(files=TREE))
    assert found["TALKER_MTP_NAMES"] == ("talker_mtp",)
    assert found["TALKER_MTP_OUTPUT_KEY"] == ("codes", "audio")
    assert found["PAYLOAD_FIELDS"] == ("pooler_output",)
    assert found["UNPORTED"] == ("dreams",)
    assert found["CONNECTED"] == ("ArchA", "ArchB")
    source = found["source"]
    assert "from vllm_omni.wire import deserialize_additional_information\n" in source
    assert "if sends_payloads(config) or archs & set(CONNECTED):" in source
    assert "model_intermediate_buffer" not in source
    assert "model.get_kv_transfer_metadata(req_id) or {}" in source


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("vllm_omni/worker/runner.py", "multimodal_outputs=None", "multimodal_outputs=payloads",
         'PAYLOAD_FIELDS = ("pooler_output", "multimodal_outputs")'),
        ("vllm_omni/worker/runner.py", '("codes", "audio")', '"codes_of"', 'TALKER_MTP_OUTPUT_KEY = "codes_of"'),
        ("vllm_omni/worker/runner.py", "get_kv_transfer_metadata(req_id)",
         "get_kv_transfer_metadata(req_id, num_computed_tokens=n)", 'num_computed_tokens=request.get("seq_len")'),
        ("vllm_omni/sched.py", "additional_information: object = None",
         "additional_information: object = None\n    model_intermediate_buffer: dict | None = None",
         "info or dict(new_request.model_intermediate_buffer or {})"),
        ("vllm_omni/sched.py", "    additional_information: dict\n", "    pass\n", "    return {}\n"),
    ],
)  # fmt: skip
def test_the_binding_follows_the_tree(tree, path, old, new, expected):
    assert old in TREE[path]
    assert expected in binding_of(tree(files={**TREE, path: TREE[path].replace(old, new)}))["source"]


IMPORT = "from vllm_omni.worker.connectors import sends_payloads\n"
DREAMS = 'hasattr(self.model, "dreams")'
OUTPUT = "return OmniModelRunnerOutput(req_ids=[], pooler_output=payloads, multimodal_outputs=None)"


@pytest.mark.parametrize(
    "edits",
    [
        [(IMPORT, f"{IMPORT}from vllm_omni.outputs import OmniModelRunnerOutput as Given\n"),
         ("return OmniModelRunnerOutput(", "return Given(")],
        [("return OmniModelRunnerOutput(", "return outputs.OmniModelRunnerOutput(")],
        [(OUTPUT, "made = OmniModelRunnerOutput(req_ids=[])\n        made.pooler_output = payloads")],
        [(IMPORT, IMPORT.replace("payloads\n", "payloads as sends\n")), ("or sends_payloads(", "or sends(")],
        [(IMPORT, "import vllm_omni.worker.connectors as connectors\n"), ("or sends_", "or connectors.sends_")],
        [("if self.config.arch in ARCHS or sends", "if (self.archs & ARCHS) or self.ready and sends")],
        [(IMPORT, f'{IMPORT}ARCHS = frozenset({{"ArchA", "ArchB"}})\n'), ('        ARCHS = {"ArchB", "ArchA"}\n', "")],
        [("        if self.config", "        self._connect()\n\n    def _connect(self):\n        if self.config"),
         ('        ARCHS = {"ArchB", "ArchA"}\n', ""), (IMPORT, f'{IMPORT}ARCHS = {{"ArchB", "ArchA"}}\n')],
        [(DREAMS, "hasattr(self.model, 'dreams')")],
        [(DREAMS, 'hasattr(held, "dreams")'),
         ("    def talk(self):\n", "    def talk(self):\n        held = self.model\n")],
        [(DREAMS, "hasattr(self.model, NAME)"), (IMPORT, f'{IMPORT}NAME = "dreams"\n')],
        [(DREAMS, 'hasattr(getattr(self, "model", None), "dreams")')],
        [(DREAMS, 'self._asks("dreams")'),
         ("    def talk(self):\n", "    def _asks(self, name):\n        return getattr(self.model, name, 0)\n\n"
          "    def talk(self):\n")],
        [('"talker_mtp_output_key", ("codes", "audio")', "KEY, CODES"),
         (IMPORT, f'{IMPORT}KEY = "talker_mtp_output_key"\nCODES = ("codes", "audio")\n')],
        [("    def talk(self):\n", '    def talk(self):\n        """Not self.mtp."""  # nor self.mtp\n')],
    ],
)  # fmt: skip
def test_the_binding_does_not_hang_on_how_the_runners_are_written(tree, edits):
    path = f"{WORKER}/runner.py"
    text = TREE[path]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    expected = binding_of(tree("as_it_was", TREE))["source"]
    assert binding_of(tree("rewritten", {**TREE, path: text}))["source"] == expected


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("OmniModelRunnerOutput(req_ids=[], ", "OmniModelRunnerOutput(**more, ", "runner.py:14 does not say by name"),
        (
            "if self.config.arch in ARCHS or",
            "if self.odd or",
            "runner.py:7 sets up a connector of the runner's own on a",
        ),
        ("if self.config.arch in ARCHS or sends_payloads(self.model_config):", "if True:", "runner.py:7 sets up"),
        ('("codes", "audio"))', "default_key())", "runner.py:10 has a default of talker_mtp_output_key"),
        (
            "self.talker_mtp,",
            'getattr(self.model, "talker_mtp_output_key", "other"), self.talker_mtp,',
            "runner.py:10, vllm_omni/worker/runner.py:11 have different defaults",
        ),
        (
            "self.model.get_kv_transfer_metadata(req_id)",
            'getattr(self.model, "get_kv_transfer_metadata")(req_id)',
            "ask a model for get_kv_transfer_metadata in a way that is not known",
        ),
    ],
)
def test_what_the_runners_do_in_a_way_that_is_not_known_is_refused_with_its_line(tree, old, new, said):
    path = f"{WORKER}/runner.py"
    assert old in TREE[path]
    with pytest.raises(InputError, match=re.escape(said)):
        planned(tree(files={**TREE, path: TREE[path].replace(old, new)}))


def test_a_helper_in_the_runner_s_base_outside_of_worker_is_read_too(tree):
    base = "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n\n\nclass Base(GPUModelRunner):\n"
    base += '    def _nightly(self):\n        return getattr(self.model, "nightmares", None)\n'
    runner = "from vllm_omni.base import Base\n" + TREE[f"{WORKER}/runner.py"].replace(
        "OmniRunner:", "OmniRunner(Base):"
    )
    files = {**TREE, "vllm_omni/base.py": base, f"{WORKER}/runner.py": runner}
    assert binding_of(tree(files=files))["UNPORTED"] == ("dreams", "nightmares")


def test_what_an_adapter_asks_the_runner_s_model_is_read_too(tree):
    adapter = "class DreamAdapter:\n    def wake(self, runner):\n        held = runner.model\n"
    adapter += '        return hasattr(held, "wakes"), getattr(getattr(runner, "model", None), "sleeps", None)\n'
    files = {**TREE, f"{WORKER}/adapters/dream.py": adapter}
    assert binding_of(tree(files=files))["UNPORTED"] == ("dreams", "sleeps", "wakes")


def test_a_model_that_gives_itself_what_v2_lacks_is_named(tree):
    model = "class Dreamer:\n    def __init__(self):\n        self.dreams = True\n\n\n"
    model += "class Awake:\n    def __init__(self):\n        self.dreams = False\n"
    found = binding_of(tree(files={**TREE, "vllm_omni/model_executor/models/dreamer.py": model}))
    assert found["ASSIGNED"] == (("Dreamer", "dreams"),)


def test_a_tree_without_a_decoder_gets_one_for_its_entries(tree):
    entry = "class AdditionalInformationEntry:\n    tensor_data: bytes\n    list_data: list\n"
    source = binding_of(tree(files={**TREE, "vllm_omni/wire.py": entry}))["source"]
    assert "_information(new_request.additional_information)" in source
    assert "info[name] = entry.list_data\n" in source


def test_the_binding_has_every_name_that_the_modules_take_from_it(tree):
    module = ast.parse(port(tree(files=TREE))[0].binding)
    exported = next(n.value for n in module.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__")
    defined = {getattr(node, "name", None) for node in module.body}
    defined |= {target.id for node in module.body if isinstance(node, ast.Assign) for target in node.targets}
    defined |= {alias.name for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert needed_names() <= set(ast.literal_eval(exported)) <= defined


@pytest.mark.parametrize("missing", ["vllm_omni/templates.py", "vllm_omni/kv.py", "vllm_omni/outputs.py"])
def test_what_the_binding_needs_and_the_tree_lacks_is_said_in_one_line(tree, missing):
    files = {path: text for path, text in TREE.items() if path != missing}
    with pytest.raises(InputError, match=r"^no V2 port: \w+ is defined in no module; .*$"):
        planned(tree(files=files))


def test_a_name_that_is_defined_twice_is_not_guessed(tree):
    with pytest.raises(InputError, match=r"OmniOutput is defined in vllm_omni/other.py:1, vllm_omni/templates.py:1;"):
        planned(tree(files={**TREE, "vllm_omni/other.py": TREE["vllm_omni/templates.py"]}))


@pytest.mark.parametrize("path", ["hooks.py", "binding.py", "hook_adapters/base.py"])
def test_a_file_in_the_way_is_refused_and_nothing_is_planned(tree, path):
    root = tree(files={**TREE, f"{WORKER}/{path}": "mine = True\n"})
    ported, workspace = port(root)
    with pytest.raises(InputError, match=f"^{WORKER}/{path} is in the way: .*; move it elsewhere first$"):
        ported.plan()
    assert workspace.changes_since({}) == ()


@pytest.mark.parametrize(
    ("edited", "more"),
    [({"step.py": b"# more\n"}, ""), ({"hooks.py": b"x = 1\n", "binding.py": b"y = 1\n"}, " and 1 more")],
)
def test_a_file_of_the_port_that_was_edited_is_named_with_its_line_and_what_to_do(tree, edited, more):
    root = tree(files=TREE)
    plan, ported, _ = planned(root)
    write(root, plan)
    for name, addition in edited.items():
        with (root / WORKER / name).open("ab") as file:
            file.write(addition)
    first = next(iter(edited))
    line = ported.files[f"{WORKER}/{first}"].count(b"\n") + 1
    paths = " ".join(f"{WORKER}/{name}" for name in edited)
    with pytest.raises(InputError) as raised:
        planned(root)
    assert str(raised.value).startswith(f"{WORKER}/{first}:{line}{more} is not as port-v2 writes it: ")
    assert f"(git rm {paths})" in str(raised.value)
    assert set(edited) <= {path.removeprefix(f"{WORKER}/") for path in port(root)[0].own_paths()}


def test_the_result_parses_has_every_name_and_leaves_other_lines(tree):
    root = tree(files=TREE)
    plan, ported, _ = planned(root)
    changes = plan.net_changes()
    assert parses(changes) == []
    assert [(f.path, f.message) for f in names(changes)] == []
    for change in changes:
        if change.before is not None:
            assert untouched(change.path, change.before, change.after, ported.touched(change.path, change.before)) == []


def test_the_lines_that_may_differ_are_those_of_the_planned_edits(tree):
    root = tree(files=TREE)
    _, ported, _ = planned(root)
    touched = {path: ported.touched(path, text.encode()) for path, text in TREE.items()}
    lines = WORKERS.splitlines()
    guard, warning, built = (
        1 + i for i, line in enumerate(lines) if "if self" in line or "V1." in line or "= Om" in line
    )
    place = lines.index("from vllm_omni.worker.runner import OmniRunner") + 1
    chosen = [(place, place - 1), (guard, guard), (warning, warning), (built, built)]
    lora = TREE["vllm_omni/sched.py"].splitlines().index("        lora_request=nr.lora_request,") + 1
    assert {path: sorted(spans) for path, spans in touched.items() if spans} == {
        f"{WORKER}/gpu_ar_worker.py": chosen,
        f"{WORKER}/gpu_generation_worker.py": chosen,
        "vllm_omni/sched.py": [(lora, lora)],
    }


@pytest.mark.parametrize("path", [f"{WORKER}/gpu_ar_worker.py", "vllm_omni/sched.py"])
def test_a_stray_change_of_any_other_line_is_seen(tree, path):
    _, ported, workspace = planned(tree(files=TREE))
    before, after = TREE[path].encode(), workspace.read(path)
    touched = ported.touched(path, before)
    free = {line for first, last in touched for line in range(first, last + 1)}
    for number, line in enumerate(before.split(b"\n"), start=1):
        if line and number not in free:
            assert after.count(line) >= 1
            assert untouched(path, before, after.replace(line, line + b" "), touched) != [], line


def test_a_second_run_plans_nothing(tree):
    root = tree(files=TREE)
    write(root, planned(root)[0])
    plan, ported, _ = planned(root)
    assert plan.net_changes() == ()
    assert [finding.symbol for finding in ported.findings] == ["XPUARWorker"]


def test_windows_line_ends_stay(tree):
    root = tree(files=TREE)
    for path in ("sched.py", "worker/gpu_ar_worker.py"):
        file = root / "vllm_omni" / path
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    after = {change.path: change.after for change in planned(root)[0].net_changes()}
    for path in ("sched.py", "worker/gpu_ar_worker.py"):
        assert b"\n" not in after[f"vllm_omni/{path}"].replace(b"\r\n", b"")


def test_a_platform_s_worker_stays_and_is_said_with_the_reason(tree):
    _, ported, workspace = planned(tree(files=TREE))
    (finding,) = ported.findings
    assert (finding.path, finding.line, finding.symbol) == (
        "vllm_omni/platforms/xpu/worker/worker.py",
        12,
        "XPUARWorker",
    )
    assert "a V2 runner of the XPU platform is not written" in finding.message
    assert workspace.read(finding.path) == TREE[finding.path].encode()


def test_a_worker_of_an_unknown_shape_stays_and_is_said(tree):
    path = "vllm_omni/worker/gpu_ar_worker.py"
    odd = TREE[path].replace("self.device)", "self.device, extra=1)")
    _, ported, workspace = planned(tree(files={**TREE, path: odd}))
    finding = next(finding for finding in ported.findings if finding.symbol == "GPUARWorker")
    assert (finding.path, finding.line) == (path, 15)
    assert workspace.read(path) == odd.encode()


GUARDED = WORKERS.format(name="GPUARWorker").replace("(Base)", "(ForcesV1)")
UNGUARDED = "\n".join(line for i, line in enumerate(GUARDED.splitlines()) if i not in (11, 12, 13)) + "\n"
FORCES = "class ForcesV1:\n    def __init__(self):\n        self.use_v2_model_runner = False\n"


@pytest.mark.parametrize("worker", [GUARDED, UNGUARDED])
def test_a_worker_whose_base_in_another_file_forces_v1_stays_and_is_said(tree, worker):
    path = f"{WORKER}/gpu_ar_worker.py"
    worker = "from vllm_omni.mixins import ForcesV1\n" + worker
    more = {"vllm_omni/mixins/__init__.py": "from .forced import ForcesV1\n", "vllm_omni/mixins/forced.py": FORCES}
    _, ported, workspace = planned(tree(files={**TREE, **more, path: worker}))
    finding = next(finding for finding in ported.findings if finding.symbol == "GPUARWorker")
    assert "vllm_omni/mixins/forced.py:3 ForcesV1.__init__ sets use_v2_model_runner too" in finding.message
    assert workspace.read(path) == worker.encode()


def test_a_worker_that_forces_v1_in_another_method_stays_and_is_said(tree):
    path = f"{WORKER}/gpu_ar_worker.py"
    worker = UNGUARDED + "\n    def load_model(self):\n        self.use_v2_model_runner = False\n"
    _, ported, workspace = planned(tree(files={**TREE, path: worker}))
    finding = next(finding for finding in ported.findings if finding.symbol == "GPUARWorker")
    assert "GPUARWorker.load_model sets use_v2_model_runner too" in finding.message
    assert workspace.read(path) == worker.encode()


def test_a_worker_that_is_not_there_is_said(tree):
    files = {path: text for path, text in TREE.items() if "generation" not in path}
    _, ported, _ = planned(tree(files=files))
    assert "there is no worker GPUGenerationWorker" in " ".join(finding.message for finding in ported.findings)


BROKEN = "def (\n"


@pytest.mark.parametrize(
    ("addition", "skip", "why"),
    [(BROKEN, (), r"cannot be parsed: .*"), ("", ("vllm_omni/sched.py",), "is listed under `skip`")],
)
def test_where_the_binding_needs_a_file_that_is_not_read_the_file_is_named(tree, addition, skip, why):
    root = tree(files={**TREE, "vllm_omni/sched.py": TREE["vllm_omni/sched.py"] + addition})
    said = rf"^no V2 port: OmniNewRequestData is defined in no module that is read: vllm_omni/sched.py {why};"
    with pytest.raises(InputError, match=said):
        V2Port(Modules(Workspace(root), skip), "vllm_omni").plan()


def test_a_worker_whose_file_is_skipped_is_said_with_its_file(tree):
    path = f"{WORKER}/gpu_ar_worker.py"
    ported = V2Port(Modules(Workspace(tree(files=TREE)), (path,)), "vllm_omni")
    ported.plan()
    finding = next(finding for finding in ported.findings if finding.symbol == "GPUARWorker")
    assert (finding.path, finding.message.partition(": ")[2]) == (path, f"{path} is listed under `skip`")


def test_a_subclass_with_a_runner_of_its_own_is_said(tree):
    more = "from vllm_omni.worker.gpu_ar_worker import GPUARWorker\n\n\n"
    more += "class Mine(GPUARWorker):\n    model_runner_cls = X\n"
    _, ported, _ = planned(tree(files={**TREE, "vllm_omni/worker/mine.py": more}))
    finding = next(finding for finding in ported.findings if finding.symbol == "Mine")
    assert (finding.path, finding.line) == ("vllm_omni/worker/mine.py", 5)


def chosen(root, monkeypatch, *, v2: bool, reason: str | None) -> tuple[str, list[str]]:
    """Runs the written AR worker over stand-ins: the runner that it builds, and what it logs."""
    _, _, workspace = planned(root)
    logged: list[str] = []

    def runner(name):
        return type(name, (), {"__init__": lambda self, config, device: None})

    stubs = {
        "vllm": {}, "vllm_omni": {}, "vllm_omni.worker": {},
        "vllm.logger": {"init_logger": lambda _: SimpleNamespace(warning=lambda text, *a: logged.append(text % a))},
        "vllm_omni.worker.runner": {"OmniRunner": runner("V1")},
        "vllm_omni.worker.binding": {"v1_reason": lambda config: reason, "FinishedKVTransfer": lambda runner: "kv"},
        "vllm_omni.worker.gpu_ar_model_runner_v2": {"GPUARModelRunnerV2": runner("V2")},
    }  # fmt: skip
    for name, members in stubs.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    base = type("Base", (), {"vllm_config": None, "device": None, "use_v2_model_runner": v2})
    space = {"Base": base, "__name__": "written"}
    exec(compile(workspace.read(f"{WORKER}/gpu_ar_worker.py"), "gpu_ar_worker.py", "exec"), space)
    worker = space["GPUARWorker"]()
    worker.init_device()
    built = type(worker.model_runner).__name__
    assert worker.use_v2_model_runner is (built == "V2")
    assert getattr(worker.model_runner, "kv_transfer", None) == ("kv" if built == "V2" else None)
    return built, logged


@pytest.mark.parametrize(
    ("v2", "reason", "built", "logged"),
    [
        (False, None, "V1", []),
        (False, "a reason", "V1", []),
        (True, None, "V2", []),
        (True, "a reason", "V1", ["OMNI GPUARWorker forces v1 model runner: a reason"]),
    ],
)
def test_the_written_worker_chooses(tree, monkeypatch, v2, reason, built, logged):
    assert chosen(tree(files=TREE), monkeypatch, v2=v2, reason=reason) == (built, logged)


CONFIG = {"async_chunk": False, "engine_output_type": "audio", "architectures": ["Tiny"]}


@pytest.mark.parametrize(
    ("config", "more", "said"),
    [
        ({}, {}, None),
        ({"async_chunk": True}, {}, "async_chunk"),
        ({"architectures": ["ArchB"]}, {}, "connector"),
        ({"sends": True}, {}, "connector"),
        ({}, {"stages": 2}, "pipeline parallelism"),
        ({}, {"caching": True}, "prefix cache"),
        ({"engine_output_type": "text"}, {"caching": True}, None),
        ({"architectures": ["Dreamer"]}, {}, "Dreamer has dreams, which is not ported to V2"),
        ({}, {"no_states": True}, "no model states"),
    ],
)
def test_the_written_reason_names_what_v2_does_not_do(tree, monkeypatch, config, more, said):
    files = {**TREE, f"{WORKER}/runner.py": TREE[f"{WORKER}/runner.py"] + "\n    omni_prefix_cache = None\n"}
    binding = ast.parse(port(tree(files=files))[0].binding)
    wanted = [n for n in binding.body if getattr(n, "name", "") == "v1_reason"]
    wanted += [n for n in binding.body if isinstance(n, ast.Assign) and n.targets[0].id in ("UNPORTED", "CONNECTED")]
    space = {
        "find_spec": lambda name: None if more.get("no_states") else object(),
        "sends_payloads": lambda model_config: getattr(model_config, "sends", False),
        "Any": object,
    }
    exec(compile(ast.Module(wanted, []), "binding.py", "exec"), space)
    loader = ModuleType("vllm.model_executor.model_loader.utils")
    models = {"Tiny": type("Tiny", (), {}), "Dreamer": type("Dreamer", (), {"dreams": True})}
    loader.get_model_cls = lambda model_config: models[model_config.architectures[0]]
    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.model_loader"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, loader.__name__, loader)
    reason = space["v1_reason"](
        SimpleNamespace(
            model_config=SimpleNamespace(**{**CONFIG, **config}),
            parallel_config=SimpleNamespace(pipeline_parallel_size=more.get("stages", 1)),
            cache_config=SimpleNamespace(enable_prefix_caching=more.get("caching", False)),
        )
    )
    assert reason is None if said is None else said in reason


def verified(root) -> None:
    """Plans the port of a tree and holds it to the command's checks."""
    from omni_migrate.config import Config
    from omni_migrate.port_v2 import _Found
    from omni_migrate.request import PortRequest
    from omni_migrate.sources import resolve

    found = _Found(PortRequest(source=str(root), cwd=root), resolve(str(root), cwd=root), Config())
    own = V2Port(found.modules, "vllm_omni")
    found.verify(found.plan(own), own)


RUNNERS = {
    f"{WORKER}/runner.py": "from vllm.v1.worker.gpu_model_runner import GPUModelRunner\n"
    + TREE[f"{WORKER}/runner.py"].replace("class OmniRunner:", "class OmniRunner(GPUModelRunner):")
}


@pytest.mark.parametrize(
    ("stray", "rule"),
    [
        (lambda text: text.replace("prompt_embeds=embeds", "prompt_embeds=None"), "check-untouched"),
        (lambda text: text.replace("# as they are\n", "\n"), "check-comments"),
        (lambda text: text.replace("prefill_token_ids=", "prefill_token_ids =  # for V2\n"), "check-comments"),
    ],
)
def test_a_codemod_that_changes_more_than_was_planned_is_caught(tree, monkeypatch, stray, rule):
    files = {**TREE, **RUNNERS}
    files["vllm_omni/sched.py"] = TREE["vllm_omni/sched.py"].replace(
        "lora_request,\n", "lora_request,  # as they are\n"
    )
    verified(tree("well", files))
    monkeypatch.setattr(v2_port, "carry_prefill_tokens", lambda *a: stray(carry_prefill_tokens(*a)))
    with pytest.raises(VerificationError, match=f"{rule}: vllm_omni/sched.py:"):
        verified(tree("ill", files))
