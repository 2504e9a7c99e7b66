"""How a command line becomes a run: options may stand before the command, and every end is an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand, TyperGroup

from omni_migrate.cli.guard import exit_code_of

if TYPE_CHECKING:
    from typer import Context

GROUP_OPTIONS = frozenset({"--help", "--version"})


class Commands(TyperGroup):
    """A group that takes the options of a command also before the command's name."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override, unused-ignore]
        return super().parse_args(ctx, self._command_first(args))

    def _command_first(self, args: list[str]) -> list[str]:
        if not args or not args[0].startswith("-") or args[0] in GROUP_OPTIONS:
            return args
        for position, arg in enumerate(args):
            if arg in self.commands:
                return [arg, *args[:position], *args[position + 1 :]]
        return args


class Command(TyperCommand):
    """A command whose function returns its exit code; what it raises becomes one line and an exit code."""

    def invoke(self, ctx: Context) -> Any:  # type: ignore[override, unused-ignore]
        raise SystemExit(exit_code_of(lambda: super(Command, self).invoke(ctx)))
