"""``covalt-git grant``: the permissions of a toolset beyond its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask, can_ask, json_option
from covalt_git.cli.secret import recipients
from covalt_git.cli.terminal import output, result_text
from covalt_git.grants.grants import grant_key
from covalt_git.hosts import HostRule
from covalt_git.installs.local_changes import VersionGoneError
from covalt_git.models.server_definition import command_line
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
)
from covalt_git.operations import bundles, grants, toolsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.operations.registry import Operation
    from covalt_git.operations.toolsets import ToolsetDetail

toolset_argument = click.argument("toolset_id", metavar="TOOLSET")
some_hosts_argument = click.argument("hosts", metavar="[HOST...]", nargs=-1)
server_argument = click.argument("server_id", metavar="SERVER")
hosts_argument = click.argument("hosts", metavar="HOST...", nargs=-1, required=True)

_TITLES = ("TOOLSET", "GRANT", "WHAT", "HOLDS", "SINCE", "BY")


@click.group()
def command() -> None:
    """Grant toolsets hosts, secrets and MCP servers; list and revoke grants."""


class _ToolsetFirst(click.Group):
    """A group whose commands come after the toolset: ``add TOOLSET network HOST``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move the command before the toolset."""
        if args and args[0] in self.commands:
            args = ["--", *args]
        elif args and not args[0].startswith("-"):
            kinds = ", ".join(self.commands)
            if len(args) == 1:
                raise click.UsageError(f"name what to grant after {args[0]}: {kinds}", ctx)
            if args[1] not in self.commands:
                raise click.UsageError(f"no kind of grant {args[1]!r}; there are {kinds}", ctx)
            args = ["--", args[1], args[0], *args[2:]]
        return super().parse_args(ctx, args)


@command.command("list")
@click.argument("toolset_id", metavar="[TOOLSET]", required=False)
@json_option
def list_grants(toolset_id: str | None, *, as_json: bool) -> None:
    """List grants, and whether each is still valid.

    Without TOOLSET, the grants of all toolsets.

    Example: covalt-git grant list data-lab
    """
    found = ask(grants.list_grants, toolset_id=toolset_id)
    if as_json:
        output.as_json(found)
    elif found.grants:
        output.table([_line(one) for one in found.grants], titles=_TITLES)
        for one in found.grants:
            if isinstance(one.grant, ProcessGrant | ServerGrant):
                for what in one.changed:
                    output.say(f"{one.toolset_id} {one.key}: {what}", fg="yellow")
        for one_id in sorted({one.toolset_id for one in found.grants if not one.holds}):
            output.say(f"renew them: covalt-git grant add {one_id} --again")
    else:
        whom = f"to {toolset_id}" if toolset_id else "to any toolset"
        output.say(f"nothing is granted {whom}")


@command.group(
    "add",
    cls=_ToolsetFirst,
    subcommand_metavar="TOOLSET COMMAND ...",
)
def add() -> None:
    """Grant TOOLSET a host, a secret or an MCP server.

    A grant is for the current files.  It ends when the files of the toolset, the entry of an HTTP tool in
    toolset.yaml, or the MCP server change.
    """


@add.command("--requested")
@toolset_argument
@json_option
def requested(toolset_id: str, *, as_json: bool) -> None:
    """Grant everything that TOOLSET requests and lacks.

    It prints the hosts, secrets and MCP servers first, and asks at a terminal before it grants them.

    Example: covalt-git grant add weather --requested
    """
    toolset = ask(toolsets.get_toolset, toolset_id=toolset_id)
    if not as_json:
        for one in toolset.lacking:
            output.say(one.why)
    _grant_all(grants.add_requested_grants, toolset, asks=bool(toolset.lacking), as_json=as_json)
    if not toolset.lacking and not as_json:
        output.say(f"{toolset_id} has every grant that it requests")


@add.command("--again")
@toolset_argument
@json_option
def again(toolset_id: str, *, as_json: bool) -> None:
    """Renew the grants of TOOLSET that a change has ended.

    It prints what has changed since each was granted, and asks at a terminal before it renews them.

    Example: covalt-git grant add weather --again
    """
    toolset = ask(toolsets.get_toolset, toolset_id=toolset_id)
    if not as_json:
        _print_changes(toolset)
    renewed = _grant_all(grants.renew_grants, toolset, asks=bool(toolset.ended), as_json=as_json)
    if as_json:
        return
    for key in toolset.ended.keys() - renewed if renewed else ():
        output.say(f"{key} cannot be renewed: {toolset_id} no longer declares it", fg="yellow")
    if not toolset.ended:
        output.say(f"every grant of {toolset_id} is valid")


@add.command("network")
@toolset_argument
@hosts_argument
@json_option
def network(toolset_id: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET reach hosts.

    A HOST is api.example.com, *.example.com or localhost:8080.  The default port is 443, and for
    http:// and local names also 80.

    Example: covalt-git grant add weather network api.example.com
    """
    _add(toolset_id, "network", hosts=hosts, as_json=as_json)


@add.command("secret")
@toolset_argument
@click.argument("name")
@some_hosts_argument
@json_option
def secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Let TOOLSET use a secret.

    Its Python receives the secret NAME.  Its HTTP tools may send it to each HOST; name at least one if
    an HTTP tool sends the secret.

    Example: covalt-git grant add weather secret WEATHER_KEY api.example.com
    """
    _add(toolset_id, "secret", name=name, hosts=hosts, as_json=as_json)


@add.command("process")
@toolset_argument
@server_argument
@json_option
def process(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET start the program of an MCP server.

    SERVER is the server's id in toolset.yaml.  The grant ends when its command, folder, variables or
    files change.

    Example: covalt-git grant add files process disk
    """
    _add(toolset_id, "process", name=server_id, as_json=as_json)


@add.command("server")
@toolset_argument
@server_argument
@json_option
def server(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Let TOOLSET use an MCP server at a URL.

    SERVER is the server's id in toolset.yaml.  The grant ends when its URL, transport or headers change.

    Example: covalt-git grant add tickets server remote
    """
    _add(toolset_id, "server", name=server_id, as_json=as_json)


@add.command("tool")
@toolset_argument
@click.argument("name")
@json_option
def tool(toolset_id: str, name: str, *, as_json: bool) -> None:
    """Permit calls of the registered tool NAME; TOOLSET is `registered`.

    It may then send its request with its secrets, or forward its calls.  The grant ends when its entry
    changes.

    Example: covalt-git grant add registered tool weather
    """
    _add(toolset_id, "tool", name=name, as_json=as_json)


@add.command("unsandboxed")
@toolset_argument
@json_option
def unsandboxed(toolset_id: str, *, as_json: bool) -> None:
    """Let the imported TOOLSET run without a sandbox.

    On a machine without a strong enough sandbox it can then do what you can do: read your files and send
    them anywhere.

    Example: covalt-git grant add weather unsandboxed
    """
    _add(toolset_id, "unsandboxed", as_json=as_json)


@command.group(
    "revoke",
    cls=_ToolsetFirst,
    subcommand_metavar="TOOLSET COMMAND ...",
)
def revoke_group() -> None:
    """Revoke grants of TOOLSET, or hosts of a grant."""


@revoke_group.command("network")
@toolset_argument
@some_hosts_argument
@json_option
def revoke_network(toolset_id: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Revoke each HOST, or all hosts.

    Example: covalt-git grant revoke weather network api.example.com
    """
    _revoke(toolset_id, "network", hosts, "reach", as_json=as_json)


@revoke_group.command("secret")
@toolset_argument
@click.argument("name")
@some_hosts_argument
@json_option
def revoke_secret(toolset_id: str, name: str, hosts: tuple[str, ...], *, as_json: bool) -> None:
    """Revoke a secret for each HOST, or completely.

    Example: covalt-git grant revoke weather secret WEATHER_KEY
    """
    _revoke(toolset_id, grant_key("secret", name), hosts, f"send {name} to", as_json=as_json)


@revoke_group.command("process")
@toolset_argument
@server_argument
@json_option
def revoke_process(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Revoke starting the program of an MCP server.

    Example: covalt-git grant revoke files process disk
    """
    _revoke(toolset_id, grant_key("process", server_id), (), "", as_json=as_json)


@revoke_group.command("server")
@toolset_argument
@server_argument
@json_option
def revoke_server(toolset_id: str, server_id: str, *, as_json: bool) -> None:
    """Revoke using an MCP server at a URL.

    Example: covalt-git grant revoke tickets server remote
    """
    _revoke(toolset_id, grant_key("server", server_id), (), "", as_json=as_json)


@revoke_group.command("tool")
@toolset_argument
@click.argument("name")
@json_option
def revoke_tool(toolset_id: str, name: str, *, as_json: bool) -> None:
    """Revoke the permission to call a registered tool.

    Example: covalt-git grant revoke registered tool weather
    """
    _revoke(toolset_id, grant_key("tool", name), (), "", as_json=as_json)


@revoke_group.command("unsandboxed")
@toolset_argument
@json_option
def revoke_unsandboxed(toolset_id: str, *, as_json: bool) -> None:
    """Revoke running without a sandbox.

    Example: covalt-git grant revoke weather unsandboxed
    """
    _revoke(toolset_id, "unsandboxed", (), "", as_json=as_json)


@revoke_group.command("all")
@toolset_argument
@json_option
def revoke_everything(toolset_id: str, *, as_json: bool) -> None:
    """Revoke all grants.

    Example: covalt-git grant revoke weather all
    """
    done = ask(grants.revoke_grant, toolset_id=toolset_id, all=True)
    if as_json:
        output.as_json(done)
    elif done.revoked:
        output.say(f"revoked from {toolset_id}: {', '.join(done.revoked)}")
    else:
        output.say(f"{toolset_id} has no grants")


def _print_changes(toolset: ToolsetDetail) -> None:
    """Print why each ended grant of a toolset ended, and the changes of its files once."""
    shown = set[str]()
    for key, changed in toolset.ended.items():
        output.say(f"{key}: {'; '.join(changed)}", fg="yellow")
        grant = toolset.grants[key]
        if isinstance(grant, ProcessGrant | ServerGrant) or grant.digest in shown:
            continue
        shown.add(grant.digest)
        try:
            for one in ask(bundles.diff_toolset, toolset_id=toolset.id, grant=key).files:
                result_text.patch(one.patch)
        except VersionGoneError as error:
            output.say(error.message, err=True)


def _grant_all(
    operation: Operation[grants.GrantAll, grants.GrantList],
    toolset: ToolsetDetail,
    *,
    asks: bool,
    as_json: bool,
) -> set[str]:
    """Add the grants that were shown, if the toolset has not changed since; return their keys."""
    if asks and not as_json and can_ask() and not click.confirm("grant this?"):
        output.say("nothing was granted")
        raise SystemExit(1)
    done = ask(operation, toolset_id=toolset.id, digest=toolset.digest)
    if as_json:
        output.as_json(done)
    else:
        for one in done.grants:
            _print_grant(one)
    return {one.key for one in done.grants}


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
    else:
        _print_grant(done)


def _print_grant(row: grants.GrantRow) -> None:
    may, lines = _in_words(row)
    ends = "any of this changes:" if lines else "a file of it changes"
    if isinstance(row.grant, ToolGrant):
        ends = "its entry changes"
    if isinstance(row.grant, NetworkGrant | SecretGrant) and row.grant.requests:
        ends += " (HTTP tools: until their entries in toolset.yaml change)"
    output.say(f"{row.toolset_id} may {may}, until {ends}")
    for line in lines:
        output.say(f"  {line}")


def _in_words(row: grants.GrantRow) -> tuple[str, list[str]]:
    """Return a description of what a grant allows, and a line for each part of the MCP server that it covers."""
    match row.grant:
        case NetworkGrant() as grant:
            return f"reach {_hosts(grant)}", []
        case SecretGrant(name=name, hosts=()):
            return f"use {name} in Python tools", []
        case SecretGrant(name=name) as grant:
            python = " and use it in Python tools" if row.python else ""
            return f"send {name} to {_hosts(grant)} in HTTP tools{python}", []
        case ProcessGrant() as grant:
            folder = [f"folder: {command_line([grant.cwd])}"] if grant.cwd is not None else []
            files = [f"file: {command_line([at])} {digest}" for at, digest in grant.files.items()]
            command = f"command: {command_line(grant.argv)}"
            texts = _texts("variable", row)
            return f"start its MCP server {grant.server}", [command, *folder, *texts, *files]
        case ServerGrant() as grant:
            url = f"URL: {command_line([grant.url])} ({grant.transport})"
            return f"use its MCP server {grant.server}", [url, *_texts("header", row)]
        case ToolGrant() as grant:
            return f"run {grant.tool}: {_of_tool(grant)}", []
        case _:
            return "run without a sandbox", []


def _texts(kind: str, row: grants.GrantRow) -> list[str]:
    return [f"{kind}: {command_line([f'{name}={text}'])}" for name, text in row.texts.items()]


def _line(row: grants.GrantRow) -> tuple[str, ...]:
    grant = row.grant
    of_server = isinstance(grant, ProcessGrant | ServerGrant)
    why = "it has changed" if of_server else ", ".join(row.changed)
    holds = "yes" if row.holds else f"no, {why}"
    return row.toolset_id, row.key, _what(row), holds, grant.granted_at[:10], grant.granted_by


def _of_tool(grant: ToolGrant) -> str:
    if grant.alias_of is not None:
        return f"forward its calls to {grant.alias_of}"
    secrets = f" with {', '.join(grant.secrets)}" if grant.secrets else ""
    hosts = ", ".join(HostRule.parse(host).shown for host in grant.hosts)
    return f"send its request to {hosts}{secrets}"


def _hosts(grant: NetworkGrant | SecretGrant) -> str:
    return ", ".join(HostRule.parse(host).shown for host in grant.hosts)


def _what(row: grants.GrantRow) -> str:
    match row.grant:
        case SecretGrant() as grant:
            shown = (HostRule.parse(host).shown for host in grant.hosts)
            return recipients(shown, python=row.python)
        case NetworkGrant() as grant:
            return _hosts(grant)
        case ProcessGrant() as grant:
            return command_line(grant.argv)
        case ServerGrant() as grant:
            return command_line([grant.url])
        case ToolGrant() as grant:
            return _of_tool(grant)
        case _:
            return "no sandbox"
