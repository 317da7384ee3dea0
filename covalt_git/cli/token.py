"""``covalt-git token``: access tokens of agents for ``/mcp`` of the server, and tokens of the user's own issuer."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import click

from covalt_git.cli.call import reason_option
from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.errors import WrongCallError
from covalt_git.json_values import canonical_json
from covalt_git.operations.credentials import minted_tokens, tokens

_TITLES = ("TOKEN", "ROLE", "CHATS", "MADE", "EXPIRES")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_MOST_DAYS = 3650


@click.group(cls=Group)
def command() -> None:
    """Create and revoke access tokens for agents at /mcp of the server; mint tokens for one tool.

    An agent's token is not valid for the pages and the API.  The agent can approve calls of others if its
    role has `approve` in covalt.yaml.
    """


@command.command("new")
@click.option("--role", required=True, help="The role of covalt.yaml that the agent gets.")
@click.option("--name", help="The agent's name in records and approvals; default: from the role.")
@click.option(
    "--chat",
    "chat_id",
    metavar="CHAT",
    help="Access to this chat only, instead of the chats that the agent creates.",
)
@click.option(
    "--expires",
    default="90d",
    show_default=True,
    metavar="TIME",
    help="Lifetime: 30d, 12h, 45m, or never.",
)
@reason_option
def new(expires: str, **fields: str | None) -> None:
    """Create a token for one agent, and print it once: only its digest is stored.

    A new token with the name of a revoked one is for the same agent, and gives access to the same chats.
    Without a terminal, a token of a role that may approve calls, or of an admin, needs --no-terminal and a
    reason.

    Example: covalt-git token new --role agent --name claude-code
    """
    token = ask_to_print(tokens.create_token, lasts=_lifetime(expires), **fields)
    output.say(_in_words(token), err=True)
    output.say("it is shown only now; the agent sends it as Authorization: Bearer", err=True)
    # Alone on stdout, so that a script can store it.
    click.echo(token.token)


@command.command("list")
def list_tokens() -> None:
    """List the tokens, with their roles and chats.

    Example: covalt-git token list
    """
    listing = ask_to_print(tokens.list_tokens)
    rows = [_line(token) for token in listing.tokens]
    output.table(
        rows, titles=_TITLES, empty="no tokens; create one: covalt-git token new --role ROLE"
    )


@command.command("revoke")
@click.argument("named", metavar="NAME|ID")
def revoke(named: str) -> None:
    """Revoke a token, and close its open connections.

    Example: covalt-git token revoke claude-code
    """
    token = ask_to_print(tokens.revoke_token, token=named)
    output.say(f"revoked {token.name}")


@command.command("mint")
@click.argument("tool_id", metavar="TOOL")
@click.option("--args", "args", metavar="JSON", help="The arguments of the one call it is for.")
@click.option("--role", help="The role of its holder, if the issuer has several.")
@click.option(
    "--for", "lasts", default="5m", show_default=True, metavar="TIME", help="Lifetime: 5m, 12h, 1d."
)
def mint(tool_id: str, args: str | None, role: str | None, lasts: str) -> None:
    """Print an access token that fits TOOL, signed with your own key.

    It is valid in projects whose covalt.yaml lists your own issuer: see `covalt-git token jwks`.  For a tool
    that requires an execution, it is for one call with exactly these arguments.

    Example: covalt-git token mint data-lab:summarize --for 5m
    """
    value = object_of(args) if args else {}
    duration = _duration(lasts)
    if duration is None or duration > timedelta(days=1):
        raise WrongCallError(f"--for {lasts}: write 5m, 12h or 1d, at most 1d")
    minted = ask_to_print(
        minted_tokens.mint_token, tool_id=tool_id, args=value, role=role, lasts=duration
    )
    click.echo(minted.token)


@command.command("jwks")
def jwks() -> None:
    """Print the public key of your own issuer, for jwks_file of its entry in covalt.yaml.

    Example: covalt-git token jwks
    """
    own = ask_to_print(minted_tokens.get_own_issuer)
    output.say(f"issuer: {own.issuer}", err=True)
    click.echo(json.dumps(own.jwks))


def object_of(text: str) -> dict[str, object]:
    """Return the JSON object in an option.

    Raises:
        WrongCallError: if the text is not a JSON object.
    """
    try:
        value = canonical_json.loads(text)
    except canonical_json.NotJsonError as error:
        raise WrongCallError(f"--args is not JSON: {error.message}") from None
    if not isinstance(value, dict):
        raise WrongCallError("--args must be a JSON object")
    return value


def _duration(text: str) -> timedelta | None:
    """Return a time such as 5m, 12h or 30d; None for any other text."""
    # At most seven digits: timedelta cannot hold numbers of any size.
    match = re.fullmatch(r"([1-9][0-9]{0,6})([dhm])", text)
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None


def _lifetime(text: str) -> timedelta | None:
    """Return the lifetime of a token; None if it is unlimited."""
    if text == "never":
        return None
    lasts = _duration(text)
    if lasts is None or lasts > timedelta(days=_MOST_DAYS):
        raise WrongCallError(
            f"--expires {text}: write 30d, 12h, 45m or never, at most {_MOST_DAYS}d"
        )
    return lasts


def _in_words(token: tokens.TokenRow) -> str:
    where = f"the chat {token.chat}" if token.chat else "its own chats"
    until = f"until {token.expires_at}" if token.expires_at else "until it is revoked"
    return f"{token.name} has the role {token.role} in {where}, {until}"


def _line(token: tokens.TokenRow) -> tuple[str, ...]:
    expires = token.expires_at or "never"
    return (
        token.name,
        token.role,
        token.chat or "its own",
        token.created_at,
        f"{expires}, expired" if token.expired else expires,
    )
