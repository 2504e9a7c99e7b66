"""Random classes with planted markers, and where they stand."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

OWN_STYLES = (
    {"name": "begin", "kind": "opener", "pattern": "# BEGIN OMNI"},
    {"name": "end", "kind": "closer", "pattern": "# END OMNI"},
)
ONE_LINE = ("# Omni-new", "# Omni-specific: counted", "# Omni-Specific", "# [Omni] counted per request")
NO_MARKERS = (
    "# ------------------------------",
    "# what is Omni-specific comes below",
    "# the talker of Omni",
    "#",
)


@dataclass
class Planted:
    """`pairs`: (scope, first line, last line); `lines`: (scope, line, first line, last line)."""

    text: list[str] = field(default_factory=list)
    pairs: list[tuple[str, int, int]] = field(default_factory=list)
    lines: list[tuple[str, int, int, int]] = field(default_factory=list)

    @property
    def source(self) -> str:
        return "\n".join(self.text) + "\n"


def divider(rng: random.Random) -> str:
    left, right = rng.randint(3, 50), rng.choice((0, 3, 60))
    space = rng.choice(("", " ", "  "))
    return f"#{space}{'-' * left}{space}{rng.choice(('Omni-new', 'omni-new', 'Omni-New'))}{space}{'-' * right}"


def ends(rng: random.Random) -> tuple[str, str]:
    """An opener and its closer, in one of the styles."""
    closer = rng.choice((divider(rng), "# " + "-" * rng.randint(10, 90)))
    return rng.choice(((divider(rng), divider(rng)), (divider(rng), closer), ("# BEGIN OMNI", "# END OMNI")))


def marked_class(rng: random.Random) -> Planted:
    """A class whose methods hold pairs, one-line markers, and comments and strings that only look like them."""
    planted = Planted(["class Runner:", '    """# ---- Omni-new ----"""'])
    for number in range(rng.randint(1, 4)):
        around = rng.random() < 0.3
        opener, closer = ends(rng)
        if around:
            first = _add(planted, 4, opener)
        name = f"step_{number}"
        _add(planted, 4, f"def {name}(self):")
        if rng.random() < 0.3:
            _add(planted, 8, f"super().{name}()")
        _body(planted, rng, f"Runner.{name}", 8, 3, in_pair=around)
        if around:
            planted.pairs.append(("Runner", first, _add(planted, 4, closer)))
        if rng.random() < 0.5:
            planted.text.append("")
    planted.pairs.sort(key=lambda pair: pair[1])
    return planted


def _add(planted: Planted, indent: int, text: str) -> int:
    planted.text.append(" " * indent + text)
    return len(planted.text)


def _body(planted: Planted, rng: random.Random, scope: str, indent: int, depth: int, *, in_pair: bool) -> None:
    for _ in range(rng.randint(1, 4)):
        choice = rng.random()
        if choice < 0.3 and not in_pair:
            opener, closer = ends(rng)
            first = _add(planted, indent, opener)
            _statements(planted, rng, scope, indent, depth, in_pair=True)
            planted.pairs.append((scope, first, _add(planted, indent, closer)))
        elif choice < 0.4 and not in_pair:
            planted.text.append("")
            line = _add(planted, indent, rng.choice(ONE_LINE))
            first = _add(planted, indent, "self.count += 1")
            planted.lines.append((scope, line, first, first))
            planted.text.append("")
        elif choice < 0.5 and not in_pair:
            line = _add(planted, indent, f"self.count += 1  {rng.choice(ONE_LINE)}")
            planted.lines.append((scope, line, line, line))
        elif choice < 0.6:
            _add(planted, indent, rng.choice(NO_MARKERS[0 if not in_pair else 1 :]))
        _statements(planted, rng, scope, indent, depth, in_pair=in_pair)


def _statements(planted: Planted, rng: random.Random, scope: str, indent: int, depth: int, *, in_pair: bool) -> None:
    for _ in range(rng.randint(1, 2)):
        choice = rng.random()
        if choice < 0.5 or depth == 0:
            lines = rng.choice(
                (
                    ("self.count = 1",),
                    ("self.note(", "    1,  # a comment", "    2,", ")"),
                    ('self.text = """', "# ---- Omni-new ----", '"""'),
                    ("pass",),
                )
            )
            for line in lines:
                in_string = line.startswith(("# ----", '"""'))
                _add(planted, 0 if in_string else indent, line)
        elif choice < 0.6:
            _add(planted, indent, "def inner():")
            _body(planted, rng, f"{scope}.inner", indent + 4, depth - 1, in_pair=in_pair)
        else:
            first, second = rng.choice((("if self.a:", "else:"), ("try:", "except ValueError:"), ("for _ in b:", "")))
            _add(planted, indent, first)
            _body(planted, rng, scope, indent + 4, depth - 1, in_pair=in_pair)
            if second:
                _add(planted, indent, second)
                _body(planted, rng, scope, indent + 4, depth - 1, in_pair=in_pair)


def spoiled(rng: random.Random, planted: Planted) -> str:
    """The class with some of its marker lines lost, doubled, exchanged or indented differently."""
    text: list[Any] = list(planted.text)
    for _, first, last in planted.pairs:
        line = rng.choice((first, last)) - 1
        how = rng.choice(("kept", "lost", "doubled", "exchanged", "indented"))
        if text[line] is None or how == "kept":
            continue
        if how == "lost":
            text[line] = None
        elif how == "doubled":
            text[line] = f"{text[line]}\n{text[line]}"
        elif how == "indented":
            text[line] = rng.choice(("", "    ", "        ")) + text[line].lstrip()
        else:
            text[first - 1], text[last - 1] = text[last - 1], text[first - 1]
    return "\n".join(line for line in text if line is not None) + "\n"
