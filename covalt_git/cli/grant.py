"""``covalt-git grant``: what a toolset may do beyond its walls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from covalt_git.access.grants import ports
from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option
from covalt_git.grants.grants import (
    grant_network,
    grant_process,
    grant_secret,
    grant_server,
    grant_unsandboxed,
    grants,
    revoke,
    revoke_all,
    secret_key,
    server_key,
)
from covalt_git.grants.status import changes
from covalt_git.hosts import HostRule
from covalt_git.models.server_definition import command_line
from covalt_git.models.toolset_state import NetworkGrant, ProcessGrant, SecretGrant, ServerGrant
from covalt_git.toolsets.state_store import find_server, find_toolset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.models.toolset_state import Grant
    from covalt_git.toolsets.toolset import Toolset

_as_admin = partial(as_admin, "grant anything")
toolset_argument = click.argument("toolset_id", metavar="TOOLSET")
some_hosts_argument = click.argument("hosts", metavar="[HOST...]", nargs=-1)
server_argument = click.argument("server_id", metavar="SERVER")
hosts_argument = click.argument("hosts", metavar="HOST...", nargs=-1, required=True)

_TITLES = ("TOOLSET", "GRANT", "WHAT", "HOLDS", "SINCE", "BY")


@click.group()
def command() -> None:
    """Let a toolset reach hosts, send secrets, use MCP servers; see what it may, and take it back."""


class _ToolsetFirst(click.Group):
    """Takes the toolset before the kind of grant, as people say it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the kind first and the toolset behind it."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            kinds = ", ".join(self.commands)
            if len(args) == 1:
                raise click.UsageError(f"say what, after {args[0]}: {kinds}", ctx)
            if args[1] not in self.commands:
                raise click.UsageError(f"no kind of grant {args[1]!r}; there are {kinds}", ctx)
            args = [args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)


@command.command("list")
@click.argument("toolset_id", metavar="[TOOLSET]", required=False)
@json_option
def list_grants(toolset_id: str | None, *, as_json: bool) -> None:
    """List what was granted, to all toolsets or to TOOLSET, whether it still holds, and if not why."""
    found = grants(_as_admin().root, toolset_id)
    if as_json:
        output.as_json(
            [
                {"toolset_id": toolset.id, "key": key, "holds": not told, "changed": told}
                | grant.model_dump(mode="json")
                | {"ports": ports(grant)}
                for toolset, key, grant in found
                for told in [changes(toolset, grant)]
            ]
        )
    elif found:
        output.table([_line(*one) for one in found], titles=_TITLES)
        for toolset, key, grant in found:
            if isinstance(grant, ProcessGrant | ServerGrant):
                for told in changes(toolset, grant):
                    output.say(f"{toolset.id} {key}: {told}", fg="yellow")
    else:
        whom = f"to {toolset_id}" if toolset_id else "to any toolset"
        output.say(f"nothing is granted {whom}")


@command.group(
    "add",
    cls=_ToolsetFirst,
    subcommand_metavar="TOOLSET network|secret|process|server|unsandboxed ...",
)
def add() -> None:
    """Grant something to TOOLSET as it is now; a change of what was granted ends the grant."""


@add.command("network")
@toolset_argument
@hosts_argument
@json_option
def network(toolset_id: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET reach each HOST: api.example.com, *.example.com or localhost:8080.

    Without a port that is 443, and 80 as well for http:// and for what is local by its name.
    """
    opened = _as_admin()
    grant = grant_network(opened.root, toolset_id, hosts, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    output.say(f"{toolset_id} may reach {_hosts(grant)}, until a file of it changes")


@add.command("secret")
@toolset_argument
@click.argument("name")
@some_hosts_argument
@json_option
def secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let the Python of TOOLSET use the secret NAME, and its HTTP tools send it to each HOST.

    A HOST is needed only where an HTTP tool sends the secret to one.
    """
    opened = _as_admin()
    grant = grant_secret(opened.root, toolset_id, name, hosts, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    may = f"send {name} to {_hosts(grant)}" if grant.hosts else f"use {name}"
    output.say(f"{toolset_id} may {may}, until a file of it changes")


@add.command("process")
@toolset_argument
@server_argument
@json_option
def process(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET start the program of its MCP server SERVER, exactly as it is written now.

    A change of its command, its folder, its variables or a file of it ends that.
    """
    opened = _as_admin()
    grant = grant_process(opened.root, toolset_id, server_id, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    output.say(f"{toolset_id} may start its MCP server {server_id}, until any of this changes:")
    output.say(f"  command: {command_line(grant.argv)}")
    if grant.cwd is not None:
        output.say(f"  folder: {command_line([grant.cwd])}")
    _say_texts("variable", find_server(find_toolset(opened.root, toolset_id), server_id).env)
    for path, digest in grant.files.items():
        output.say(f"  file: {command_line([path])} {digest}")


@add.command("server")
@toolset_argument
@server_argument
@json_option
def server(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET use its MCP server SERVER at an address, exactly as it is written now.

    A change of its address, its transport or its headers ends that.
    """
    opened = _as_admin()
    grant = grant_server(opened.root, toolset_id, server_id, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    output.say(f"{toolset_id} may use its MCP server {server_id}, until any of this changes:")
    output.say(f"  address: {command_line([grant.url])} ({grant.transport})")
    _say_texts("header", find_server(find_toolset(opened.root, toolset_id), server_id).headers)


@add.command("unsandboxed")
@toolset_argument
@json_option
def unsandboxed(toolset_id: str, *, as_json: bool) -> None:
    """Let the tools of TOOLSET, which was imported, run on machines that have no sandbox for it.

    There it can do what you can: read your files, and send them anywhere.
    """
    opened = _as_admin()
    grant = grant_unsandboxed(opened.root, toolset_id, by=opened.principal.id)
    if as_json:
        output.as_json({"toolset_id": toolset_id} | grant.model_dump(mode="json"))
        return
    output.say(f"{toolset_id} may run without a sandbox, until a file of it changes")


@command.group(
    "revoke",
    cls=_ToolsetFirst,
    subcommand_metavar="TOOLSET network|secret|process|server|unsandboxed|all ...",
)
def revoke_group() -> None:
    """Take back from TOOLSET what was granted to it, or a part of it."""


@revoke_group.command("network")
@toolset_argument
@some_hosts_argument
@json_option
def revoke_network(toolset_id: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET reach each HOST no longer; without any, none at all."""
    _revoke(toolset_id, "network", hosts, "reach", as_json=as_json)


@revoke_group.command("secret")
@toolset_argument
@click.argument("name")
@some_hosts_argument
@json_option
def revoke_secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET send the secret NAME to each HOST no longer; without any, nowhere."""
    _revoke(toolset_id, secret_key(name), hosts, f"send {name} to", as_json=as_json)


@revoke_group.command("process")
@toolset_argument
@server_argument
@json_option
def revoke_process(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET start the program of its MCP server SERVER no longer."""
    _revoke(toolset_id, server_key("process", server_id), (), "", as_json=as_json)


@revoke_group.command("server")
@toolset_argument
@server_argument
@json_option
def revoke_server(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET use its MCP server SERVER no longer."""
    _revoke(toolset_id, server_key("server", server_id), (), "", as_json=as_json)


@revoke_group.command("unsandboxed")
@toolset_argument
@json_option
def revoke_unsandboxed(toolset_id: str, *, as_json: bool) -> None:
    """Let TOOLSET run only where a sandbox holds it."""
    _revoke(toolset_id, "unsandboxed", (), "", as_json=as_json)


@revoke_group.command("all")
@toolset_argument
@json_option
def revoke_everything(toolset_id: str, *, as_json: bool) -> None:
    """Take back all that was granted to TOOLSET."""
    taken = revoke_all(_as_admin().root, toolset_id)
    if as_json:
        output.as_json({"toolset_id": toolset_id, "revoked": taken})
        return
    output.say(
        f"{toolset_id} has lost {', '.join(taken)}" if taken else f"{toolset_id} had nothing"
    )


def _revoke(toolset_id: str, key: str, hosts: tuple[str, ...], may: str, *, as_json: bool) -> None:
    left = revoke(_as_admin().root, toolset_id, key, hosts)
    if as_json:
        told = None if left is None else left.model_dump(mode="json")
        output.as_json({"toolset_id": toolset_id, "revoked": key, "left": told})
    elif isinstance(left, NetworkGrant | SecretGrant):
        output.say(f"{toolset_id} may {may} {', '.join(left.hosts)} only")
    else:
        output.say(f"{toolset_id} has lost {key}")


def _say_texts(kind: str, written: Mapping[str, str]) -> None:
    """Print variables or headers as the toolset writes them: with references, and without values."""
    for name, text in sorted(written.items()):
        output.say(f"  {kind}: {command_line([f'{name}={text}'])}")


def _line(toolset: Toolset, key: str, grant: Grant) -> tuple[str, ...]:
    changed = changes(toolset, grant)
    of_server = isinstance(grant, ProcessGrant | ServerGrant)
    why = "it has changed" if of_server else ", ".join(changed)
    holds = f"no, {why}" if changed else "yes"
    return toolset.id, key, _what(grant), holds, grant.granted_at[:10], grant.granted_by


def _hosts(grant: NetworkGrant | SecretGrant) -> str:
    return ", ".join(HostRule.parse(host).shown for host in grant.hosts)


def _what(grant: Grant) -> str:
    match grant:
        case SecretGrant(hosts=()):
            return "for its Python"
        case NetworkGrant() | SecretGrant():
            return _hosts(grant)
        case ProcessGrant():
            return command_line(grant.argv)
        case ServerGrant():
            return command_line([grant.url])
        case _:
            return "no sandbox"
