"""Which places of a runner's method are specific to a model, and who claims them."""

from __future__ import annotations

import ast

import pytest

from omni_migrate.facts.helpers import Helper, probing_helpers
from omni_migrate.facts.runners import RunnerClass
from omni_migrate.facts.sites import Claims, dispatched_hook, model_aliases, sites_of_method
from omni_migrate.knowledge import AdapterSpec

RUNNER = RunnerClass("Runner", "vllm_omni/worker/runner.py", 1, (), (), "V1", "runner", "")
SPECS = (
    AdapterSpec(
        "talker", "TalkerAdapter", 3, "", capabilities=("talks",), state={"ready": False}, methods={"_talk": "talk"}
    ),
    AdapterSpec("mimo", "MimoAdapter", 4, "", class_names=("Mimo",)),
    AdapterSpec("rope", "RopeAdapter", 2, "", metadata=("grid",), capabilities=("config",), default="owner"),
)
INTERFACE = {"forward", "config", "unwrap"}


def sites(body: str, name: str = "step", arguments: str = "self, batch") -> list[tuple[str, str, str | None, int]]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    function = ast.parse(f"def {name}({arguments}):\n{lines}").body[0]
    helpers = {"_flag": Helper(1), "_has": Helper(0), "talks_of": Helper(0, frozenset({"talks"}))}
    found = sites_of_method(function, RUNNER, Claims(SPECS, INTERFACE), helpers)
    return [(site.rule, site.subject, site.adapter, site.line) for site, _ in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.model.talks", ("model-probe", "talks", "talker")),
        ("self.get_model().talks", ("model-probe", "talks", "talker")),
        ("hasattr(self.model, 'talks')", ("model-probe", "talks", "talker")),
        ("getattr(getattr(self, 'model', None), 'talks', None)", ("model-probe", "talks", "talker")),
        ("self.model.talks(1)", ("model-probe", "talks", "talker")),
        ("m = self.model\nm.talks", ("model-probe", "talks", "talker")),
        ("if (m := self.model) is not None:\n    m.talks", ("model-probe", "talks", "talker")),
        ("self.model.unknown", ("model-probe", "unknown", None)),
        ("self._flag(self.model, 'talks')", ("model-probe", "talks", "talker")),
        ("self._has('talks')", ("model-probe", "talks", "talker")),
        ("_has('talks')", ("model-probe", "talks", "talker")),
        ("talks_of(self.model)", ("model-probe", "talks", "talker")),
        ("[m for m in batch if hasattr(self.model, 'talks')]", ("model-probe", "talks", "talker")),
        ("self.model.__class__.__name__ == 'Mimo'", ("model-class-test", "Mimo", "mimo")),
        ("'Mimo' != type(self.model).__name__", ("model-class-test", "Mimo", "mimo")),
        ("type(self.model).__qualname__ == 'Mimo'", ("model-class-test", "Mimo", "mimo")),
        ("'Mimo' in self.model.__class__.__name__", ("model-class-test", "Mimo", None)),
        ("type(self.model).__name__.startswith('Mi')", ("model-class-test", "Mi", None)),
        ("n = type(self.model).__name__\nn == 'Mimo'", ("model-class-test", "Mimo", "mimo")),
        ("isinstance(self.model, Mimo)", ("model-class-test", "Mimo", "mimo")),
        ("isinstance(self.model, models.Mimo)", ("model-class-test", "Mimo", "mimo")),
        ("type(self.model).__name__ == 'FooForCausalLM'", ("model-class-test", "FooForCausalLM", "foo")),
        ("self.ready", ("model-state", "ready", "talker")),
        ("getattr(self, 'ready', False)", ("model-state", "ready", "talker")),
        ("self.ready = True", ("model-state", "ready", "talker")),
        ("self._talk(batch)", ("model-method", "_talk", "talker")),
        ("feature['grid']", ("rope-metadata", "grid", "rope")),
    ],
)
def test_a_site(body, expected):
    assert expected in [site[:3] for site in sites(body)]


@pytest.mark.parametrize(
    "body",
    [
        "self.model.forward(batch)",
        "self.model.config",
        "self.model.__dict__",
        "hasattr(self.model, 'unwrap')",
        "isinstance(self.model, CUDAGraphWrapper)",
        "self.drafter.talks",
        "hasattr(batch, 'talks')",
        "m = self.model\nm = batch\nm.talks",
        "for m in batch:\n    m.talks",
        "with self.model as m:\n    m.talks",
        "batch.ready",
        "other._talk(batch)",
        "self.model = batch",
        "type(batch).__name__ == 'Mimo'",
    ],
)
def test_no_site(body):
    assert sites(body) == []


def test_every_name_of_a_class_test_is_a_site():
    assert [s[1] for s in sites("if type(self.model).__name__ in ('Mimo', 'Other'):\n    pass")] == ["Mimo", "Other"]


def test_a_moved_method_is_a_site_itself():
    assert sites("return batch", name="_talk") == [("model-method", "_talk", "talker", 1)]


def test_the_state_that_init_sets_is_no_site():
    assert sites("self.ready = False", name="__init__") == []


def test_a_delegate_to_the_adapter_has_no_sites():
    assert sites("'''Doc.'''\nreturn self._adapter.talk(self, batch)", name="_talk") == []


def test_sites_are_in_order_and_once_each():
    body = "self.ready\nif hasattr(self.model, 'talks') and self.model.talks:\n    pass\nself.ready"
    assert [(subject, line) for _, subject, _, line in sites(body)] == [
        ("ready", 2), ("talks", 3), ("talks", 3), ("ready", 5)
    ]  # fmt: skip


def function_of(code: str) -> ast.FunctionDef:
    return ast.parse(code).body[0]


@pytest.mark.parametrize(
    ("code", "aliases"),
    [
        ("def f(self):\n    m = self.model", {"m"}),
        ("def f(self, model):\n    pass", {"model"}),
        ("def f(self, model):\n    model = 1", set()),
        ("def f(self):\n    m = self.model\n    m = self.model", {"m"}),
        ("def f(self):\n    m = self.model\n    m = 1", set()),
        ("def f(self):\n    m, n = self.model, 1", {"m"}),
        ("def f(self):\n    m, n = self.both()", set()),
        ("def f(self):\n    m, *n = self.model, self.model", {"m"}),
        ("def f(self):\n    m = cast(Any, self.model)", {"m"}),
        ("def f(self):\n    m = self.model.unwrap() if hasattr(self.model, 'unwrap') else self.model", {"m"}),
        ("def f(self):\n    m = self.model if x else None", set()),
        ("def f(self):\n    m: object = self.get_model()", {"m"}),
        ("def f(self):\n    m = self.model\n    m += 1", set()),
        ("def f(self, m=None):\n    m = self.model", set()),
        ("def f(self):\n    m = self.model\n    with a as m:\n        pass", set()),
        ("def f(self):\n    m = self.model\n    try:\n        pass\n    except E as m:\n        pass", set()),
        ("def f(self):\n    m = self.model\n    import m", set()),
        ("def f(self):\n    m = self.model\n    for m in a:\n        pass", set()),
    ],
)
def test_locals_that_hold_the_model(code, aliases):
    assert model_aliases(function_of(code), "self") == aliases


def test_helpers_that_probe_for_a_name_they_are_given():
    code = (
        "def _flag(self, model, name, default=None):\n    return getattr(model, name, default)\n"
        "def _any(self, name):\n    return self._flag(self.model, name)\n"
        "def _fixed(self):\n    return hasattr(self.model, 'x')\n"
        "def _of(self, other, name):\n    return getattr(other, name)\n"
        "@staticmethod\ndef _static(model, name):\n    return hasattr(model, name)\n"
        "def _model(self):\n    return self.model\n"
        "@property\ndef loaded(self):\n    'Doc.'\n    return self.get_model()\n"
        "@contextmanager\ndef _held(self):\n    return self.model\n"
    )
    functions = {node.name: node for node in ast.parse(code).body}
    assert probing_helpers(functions, {}) == {
        "_flag": Helper(1),
        "_any": Helper(0),
        "_static": Helper(1),
        "_model": Helper(-1, gives_model="call"),
        "loaded": Helper(-1, gives_model="read"),
    }


@pytest.mark.parametrize(
    ("body", "hook"),
    [
        ("return self._adapter.talk(self)", "talk"),
        ("self._adapter.talk(self)", "talk"),
        ("'''Doc.'''\n    return self._adapter.talk(self)", "talk"),
        ("return self._adapter.talk(self) or 1", None),
        ("return self.talk()", None),
        ("x = 1\n    return self._adapter.talk(self)", None),
    ],
)
def test_delegates(body, hook):
    assert dispatched_hook(function_of(f"def f(self):\n    {body}")) == hook
