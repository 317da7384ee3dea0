"""``covalt-git grant``: the permissions of a toolset beyond its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, json_option
from covalt_git.cli.terminal import output
from covalt_git.grants.grants import secret_key, server_key
from covalt_git.hosts import HostRule
from covalt_git.models.server_definition import command_line
from covalt_git.models.toolset_state import NetworkGrant, ProcessGrant, SecretGrant, ServerGrant
from covalt_git.operations import grants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.toolset_state import Grant

toolset_argument = click.argument("toolset_id", metavar="TOOLSET")
some_hosts_argument = click.argument("hosts", metavar="[HOST...]", nargs=-1)
server_argument = click.argument("server_id", metavar="SERVER")
hosts_argument = click.argument("hosts", metavar="HOST...", nargs=-1, required=True)

_TITLES = ("TOOLSET", "GRANT", "WHAT", "HOLDS", "SINCE", "BY")


@click.group()
def command() -> None:
    """Let a toolset reach hosts, send secrets and use MCP servers; list and revoke grants."""


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
    """List the grants of all toolsets or of TOOLSET, and whether each still holds."""
    found = ask(grants.list_grants, toolset_id=toolset_id)
    if as_json:
        output.as_json(found)
    elif found.grants:
        output.table([_line(one) for one in found.grants], titles=_TITLES)
        for one in found.grants:
            if isinstance(one.grant, ProcessGrant | ServerGrant):
                for what in one.changed:
                    output.say(f"{one.toolset_id} {one.key}: {what}", fg="yellow")
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
    _add(toolset_id, "network", hosts=hosts, as_json=as_json)


@add.command("secret")
@toolset_argument
@click.argument("name")
@some_hosts_argument
@json_option
def secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let the Python of TOOLSET use the secret NAME, and its HTTP tools send it to each HOST.

    A HOST is needed only where an HTTP tool sends the secret to one.
    """
    _add(toolset_id, "secret", name=name, hosts=hosts, as_json=as_json)


@add.command("process")
@toolset_argument
@server_argument
@json_option
def process(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET start the program of its MCP server SERVER, exactly as it is written now.

    A change of its command, its folder, its variables or a file of it ends that.
    """
    _add(toolset_id, "process", name=server_id, as_json=as_json)


@add.command("server")
@toolset_argument
@server_argument
@json_option
def server(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET use its MCP server SERVER at an address, exactly as it is written now.

    A change of its address, its transport or its headers ends that.
    """
    _add(toolset_id, "server", name=server_id, as_json=as_json)


@add.command("unsandboxed")
@toolset_argument
@json_option
def unsandboxed(toolset_id: str, *, as_json: bool) -> None:
    """Let the tools of TOOLSET, which was imported, run on machines that have no sandbox for it.

    There it can do what you can: read your files, and send them anywhere.
    """
    _add(toolset_id, "unsandboxed", as_json=as_json)


@command.group(
    "revoke",
    cls=_ToolsetFirst,
    subcommand_metavar="TOOLSET network|secret|process|server|unsandboxed|all ...",
)
def revoke_group() -> None:
    """Revoke grants of TOOLSET, or a part of one."""


@revoke_group.command("network")
@toolset_argument
@some_hosts_argument
@json_option
def revoke_network(toolset_id: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Revoke the grant of each HOST, or of all hosts."""
    _revoke(toolset_id, "network", hosts, "reach", as_json=as_json)


@revoke_group.command("secret")
@toolset_argument
@click.argument("name")
@some_hosts_argument
@json_option
def revoke_secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Revoke the grant to send the secret NAME to each HOST, or to all hosts."""
    _revoke(toolset_id, secret_key(name), hosts, f"send {name} to", as_json=as_json)


@revoke_group.command("process")
@toolset_argument
@server_argument
@json_option
def revoke_process(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Revoke the grant to start the program of the MCP server SERVER."""
    _revoke(toolset_id, server_key("process", server_id), (), "", as_json=as_json)


@revoke_group.command("server")
@toolset_argument
@server_argument
@json_option
def revoke_server(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Revoke the grant to use the MCP server SERVER at a URL."""
    _revoke(toolset_id, server_key("server", server_id), (), "", as_json=as_json)


@revoke_group.command("unsandboxed")
@toolset_argument
@json_option
def revoke_unsandboxed(toolset_id: str, *, as_json: bool) -> None:
    """Revoke the grant to run without a sandbox."""
    _revoke(toolset_id, "unsandboxed", (), "", as_json=as_json)


@revoke_group.command("all")
@toolset_argument
@json_option
def revoke_everything(toolset_id: str, *, as_json: bool) -> None:
    """Revoke all grants of TOOLSET."""
    done = ask(grants.revoke_grant, toolset_id=toolset_id, all=True)
    if as_json:
        output.as_json(done)
    elif done.revoked:
        output.say(f"revoked from {toolset_id}: {', '.join(done.revoked)}")
    else:
        output.say(f"{toolset_id} had nothing")


def _revoke(toolset_id: str, key: str, hosts: tuple[str, ...], may: str, *, as_json: bool) -> None:
    done = ask(grants.revoke_grant, toolset_id=toolset_id, key=key, hosts=hosts)
    if as_json:
        output.as_json(done)
    elif isinstance(done.left, NetworkGrant | SecretGrant):
        output.say(f"{toolset_id} may {may} {', '.join(done.left.hosts)} only")
    else:
        output.say(f"revoked from {toolset_id}: {key}")


def _add(
    toolset_id: str,
    kind: str,
    *,
    name: str | None = None,
    hosts: Sequence[str] = (),
    as_json: bool,
) -> None:
    done = ask(grants.add_grant, toolset_id=toolset_id, kind=kind, name=name, hosts=hosts)
    if as_json:
        output.as_json(done)
        return
    may, lines = _in_words(done)
    ends = "any of this changes:" if lines else "a file of it changes"
    output.say(f"{toolset_id} may {may}, until {ends}")
    for line in lines:
        output.say(f"  {line}")


def _in_words(row: grants.GrantRow) -> tuple[str, list[str]]:
    """Return what a grant allows, and a line for each part of the MCP server that it covers."""
    match row.grant:
        case NetworkGrant() as grant:
            return f"reach {_hosts(grant)}", []
        case SecretGrant(name=name, hosts=()):
            return f"use {name}", []
        case SecretGrant(name=name) as grant:
            return f"send {name} to {_hosts(grant)}", []
        case ProcessGrant() as grant:
            folder = [f"folder: {command_line([grant.cwd])}"] if grant.cwd is not None else []
            files = [f"file: {command_line([at])} {digest}" for at, digest in grant.files.items()]
            command = f"command: {command_line(grant.argv)}"
            texts = _texts("variable", row)
            return f"start its MCP server {grant.server}", [command, *folder, *texts, *files]
        case ServerGrant() as grant:
            url = f"address: {command_line([grant.url])} ({grant.transport})"
            return f"use its MCP server {grant.server}", [url, *_texts("header", row)]
        case _:
            return "run without a sandbox", []


def _texts(kind: str, row: grants.GrantRow) -> list[str]:
    return [f"{kind}: {command_line([f'{name}={text}'])}" for name, text in row.texts.items()]


def _line(row: grants.GrantRow) -> tuple[str, ...]:
    grant = row.grant
    of_server = isinstance(grant, ProcessGrant | ServerGrant)
    why = "it has changed" if of_server else ", ".join(row.changed)
    holds = "yes" if row.holds else f"no, {why}"
    return row.toolset_id, row.key, _what(grant), holds, grant.granted_at[:10], grant.granted_by


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
