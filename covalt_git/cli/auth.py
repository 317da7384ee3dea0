"""``covalt-git auth``: OAuth logins at MCP servers."""

from __future__ import annotations

from typing import Any

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.operations.credentials import logins

_TITLES = ("SERVER", "URL", "ISSUER", "SCOPE", "TOKEN")
server_argument = click.argument("server", metavar="TOOLSET/SERVER")


@click.group(cls=Group)
def command() -> None:
    """Sign in to MCP servers that require a login, and sign out.

    The tokens are stored in your user's configuration folder, and renewed when they expire.
    """


@command.command("login")
@server_argument
@click.option("--no-browser", is_flag=True, help="Only print the URL to sign in at.")
@click.option("--client-id", metavar="ID", help="The id of a client that you have registered.")
@click.option("--client-secret", metavar="NAME", help="The secret with its client secret.")
@click.option("--client-metadata", metavar="URL", help="The URL of the client's metadata.")
def login(*, no_browser: bool, **fields: Any) -> None:
    """Sign in to the MCP server TOOLSET/SERVER, in your browser.

    Example: covalt-git auth login tickets/remote
    """
    row = ask_to_print(logins.log_in, browser=not no_browser, **fields)
    scope = f", with the scope {row.scope}" if row.scope else ""
    output.say(f"signed in to {row.server} at {row.issuer}{scope}")


@command.command("list")
def list_sign_ins() -> None:
    """List the servers that you are signed in to, from this project.

    Example: covalt-git auth list
    """
    listing = ask_to_print(logins.list_logins)
    rows = [(row.server, row.url, row.issuer, row.scope, _token(row)) for row in listing.logins]
    empty = "you are not signed in to any server: covalt-git auth login TOOLSET/SERVER"
    output.table(rows, titles=_TITLES, empty=empty)


@command.command("logout")
@server_argument
def logout(server: str) -> None:
    """Delete the login at the MCP server TOOLSET/SERVER, and have the server revoke its tokens.

    Example: covalt-git auth logout tickets/remote
    """
    result = ask_to_print(logins.log_out, server=server)
    text = (
        f"signed out of {server}" if result.was_signed_in else f"you were not signed in to {server}"
    )
    output.say(text)
    for why in result.not_taken_back:
        output.say(why, err=True)


def _token(row: logins.LoginRow) -> str:
    if row.needs_more:
        return f"lacks a scope: covalt-git auth login {row.server}"
    if row.renewable:
        return "renewed automatically"
    return f"expires {row.expires_at}" if row.expires_at else "unknown expiry"
