"""The catalogue of omni's blocks as Markdown, in the form in which it is published.

A section for each class, `### <method> - <title>` for each entry, a `Location:` line and the code in a fence. What
people wrote around entries stays where it is, and so do the titles that they gave.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from omni_migrate.facts.common_runs import common_runs
from omni_migrate.facts.omni_blocks import Block
from omni_migrate.report.findings import Finding, Severity

RULES = ("catalogue-stale", "catalogue-gone", "catalogue-new")
DEFAULT_PATH = "docs/npu-omni-blocks.md"
# Where a catalogue may be: documentation, and the folders of skills and agents.
_FOLDERS = ("docs", ".claude", ".agents", ".github", "skills")
_PREAMBLE = """\
# Omni blocks of the {platform} runners

The code of omni's in the {platform} runners, which must survive when the platform's methods are copied anew.
`omni-migrate audit-npu --write` keeps it up to date; text around the entries and their titles are kept.
"""

_FENCE = re.compile(r"^(`{3,}|~{3,})\s*([\w+-]*)")
_ENTRY = re.compile(r"^###\s+`?([\w.]+)`?\s+[-\u2013\u2014]\s+(.+?)\s*$")
_CLASS = re.compile(r"\b[A-Z]\w*[a-z]\w*\b")
_FILE = re.compile(r"\(.*\.py`?\)")  # as in the heading of a class's section
_MARKER = re.compile(r"^\s*#.*\bomni[- :\]]", re.IGNORECASE | re.MULTILINE)
_RULER = re.compile(r"^(-{3,}|\*{3,}|_{3,})\s*$")
# Likeness from which an entry and a block of one method are the same, and of two methods.
_SAME_METHOD, _MOVED = 0.3, 0.75
_SAME_TITLE, _EXACT = 0.2, 2.0
_HINT = "audit-npu --write brings the catalogue up to date"


@dataclass(frozen=True)
class Entry:
    """One block as the catalogue has it. `heading` is the line as written ("": the section's own heading names it).

    `before`, `between` and `after` are people's text above the location, above the code and below it. `line` is where
    it begins in the file, `text` all of it as written.
    """

    class_name: str
    method: str
    title: str
    location: str
    code: str
    heading: str = ""
    before: str = ""
    between: str = ""
    after: str = ""
    line: int = field(default=0, compare=False)
    text: str = field(default="", compare=False)

    @property
    def is_of_code(self) -> bool:
        """Whether it says something of the code even if no block is like it; else it may be people's own example."""
        if not self.heading:
            return self.method == "NamedTuple" and "NamedTuple)" in self.code
        defined = re.search(rf"^\s*(async )?def {re.escape(self.method)}\(", self.code, re.MULTILINE)
        return bool(self.location or defined or _MARKER.search(self.code) or self.method == "imports")


@dataclass(frozen=True)
class Section:
    """A part under a `##` heading; `class_name` is "" if it has no entries. `ruler` stands below it. `text` is what
    stands between them, as written.
    """

    heading: str
    class_name: str = ""
    prose: str = ""
    entries: tuple[Entry, ...] = ()
    ruler: str = ""
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class Catalogue:
    """A catalogue file: the text above its first section, and its sections."""

    preamble: str
    sections: tuple[Section, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for section in self.sections for entry in section.entries)


@dataclass(frozen=True)
class Comparison:
    """What a catalogue says and what the code has. `matched` pairs entries with their blocks; of these `stale` are
    those whose code or location is no longer the block's. `gone` has no block, `new` has no entry.
    """

    matched: tuple[tuple[Entry, Block], ...]
    stale: tuple[tuple[Entry, Block], ...]
    gone: tuple[Entry, ...]
    new: tuple[Block, ...]

    def findings(self, path: str) -> list[Finding]:
        """An error for each entry that `--write` would change, remove or add; `path` is the catalogue's."""

        def finding(rule: str, entry: Entry, message: str) -> Finding:
            symbol = f"{entry.class_name}.{entry.method}"
            return Finding(path, entry.line, rule, Severity.ERROR, symbol, message, _HINT)

        found = []
        for entry, block in self.stale:
            what = "code" if _plain(entry.code) != _plain(block.code) else "place"
            message = f"the {what} of `{entry.method} - {entry.title}` is not that of {_at(block)}"
            found.append(finding("catalogue-stale", entry, message))
        for entry in self.gone:
            message = f"no block of the code is that of `{entry.method} - {entry.title}`"
            found.append(finding("catalogue-gone", entry, message))
        for block in self.new:
            message = f"`{block.method} - {block.title}` is not in {path}"
            symbol = f"{block.class_name}.{block.method}"
            line = block.lines[0][0]
            found.append(Finding(block.path, line, "catalogue-new", Severity.ERROR, symbol, message, _HINT))
        return found


def _at(block: Block) -> str:
    return f"{block.path}:{block.lines[0][0]}"


def find_catalogue(root: Path, classes: Collection[str]) -> str | None:
    """The Markdown file below `root` that has sections with entries for most of the classes, as a relative path."""
    headings = re.compile(rf"^##\s.*?\b({'|'.join(map(re.escape, sorted(classes)))})\b", re.MULTILINE)
    best: tuple[int, str] | None = None
    files = [*root.glob("*.md"), *(file for folder in _FOLDERS for file in (root / folder).rglob("*.md"))]
    for file in sorted(files):
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue
        if headings.search(text) is None or not file.resolve().is_relative_to(root.resolve()):
            continue
        named = len({entry.class_name for entry in read_catalogue(text, classes).entries}.intersection(classes))
        if named and (best is None or named > best[0]):
            best = (named, file.relative_to(root).as_posix())
    return best[1] if best else None


def read_catalogue(text: str, classes: Collection[str] = ()) -> Catalogue:
    """Parse a catalogue; headings within fences are none. `classes` are those that a section's heading may name."""
    parts = _split(text.replace("\r\n", "\n").split("\n"), "## ")
    sections = [_section(lines, line, classes) for line, lines in parts[1:]]
    return Catalogue(_trim(parts[0][1]), tuple(sections))


def _split(lines: Sequence[str], mark: str) -> list[tuple[int, list[str]]]:
    """The lines before the first heading that begins with `mark`, and those from each such heading on, each with the
    number of its first line.
    """
    parts: list[tuple[int, list[str]]] = [(1, [])]
    for number, (line, fenced) in enumerate(_fenced(lines), 1):
        if not fenced and line.startswith(mark):
            parts.append((number, []))
        parts[-1][1].append(line)
    return parts


def _fenced(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line, and what it is of a fence: "open", "inside", "close" or ""."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if fence and found and found.group(1).startswith(fence) and not line.strip("`~ "):
            fence = ""
            yield line, "close"
        elif fence:
            yield line, "inside"
        else:
            fence = found.group(1) if found else ""
            yield line, "open" if fence else ""


def unclosed_fence(text: str) -> int:
    """The line of a fence that nothing closes before the next one with a language or the end, else 0."""
    opened, fence = 0, ""
    for number, (line, state) in enumerate(_fenced(text.replace("\r\n", "\n").split("\n")), 1):
        found = _FENCE.match(line)
        if state == "inside" and found and found.group(1).startswith(fence) and found.group(2):
            return opened
        if state == "open" and found:
            opened, fence = number, found.group(1)
        elif state != "inside":
            opened = 0
    return opened


def _trim(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip("\n")


def _section(lines: Sequence[str], line: int, classes: Collection[str]) -> Section:
    heading, *rest = lines
    while rest and not rest[-1].strip():
        rest.pop()
    ruler = rest.pop() if rest and _RULER.match(rest[-1]) and not (len(rest) > 1 and rest[-2].strip()) else ""
    (_, first), *parts = _split(rest, "### ")
    named = next((word for word in re.findall(r"\w+", heading) if word in classes), None)
    if named is None and (found := _CLASS.search(heading)) is not None:
        named = found.group()
    class_name = named or ""
    entries = [_entry(class_name, part, line + number) for number, part in parts]
    if not class_name or not (any(entries) or _defines(class_name, first)):
        return Section(heading, "", _trim(rest), (), ruler, _trim(rest))
    kept: list[Entry] = []
    prose = _trim(first)
    if _defines(class_name, first):  # the section is the entry
        title = heading.rpartition(class_name)[2].strip(" `-()").lower() or "extension"
        kept.append(_filled(Entry(class_name, "NamedTuple", title, "", "", line=line, text=_trim(first)), first))
        prose = ""
    for (_, part), entry in zip(parts, entries, strict=True):
        if entry is not None:
            kept.append(entry)
        elif kept:  # a heading of people's own
            kept[-1] = _followed(kept[-1], _trim(part))
        else:
            prose = _joined(prose, _trim(part))
    return Section(heading, class_name, prose, tuple(kept), ruler, _trim(rest))


def _followed(entry: Entry, text: str) -> Entry:
    return replace(entry, after=_joined(entry.after, text), text=_joined(entry.text, text))


def _defines(class_name: str, lines: Sequence[str]) -> bool:
    place = _code_lines(lines)
    return place is not None and any(line.startswith(f"class {class_name}") for line in lines[place[0] : place[1]])


def _entry(class_name: str, lines: Sequence[str], line: int) -> Entry | None:
    found = _ENTRY.match(lines[0])
    if found is None or _code_lines(lines) is None:
        return None
    entry = Entry(class_name, found.group(1), found.group(2), "", "", lines[0], line=line, text=_trim(lines))
    return _filled(entry, lines[1:])


def _code_lines(lines: Sequence[str]) -> tuple[int, int] | None:
    """Where the Python fence with the code begins and ends: the first one, or the first below the location."""
    fences: list[tuple[int, int]] = []
    start: int | None = None
    location = _location_line(lines)
    for number, (line, state) in enumerate(_fenced(lines)):
        found = _FENCE.match(line)
        if state == "open" and found is not None:
            start = number if found.group(2).lower() in ("python", "py") else None
        elif state == "close" and start is not None:
            fences.append((start, number))
            start = None
    return next((fence for fence in fences if location is not None and fence[0] > location), next(iter(fences), None))


def _location_line(lines: Iterable[str]) -> int | None:
    return next(
        (n for n, (line, state) in enumerate(_fenced(lines)) if line.startswith("Location:") and not state), None
    )


def _filled(entry: Entry, lines: Sequence[str]) -> Entry:
    place = _code_lines(lines)
    above = list(lines[: place[0]]) if place else list(lines)
    code = "\n".join(lines[place[0] + 1 : place[1]]) if place else ""
    after = _trim(lines[place[1] + 1 :]) if place else ""
    marked = _location_line(above)
    if marked is None:
        return replace(entry, code=code, between=_trim(above), after=after)
    end = next((n for n in range(marked, len(above)) if not above[n].strip()), len(above))
    location = " ".join(line.strip() for line in above[marked:end]).removeprefix("Location:").strip()
    before, between = _trim(above[:marked]), _trim(above[end:])
    return replace(entry, location=location, code=code, before=before, between=between, after=after)


def _joined(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


def write_catalogue(catalogue: Catalogue) -> str:
    """The catalogue as Markdown; read_catalogue() of it is the catalogue again."""
    parts = [catalogue.preamble]
    for section in catalogue.sections:
        parts += [section.heading, section.prose]
        for entry in section.entries:
            location = f"Location: {entry.location}" if entry.location else ""
            parts += [entry.heading, entry.before, location, entry.between, _in_fence(entry.code), entry.after]
        parts.append(section.ruler)
    return _joined(*parts) + "\n"


def is_current(catalogue: Catalogue, blocks: Sequence[Block]) -> bool:
    """Whether it says of every block what the code has, class by class in the order of `blocks`."""
    comparison = compare(catalogue, blocks)
    if comparison.stale or comparison.gone or comparison.new:
        return False
    as_listed = [block for entry in catalogue.entries for known, block in comparison.matched if known is entry]
    return [(b.class_name, b.lines) for b in as_listed] == [(b.class_name, b.lines) for b in blocks]


def encoded(text: str, old: bytes = b"") -> bytes:
    """The text as bytes with the line ends and the byte order mark of the file that it takes the place of."""
    if old.count(b"\r\n") * 2 > old.count(b"\n"):
        text = text.replace("\n", "\r\n")
    return text.encode("utf-8-sig" if old.startswith(codecs.BOM_UTF8) else "utf-8")


def _in_fence(code: str) -> str:
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"^\s*(`{3,})", code, re.MULTILINE)), default=0))
    return f"{ticks}python\n{code}\n{ticks}"


def compare(catalogue: Catalogue, blocks: Sequence[Block]) -> Comparison:
    """Which entry is which block's, by method and by how much of the code they share."""
    catalogue = _settled(catalogue, blocks)
    found = _matches(catalogue.entries, blocks)
    entries = {pair[0] for pair in found}
    matched = tuple((catalogue.entries[i], blocks[j]) for i, j in found)
    stale = tuple(
        (entry, block)
        for entry, block in matched
        if _plain(entry.code) != _plain(block.code)
        or (entry.class_name, entry.method, entry.location) != (block.class_name, block.method, block.location)
    )
    gone = tuple(entry for number, entry in enumerate(catalogue.entries) if number not in entries)
    taken = {pair[1] for pair in found}
    return Comparison(matched, stale, gone, tuple(block for n, block in enumerate(blocks) if n not in taken))


def _settled(catalogue: Catalogue, blocks: Sequence[Block]) -> Catalogue:
    """The catalogue with people's own examples, which only look like entries, as the text that they are."""
    classes = {block.class_name for block in blocks}
    found = {pair[0] for pair in _matches(catalogue.entries, blocks)}
    first = 0
    sections = []
    for section in catalogue.sections:
        numbers = range(first, first + len(section.entries))
        first += len(section.entries)
        known = section.class_name in classes or _FILE.search(section.heading) or found.intersection(numbers)
        own = any(not entry.heading and entry.is_of_code for entry in section.entries)
        if section.class_name and not known and not own:
            sections.append(Section(section.heading, "", section.text, (), section.ruler, section.text))
            continue
        entries: list[Entry] = []
        prose = section.prose
        for number, entry in zip(numbers, section.entries, strict=True):
            if number in found or entry.is_of_code:
                entries.append(entry)
            elif entries:
                entries[-1] = _followed(entries[-1], entry.text)
            else:
                prose = _joined(prose, entry.text)
        still = section.class_name if entries or section.class_name in classes else ""
        sections.append(replace(section, class_name=still, prose=prose, entries=tuple(entries)))
    return replace(catalogue, sections=tuple(sections))


def _plain(code: str) -> str:
    return "\n".join(line.rstrip() for line in code.strip("\n").split("\n"))


def _matches(entries: Sequence[Entry], blocks: Sequence[Block]) -> list[tuple[int, int]]:
    """(entry, block) by their numbers, in order of blocks: the most alike first, none twice.

    First what is word for word the same in the same method, then what is like it there, and what is left over with
    what has moved.
    """
    codes = {text: _Code(text) for text in dict.fromkeys([*(e.code for e in entries), *(b.code for b in blocks)])}
    plain = {text: _plain(text) for text in codes}
    of_code = [entry.is_of_code for entry in entries]
    found: dict[int, int] = {}  # block -> entry
    taken: set[int] = set()

    def pair(groups: Callable[[Entry | Block], Hashable], score: Callable[[int, int], float | None]) -> None:
        by_group: dict[Hashable, list[int]] = {}
        for j, block in enumerate(blocks):
            if j not in found:
                by_group.setdefault(groups(block), []).append(j)
        scores = []
        for i, entry in enumerate(entries):
            for j in by_group.get(groups(entry), ()) if i not in taken else ():
                how_alike = score(i, j)
                if how_alike is not None:
                    scores.append((-how_alike, entry.location != blocks[j].location, i, j))
        for *_, i, j in sorted(scores):
            if i not in taken and j not in found:
                found[j] = i
                taken.add(i)

    def alike(i: int, j: int) -> float | None:
        score = codes[entries[i].code].likeness(codes[blocks[j].code], _SAME_METHOD)
        score += _SAME_TITLE if entries[i].title == blocks[j].title else 0
        return score if score >= _SAME_METHOD else None

    def moved(i: int, j: int) -> float | None:
        entry, block = entries[i], blocks[j]
        if (entry.class_name, entry.method) == (block.class_name, block.method):
            return None
        if {entry.method, block.method} & {"imports", "NamedTuple"} or not of_code[i]:
            return None
        if plain[entry.code] == plain[block.code]:
            return _EXACT
        score = codes[entry.code].likeness(codes[block.code], _MOVED)
        return score if score >= _MOVED else None

    pair(lambda one: (one.class_name, one.method, plain[one.code]), lambda i, j: _EXACT)
    pair(lambda one: (one.class_name, one.method), alike)
    pair(lambda one: None, moved)
    return sorted(((i, j) for j, i in found.items()), key=lambda both: both[1])


class _Code:
    """Code by its lines and words, to be compared; comment lines, and so markers, don't count."""

    def __init__(self, code: str) -> None:
        self.lines = [line for raw in code.split("\n") if (line := raw.strip()) and not line.startswith("#")]
        self.words = Counter(re.findall(r"\w+", "\n".join(self.lines)))
        self.total = self.words.total()

    def likeness(self, other: _Code, least: float) -> float:
        """0 to 1: how much of the shorter one the two share, by lines or by words; 0 if hardly a word is shared."""
        shared_words = (self.words & other.words).total()
        if shared_words < max(1, least * min(self.total, other.total)):
            return 0.0
        shared = sum(size for _, _, size in common_runs(self.lines, other.lines))
        sizes = len(self.lines), len(other.lines)
        return max(
            0.6 * shared / min(sizes) + 0.4 * 2 * shared / sum(sizes),
            0.8 * 2 * shared_words / (self.total + other.total),
        )


def updated(catalogue: Catalogue | None, blocks: Sequence[Block], platform: str = "NPU") -> Catalogue:
    """The catalogue brought up to date: classes in the order of `blocks`, titles and people's text kept.

    Text around an entry whose block is gone moves to the head of its section, or of the file if that goes too.
    """
    old = _settled(catalogue or Catalogue(_PREAMBLE.format(platform=platform).strip("\n"), ()), blocks)
    comparison = compare(old, blocks)
    known = {id(block): entry for entry, block in comparison.matched}
    sections: list[Section] = []
    used: list[Section] = []
    for name in dict.fromkeys(block.class_name for block in blocks):
        own = [block for block in blocks if block.class_name == name]
        before = next((section for section in old.sections if section.class_name == name), None)
        used += [before] if before is not None else []
        entries: list[Entry] = []
        for block in own:
            entries.append(_renewed(known.get(id(block)), block, entries))
        section = before or Section(f"## {name} ({own[0].path.rpartition('/')[2]})", name)
        sections.append(replace(section, entries=tuple(entries)))
    preamble = old.preamble
    unused = [section for section in old.sections if section.class_name and all(section is not s for s in used)]
    left = [(f"`{section.class_name}`", section.class_name, section.prose) for section in unused]
    for entry in comparison.gone:
        text = _joined(entry.before, entry.between, entry.after)
        left.append((f"`{entry.method} - {entry.title}`", entry.class_name, text))
    for what, class_name, text in left:
        if not text:
            continue
        text = f"Of {what}, which is gone:\n\n{text}"
        at = next((n for n, section in enumerate(sections) if section.class_name == class_name), None)
        if at is None:
            preamble = _joined(preamble, text)
        else:
            sections[at] = replace(sections[at], prose=_joined(sections[at].prose, text))
    return Catalogue(preamble, tuple(_in_place(old.sections, sections)))


def _renewed(entry: Entry | None, block: Block, others: Sequence[Entry]) -> Entry:
    """The entry of a block, with what people wrote around its old one; a new title is unlike those of `others`."""
    title = entry.title if entry is not None else block.title
    number = 1
    while entry is None and any((other.method, other.title) == (block.method, title) for other in others):
        number += 1
        title = f"{block.title} ({number})"
    heading = f"### {block.method} - {title}"
    fresh = Entry(block.class_name, block.method, title, block.location, block.code, heading)
    if entry is None:
        return fresh
    same = (entry.class_name, entry.method) == (block.class_name, block.method)
    return replace(
        fresh,
        heading=entry.heading if same else heading,
        before=entry.before,
        between=entry.between,
        after=entry.after,
    )


def _in_place(old: Sequence[Section], sections: Sequence[Section]) -> Iterable[Section]:
    """The class sections in their new order, sections of prose where they were among them."""
    rest = list(sections)
    last = max((number for number, section in enumerate(old) if section.class_name), default=-1)
    for number, section in enumerate(old):
        if not section.class_name:
            yield section
        elif rest:
            yield rest.pop(0)
        if number == last:
            yield from rest
            rest.clear()
    yield from rest
