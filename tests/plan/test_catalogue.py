"""The catalogue file: read, written, compared with the code, and brought up to date around what people wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from omni_migrate.facts.omni_blocks import Block
from omni_migrate.plan.catalogue import (
    Catalogue,
    Entry,
    Section,
    compare,
    encoded,
    find_catalogue,
    read_catalogue,
    unclosed_fence,
    updated,
    write_catalogue,
)

WRITTEN = """\
# Blocks

Above the sections.

## Runner (runner.py)

About the class.

### step - Send the KV cache

A reason.

Location: at the beginning

Between.

```python
# ---- Omni-new ----
self.send_kv(step)
# ---- Omni-new ----
```

Below, with an example:

```bash
## no heading
make test
```

#### A heading of somebody

### load - Talker buffers

```python
def load(self):
    self.talker = 1
```

---

## How to add a block

### Step 1 - open the file

Text.

## State Extension

It is extended:

```python
class State(NamedTuple):
    outputs: Any
```

To be imported from here.
"""


def block(
    method: str, code: str, title: str = "Title", location: str = "at the beginning", name: str = "Runner"
) -> Block:
    return Block("marked", "pkg/runner.py", name, method, title, location, code, ((10, 12),))


SEND = block("step", "# ---- Omni-new ----\nself.send_kv(step)\n# ---- Omni-new ----", "Send KV")
LOAD = block("load", "def load(self):\n    self.talker = 1", "Load", "")
STATE = block("NamedTuple", "class State(NamedTuple):\n    outputs: Any", "extension", "", "State")


def test_read():
    catalogue = read_catalogue(WRITTEN)
    send, load, state = catalogue.entries
    assert (send.method, send.title, send.location) == ("step", "Send the KV cache", "at the beginning")
    assert (send.before, send.between) == ("A reason.", "Between.")
    assert send.after.startswith("Below") and send.after.endswith("#### A heading of somebody")
    assert (load.location, load.code) == ("", "def load(self):\n    self.talker = 1")
    assert (state.method, state.title, state.heading) == ("NamedTuple", "extension", "")
    assert (state.between, state.after) == ("It is extended:", "To be imported from here.")
    assert [(section.class_name, section.ruler) for section in catalogue.sections] == [
        ("Runner", "---"),
        ("", ""),
        ("State", ""),
    ]


def test_written_it_is_what_was_read():
    assert write_catalogue(read_catalogue(WRITTEN)) == WRITTEN
    assert write_catalogue(read_catalogue(WRITTEN.replace("\n", "\r\n"))) == WRITTEN


def test_up_to_date():
    comparison = compare(read_catalogue(WRITTEN), [SEND, LOAD, STATE])
    assert (comparison.stale, comparison.gone, comparison.new) == ((), (), ())
    assert write_catalogue(updated(read_catalogue(WRITTEN), [SEND, LOAD, STATE])) == WRITTEN


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(SEND, code=SEND.code.replace("step", "step, now")), "the code of `step - Send the KV cache`"),
        (replace(SEND, location="at the end"), "the place of `step - Send the KV cache`"),
        (replace(SEND, method="step_all"), "the place of `step - Send the KV cache`"),
    ],
)
def test_stale(changed, said):
    comparison = compare(read_catalogue(WRITTEN), [changed, LOAD, STATE])
    (finding,) = comparison.findings("docs/blocks.md")
    assert (finding.rule, finding.path, finding.line) == ("catalogue-stale", "docs/blocks.md", 9)
    assert said in finding.message
    text = write_catalogue(updated(read_catalogue(WRITTEN), [changed, LOAD, STATE]))
    assert f"### {changed.method} - Send the KV cache" in text
    assert "A reason." in text and "Between." in text and "make test" in text


def test_gone_and_new():
    fresh = block("sample", "self.sample_codes()", "Sample Codes")
    comparison = compare(read_catalogue(WRITTEN), [LOAD, fresh, STATE])
    gone, new = comparison.findings("docs/blocks.md")
    assert (gone.rule, gone.line, gone.symbol) == ("catalogue-gone", 9, "Runner.step")
    assert (new.rule, new.path, new.line, new.symbol) == ("catalogue-new", "pkg/runner.py", 10, "Runner.sample")
    text = write_catalogue(updated(read_catalogue(WRITTEN), [LOAD, fresh, STATE]))
    assert "### step" not in text
    assert "About the class.\n\nOf `step - Send the KV cache`, which is gone:\n\nA reason.\n\nBetween." in text


def test_a_title_stays_with_its_code_when_a_block_is_put_before_it():
    other = block("step", "self.recv_kv(step)\nself.wait()", "Receive KV")
    text = write_catalogue(updated(read_catalogue(WRITTEN), [other, SEND, LOAD, STATE]))
    assert text.index("### step - Receive KV") < text.index("### step - Send the KV cache")


def test_a_class_that_is_gone_leaves_what_people_wrote_about_it():
    text = write_catalogue(updated(read_catalogue(WRITTEN), [STATE]))
    assert "## Runner" not in text
    assert "Of `Runner`, which is gone:\n\nAbout the class." in text
    assert "make test" in text
    assert "## How to add a block" in text


def test_a_new_catalogue():
    text = write_catalogue(updated(None, [SEND, STATE]))
    assert text.startswith("# Omni blocks of the NPU runners\n")
    assert "\n## Runner (runner.py)\n\n### step - Send KV\n\nLocation: at the beginning\n\n```python\n# ----" in text
    assert "\n## State (runner.py)\n\n### NamedTuple - extension\n\n```python\nclass State" in text


def test_code_with_a_fence_in_it():
    code = 'TEXT = """\n```\n## no heading\n```\n"""'
    text = write_catalogue(updated(None, [block("step", code)]))
    assert read_catalogue(text).entries[0].code == code


def test_where_the_catalogue_of_a_tree_is(tmp_path):
    assert find_catalogue(tmp_path, {"Runner", "State"}) is None
    skill = tmp_path / ".claude" / "skills" / "upgrade" / "blocks.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(WRITTEN)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "runner.md").write_text("## Runner\n\n### step - a step\n\n```python\n```\n")
    (tmp_path / "docs" / "bad.md").write_bytes(b"## Runner \xff\n### ```")
    assert find_catalogue(tmp_path, {"Runner", "State"}) == ".claude/skills/upgrade/blocks.md"
    assert find_catalogue(tmp_path, {"Other"}) is None


WORDS = st.sampled_from(["talker", "`step`", "KV cache", "of a row", "(see below)", "MTP", "it's"])
PROSE = st.lists(
    st.one_of(
        st.lists(WORDS, min_size=1, max_size=4).map(" ".join),
        st.sampled_from(
            [
                "- a\n- b",
                "#### A heading",
                "```bash\n## no heading\n### nor - this\n```",
                "~~~\n```\n~~~",
                "> quoted\n> twice",
            ]
        ),
    ),
    max_size=3,
).map("\n\n".join)
LINES = st.sampled_from(
    ["a = 1", "", "    b(c)", "## comment", "# ---- Omni-new ----", "```", "    ````", '"""text', "### x - y"]
)
CODE = st.lists(LINES, min_size=1, max_size=6).map("\n".join)
METHODS = st.sampled_from(["__init__", "step", "_dummy_run", "imports"])
TITLE = st.lists(WORDS, min_size=1, max_size=3).map(" - ".join)
LOCATION = st.lists(WORDS, max_size=3).map(", after ".join)


@st.composite
def entries(draw, class_name):
    method, title, location = draw(METHODS), draw(TITLE), draw(LOCATION)
    heading = draw(st.sampled_from([f"### {method} - {title}", f"### `{method}` - {title}"]))
    before = draw(PROSE) if location else ""
    return Entry(class_name, method, title, location, draw(CODE), heading, before, draw(PROSE), draw(PROSE))


@st.composite
def catalogues(draw):
    sections = []
    for name in draw(st.permutations(["NPUARModelRunner", "OmniRunner", "How to", "State"])):
        ruler = draw(st.sampled_from(["", "---"]))
        if name == "How to":
            sections.append(Section("## How to add a block", "", draw(PROSE), (), ruler))
        elif name == "State":
            code = "class State(NamedTuple):\n    " + draw(CODE)
            own = Entry(name, "NamedTuple", "extension", draw(LOCATION), code, "", "", draw(PROSE), draw(PROSE))
            sections.append(Section("## State Extension", name, "", (own,), ruler))
        else:
            own = tuple(draw(st.lists(entries(name), min_size=1, max_size=3)))
            sections.append(Section(f"## {name} (file.py)", name, draw(PROSE), own, ruler))
    return Catalogue("# Blocks" + draw(PROSE.map(lambda text: text and f"\n\n{text}")), tuple(sections))


@settings(deadline=None, derandomize=True)
@given(catalogues())
def test_what_is_written_is_read_again(catalogue):
    text = write_catalogue(catalogue)
    note(text)
    assert read_catalogue(text) == catalogue
    assert write_catalogue(read_catalogue(text)) == text


@st.composite
def changes(draw, catalogue):
    """Blocks as the code may have them after a while: some as they were, some edited, moved or gone, some new."""
    blocks = []
    for entry in catalogue.entries:
        how = draw(st.sampled_from(["same", "same", "edited", "moved", "gone"]))
        code = f"{entry.code}\nnew_call()" if how == "edited" else entry.code
        location = "elsewhere" if how == "moved" else entry.location
        if how != "gone":
            blocks.append(block(entry.method, code, draw(TITLE), location, entry.class_name))
        if draw(st.booleans()):
            blocks.append(block(draw(METHODS), draw(CODE), draw(TITLE), "new", entry.class_name))
    return blocks


@settings(deadline=None, derandomize=True)
@given(st.data())
def test_an_update_keeps_what_people_wrote_and_is_complete(data):
    catalogue = data.draw(catalogues())
    number = 0
    sections = []
    for section in catalogue.sections:  # what people wrote can be told apart
        own = []
        for entry in section.entries:
            number += 1
            own.append(replace(entry, between=f"between {number}.", after=f"after {number}."))
        sections.append(replace(section, entries=tuple(own)))
    catalogue = read_catalogue(write_catalogue(replace(catalogue, sections=tuple(sections))))
    blocks = data.draw(changes(catalogue))
    fresh = updated(catalogue, blocks)
    text = write_catalogue(fresh)
    note(text)
    for n in range(1, number + 1):
        assert text.count(f"between {n}.") == text.count(f"after {n}.") == 1
    order = list(dict.fromkeys(b.class_name for b in blocks))
    assert [(e.class_name, e.method, e.location, e.code) for e in fresh.entries] == [
        (b.class_name, b.method, b.location, b.code) for b in sorted(blocks, key=lambda b: order.index(b.class_name))
    ]
    again = read_catalogue(text)
    comparison = compare(again, blocks)
    assert (comparison.gone, comparison.new) == ((), ())
    assert write_catalogue(updated(again, blocks)) == text


def test_a_second_section_of_a_class_joins_the_first():
    text = WRITTEN.replace(
        "### load - Talker buffers", "## Runner, part 2\n\nAbout loading.\n\n### load - Talker buffers"
    )
    fresh = write_catalogue(updated(read_catalogue(text), [SEND, LOAD, STATE]))
    assert "Of `Runner`, which is gone:\n\nAbout loading." in fresh
    assert fresh.index("### load - Talker buffers") < fresh.index("## How to add")


def test_a_new_title_is_unlike_those_before_it():
    fresh = block("step", "self.finish(step)", "Send the KV cache")
    text = write_catalogue(updated(read_catalogue(WRITTEN), [SEND, fresh, LOAD, STATE]))
    assert "### step - Send the KV cache (2)" in text


GUIDE = """\
## A PrefixCache example - how to use

### Example - a first step

Text.

```python
cache = PrefixCache()
```
"""


def test_prose_that_looks_like_a_class_is_kept_whole():
    text = f"{WRITTEN}\n{GUIDE}"
    comparison = compare(read_catalogue(text), [SEND, LOAD, STATE])
    assert (comparison.gone, comparison.new) == ((), ())
    other = block("step", "self.recv_kv(step)\nself.wait()", "Receive KV")
    fresh = write_catalogue(updated(read_catalogue(text), [other, SEND, STATE]))
    assert fresh.endswith(f"\n{GUIDE}")
    assert write_catalogue(updated(read_catalogue(fresh), [other, SEND, STATE])) == fresh


def test_an_example_among_the_entries_of_a_class_stays_where_it_is():
    example = "### Example - of a call\n\nLike so:\n\n```python\nrunner.load()\n```\n\nDone.\n"
    text = WRITTEN.replace("### load -", f"{example}\n### load -")
    assert compare(read_catalogue(text), [SEND, LOAD, STATE]).gone == ()
    fresh = write_catalogue(updated(read_catalogue(text), [replace(SEND, code="self.send_kv(step, 1)"), LOAD, STATE]))
    assert fresh == text.replace(
        "# ---- Omni-new ----\nself.send_kv(step)\n# ---- Omni-new ----", "self.send_kv(step, 1)"
    )


def test_an_example_above_the_location_is_not_the_code():
    example = "A reason.\n\n```python\nrunner.step()\n```"
    text = WRITTEN.replace("A reason.", example)
    fresh = write_catalogue(updated(read_catalogue(text), [replace(SEND, location="at the end"), LOAD, STATE]))
    assert fresh == text.replace("at the beginning", "at the end")


def test_a_heading_may_say_more_than_the_class():
    text = WRITTEN.replace("## Runner (runner.py)", "## The Big `Runner` of ours")
    comparison = compare(read_catalogue(text, {"Runner", "State"}), [SEND, LOAD, STATE])
    assert (comparison.stale, comparison.gone, comparison.new) == ((), (), ())


def test_of_two_entries_with_one_heading_each_has_its_own_line():
    text = WRITTEN.replace("### load - Talker buffers", "### step - Send the KV cache").replace("def load", "def step")
    found = compare(read_catalogue(text), [STATE]).findings("docs/blocks.md")
    assert [finding.line for finding in found] == [9, text.split("\n").index("---") - 6]


def test_a_fence_that_nothing_closes_is_seen():
    assert unclosed_fence(WRITTEN) == 0
    assert unclosed_fence(WRITTEN.replace("make test\n```", "make test")) == WRITTEN.split("\n").index("```bash") + 1


@pytest.mark.parametrize("old", [b"a\n", b"a\r\nb\r\n", b"\xef\xbb\xbfa\r\n"])
def test_line_ends_and_byte_order_mark_stay(old):
    assert encoded(old.decode("utf-8-sig").replace("\r\n", "\n"), old) == old


def test_a_page_about_the_classes_is_no_catalogue(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("## Runner\n\n### Setup\n\n```bash\nmake\n```\n")
    assert find_catalogue(tmp_path, {"Runner"}) is None


PIECES = [
    "## Runner of N",
    "## PrefixCache N",
    "## about N",
    "### Example - N",
    "### step - N",
    "### `load` — N",
    "#### N",
    "N",
    "- N\n- N",
    "```python\ncall(N)\n```",
    "```python title=N\ndef other(): N\n```",
    "~~~py\nN\n~~~",
    "```bash\n### N\n```",
    "---",
    "| N |\n|---|",
    "<!--\n## N\n-->",
]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from([[], [SEND], [SEND, LOAD, STATE]]))
def test_no_word_of_people_is_lost(pieces, blocks):
    """Whatever a page looks like: what says nothing of the code is there after an update, and again."""
    text, count = "", 0
    for piece in pieces:
        while "N" in piece:
            count += 1
            piece = piece.replace("N", f"word{count}.", 1)
        text += f"{piece}\n\n"
    fresh = write_catalogue(updated(read_catalogue(text, {"Runner", "State"}), blocks))
    note(text)
    note(fresh)
    assert [n for n in range(1, count + 1) if f"word{n}." not in fresh] == []
    again = read_catalogue(fresh, {"Runner", "State"})
    assert write_catalogue(updated(again, blocks)) == fresh
    assert compare(again, blocks).gone == ()
