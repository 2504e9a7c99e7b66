"""Who has a capability: each way of defining one, and each way in which a class comes by its bases."""

import pickle
import warnings
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from omni_migrate.facts.census import Census, Definition, ModelClass, take_census
from omni_migrate.plan.workspace import Workspace

MODELS = "omni/model_executor/models"


@pytest.fixture
def census(tmp_path):
    """Writes a tree (paths below the models folder unless they begin with `omni/`) and takes its census."""

    def write_and_take(files, capabilities=("has_hook",), class_names=()) -> Census:
        for name, text in files.items():
            file = tmp_path / (name if name.startswith("omni/") else f"{MODELS}/{name}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return take_census(Workspace(tmp_path), "omni", capabilities, class_names)

    return write_and_take


def names(models: tuple[ModelClass, ...]) -> list[str]:
    return [model.name for model in models]


def only(taken: Census, name: str = "Model") -> ModelClass:
    (model,) = taken.named(name)
    return model


def hows(taken: Census, name: str = "Model") -> list[tuple[str, str | None, int]]:
    return [(item.how, item.value, item.line) for item in only(taken, name).definitions]


# A torch module whose class body is given; its first line is line 3 of the file.
def module(body: str, name: str = "Model", bases: str = "nn.Module", head: str = "from torch import nn") -> str:
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"{head}\nclass {name}({bases}):\n{lines}\n"


# ---- no-op cases: a mention is not a definition


@pytest.mark.parametrize(
    "body",
    [
        "has_hook: bool",
        "def forward(self): return self.has_hook",
        "def forward(self): return getattr(self, 'has_hook', False)",
        "def forward(self): has_hook = True",
        "def forward(self, has_hook=True): pass",
        "def forward(self): self.inner.has_hook = True",
        "def forward(self): self.has_hooks = True",
        "def forward(self): del self.has_hook",
        "def forward(self): setattr(self, name, 'has_hook')",
        "@staticmethod\ndef make(self): self.has_hook = True",
        "def forward(self):\n    def inner(self): self.has_hook = True",
        "'''has_hook = True'''",
        "# has_hook = True\npass",
        "class Inner: has_hook = True",
    ],
)
def test_a_mention_that_defines_nothing(census, body):
    taken = census({"a.py": module(body)})
    assert taken.having("has_hook") == ()


def test_a_class_that_is_no_torch_module_is_not_counted(census):
    taken = census({"a.py": "class Options:\n    has_hook = True\n"})
    assert taken.classes == ()


def test_nothing_asked_nothing_found(census):
    taken = census({"a.py": module("has_hook = True")}, capabilities=())
    assert taken == Census((), ())


# ---- each way of defining


@pytest.mark.parametrize(
    ("body", "how", "value", "line"),
    [
        ("has_hook = True", "class attribute", "True", 3),
        ("has_hook: bool = True", "class attribute", "True", 3),
        ("has_hook = other = None", "class attribute", "None", 3),
        ("other, has_hook = 1, 2", "class attribute", "2", 3),
        ("has_hook = compute()", "class attribute", None, 3),
        ("has_hook = ('a', 'b')", "class attribute", "('a', 'b')", 3),
        ("if FLAG:\n    has_hook = True", "class attribute", "True", 4),
        ("from somewhere import f as has_hook", "class attribute", None, 3),
        ("def has_hook(self): return False", "method", None, 3),
        ("async def has_hook(self): pass", "method", None, 3),
        ("@classmethod\ndef has_hook(cls): pass", "method", None, 4),
        ("@property\ndef has_hook(self):\n    return self.inner", "property", None, 4),
        ("@cached_property\ndef has_hook(self):\n    'Says so.'\n    return True", "property", "True", 4),
        ("def __init__(self):\n    self.has_hook = True", "instance attribute", "True", 4),
        ("def __init__(this):\n    this.has_hook: bool = True", "instance attribute", "True", 4),
        ("def load(self):\n    if x:\n        self.has_hook = False", "instance attribute", "False", 5),
        ("def load(self):\n    self.a, self.has_hook = 1, f()", "instance attribute", None, 4),
        ("def load(self):\n    self.a, (self.has_hook, *_) = f()", "instance attribute", None, 4),
        ("def load(self):\n    with f() as self.has_hook: pass", "instance attribute", None, 4),
        ("def load(self):\n    for self.has_hook in x: pass", "instance attribute", None, 4),
        ("def load(self):\n    def inner(): self.has_hook = 1", "instance attribute", "1", 4),
        ("def load(self):\n    match x:\n        case 1:\n            self.has_hook = 1", "instance attribute", "1", 6),
        ("def load(self):\n    setattr(self, 'has_hook', True)", "instance attribute", "True", 4),
        ("def load(self):\n    object.__setattr__(self, 'has_hook', True)", "instance attribute", "True", 4),
        ("def load(self):\n    self.register_buffer('has_hook', None)", "instance attribute", "None", 4),
        ("@classmethod\ndef load(cls):\n    cls.has_hook = True", "class attribute", "True", 5),
        ("def load(self):\n    type(self).has_hook = True", "class attribute", "True", 4),
        ("def load(self):\n    self.__class__.has_hook = True", "class attribute", "True", 4),
    ],
)
def test_ways_of_defining(census, body, how, value, line):
    taken = census({"a.py": module(body)})
    assert hows(taken) == [(how, value, line)]


@pytest.mark.parametrize(
    "patch",
    [
        "from .a import Model\nModel.has_hook = True",
        "from omni.model_executor.models.a import Model as M\nM.has_hook = True",
        "import omni.model_executor.models.a as a\na.Model.has_hook = True",
        "import omni.model_executor.models.a\nomni.model_executor.models.a.Model.has_hook = True",
        "from . import a\nsetattr(a.Model, 'has_hook', True)",
        "def apply():\n    from .a import Model\n    Model.has_hook = True",
        "try:\n    from .a import Model\nexcept ImportError:\n    Model = None\nModel.has_hook = True",
    ],
)
def test_assigned_from_outside(census, patch):
    taken = census({"a.py": module("pass"), "patch.py": patch + "\n"})
    (definition,) = only(taken).definitions
    assert (definition.how, definition.path, definition.value) == (
        "assigned from outside",
        f"{MODELS}/patch.py",
        "True",
    )
    assert definition.owner == "Model"


def test_a_platform_patches_a_model(census):
    patch = "from omni.model_executor.models.a import Model\ndef hook(self): pass\nModel.has_hook = hook\n"
    taken = census({"a.py": module("pass"), "omni/platforms/npu/models/a.py": patch})
    assert hows(taken) == [("assigned from outside", None, 3)]


def test_forwards_is_unknown_and_counts_as_an_answer(census):
    taken = census({"a.py": module("def __getattr__(self, name):\n    return getattr(self.inner, name)")})
    assert hows(taken) == [("forwards", None, 3)]
    assert names(taken.answering("has_hook")) == ["Model"]


def test_a_definition_goes_before_forwarding(census):
    body = "has_hook = False\ndef __getattr__(self, name):\n    return getattr(self.inner, name)"
    taken = census({"a.py": module(body)}, capabilities=("has_hook", "other"))
    assert [(item.capability, item.how) for item in only(taken).definitions] == [
        ("has_hook", "class attribute"),
        ("other", "forwards"),
    ]


# ---- on, off, and what hides what


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ("has_hook = False", False),
        ("has_hook = None", False),
        ("has_hook = 0", True),
        ("@property\ndef has_hook(self): return False", False),
        ("has_hook = False\nhas_hook = True", True),
        ("has_hook = True\nhas_hook = False", False),
        ("has_hook = False\ndef load(self): self.has_hook = True", True),
        ("has_hook = True\ndef __init__(self): self.has_hook = False", False),
        ("has_hook = True\ndef load(self): self.has_hook = False", True),
        ("has_hook = True\ndef __init__(self):\n    if x:\n        self.has_hook = False", True),
        ("def __init__(self):\n    self.has_hook = False\n    if x:\n        self.has_hook = True", True),
        ("def __init__(self):\n    self.has_hook = True\n    self.has_hook = False", False),
        ("def __init__(self):\n    with torch.device('cpu'):\n        self.has_hook = False\nhas_hook = True", False),
    ],
)
def test_false_and_none_are_present_but_off(census, body, answers):
    taken = census({"a.py": module(body)})
    assert names(taken.having("has_hook")) == ["Model"]
    assert names(taken.answering("has_hook")) == (["Model"] if answers else [])


def test_set_per_stage_keeps_both_definitions(census):
    """As Qwen3-Omni does: off for the class, on in the branch of one stage."""
    body = (
        "def __init__(self, stage):\n    self.has_hook = False\n    if stage == 'talker':\n        self.has_hook = True"
    )
    taken = census({"a.py": module(body)})
    assert hows(taken) == [("instance attribute", "False", 4), ("instance attribute", "True", 6)]


def test_a_patch_may_turn_on_what_the_class_turns_off(census):
    taken = census({"a.py": module("has_hook = False"), "p.py": "from .a import Model\nModel.has_hook = True\n"})
    assert hows(taken) == [("class attribute", "False", 3), ("assigned from outside", "True", 2)]
    assert names(taken.answering("has_hook")) == ["Model"]


# ---- inheritance


@pytest.mark.parametrize(
    ("head", "base"),
    [
        ("from .a import Base", "Base"),
        ("from .a import Base as Parent", "Parent"),
        ("from omni.model_executor.models.a import Base", "Base"),
        ("from ..models import a", "a.Base"),
        ("from . import a as other", "other.Base"),
        ("import omni.model_executor.models.a", "omni.model_executor.models.a.Base"),
        ("from .a import *", "Base"),
        ("from .star import Base", "Base"),
        ("from .pack import Renamed", "Renamed"),
        ("from .a import Base\nParent = Base", "Parent"),
        ("from . import a\nParent = a.Base", "Parent"),
        ("from .a import Base", "Base[int]"),
        ("from .a import Base", "with_extras(Base)"),
        ("from .alias import Aliased", "Aliased"),
        ("try:\n    from .a import Base\nexcept ImportError:\n    Base = object", "Base"),
        ("import x\nif x.y:\n    from .a import Base as parent\nelse:\n    parent = object", "parent"),
        ("from .a import Base\nimport x\nParent = Base if x.y else object", "Parent"),
    ],
)
def test_inherited_however_the_base_is_named(census, head, base):
    taken = census(
        {
            "__init__.py": "",
            "a.py": module("has_hook = True", "Base"),
            "star.py": "from .a import *\n",
            "alias.py": "from . import a\nAliased = a.Base\n",
            "pack/__init__.py": "from ..a import Base as Renamed\n",
            "b.py": module("pass", "Child", base, head),
        }
    )
    assert names(taken.answering("has_hook")) == ["Base", "Child"]
    (definition,) = only(taken, "Child").definitions
    assert definition == Definition("has_hook", "class attribute", f"{MODELS}/a.py", 3, "True", "Base")


def test_inherited_over_files_that_never_mention_the_capability(census):
    taken = census(
        {
            "a.py": module("has_hook = True", "A"),
            "b.py": module("pass", "B", "A", "from .a import A"),
            "c.py": module("pass", "C", "b.B", "from . import b"),
        }
    )
    assert names(taken.answering("has_hook")) == ["A", "B", "C"]


def test_a_mixin_is_no_model_but_gives_its_capability(census):
    taken = census(
        {
            "omni/mixins.py": "class HookMixin:\n    def has_hook(self): pass\n",
            "a.py": module(
                "pass", bases="nn.Module, HookMixin", head="from torch import nn; from omni.mixins import *"
            ),
        }
    )
    assert names(taken.classes) == ["Model"]
    assert only(taken).bases == ("nn.Module", "HookMixin")
    assert only(taken).outside == ("torch.nn.Module",)


def test_the_first_base_in_mro_order_decides(census):
    """D(B, C) over A: C3 takes C's False before A's True, depth first would not."""
    taken = census(
        {
            "a.py": "from torch import nn\n"
            "class A(nn.Module):\n    has_hook = True\n"
            "class B(A): pass\n"
            "class C(A):\n    has_hook = False\n"
            "class D(B, C): pass\n"
        }
    )
    assert names(taken.answering("has_hook")) == ["A", "B"]
    assert [item.owner for item in only(taken, "D").definitions] == ["C"]


def test_an_instance_attribute_of_a_base_goes_before_a_class_attribute_of_the_child(census):
    taken = census(
        {
            "a.py": "from torch import nn\n"
            "class A(nn.Module):\n    def __init__(self): self.has_hook = False\n"
            "class B(A):\n    has_hook = True\n"
        }
    )
    assert taken.answering("has_hook") == ()
    assert [item.owner for item in only(taken, "B").definitions] == ["A"]


def test_bases_outside_the_tree_are_named_in_full(census):
    head = "from vllm.model_executor.models import qwen3 as q\nfrom vllm.x import Mixin as M"
    taken = census({"a.py": module("has_hook = True", bases="q.Qwen3ForCausalLM, M", head=head)})
    assert only(taken).outside == ("vllm.model_executor.models.qwen3.Qwen3ForCausalLM", "vllm.x.Mixin")


def test_a_duck_typed_model_has_a_forward(census):
    taken = census({"a.py": "class Model:\n    has_hook = True\n    def forward(self, x): return x\n"})
    assert names(taken.answering("has_hook")) == ["Model"]


def test_a_base_that_pydantic_calls_a_model_is_no_module(census):
    text = module("has_hook: bool = True", "Request", "BaseModel", "from pydantic import BaseModel")
    assert census({"a.py": text}).classes == ()


@pytest.mark.parametrize(
    ("files", "answering"),
    [
        ({"a.py": "class A(A):\n    has_hook = True\n    def forward(self): pass\n"}, ["A"]),
        ({"a.py": "class A(B):\n    has_hook = True\n    def forward(self): pass\nclass B(A): pass\n"}, ["A", "B"]),
        (
            {
                "a.py": module("has_hook = True", "A", "nn.Module, B", "from torch import nn\nfrom .b import B"),
                "b.py": module("pass", "B", "A", "from .a import A"),
            },
            ["A"],
        ),
        ({"a.py": module("has_hook = True", "A", "nn.Module, X", "from torch import nn\nfrom .a import X")}, ["A"]),
        ({"a.py": module("has_hook = True", "A", "nn.Module, X", "from torch import nn\nfrom .a import *")}, ["A"]),
        ({"a.py": module("has_hook = True", "A", "nn.Module, X", "from torch import nn\nX = Y\nY = X")}, ["A"]),
    ],
)
def test_cycles_end(census, files, answering):
    assert names(census(files).answering("has_hook")) == answering


def test_an_order_that_python_would_refuse_still_has_an_answer(census):
    taken = census(
        {
            "a.py": "from torch import nn\n"
            "class A(nn.Module):\n    has_hook = True\n"
            "class B(A): pass\n"
            "class C(A, B): pass\n"
        }
    )
    assert names(taken.answering("has_hook")) == ["A", "B", "C"]


def test_the_same_name_in_two_files_is_two_classes(census):
    taken = census(
        {
            "a.py": module("has_hook = True"),
            "b.py": module("has_hook = False"),
            "c.py": module("pass", "Child", "Model", "from .b import Model"),
        }
    )
    assert [(model.name, model.path) for model in taken.having("has_hook")] == [
        ("Child", f"{MODELS}/c.py"),
        ("Model", f"{MODELS}/a.py"),
        ("Model", f"{MODELS}/b.py"),
    ]
    assert [model.path for model in taken.answering("has_hook")] == [f"{MODELS}/a.py"]


def test_two_functions_import_the_same_name_from_two_files(census):
    taken = census(
        {
            "a.py": module("pass"),
            "b.py": module("pass"),
            "p.py": "def one():\n    from .a import Model\n    Model.has_hook = 1\n"
            "def two():\n    from .b import Model\n    Model.has_hook = 2\n",
        }
    )
    assert [(model.path[-4:], model.definitions[0].value) for model in taken.classes] == [("a.py", "1"), ("b.py", "2")]


def test_a_class_made_in_a_function(census):
    body = "def make(base):\n    class Made(base, nn.Module):\n        has_hook = True\n    return Made\n"
    assert names(census({"a.py": "from torch import nn\n" + body}).answering("has_hook")) == ["Made"]


# ---- the registry


REGISTRY = """
_MODELS = {"Arch": ("pack", "mod", "Model"), "Flat": ("flat", "Flat"), "Gone": ("no", "such", "Class")}
_MODELS["Late"] = ("pack", "mod", "Model")
_MODELS.update({"Later": ("pack", "mod", "Model")})
"""


def test_architectures_come_from_the_registry(census):
    taken = census(
        {
            "registry.py": REGISTRY,
            "flat.py": module("pass", "Flat"),
            "pack/mod.py": module("has_hook = True"),
        }
    )
    assert [(model.name, model.architectures) for model in taken.classes] == [
        ("Flat", ("Flat",)),
        ("Model", ("Arch", "Late", "Later")),
    ]
    assert names(taken.answering("has_hook")) == ["Model"]


@pytest.mark.parametrize(
    "call",
    [
        'ModelRegistry.register_model("Arch", "omni.plugins.mod:Model")',
        'def register():\n    from .mod import Model\n    ModelRegistry.register_model("Arch", Model)',
    ],
)
def test_a_registered_class_is_a_model_wherever_it_is_and_whatever_it_extends(census, call):
    taken = census(
        {"omni/plugins/mod.py": "class Model:\n    has_hook = True\n", "omni/plugins/__init__.py": call + "\n"}
    )
    assert only(taken).architectures == ("Arch",)
    assert names(taken.answering("has_hook")) == ["Model"]


def test_another_engines_registry_registers_no_model_of_a_runner(census):
    taken = census(
        {
            "omni/diffusion/mod.py": "class Pipeline:\n    has_hook = True\n",
            "omni/diffusion/registry.py": 'DiffusionModelRegistry.register_model("A", "omni.diffusion.mod:Pipeline")',
        }
    )
    assert taken.classes == ()


# ---- class names that a runner tests


def test_whether_a_class_of_that_name_exists(census):
    taken = census({"a.py": module("pass", "Known")}, (), class_names=["Known", "Unknown"])
    assert [(model.name, model.path, model.line) for model in taken.named("Known")] == [("Known", f"{MODELS}/a.py", 2)]
    assert taken.named("Unknown") == ()


# ---- files that cannot be read


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"class Model(nn.Module:\n    has_hook = True\n", "line"),
        (b"# has_hook\nx = '\xff'\n", ""),
        (b"# -*- coding: no-such -*-\n# has_hook\n", "no-such"),
        (b"has_hook = 1\x00\n", "null"),
        (b"has_hook = " + b"(" * 500 + b"1" + b")" * 500 + b"\n", ""),
    ],
)
def test_a_file_that_cannot_be_parsed_is_named_and_the_rest_is_counted(census, data, reason):
    taken = census({"a.py": module("has_hook = True"), "broken.py": data})
    ((path, said),) = taken.unreadable
    assert path == f"{MODELS}/broken.py"
    assert said and "\n" not in said and reason in said
    assert names(taken.answering("has_hook")) == ["Model"]


def test_a_base_in_a_file_that_cannot_be_parsed_is_named(census):
    taken = census(
        {"base.py": "class Base(:\n", "a.py": module("has_hook = True", bases="nn.Module, Base", head=HEAD_BASE)}
    )
    assert [path for path, _ in taken.unreadable] == [f"{MODELS}/base.py"]
    assert only(taken).outside == ("torch.nn.Module", "omni.model_executor.models.base.Base")


HEAD_BASE = "from torch import nn\nfrom .base import Base"


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + module("has_hook = True").encode(),
        module("has_hook = True").replace("\n", "\r\n").encode(),
        module("has_hook = True").replace("\n", "\r").encode(),
        b"# -*- coding: latin-1 -*-\nfrom torch import nn\nclass Model(nn.Module): has_hook = '\xe9'\n",
    ],
)
def test_marks_line_ends_and_encodings(census, data):
    assert [line for _, _, line in hows(census({"a.py": data}))] == [3]


def test_an_empty_file_is_no_trouble(census):
    assert census({"a.py": b"", "b.py": b"\n"}) == Census((), ())


def test_odd_escapes_warn_nobody(census):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert only(census({"a.py": module("has_hook = True\npattern = '\\d'")}))


# ---- the result


def test_edits_of_the_workspace_are_seen(tmp_path):
    (tmp_path / "omni").mkdir()
    (tmp_path / "omni/a.py").write_text(module("has_hook = False"))
    workspace = Workspace(tmp_path)
    workspace.write("omni/a.py", module("has_hook = True").encode())
    assert names(take_census(workspace, "omni", ["has_hook"]).answering("has_hook")) == ["Model"]


def test_only_the_package_is_read(census):
    taken = census({"a.py": module("has_hook = True"), "omni/../omni_other/b.py": module("has_hook = True", "Other")})
    assert names(taken.classes) == ["Model"]


def test_a_package_in_a_folder(tmp_path):
    (tmp_path / "src/omni").mkdir(parents=True)
    (tmp_path / "src/omni/a.py").write_text(module("has_hook = True", "A"))
    (tmp_path / "src/omni/b.py").write_text(module("pass", "B", "A", "from omni.a import A"))
    taken = take_census(Workspace(tmp_path), "src/omni", ["has_hook"])
    assert [(model.name, model.path) for model in taken.classes] == [("A", "src/omni/a.py"), ("B", "src/omni/b.py")]


class Counting:
    """A progress that adds up."""

    total = done = 0

    @contextmanager
    def task(self, label, total=None, unit="files"):
        self.total = total
        yield self.advance

    def advance(self, amount):
        self.done += amount


def test_progress_ends_at_the_number_of_files(tmp_path):
    (tmp_path / "omni").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / f"omni/{name}.py").write_text("has_hook = 1\n" if name == "b" else "")
    progress = Counting()
    take_census(Workspace(tmp_path), "omni", ["has_hook"], progress=progress)
    assert progress.done == progress.total == 3


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "omni").mkdir()
    (tmp_path / "omni/a.py").write_text(module("has_hook = True"))
    (tmp_path / "omni/b.py").symlink_to("nowhere.py")
    taken = take_census(Workspace(tmp_path), "omni", ["has_hook"])
    assert taken.unreadable == (("omni/b.py", "No such file or directory"),)
    assert names(taken.classes) == ["Model"]


def test_a_census_can_be_sent_between_processes_and_is_the_same_each_time(census):
    files = {"a.py": module("has_hook = {'x', 'y', 'z'}"), "b.py": module("def has_hook(self): pass", "B")}
    taken = census(files)
    assert pickle.loads(pickle.dumps(taken)) == taken == census(files)
    assert only(taken).definitions[0].value == "{'x', 'y', 'z'}"


# ---- against Python itself

Drawn = tuple[list[int], "str | None", "str | None"]


@st.composite
def hierarchies(draw: st.DrawFn) -> list[Drawn]:
    """Classes, each with earlier ones as bases, what its body says of the hook, and what its `__init__` sets."""
    body = st.sampled_from([None, "has_hook = True", "has_hook = False", "def has_hook(self): pass"])
    instance = st.sampled_from([None, "True", "False", "None", "compute()"])
    return [
        (
            draw(st.lists(st.integers(0, index - 1), unique=True, max_size=3)) if index else [],
            draw(body),
            draw(instance),
        )
        for index in range(draw(st.integers(1, 6)))
    ]


def source_of(classes: list[Drawn]) -> str:
    lines = ["compute = lambda: True", "class Root:", "    def forward(self): pass"]
    for index, (bases, body, instance) in enumerate(classes):
        lines.append(f"class C{index}({', '.join(f'C{base}' for base in bases) or 'Root'}):")
        lines.append("    def __init__(self):\n        super().__init__()")
        lines += [f"        self.has_hook = {instance}"] * (instance is not None)
        lines += [f"    {body}"] * (body is not None)
    return "\n".join(lines) + "\n"


@given(hierarchies())
@settings(max_examples=200, deadline=None)
def test_the_census_says_what_python_says(classes):
    source = source_of(classes)
    namespace: dict[str, type] = {}
    try:
        exec(source, namespace)
    except TypeError:
        assume(False)  # Python knows no resolution order for these bases
    made = [namespace[f"C{index}"]() for index in range(len(classes))]
    with TemporaryDirectory() as folder:
        (Path(folder) / "omni").mkdir()
        (Path(folder) / "omni/a.py").write_text(source)
        taken = take_census(Workspace(Path(folder)), "omni", ["has_hook"])
    assert names(taken.having("has_hook")) == [type(one).__name__ for one in made if hasattr(one, "has_hook")]
    assert names(taken.answering("has_hook")) == [type(one).__name__ for one in made if getattr(one, "has_hook", False)]
