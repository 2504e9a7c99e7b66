"""The Markdown of the repository, and its blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^\n((?: {4}\S.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One Markdown file; `name` is its path in the repository."""

    name: str
    text: str

    def blocks(self, language: str) -> list[str]:
        """The fenced blocks of a language."""
        return [text for found, text in FENCE.findall(self.text) if found == language]

    def commands(self) -> Iterator[str]:
        """The command lines shown, without comments: those of `sh` fences and of indented blocks."""
        for block in [*self.blocks("sh"), *INDENTED.findall(FENCE.sub("", self.text))]:
            for line in block.splitlines():
                yield re.sub(r"\s#.*", "", line).strip()


def pages() -> list[Page]:
    """README.md, CONTRIBUTING.md, CHANGELOG.md and everything below docs/."""
    files = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    return [Page(file.relative_to(REPOSITORY).as_posix(), file.read_text(encoding="utf-8")) for file in sorted(files)]
