"""`omni-migrate explain`: what a rule means and what to do about its findings."""

from __future__ import annotations

from typing import Annotated

import typer

from omni_migrate.errors import InputError


def explain(rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule's id, as in a finding.")]) -> int:
    """Explain a rule: what it finds, why that matters, an example and the fix."""
    from omni_migrate.cli.guard import closed_pipe_is_fine
    from omni_migrate.cli.knowledge import rules

    known = {entry["id"]: entry for entry in rules()}
    entry = known.get(rule.strip().lower())
    if entry is None:
        from difflib import get_close_matches

        near = get_close_matches(rule.lower(), known, n=3) or sorted(known)
        raise InputError(f"no rule {rule}; did you mean {', '.join(near)}? `omni-migrate list rules` names them all")
    with closed_pipe_is_fine():
        typer.echo(f"{entry['id']} ({entry['severity']}): {entry['title']}")
        for heading in ("what", "why", "example", "fix"):
            typer.echo(f"\n{heading.capitalize()}:\n{_indented(entry[heading])}")
    return 0


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.strip("\n").splitlines())
