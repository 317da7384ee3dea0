"""``covalt-git auth``: OAuth logins at MCP servers, and sign-ins of toolsets."""

from __future__ import annotations

from typing import Any

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.operations.credentials import logins

_TITLES = ("SIGN-IN", "FOR", "ISSUER", "SCOPE", "TOKEN")
server_argument = click.argument("server", metavar="TOOLSET[/ID]")


@click.group(cls=Group)
def command() -> None:
    """Sign in for toolsets and to MCP servers that require a login, and sign out.

    The tokens are stored in your user's configuration folder, and renewed when they expire.
    """


@command.command("login")
@server_argument
@click.option(
    "--no-browser",
    is_flag=True,
    help="Only print the URL to sign in at, and read the address that a browser ended at.",
)
@click.option("--client-id", metavar="ID", help="The id of a client that you have registered.")
@click.option("--client-secret", metavar="NAME", help="The secret with its client secret.")
@click.option("--client-metadata", metavar="URL", help="The URL of the client's metadata.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port of the redirect URL, if the provider compares it; by default any.",
)
def login(*, no_browser: bool, **fields: Any) -> None:
    """Sign in for an entry of a toolset's auth, or to its MCP server, in your browser.

    TOOLSET alone names its only entry. All agents and users of this project's server use your sign-in.

    Example: covalt-git auth login tickets/remote
    """
    row = ask_to_print(logins.log_in, browser=not no_browser, **fields)
    scope = f", with the scope {row.scope}" if row.scope else ""
    output.say(f"signed in to {row.server} at {row.issuer}{scope}")


@command.command("list")
def list_sign_ins() -> None:
    """List what you are signed in to from this project, and the sign-ins that its toolsets need.

    Example: covalt-git auth list
    """
    listing = ask_to_print(logins.list_logins)
    rows = [(row.server, row.url, row.issuer, row.scope, _token(row)) for row in listing.logins]
    rows += [
        (
            entry.server,
            ", ".join(entry.hosts),
            "",
            " ".join(entry.scopes),
            f"none: covalt-git auth login {entry.server}",
        )
        for entry in listing.needed
    ]
    empty = "you are not signed in to anything, and no toolset declares a sign-in"
    output.table(rows, titles=_TITLES, empty=empty)


@command.command("logout")
@server_argument
def logout(server: str) -> None:
    """Delete the sign-in for TOOLSET/ID, and have its tokens revoked.

    Example: covalt-git auth logout tickets/remote
    """
    result = ask_to_print(logins.log_out, server=server)
    text = (
        f"signed out of {result.server}"
        if result.was_signed_in
        else f"you were not signed in to {result.server}"
    )
    output.say(text)
    for why in result.not_taken_back:
        output.say(why, err=True)


def _token(row: logins.LoginRow) -> str:
    if row.needs_more:
        return f"lacks a scope: covalt-git auth login {row.server}"
    if row.expired:
        return f"expired: covalt-git auth login {row.server}"
    if row.renewable:
        return "renewed automatically"
    return f"expires {row.expires_at}" if row.expires_at else "unknown expiry"
