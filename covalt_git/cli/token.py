"""``covalt-git token``: what agents come in by at ``/mcp`` of the server, each under a role of its own."""

from __future__ import annotations

import re
import secrets
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import click

from covalt_git.access import UnknownRoleError
from covalt_git.cli import output
from covalt_git.cli.context import as_admin, json_option, wrong_call
from covalt_git.credentials.agent_tokens import AgentTokens
from covalt_git.errors import CovaltError
from covalt_git.names import suggest_id

if TYPE_CHECKING:
    from covalt_git.credentials.agent_tokens import AgentToken
    from covalt_git.json_values import JsonObject

_as_admin = partial(as_admin, "let agents in")
_TITLES = ("TOKEN", "ROLE", "CHATS", "MADE", "EXPIRES")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_MOST_DAYS = 3650
_MOST_OF_ROLE = 50


@click.group()
def command() -> None:
    """Let agents in at /mcp of the server, each under a role, and out again.

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
    """Make a token for one agent, and print it: this once, as only its digest is kept.

    A token that is made later under the same name goes on as the same agent, with its chats.
    """
    lasts = _duration(expires)
    opened = _as_admin()
    if not opened.config.roles:
        raise CovaltError(
            "covalt.yaml defines no role that an agent could act under",
            hint='write one there: roles: {owner: {admin: true}, agent: {allow: ["demo.*"]}}',
        )
    if role not in opened.config.roles:
        raise UnknownRoleError(role, opened.config.roles)
    chat = None
    if chat_id is not None:
        with opened.chats.open(chat_id) as one:
            chat = one.id, one.card().created_at
    named = name or f"{suggest_id(role[:_MOST_OF_ROLE]) or 'agent'}-{secrets.token_hex(3)}"
    token, text = AgentTokens(opened.root).new(named, role, chat=chat, lasts=lasts)
    if as_json:
        output.as_json({**_shown(token), "token": text})
        return
    output.say(_in_words(token), err=True)
    output.say("it is shown this once; the agent sends it as Authorization: Bearer", err=True)
    click.echo(text)


@command.command("list")
@json_option
def list_tokens(*, as_json: bool) -> None:
    """List the tokens there are, and what each opens."""
    tokens = AgentTokens(_as_admin().root).all()
    if as_json:
        output.as_json([_shown(one) for one in tokens])
    elif tokens:
        output.table([_line(one) for one in tokens], titles=_TITLES)
    else:
        output.say("there is no token: covalt-git token new --role ROLE")


@command.command("revoke")
@click.argument("named", metavar="NAME|ID")
@json_option
def revoke(named: str, *, as_json: bool) -> None:
    """Take a token back.  It opens nothing from now on, and what it has open ends."""
    token = AgentTokens(_as_admin().root).revoke(named)
    if as_json:
        output.as_json(_shown(token))
    else:
        output.say(f"{token.name} opens nothing any more")


def _duration(text: str) -> timedelta | None:
    """Return how long a token lasts; None for ever."""
    if text == "never":
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,6})([dhm])", text)
    lasts = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else timedelta.max
    if lasts > timedelta(days=_MOST_DAYS):
        raise wrong_call(f"--expires {text}: write 30d, 12h, 45m or never, at most {_MOST_DAYS}d")
    return lasts


def _shown(token: AgentToken) -> JsonObject:
    return {
        **token.model_dump(mode="json", exclude={"v", "digest", "chat_created_at"}),
        "expired": token.is_expired,
    }


def _in_words(token: AgentToken) -> str:
    where = f"the chat {token.chat}" if token.chat else "chats of its own"
    until = f"until {token.expires_at}" if token.expires_at else "until it is revoked"
    return f"{token.name} acts under the role {token.role} in {where}, {until}"


def _line(token: AgentToken) -> tuple[str, ...]:
    expires = token.expires_at or "never"
    return (
        token.name,
        token.role,
        token.chat or "its own",
        token.created_at,
        f"{expires}, expired" if token.is_expired else expires,
    )
