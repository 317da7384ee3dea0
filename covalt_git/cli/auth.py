"""``covalt-git auth``: signing in to MCP servers at addresses, and out again."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from covalt_git.calls import mcp_calls
from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option, wrong_call
from covalt_git.credentials.command import SecretCommand
from covalt_git.errors import CovaltError
from covalt_git.toolsets.state_store import find_server, find_toolset

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition
    from covalt_git.connections.token_store import ClientChoice, StoredLogin
    from covalt_git.hosts import Origin, Reach
    from covalt_git.json_values import JsonObject
    from covalt_git.project import Project

_as_admin = partial(as_admin, "sign in to servers")
_TITLES = ("SERVER", "ADDRESS", "SIGNED IN BY", "ALLOWS", "TOKEN")
server_argument = click.argument("server", metavar="TOOLSET/SERVER")


@click.group()
def command() -> None:
    """Sign in to MCP servers that want to know who asks, and out again.

    What a server gave is kept in your own folder, for that server alone, and renewed when it ends.
    """


@command.command("login")
@server_argument
@click.option("--no-browser", is_flag=True, help="Only print the address to sign in at.")
@click.option("--client-id", metavar="ID", help="The client that you registered there beforehand.")
@click.option("--client-secret", metavar="NAME", help="The secret that holds its password.")
@click.option("--client-metadata", metavar="URL", help="A document that describes the client.")
@json_option
def login(
    server: str,
    *,
    no_browser: bool,
    client_id: str | None,
    client_secret: str | None,
    client_metadata: str | None,
    as_json: bool,
) -> None:
    """Sign in to the MCP server TOOLSET/SERVER, in your browser."""
    from covalt_git.connections.oauth_login import Person, sign_in  # noqa: PLC0415 - it loads the SDK

    opened = _as_admin()
    defined = _defined(opened, server)
    if not defined.may_sign_in:
        raise CovaltError(
            f"{server} is told who asks by its header 'Authorization', and by no sign-in",
            hint=f"take the header out of toolsets/{defined.name.toolset_id}/toolset.yaml",
        )
    choice = _choice(client_id, client_secret, client_metadata)
    person = Person(_visits, _asked, _nothing if no_browser else _open)
    kept = sign_in(defined, person, choice)
    if as_json:
        output.as_json(_told(kept))
        return
    allows = f", for {kept.scope}" if kept.scope else ""
    output.say(f"signed in to {defined.name} by {kept.issuer}{allows}")


@command.command("list")
@json_option
def list_sign_ins(*, as_json: bool) -> None:
    """List the servers that you are signed in to, from this project."""
    from covalt_git.connections.token_store import stored_logins  # noqa: PLC0415 - as above

    found = [_told(kept) for _, kept in stored_logins(_as_admin().root)]
    if as_json:
        output.as_json(found)
    elif found:
        rows = [
            (one["server"], one["url"], one["issuer"], one["scope"], _token(one)) for one in found
        ]
        output.table(rows, titles=_TITLES)
    else:
        output.say("you are signed in to no server: covalt-git auth login TOOLSET/SERVER")


@command.command("logout")
@server_argument
@json_option
def logout(server: str, *, as_json: bool) -> None:
    """Forget what signing in to the MCP server TOOLSET/SERVER left here, and have it taken back there."""
    from covalt_git.connections.oauth_logout import sign_out  # noqa: PLC0415 - it loads the SDK
    from covalt_git.connections.token_store import stored_logins  # noqa: PLC0415 - as above

    opened = _as_admin()
    was = [(file, kept) for file, kept in stored_logins(opened.root) if _name(kept) == server]
    wrong = []
    for file, kept in was:
        why = sign_out(file, _granted(opened, server))
        if why:
            wrong.append(f"{kept.issuer} did not take its tokens back: {why}")
    if as_json:
        told = {"server": server, "was_signed_in": bool(was), "not_taken_back": wrong}
        output.as_json(told)
        return
    output.say(f"signed out of {server}" if was else f"you were not signed in to {server}")
    for why in wrong:
        output.say(why, err=True)


def _granted(opened: Project, server: str) -> Reach | None:
    """Return what may be reached for a server, if it is there and granted still."""
    try:
        return _defined(opened, server).reach
    except CovaltError:
        return None


def _defined(opened: Project, text: str) -> Definition:
    """Return how the server at an address that TOOLSET/SERVER names is reached.

    Raises:
        GrantNeededError: when it was not granted, as it is now.
        CovaltError: when there is none, or a reference in it stands for nothing.
    """
    toolset_id, slash, server_id = text.partition("/")
    if not slash:
        raise wrong_call(f"{text!r} is no TOOLSET/SERVER")
    toolset = find_toolset(opened.root, toolset_id)
    server = find_server(toolset, server_id)
    if server.url is None:
        raise CovaltError(
            f"{text} is a program, which nobody signs in to",
            hint=f"covalt-git toolset show {toolset_id}",
        )
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as nowhere:
        return mcp_calls.definition(
            toolset,
            server,
            root=opened.root,
            workspace=Path(nowhere),
            chat_id=None,
            command=SecretCommand.of(opened.root, opened.config.secret_command),
        )


def _choice(client_id: str | None, secret: str | None, metadata: str | None) -> ClientChoice | None:
    from covalt_git.connections.token_store import ClientChoice  # noqa: PLC0415 - as above

    if secret is not None and client_id is None:
        raise wrong_call("--client-secret goes with --client-id")
    if (client_id, metadata) == (None, None):
        return None
    return ClientChoice(client_id=client_id, secret_name=secret, metadata_url=metadata)


def _visits(origin: Origin) -> None:
    output.say(f"signing in leads to {origin}", err=True)


def _asked(url: str) -> None:
    output.say("sign in at this address:", err=True)
    output.say(f"  {url}", err=True)
    output.say("waiting for you to sign in there; Ctrl-C stops", err=True, dim=True)


def _open(url: str) -> None:
    """Show an address in the person's browser, whose own words are nobody's to read.

    It is a word of its own to a program, never part of a line that a shell reads; the program is Python's
    ``webbrowser``, kept from loading what lies in the folder that it runs in.
    """
    program = [sys.executable, "-I", "-m", "webbrowser", url]
    nowhere = subprocess.DEVNULL
    subprocess.run(
        program, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True, check=False
    )


def _nothing(_: str) -> None:
    """Leave it to the person to go there."""


def _name(kept: StoredLogin) -> str:
    return f"{kept.toolset_id}/{kept.server_id}"


def _told(kept: StoredLogin) -> JsonObject:
    """Return what may be shown of a sign-in, which is nothing that opens a door."""
    ends = kept.expires_at
    shown = None if ends is None else datetime.fromtimestamp(ends, UTC)
    return {
        "server": _name(kept),
        "url": kept.url,
        "issuer": kept.issuer,
        "origins": list(kept.origins),
        "client_id": kept.client_id,
        "scope": kept.scope or "",
        "signed_in_at": kept.signed_in_at,
        "expires_at": None if shown is None else shown.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "renewable": kept.refresh_token is not None,
        "needs_more": kept.challenge is not None,
    }


def _token(one: JsonObject) -> str:
    if one["needs_more"]:
        return f"allows too little: covalt-git auth login {one['server']}"
    if one["renewable"]:
        return "is renewed by itself"
    return f"ends {one['expires_at']}" if one["expires_at"] else "has no known end"
