"""``covalt-git grant``: what a toolset may do beyond its walls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.access import sees_everything
from covalt_git.cli import output
from covalt_git.cli.session import json_option, project
from covalt_git.errors import CovaltError
from covalt_git.installs import grant_network, grant_secret

if TYPE_CHECKING:
    from covalt_git.project import Project

toolset_argument = click.argument("toolset_id", metavar="TOOLSET")
hosts_argument = click.argument("hosts", metavar="HOST...", nargs=-1, required=True)


@click.group()
def command() -> None:
    """Let a toolset reach hosts and send secrets to them."""


class _Add(click.Group):
    """Takes the toolset before the kind of grant, as people say it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the kind first and the toolset behind it."""
        if len(args) > 1 and args[1] in self.commands and args[0] not in self.commands:
            args = [args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)


@command.group("add", cls=_Add, subcommand_metavar="TOOLSET network|secret ...")
def add() -> None:
    """Grant something to TOOLSET as its files are now; a change of them ends every grant."""


@add.command("network")
@toolset_argument
@hosts_argument
@json_option
def network(toolset_id: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET reach each HOST: api.example.com, *.example.com or localhost:8080."""
    opened = _as_admin()
    grant = grant_network(opened.root, toolset_id, hosts, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    output.say(f"{toolset_id} may reach {', '.join(grant.hosts)}, until a file of it changes")


@add.command("secret")
@toolset_argument
@click.argument("name")
@hosts_argument
@json_option
def secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET send the secret NAME to each HOST."""
    opened = _as_admin()
    grant = grant_secret(opened.root, toolset_id, name, hosts, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    output.say(f"{toolset_id} may send {name} to {', '.join(grant.hosts)}, until a file changes")


def _as_admin() -> Project:
    opened = project()
    if not sees_everything(opened.config, opened.principal):
        error = CovaltError("your role may not grant anything", hint="a role with admin: true may")
        error.code = "forbidden"
        raise error
    return opened
