"""What people wrote in files that the tool made: a later run that moves something more keeps it, or refuses by name."""

from __future__ import annotations

import ast
import re
import shutil
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_tree import FILES

from omni_migrate.errors import InputError
from omni_migrate.extract import run
from omni_migrate.request import ExtractRequest

ADAPTERS = "vllm_omni/worker/adapters"
RUNNER = "vllm_omni/worker/gpu_model_runner.py"
BASE, INIT, REGISTRY = (f"{ADAPTERS}/{name}.py" for name in ("base", "__init__", "registry"))
TALKER, GRID = f"{ADAPTERS}/qwen3_talker.py", f"{ADAPTERS}/glm_image.py"
NPU = "vllm_omni/platforms/npu/worker/adapters"
TESTS = "tests/worker/adapters"
TEST, GRID_TEST = f"{TESTS}/test_adapter_qwen3_talker.py", f"{TESTS}/test_adapter_glm_image.py"
REGISTRY_TEST = f"{TESTS}/test_adapter_registry.py"

# What came to the runner since: a block of the talker's with an import and a comment, and a method of it.
MORE = '''
    def again(self, req_id: str) -> str:
        """Asks again."""
        if hasattr(self.model, "talker_mtp"):
            # once more
            self.note("again", req_id, arithmetic.ceil(1.5), self.talker_mtp(["b"], 1))
        return req_id

    def _talker_mtp_rows(self, count: int, *, scale: int = 1) -> int:
        if not hasattr(self.model, "talker_mtp"):
            return 0
        self.talker_mtp_input_ids = [0] * count
        return count * scale
'''


@dataclass(frozen=True)
class Migrated:
    """Trees between two runs: all moved and MORE come since; phases 1 to 3 alone; one adapter alone."""

    more: dict[str, bytes]
    three: dict[str, bytes]
    one: dict[str, bytes]


def contents(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def write(root, files):
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    root = tmp_path_factory.mktemp("migrated")
    source = write(root / "source", {path: text.encode() for path, text in FILES.items()})
    for name, options in {"more": {}, "three": {"phases": (1, 2, 3)}, "one": {"only": ("glm_image",)}}.items():
        run(ExtractRequest(str(source), root, output=root / name, **options))
    more = contents(root / "more")
    more[RUNNER] += MORE.encode()
    return Migrated(more, contents(root / "three"), contents(root / "one"))


@pytest.fixture
def rerun(tmp_path_factory):
    """Runs again on a tree, and once more on its result, which changes nothing; the files afterwards."""

    def run_again(files, **options):
        root = tmp_path_factory.mktemp("again")
        source = write(root / "source", files)
        try:
            run(ExtractRequest(str(source), root, output=root / "result", **options))
            assert contents(source) == files
            report = run(ExtractRequest(str(root / "result"), root, dry_run=True))
            assert [file.path for file in report.files if file.action != "unchanged"] == []
            return contents(root / "result")
        except InputError:
            assert not (root / "result").exists()
            raise
        finally:
            shutil.rmtree(root)

    return run_again


def lines_of(data):
    return [line for line in data.splitlines() if line.strip()]


def lost(before, after):
    """The first line of `before` that `after` does not have, in the same order."""
    rest = iter(lines_of(after))
    return next((line for line in lines_of(before) if all(other != line for other in rest)), None)


def replaced(old, new):
    return lambda text: text.replace(old, new, 1) if old in text else pytest.fail(f"no {old!r}")


def without(first, last):
    """A text without what stands from one line on up to another."""
    return lambda text: text[: text.index(first)] + text[text.index(last) :]


def appended(new):
    return lambda text: text + new


OWN_TEST = "\n\ndef test_of_our_own():\n    # ours\n    assert   Qwen3TalkerAdapter  # odd spaces\n"
KEPT = {
    "a test of one's own": (TEST, appended(OWN_TEST)),
    "a comment and an import": (TEST, replaced("import pytest\n", "import pytest  # ours\nimport zlib as squeeze\n")),
    "a licence": (TEST, lambda text: f"# SPDX-License-Identifier: Apache-2.0\n# ours\n{text}"),
    "rows of one's own": (
        TEST,
        replaced(
            '\n]\n\n\n@pytest.mark.parametrize("module',
            "\n    # ours\n"
            '    pytest.param("a", "B", "c", "d", 0, (), marks=pytest.mark.skip),\n]\n\n\n'
            '@pytest.mark.parametrize("module',
        ),
    ),
    "an edited row": (TEST, replaced("        2,\n", "        1 + 1,  # ours\n")),
    "tables of another layout": (TEST, replaced('REGISTERED = ["Everything", ', 'REGISTERED = [\n "Everything"\n , ')),
    "an annotated table": (TEST, replaced("DELEGATES = [", "DELEGATES: list[tuple] = [")),
    "an edited generated test": (
        TEST,
        replaced("instance._adapter = MagicMock()", "instance._adapter = MagicMock(spec=())"),
    ),
    "a removed generated test": (TEST, without("def test_any_other", '@pytest.mark.parametrize("capa')),
    "no table of defaults any more": (TEST, without("UNSET = ", "AGREEING = [")),
    "CRLF": (TEST, lambda text: text.replace("\n", "\r\n")),
    "a BOM": (TEST, lambda text: "\ufeff" + text),
    "no last line end": (TEST, lambda text: text.rstrip("\n")),
    "single quotes, other indents": (TEST, lambda text: text.replace('"', "'").replace("'''", '"""')),
    "an edited registry test": (REGISTRY_TEST, appended("\n\ndef test_ours(registry):\n    pass\n")),
    "an extra method": (TALKER, appended("\n    def ours(self, runner):\n        return   1  # odd\n")),
    "an extra class": (
        TALKER,
        appended("\n\nclass Ours(Qwen3TalkerAdapter):\n    def talker(self, runner): return 2\n"),
    ),
    "an edited docstring": (TALKER, replaced('"""Moved from', '"""Edited: moved from')),
    "a comment at a class's end": (TALKER, appended("        # the end of the method\n    # the end of the class\n")),
    "an import at the end": (TALKER, appended("\n\nimport zlib  # noqa: E402\n\nOURS = zlib\n")),
    "no future import": (TALKER, replaced("from __future__ import annotations\n", "")),
    "a future import with a comment": (TALKER, replaced("import annotations\n", "import annotations  # ours\n")),
    "an adapter in CRLF": (TALKER, lambda text: text.replace("\n", "\r\n")),
    "an adapter with a BOM": (TALKER, lambda text: "\ufeff" + text),
    "an adapter in Latin 1": (TALKER, lambda text: f"# -*- coding: latin-1 -*-\n# caf\u00e9\n{text}"),
    "two spaces": (TALKER, lambda text: re.sub(r"^( +)", lambda m: m[1][: len(m[1]) // 2], text, flags=re.M)),
    "tabs": (TALKER, lambda text: re.sub(r"^( +)", lambda m: "\t" * (len(m[1]) // 4), text, flags=re.M)),
    "a decorator with more classes": (TALKER, replaced('"Talker")', '"Talker", "Ours")')),
    "a method of the name that will move": (
        TALKER,
        appended("\n    def talker_mtp(self, runner):\n        return 3\n"),
    ),
    "a value of the name that will move": (
        TALKER,
        replaced("    capabilities =", "    talker_mtp = 4\n    capabilities ="),
    ),
    "a default of the name that will move": (BASE, appended("\n    def talker_mtp(self, runner):\n        return 5\n")),
    "an edited default": (BASE, replaced("return req_infos", "return dict(req_infos)  # ours")),
    "a comment in base": (
        BASE,
        replaced("class DefaultModelRunnerAdapter:", "# ours\nclass DefaultModelRunnerAdapter:"),
    ),
    "a method more in the protocol": (
        BASE,
        replaced("    def on_model_loaded", "    def ours(self): ...\n\n    def on_model_loaded"),
    ),
    "base in CRLF": (BASE, lambda text: text.replace("\n", "\r\n")),
    "an edited registry": (REGISTRY, appended("\n\nOURS = ModelAdapterRegistry  # ours\n")),
    "an edited __init__": (INIT, appended("\nOURS   = 1  # ours\n")),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_people_wrote_is_kept(migrated, rerun, kind):
    path, edit = KEPT[kind]
    text = edit(migrated.more[path].decode())
    edited = text.encode("latin-1" if "coding: latin-1" in text else "utf-8")
    after = rerun({**migrated.more, path: edited})
    assert b"# once more" in after[TALKER]
    assert b'"_talker_mtp_rows"' in after[TEST]
    assert b"_talker_mtp_forward" in after[TEST]
    assert (lost(edited, after[path]), kind) == (None, kind)
    assert after[path].count(b"\r\n") in (0, after[path].count(b"\n"))
    assert (b"\r\n" in after[path], after[path][:3] == b"\xef\xbb\xbf") == (
        b"\r\n" in edited,
        edited[:3] == b"\xef\xbb\xbf",
    )
    ast.parse(after[path])


def twice(text):
    return text + "\n\nDELEGATES = [*DELEGATES]\n"


def called(text):
    start = text.index("DELEGATES = [")
    end = text.index("\n]\n", start)
    return f"{text[:start]}DELEGATES = list([{text[start + 13 : end]}\n])\n{text[end + 3 :]}"


UNPARSED = replaced("import pytest\n", "import pytest as\n")
REFUSED = {
    "a table given twice": (TEST, twice, rf"{TEST}:33 \(and line \d+\) DELEGATES is no plain list or dict, given once"),
    "a table that is made by a call": (TEST, called, rf"{TEST}:33 DELEGATES is no plain list .* make it one again"),
    "a table added to below": (TEST, appended("\nDELEGATES += []\n"), rf"{TEST}:33 .*DELEGATES is no plain list"),
    "a table with a star": (
        TEST,
        replaced("REGISTERED = [", "REGISTERED = [*[], "),
        rf"{TEST}:\d+ REGISTERED is no plain",
    ),
    "a table in a block": (
        TEST,
        replaced("UNSET = [", "if True:\n    UNSET = ["),
        rf"{TEST}:\d+ UNSET is no plain list",
    ),
    "a table of other rows": (
        TEST,
        replaced("DELEGATES = [\n", 'DELEGATES = [\n    ("a", "b"),\n'),
        "has other rows than",
    ),
    "a dict that is a list": (
        TEST,
        lambda text: re.sub(r"STATE = \{.*?\}", "STATE = []", text),
        "STATE has other rows",
    ),
    "a generated name for something else": (
        TEST,
        replaced("import pytest\n", "import pytest\nfrom zoo import test_the_runner_dispatches_to_the_adapter\n"),
        rf"{TEST}:\d+ test_the_runner_dispatches_to_the_adapter is not the one that omni-migrate wrote",
    ),
    "a generated test given twice": (
        TEST,
        appended("\n\ndef test_the_runner_dispatches_to_the_adapter():\n    pass\n"),
        "is not the one that omni-mi",
    ),
    "a module that does not parse": (TEST, UNPARSED, rf"{TEST} cannot be parsed: .*; mend it first"),
    "a test module of one's own": (TEST, lambda text: "def test_ours():\n    pass\n", rf"{TEST} is in the way"),
    "an adapter that does not parse": (TALKER, appended("\ndef\n"), rf"{TALKER} invalid syntax.*mend it"),
    "a base that does not parse": (BASE, appended("\ndef\n"), rf"{BASE} invalid syntax.*mend it"),
    "a renamed class": (
        TALKER,
        replaced("class Qwen3TalkerAdapter", "class Ours"),
        rf"{TALKER} has no class Qwen3TalkerAdapter",
    ),
    "a class given twice": (TALKER, appended("\n\nclass Qwen3TalkerAdapter:\n    pass\n"), rf"{TALKER} has 2 classes"),
    "a renamed default adapter": (
        BASE,
        replaced("class DefaultModelRunnerAdapter", "class Ours"),
        rf"{BASE} has no class DefaultModelRunnerAdapter",
    ),
    "a class on one line": (
        TALKER,
        lambda text: (
            text[: text.index("@Model")] + "class Qwen3TalkerAdapter(DefaultModelRunnerAdapter): talks = True\n"
        ),
        rf"{TALKER}:\d+ class Qwen3TalkerAdapter is .*on one line",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_added_to_is_refused_by_name(migrated, rerun, kind):
    path, edit, message = REFUSED[kind]
    with pytest.raises(InputError, match=message) as refused:
        rerun({**migrated.more, path: edit(migrated.more[path].decode()).encode()})
    assert len(str(refused.value).splitlines()) == 1


# Edits of the tree after phases 1 to 3, which the other phases then meet: file, edit, and what the refusal says or "".
PARTIAL = {
    "an __init__ with a name more": (INIT, appended('\nOURS   = 1  # ours\n__version__ = "1"\n'), ""),
    "an __init__ in another layout": (INIT, replaced("__all__ = [", "__all__ = [\n  'Ours',   # ours\n"), ""),
    "an __init__ that does not parse": (INIT, without("__all__", "]"), "cannot be parsed"),
    "an __init__ without __all__": (INIT, lambda text: text[: text.index("__all__")], ""),
    "an __init__ that makes its __all__": (
        INIT,
        appended("\n__all__ += []\n"),
        rf"{INIT}:\d+ .*__all__ is no plain list",
    ),
    "an __init__ with that name for something else": (
        INIT,
        appended("\nGLMImageAdapter = None\n"),
        rf"{INIT}:\d+ GLMImageAdapter is not the one of",
    ),
    "an __init__ in CRLF": (INIT, lambda text: text.replace("\n", "\r\n"), ""),
    "an edited default of the protocol": (
        BASE,
        replaced("return input_ids, inputs_embeds, {}", "return input_ids, inputs_embeds, {}  # ours"),
        rf"{BASE}:\d+ DefaultModelRunnerAdapter.preprocess was edited",
    ),
    "an edited protocol": (BASE, replaced("Model-specific preprocessing before", "Our preprocessing before"), ""),
    "no protocol": (BASE, without("class ModelRunnerAdapter", "class DefaultModelRunnerAdapter"), ""),
}


@pytest.mark.parametrize("kind", PARTIAL)
def test_edits_between_phases(migrated, rerun, kind):
    path, edit, message = PARTIAL[kind]
    edited = edit(migrated.three[path].decode()).encode()
    files = {**migrated.three, path: edited}
    if message:
        with pytest.raises(InputError, match=message):
            rerun(files)
        return
    after = rerun(files)
    assert GRID in after
    people_s = b"".join(line for line in edited.splitlines(True) if line not in migrated.three[path].splitlines(True))
    assert (lost(people_s if path == BASE else edited, after[path]), kind) == (None, kind)


CONFIG = b"""[tool.omni-migrate]
adapters = [{ name = "ours", phase = 6, capabilities = ["our_probe"] }]
"""
PROBE = b"""
    def probe(self) -> int:
        if getattr(self.model, "our_probe", False):
            return 1
        return 0
"""


def test_an_adapter_of_the_configuration_that_comes_later(migrated, rerun):
    files = dict(migrated.more)
    files |= {"pyproject.toml": CONFIG, RUNNER: files[RUNNER] + PROBE, INIT: files[INIT] + b"\nOURS   = 1\n"}
    after = rerun(files)
    assert b"class OursAdapter" in after[f"{ADAPTERS}/ours.py"]
    assert b'"OursAdapter"' in after[INIT]
    assert lost(files[INIT], after[INIT]) is None


def test_all_adapters_after_one_alone(migrated, rerun):
    files = {**migrated.one, GRID_TEST: migrated.one[GRID_TEST] + OWN_TEST.replace("Qwen3Talker", "GLMImage").encode()}
    after = rerun(files)
    assert lost(files[GRID_TEST], after[GRID_TEST]) is None
    assert TEST in after


# -- whatever people insert between two statements ------------------------------------------------------------------

STATEMENTS = ["# ours %d", "OURS_%d = [1,  2]", "def ours_%d():\n    return  1  # odd", "", "if True:\n    pass  # %d"]


def statement_starts(text):
    """The lines (0-based), with their indentation, in front of which a statement may go: of modules and of classes."""
    tree = ast.parse(text)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for node in body:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            late = not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
            if late and not (node is body[0] and isinstance(node, ast.Expr)):
                yield first - 1, node.col_offset


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_inserted_between_statements_stays_or_is_refused(migrated, rerun, data):
    tree = data.draw(st.sampled_from([migrated.more, migrated.three, migrated.one]))
    generated = sorted(path for path in tree if path.startswith((ADAPTERS, TESTS, NPU)))
    edited = dict(tree)
    for number, path in enumerate(data.draw(st.lists(st.sampled_from(generated), min_size=1, max_size=4))):
        text = edited[path].decode()
        starts = list(statement_starts(text))
        if not starts:
            continue
        line, indent = data.draw(st.sampled_from(starts))
        new = data.draw(st.sampled_from(STATEMENTS))
        new = new % number if "%" in new else new
        lines = text.splitlines(keepends=True)
        lines.insert(line, "".join(f"{' ' * indent}{part}\n" for part in new.split("\n")))
        edited[path] = "".join(lines).encode()
    try:
        after = rerun(edited)
    except InputError as error:
        assert any(path in str(error) for path in generated)
        return
    for path in generated:
        own = b"".join(line for line in edited[path].splitlines(True) if line not in tree[path].splitlines(True))
        assert lost(own, after[path]) is None
