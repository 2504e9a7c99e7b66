"""Mend the marker comments whose mend is certain; nothing but comment lines changes.

Before:
    def __init__(self, *args):
        super().__init__(*args)
        self.kv_transfer_manager = OmniKVTransferManager()
        # ---- Omni-new ----

After:
    def __init__(self, *args):
        super().__init__(*args)
        # ---- Omni-new ----
        self.kv_transfer_manager = OmniKVTransferManager()
        # ---- Omni-new ----

Line ends are kept. A marker whose other half could stand in more than one place is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omni_migrate.facts.markers import CommentEdit, Defect, Style, find_markers
from omni_migrate.facts.modules import Module

# A mend shows at most the defect behind it; more rounds than this would be a mend that does not hold.
_ROUNDS = 5


@dataclass(frozen=True)
class FixedMarkers:
    """The text with the mends, the defects that are mended (with lines of the text then), and those that are left."""

    text: str
    mended: tuple[Defect, ...]
    left: tuple[Defect, ...]


def fix_markers(module: Module, styles: Sequence[Style] | None = None) -> FixedMarkers:
    """Mend what is certain, again until nothing certain is left."""
    mended: list[Defect] = []
    for _ in range(_ROUNDS):
        defects = find_markers(module, styles).defects
        certain = [defect for defect in defects if defect.certain]
        if not certain:
            break
        mended += certain
        text = _edited(module, [edit for defect in certain for edit in defect.mend])
        module = Module(module.path, replace(module.file, text=text))
    return FixedMarkers(module.text, tuple(mended), tuple(defects))


def _edited(module: Module, edits: Iterable[CommentEdit]) -> str:
    lines = list(module.lines)
    for edit in sorted(edits, key=lambda edit: (edit.line, not edit.insert), reverse=True):
        index = edit.line - 1
        if edit.insert:
            _insert(lines, index, edit.text or "", module.file.newline)
        elif edit.text is None:
            del lines[index]
        else:
            end = lines[index][len(lines[index].rstrip("\r\n")) :]
            lines[index] = edit.text + end
    return "".join(lines)


def _insert(lines: list[str], index: int, text: str, newline: str) -> None:
    """At the end of a file without a last line end, the new line is the one without."""
    above = lines[index - 1]
    end = above[len(above.rstrip("\r\n")) :]
    if end:
        lines.insert(index, text + end)
    else:
        lines[index - 1] = above + newline
        lines.insert(index, text)
