"""What `rewire_patches` makes of a test module, before and after; what it leaves alone comes first."""

from __future__ import annotations

import pytest

from codemods.rewire_patches import Reader, Rewired, rewire_patches
from omni_migrate.facts.modules import Module
from omni_migrate.plan.workspace import decode

RUNNER = "vllm_omni.worker.gpu_model_runner"
ADAPTER = "vllm_omni.worker.adapters.talker"
TARGETS = {RUNNER: {"context": [Reader(ADAPTER)], "logger": [Reader(ADAPTER, own=True)]}}
IMPORT = "import vllm_omni.worker.gpu_model_runner as mod\n\n"


def rewire(source: str) -> Rewired:
    return rewire_patches(Module("tests/worker/test_talker.py", decode(source.encode())), TARGETS)


# -- left alone


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(IMPORT + 'monkeypatch.setattr(mod, "get_pp_group", f)\n', id="a name that no moved code reads"),
        pytest.param('monkeypatch.setattr("vllm_omni.worker.other.context", f)\n', id="another module"),
        pytest.param('import other as mod\nmonkeypatch.setattr(mod, "context", f)\n', id="another module of that name"),
        pytest.param(
            IMPORT + 'def test(mod, monkeypatch):\n    monkeypatch.setattr(mod, "context", f)\n',
            id="a parameter of that name",
        ),
        pytest.param(
            IMPORT + 'def test(monkeypatch):\n    mod = Fake()\n    monkeypatch.setattr(mod, "context", f)\n',
            id="a local of that name",
        ),
        pytest.param(IMPORT + 'getattr(mod, "context")\nf(mod.context)\n', id="reads"),
        pytest.param(IMPORT + "monkeypatch.setattr(mod, name, f)\n", id="a name computed at run time"),
        pytest.param(IMPORT + 'monkeypatch.setattr(mod.context, "x", f)\n', id="an object that both modules share"),
        pytest.param(
            f'monkeypatch.setattr("{RUNNER}.context", f)\nmonkeypatch.setattr("{ADAPTER}.context", f)\n',
            id="patched there already",
        ),
    ],
)
def test_nothing_to_do(source):
    rewired = rewire(source)
    assert (rewired.text, rewired.left, rewired.added) == (source, [], [])


@pytest.mark.parametrize(
    ("source", "line"),
    [
        pytest.param(f'@patch("{RUNNER}.context", f)\ndef test():\n    pass\n', 1, id="a decorator"),
        pytest.param(f'@mock.patch(\n    "{RUNNER}.context",\n    f,\n)\nclass Test:\n    pass\n', 1, id="of a class"),
        pytest.param(f'with patch("{RUNNER}.context") as context:\n    run()\n', 1, id="a with item"),
        pytest.param(IMPORT + 'with patch.object(mod, "context"):\n    run()\n', 3, id="a with item, by object"),
        pytest.param(f'patcher = patch("{RUNNER}.context")\n', 1, id="a patcher that is started later"),
        pytest.param(f'from unittest import mock\nmock.patch("{RUNNER}.context").start()\n', 2, id="started at once"),
        pytest.param(IMPORT + "mod.context = f\n", 3, id="an assignment"),
        pytest.param(IMPORT + 'setattr(mod, "context", f)\n', 3, id="the builtin setattr"),
        pytest.param(f'monkeypatch.setattr("{RUNNER}.context", make())\n', 1, id="a value that is made by a call"),
        pytest.param(IMPORT + 'if 1: monkeypatch.setattr(mod, "context", f)\n', 3, id="on the line of its header"),
        pytest.param(IMPORT + 'monkeypatch.setattr(mod, "context", f); run()\n', 3, id="beside another statement"),
        pytest.param(IMPORT + 'undo = [monkeypatch.setattr(mod, "context", f)]\n', 3, id="inside an expression"),
    ],
)
def test_left_with_what_to_add(source, line):
    rewired = rewire(source)
    assert rewired.text == source
    ((left),) = rewired.left
    assert (left.line, left.target, left.missing) == (line, f"{RUNNER}.context", (f"{ADAPTER}.context",))


# -- rewired


@pytest.mark.parametrize(
    ("source", "added"),
    [
        pytest.param(
            IMPORT + 'monkeypatch.setattr(mod, "context", f)\n',
            f'monkeypatch.setattr("{ADAPTER}.context", f)\n',
            id="a module and a name",
        ),
        pytest.param(
            'from vllm_omni.worker import gpu_model_runner\n\nmonkeypatch.setattr(gpu_model_runner, "context", f)\n',
            f'monkeypatch.setattr("{ADAPTER}.context", f)\n',
            id="a module from its package",
        ),
        pytest.param(
            f'import {RUNNER}\n\nmonkeypatch.setattr({RUNNER}, "context", f, raising=False)\n',
            f'monkeypatch.setattr("{ADAPTER}.context", f, raising=False)\n',
            id="a module by its full name",
        ),
        pytest.param(
            f'mod = importlib.import_module("{RUNNER}")\nmonkeypatch.setattr(mod, "context", f)\n',
            f'monkeypatch.setattr("{ADAPTER}.context", f)\n',
            id="a module by a call",
        ),
        pytest.param(
            f'monkeypatch.setattr("{RUNNER}.context", lambda *a: None)  # no device\n',
            f'monkeypatch.setattr("{ADAPTER}.context", lambda *a: None)\n',
            id="a text",
        ),
        pytest.param(
            f'MOD = "{RUNNER}"\nmonkeypatch.setattr(f"{{MOD}}.context", f)\n',
            f'monkeypatch.setattr("{ADAPTER}.context", f)\n',
            id="a text of a constant",
        ),
        pytest.param(
            f'mocker.patch("{RUNNER}.context", return_value=3)\n',
            f'mocker.patch("{ADAPTER}.context", return_value=3)\n',
            id="mocker",
        ),
        pytest.param(
            f'context = mocker.patch("{RUNNER}.context", autospec=True)\n',
            f'mocker.patch("{ADAPTER}.context", context)\n',
            id="a mock that the test looks at later: the same one",
        ),
        pytest.param(
            IMPORT + 'mocker.patch.object(mod, "context", f)\n',
            f'mocker.patch("{ADAPTER}.context", f)\n',
            id="mocker, by object",
        ),
        pytest.param(
            IMPORT + 'monkeypatch.setattr(mod, "context", make(1))\n',
            f'monkeypatch.setattr("{ADAPTER}.context", mod.context)\n',
            id="a value that is made by a call is made once",
        ),
        pytest.param(
            IMPORT + 'monkeypatch.setattr(\n    mod,\n    "context",\n    lambda: [\n        1,\n    ],\n)\n',
            f'monkeypatch.setattr("{ADAPTER}.context", mod.context)\n',
            id="a value of several lines",
        ),
        pytest.param(
            IMPORT + 'monkeypatch.setattr(mod.logger, "warning", f)\n',
            f'monkeypatch.setattr("{ADAPTER}.logger.warning", f)\n',
            id="an attribute of an object that each module has for itself",
        ),
    ],
)
def test_the_adapter_is_patched_too(source, added):
    rewired = rewire(source)
    assert (rewired.text, rewired.left) == (source + added, [])
    assert rewire(rewired.text).added == []


def test_indentation_line_ends_and_a_file_without_a_last_line_end():
    source = IMPORT + 'def test(monkeypatch):\n    with x:\n        monkeypatch.setattr(mod, "context", f)'
    expected = source + f'\n        monkeypatch.setattr("{ADAPTER}.context", f)\n'
    assert rewire(source).text == expected
    assert rewire(source.replace("\n", "\r\n")).text == expected.replace("\n", "\r\n")


def test_a_long_call_is_broken_as_the_formatter_does():
    value = "a_function_with_a_very_long_name_that_fills_the_line_up_to_its_end"
    rewired = rewire(IMPORT + f'monkeypatch.setattr(mod, "context", {value})\n')
    assert rewired.text.endswith(f'monkeypatch.setattr(\n    "{ADAPTER}.context", {value}\n)\n')


def test_two_patches_of_a_name_one_after_the_other():
    first, second = (f'monkeypatch.setattr(mod, "context", {value})\n' for value in "fg")
    sent = [f'monkeypatch.setattr("{ADAPTER}.context", {value})\n' for value in "fg"]
    assert rewire(IMPORT + first + second).text == IMPORT + first + sent[0] + second + sent[1]


def test_every_test_of_a_file_has_its_own_names():
    source = (
        f"def test_one(monkeypatch):\n    import {RUNNER} as m\n\n"
        '    monkeypatch.setattr(m, "context", f)\n\n\n'
        "def test_two(monkeypatch):\n    import other as m\n\n"
        '    monkeypatch.setattr(m, "context", f)\n'
    )
    assert rewire(source).text.count(ADAPTER) == 1


def test_lines_of_what_is_left_are_those_of_the_new_text():
    rewired = rewire(IMPORT + 'monkeypatch.setattr(mod, "context", f)\n\n\ndef test():\n    mod.context = g\n')
    assert [left.line for left in rewired.left] == [8]
    assert rewired.line_now(7) == 8
