"""`omni-migrate list`: the adapters, hooks and rules that the tool knows."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Subject(str, Enum):
    """What can be listed."""

    ADAPTERS = "adapters"
    HOOKS = "hooks"
    RULES = "rules"


def list_knowledge(subject: Annotated[Subject, typer.Argument(help="What to list.")]) -> int:
    """List the adapters, hooks or rules that omni-migrate knows."""
    from omni_migrate.cli.guard import closed_pipe_is_fine
    from omni_migrate.cli.knowledge import adapters, hooks, rules

    if subject is Subject.RULES:
        rows = [(rule["id"], rule["severity"], rule["title"]) for rule in rules()]
    elif subject is Subject.HOOKS:
        rows = [(hook["id"], f"{hook['priority']} phase {hook['phase']}", hook["summary"]) for hook in hooks()]
    else:
        rows = [(adapter["name"], f"phase {adapter['phase']}", adapter["summary"]) for adapter in adapters()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    with closed_pipe_is_fine():
        for name, kind, text in rows:
            typer.echo(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {text}")
    return 0
