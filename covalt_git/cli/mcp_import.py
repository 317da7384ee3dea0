"""``covalt-git mcp import``: import of MCP servers from other clients' configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.cli.bundle import print_import
from covalt_git.cli.context import ask, ask_to_print, can_ask, print_json
from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.operations.formats import host_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.mcp_clients.host_files import HostFileRow


@click.command("import", cls=JsonCommand)
@click.option(
    "--from", "source", metavar="HOST|FILE", help="Host, such as cursor, or configuration file."
)
@click.option(
    "--host", metavar="HOST", help="The host that FILE is of, if its content does not show it."
)
@click.option("--server", "servers", metavar="NAME", multiple=True, help="Import this server.")
@click.option(
    "--all",
    "all_servers",
    is_flag=True,
    help="Import all servers: of the file of --from, or of all files.",
)
@click.option("--yes", is_flag=True, help="Import without asking.")
@click.option("--dry-run", is_flag=True, help="Print what would be imported; change nothing.")
def command(
    source: str | None,
    host: str | None,
    servers: tuple[str, ...],
    *,
    all_servers: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Import MCP servers from the configuration file of another MCP client.

    Without options, the command lists the configuration files on this machine; at a terminal, it also asks
    which file and which servers to import.  Each server becomes a toolset that is disabled and has no
    grants.  Credentials are not copied: the toolset refers to secrets by name.  No program is started.

    Example: covalt-git mcp import --from claude-code --server github --yes
    """
    if servers and all_servers:
        raise WrongCallError("add --server or --all, not both")
    asks = can_ask() and not wants_json()
    if all_servers and source is None:
        files = [(row.path, row.host) for row in ask(host_servers.list_host_files).files]
        if wants_json() and len(files) != 1:
            raise WrongCallError("with --json, name one file: add --from HOST|FILE")
        if not files:
            output.say("no configuration file of an MCP client was found")
        for file, name in files:
            # Before the question: most files of settings have no server.
            if wants_json() or ask(host_servers.list_host_servers, path=file, host=name).servers:
                _import(file, name, (), yes=yes, dry_run=dry_run, asks=asks)
        return
    selected = _file(source, servers, asks=asks)
    if selected is None:
        return
    path, host_of_file = selected
    host = host or host_of_file
    if not all_servers:
        names = ask(host_servers.list_host_servers, path=path, host=host).servers
        servers = servers or _chosen(path, names, asks=asks)
    _import(path, host, servers, yes=yes, dry_run=dry_run, asks=asks)


def _import(
    path: Path,
    host: str | None,
    servers: tuple[str, ...],
    *,
    yes: bool,
    dry_run: bool,
    asks: bool,
) -> None:
    """Import servers of a file, by default all of them, and print the result."""
    if not yes and not dry_run:
        if not asks:
            raise WrongCallError("nothing was imported: add --yes, or --dry-run")
        output.confirm(f"import {', '.join(servers) or 'all servers'} from {path}?", abort=True)
    result = ask_to_print(
        host_servers.import_host_servers, path=path, host=host, servers=servers, dry_run=dry_run
    )
    for toolset in result.imported:
        print_import(toolset)
    for name in result.secrets:
        output.say(
            f"the secret {name} replaces a credential, whose value is not imported; after the grant: covalt-git secret set {name}"
        )
    for note in result.notes:
        output.say(note, err=True)
    for loss in result.lost:
        output.say(f"lost {loss.pointer}: {loss.reason}", err=True, fg="yellow")
    for server in result.left_out:
        output.say(f"{server.server!r} was left out: {server.reason}", err=True, fg="yellow")


def _file(
    source: str | None, servers: Sequence[str], *, asks: bool
) -> tuple[Path, str | None] | None:
    """Return the file to import from, and its host if known; None if the files were only listed."""
    listing = ask(host_servers.list_host_files)
    files = listing.files
    if source is not None:
        files = tuple(file for file in files if file.host == source)
        if not files and Path(source).is_file():
            return Path(source), None
        if not files:
            message = f"{source!r} is neither a file nor a host with a configuration file"
            raise WrongCallError(message, hint="covalt-git mcp import")
        matching = [file for file in files if servers and _has(file, servers)]
        # Of several files with the servers, that of the project comes before that of the user.
        files = tuple(matching[:1]) or files
    if len(files) == 1 and source is not None:
        return files[0].path, files[0].host
    if source is None:
        print_json(listing)
    rows = [(str(at), file.title, str(file.path)) for at, file in enumerate(files, 1)]
    if rows:
        output.table(rows, titles=("", "HOST", "FILE"))
    else:
        output.say("no configuration file of an MCP client was found")
    if not asks or not rows:
        if source is not None:
            raise WrongCallError(f"{source!r} has several files: add --from FILE")
        return None
    at = click.prompt("file", type=click.IntRange(1, len(rows)))
    return files[at - 1].path, files[at - 1].host


def _has(file: HostFileRow, servers: Sequence[str]) -> bool:
    listing = ask(host_servers.list_host_servers, path=file.path, host=file.host)
    return set(servers) <= set(listing.servers)


def _chosen(path: Path, all_servers: Sequence[str], *, asks: bool) -> tuple[str, ...]:
    """Return the servers that the user selects by their numbers."""
    if not all_servers:
        raise WrongCallError(f"{str(path)!r} has no servers to import")
    if not asks:
        raise WrongCallError(f"add --all, or --server with one of: {', '.join(all_servers)}")
    for at, name in enumerate(all_servers, 1):
        output.fact(f"  {at}  {name}")
    text = click.prompt("servers (numbers, or all)", default="all")
    if text == "all":
        return ()  # as --all, which leaves out what cannot be imported
    numbers = [int(word) for word in text.replace(",", " ").split() if word.isdecimal()]
    if not numbers or not all(1 <= number <= len(all_servers) for number in numbers):
        raise WrongCallError(f"write numbers from 1 to {len(all_servers)}, such as 1,2")
    return tuple(all_servers[number - 1] for number in numbers)
