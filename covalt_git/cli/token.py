"""``covalt-git token``: access tokens of agents for ``/mcp`` of the server, each with a role."""

from __future__ import annotations

import re
from datetime import timedelta

import click

from covalt_git.cli.context import ask, json_option, wrong_call
from covalt_git.cli.terminal import output
from covalt_git.operations import tokens

_TITLES = ("TOKEN", "ROLE", "CHATS", "MADE", "EXPIRES")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_MOST_DAYS = 3650


@click.group()
def command() -> None:
    """Create and revoke access tokens for agents at /mcp of the server.

    An agent's token opens no page and no API, and approves nothing.
    """


@command.command("new")
@click.option("--role", required=True, help="The role of covalt.yaml that the agent acts under.")
@click.option("--name", help="Who the agent is, in records and approvals; else made of the role.")
@click.option(
    "--chat", "chat_id", metavar="CHAT", help="Open this chat, instead of those the agent makes."
)
@click.option(
    "--expires",
    default="90d",
    show_default=True,
    metavar="TIME",
    help="How long it is good: 30d, 12h, 45m, or never.",
)
@json_option
def new(role: str, name: str | None, chat_id: str | None, expires: str, *, as_json: bool) -> None:
    """Create a token for one agent, and print it once: only its digest is stored.

    A later token of the same name is for the same agent, with its chats.
    """
    made = ask(tokens.create_token, role=role, name=name, chat_id=chat_id, lasts=_duration(expires))
    if as_json:
        output.as_json(made)
        return
    output.say(_in_words(made), err=True)
    output.say("it is shown this once; the agent sends it as Authorization: Bearer", err=True)
    click.echo(made.token)


@command.command("list")
@json_option
def list_tokens(*, as_json: bool) -> None:
    """List the tokens, and what each opens."""
    found = ask(tokens.list_tokens)
    if as_json:
        output.as_json(found)
    elif found.tokens:
        output.table([_line(one) for one in found.tokens], titles=_TITLES)
    else:
        output.say("there is no token: covalt-git token new --role ROLE")


@command.command("revoke")
@click.argument("named", metavar="NAME|ID")
@json_option
def revoke(named: str, *, as_json: bool) -> None:
    """Revoke a token.  It opens nothing any more, and its open connections end."""
    token = ask(tokens.revoke_token, token=named)
    if as_json:
        output.as_json(token)
    else:
        output.say(f"revoked {token.name}")


def _duration(text: str) -> timedelta | None:
    """Return how long a token lasts; None for ever."""
    if text == "never":
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,6})([dhm])", text)
    lasts = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta.max
    if lasts > timedelta(days=_MOST_DAYS):
        raise wrong_call(f"--expires {text}: write 30d, 12h, 45m or never, at most {_MOST_DAYS}d")
    return lasts


def _in_words(token: tokens.TokenRow) -> str:
    where = f"the chat {token.chat}" if token.chat else "chats of its own"
    until = f"until {token.expires_at}" if token.expires_at else "until it is revoked"
    return f"{token.name} acts under the role {token.role} in {where}, {until}"


def _line(token: tokens.TokenRow) -> tuple[str, ...]:
    expires = token.expires_at or "never"
    return (
        token.name,
        token.role,
        token.chat or "its own",
        token.created_at,
        f"{expires}, expired" if token.expired else expires,
    )
