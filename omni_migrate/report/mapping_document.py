"""The V1 to V2 mapping document (RFC-005, phase 0): each hook, where V1 has it, what serves it on V2, what changed."""

from __future__ import annotations

from collections.abc import Sequence

from omni_migrate.facts.extension_points import Proof
from omni_migrate.facts.hook_sites import HookSite
from omni_migrate.facts.vllm_changes import Tracked
from omni_migrate.knowledge import HookSpec


def render_mapping(
    source: str,
    versions: tuple[str, str],
    specs: Sequence[HookSpec],
    sites: Sequence[HookSite],
    tracked: Sequence[Tracked],
    proofs: Sequence[Proof],
) -> str:
    """The document as Markdown. `versions` are the two vLLM compared; `proofs` are of the second."""
    old, new = versions
    by_symbol = {item.symbol: item for item in tracked}
    lines = [
        "# V1 to V2 mapping",
        "",
        f"The omni hooks of {source}, and what serves each in vLLM's V2 runner. Compared: vLLM {old} and {new}; "
        f"proven from the source of {new}.",
        "",
        f"| hook | priority | V1 sites | V2 extension point | {old} | {new} | what changed | proven |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for spec in specs:
        own = [site for site in sites if site.hook == spec.id]
        for number, point in enumerate(spec.points):
            item = by_symbol.get(point.symbol)
            about = [proof for proof in proofs if proof.hook == spec.id and proof.symbol == point.symbol]
            first = (f"`{spec.name}`", spec.priority, str(len(own))) if not number else ("", "", "")
            lines.append(_row(*first, f"`{_short(point.symbol)}`", *_tracked_cells(item), _proven(about)))
    for spec in specs:
        lines += ["", *_section(spec, [site for site in sites if site.hook == spec.id], proofs)]
    v1 = [item for item in tracked if item.api == "V1"]
    if v1:
        lines += ["", "## Methods of vLLM's V1 runner that are overridden", ""]
        lines += [_row("method", old, new, "what changed"), "| --- | --- | --- | --- |"]
        lines += [_row(f"`{item.symbol.rpartition('.')[2]}`", *_tracked_cells(item)) for item in v1]
    return "\n".join(lines) + "\n"


def _section(spec: HookSpec, sites: Sequence[HookSite], proofs: Sequence[Proof]) -> list[str]:
    rated = f"{spec.priority}, phase {spec.phase}, compatibility: {spec.compatibility}, effort: {spec.effort}"
    chosen = f" (chosen here, not by the RFC: {', '.join(spec.chosen)})" if spec.chosen else ""
    lines = [f"## {spec.name}", "", f"{spec.summary}. {rated}{chosen}.", ""]
    methods: dict[tuple[str, str], list[HookSite]] = {}
    for site in sites:
        methods.setdefault((site.path, site.symbol), []).append(site)
    if methods:
        lines += [_row("V1 site", "file", "lines", "as"), "| --- | --- | --- | --- |"]
    else:
        lines.append("No site on V1.")
    for (path, symbol), found in methods.items():
        numbers = ", ".join(map(str, sorted({site.line for site in found})))
        names = ", ".join(f"`{name}`" for name in sorted({site.name for site in found}))
        lines.append(_row(f"`{symbol}`", path, numbers, names))
    lines += ["", _row("V2 claim", "holds", "found", "where"), "| --- | --- | --- | --- |"]
    for proof in proofs:
        if proof.hook == spec.id:
            near = f"; nearest: {proof.nearest}" if proof.nearest and not proof.holds else ""
            holds = "yes" if proof.holds else "no" if proof.relied_on else "not relied on"
            lines.append(
                _row(
                    f"`{_short(proof.symbol)}` {proof.claim}",
                    holds,
                    f"{proof.found}{near}",
                    _place(proof.path, proof.line),
                )
            )
    return lines


def _tracked_cells(item: Tracked | None) -> tuple[str, str, str]:
    if item is None:
        return "", "", "in neither"
    places = [_place(*place) if place is not None else "" for place in (item.before, item.after)]
    status = {"moved": f"moved to {item.now}", "renamed": f"renamed {_short(item.now)}"}.get(item.status, item.status)
    said = [difference.text for difference in item.differences]
    changed = said if item.status == "changed" else [status, *said]
    return places[0], places[1], "; ".join(changed)


def _proven(proofs: Sequence[Proof]) -> str:
    holding = sum(proof.holds for proof in proofs)
    if proofs and not any(proof.relied_on for proof in proofs):
        return "not relied on"
    return f"{holding} of {len(proofs)}"


def _place(path: str, line: int) -> str:
    return f"{path}:{line}" if path else ""


def _short(name: str) -> str:
    parts = name.split(".")
    return ".".join(part for part in parts[-2:] if part[:1].isupper() or part == parts[-1])


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
