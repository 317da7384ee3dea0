"""Classes of commands and of groups: the option ``--json``, and commands that are imported when they are run."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

_JSON = "covalt_git.json"


def wants_json() -> bool:
    """Return whether the command that runs was given ``--json``."""
    return bool(click.get_current_context().meta.get(_JSON))


def _note_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    ctx.meta[_JSON] = value


class JsonCommand(click.Command):
    """A command with the option ``--json``, which :func:`wants_json` reads."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        option = click.option(
            "--json", is_flag=True, expose_value=False, callback=_note_json, help="Print JSON."
        )
        option(self)


class Group(click.Group):
    """A group of such commands, which imports some of them when they are run, or listed in its help.

    Args:
        places: ``module.name`` in this package, by command.
    """

    command_class = JsonCommand

    def __init__(
        self, *args: Any, places: Mapping[str, str] = MappingProxyType({}), **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *self.places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return super().get_command(ctx, cmd_name)
        module, _, name = self.places[cmd_name].rpartition(".")
        command: click.Command = getattr(import_module(f"covalt_git.cli.{module}"), name)
        return command
