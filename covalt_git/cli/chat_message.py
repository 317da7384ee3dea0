"""``covalt-git chat message``: the conversation of a chat, and going back in it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output
from covalt_git.cli.context import chat_argument, json_option, notes_json, project, written
from covalt_git.models.commit_record import MessageRecord
from covalt_git.text.display import shorten
from covalt_git.workspaces import messages
from covalt_git.workspaces.conversation import Conversation

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.json_values import JsonObject
    from covalt_git.workspaces.conversation import Message
    from covalt_git.workspaces.messages import Place
    from covalt_git.workspaces.writing import Writer

_MOST_LETTERS = 72
_INDENT = "  "

message_argument = click.argument("message")
last_message_argument = click.argument("message", required=False)
branch_option = click.option("--branch", metavar="NAME", help="What to call the new branch.")
ref_option = click.option("--ref", metavar="ID", help="The application's own id of the message.")


@click.group()
def command() -> None:
    """Add messages to a chat, and retry, edit and go on from them.

    Messages are states of the chat like calls, so that every one of them has its files.  A MESSAGE is
    its id or the end of it, the application's id, or the manifest that `message list` shows.
    """


@command.command("add")
@chat_argument
@click.argument("text", required=False)
@click.option("--role", default="user", help="user (the default), assistant, system, tool, ...")
@ref_option
@click.option("--parent", metavar="MESSAGE", help="What it follows; the last of the branch.")
@branch_option
@json_option
def add(
    chat_id: str,
    text: str | None,
    role: str,
    ref: str | None,
    parent: str | None,
    branch: str | None,
    *,
    as_json: bool,
) -> None:
    """Add a message of TEXT (- reads it), or of the application's --ref alone.

    After a --parent that others follow already it goes on a new branch.  Calls are made for a message
    with `covalt-git call CHAT TOOL --message ID`.
    """
    words = MessageRecord(role=role, text=_text(text), ref=ref)

    def work(writer: Writer) -> Place:
        return messages.add(writer, words, parent=parent, branch=branch)

    _go(chat_id, work, as_json=as_json)


@command.command("list")
@chat_argument
@json_option
def list_messages(chat_id: str, *, as_json: bool) -> None:
    """Show the messages as a tree, with the manifest that each has come to.

    Where several follow the same one, each says which of them it is.
    """
    with project().chats.open(chat_id) as chat:
        talk = Conversation.of(chat)
        active = chat.active_branch()
    found = list(talk.messages.values())
    if as_json:
        output.as_json([one.model_dump() for one in found])
    elif not found:
        output.say(f"no messages yet; add one: covalt-git chat message add {chat_id} TEXT")
    depths: dict[str | None, int] = {None: 0}
    for one in found if not as_json else ():
        depths[one.id] = depths[one.parent_id] + (one.siblings > 1 and one.parent_id is not None)
        at = one.manifest_id[: output.SHORT]
        names = ", ".join(f"*{name}" if name == active else name for name in one.branches)
        ends = f"  ({names})" if names else ""
        output.say(f"{at}  {_INDENT * depths[one.id]}{_title(one)}{ends}", dim=not one.active)


@command.command("show")
@chat_argument
@last_message_argument
@json_option
def show(chat_id: str, message: str | None, *, as_json: bool) -> None:
    """Show a MESSAGE, by default the last one: its text, its place, and what its calls changed."""
    with project().chats.open(chat_id) as chat:
        talk = Conversation.of(chat)
        found = talk.find(message)
        began = chat.manifest(found.own_manifest_id).parent_id
        changes = chat.changes(began, found.manifest_id)
    if as_json:
        listed = [output.change_json(change) for change in changes]
        output.as_json(found.model_dump() | {"changes": listed})
        return
    output.say(found.id, bold=True)
    output.say(f"{found.role}{_number(found)}, {found.created_at}, by {found.by}")
    if found.ref is not None:
        output.say(f"the application's id: {found.ref}")
    output.say(f"its files: {found.manifest_id[: output.SHORT]}")
    output.changes(changes)
    if found.text is not None:
        output.say()
        output.say(found.text, prose=True)


@command.command("retry")
@chat_argument
@last_message_argument
@branch_option
@json_option
def retry(chat_id: str, message: str | None, branch: str | None, *, as_json: bool) -> None:
    """Go back to where a MESSAGE, by default the last one, began, on a new branch retry-1, ...

    What is added there stands beside it.
    """
    _go(chat_id, lambda writer: messages.retry(writer, message, branch=branch), as_json=as_json)


@command.command("edit")
@chat_argument
@message_argument
@click.argument("text", required=False)
@click.option("--role", help="Its role; that of the MESSAGE by default.")
@ref_option
@branch_option
@json_option
def edit(
    chat_id: str,
    message: str,
    text: str | None,
    role: str | None,
    ref: str | None,
    branch: str | None,
    *,
    as_json: bool,
) -> None:
    """Put another TEXT (- reads it) beside a MESSAGE, on a new branch edit-1, ...

    The files are those that the MESSAGE began with.
    """
    text = _text(text)

    def work(writer: Writer) -> Place:
        return messages.edit(writer, message, text=text, ref=ref, role=role, branch=branch)

    _go(chat_id, work, as_json=as_json)


@command.command("switch")
@chat_argument
@message_argument
@json_option
def switch(chat_id: str, message: str, *, as_json: bool) -> None:
    """Go to the branch that leads farthest on from a MESSAGE; of several, the newest."""
    _go(chat_id, lambda writer: messages.switch(writer, message), as_json=as_json)


@command.command("continue")
@chat_argument
@last_message_argument
@branch_option
@json_option
def go_on(chat_id: str, message: str | None, branch: str | None, *, as_json: bool) -> None:
    """Go on from a MESSAGE and its calls: on the branch that ends with it, or a new one."""

    def work(writer: Writer) -> Place:
        return messages.continue_from(writer, message, branch=branch)

    _go(chat_id, work, as_json=as_json)


def _go(chat_id: str, work: Callable[[Writer], Place], *, as_json: bool) -> None:
    """Make a step of the conversation, and tell where the chat is then."""
    opened = project()
    with opened.chats.open(chat_id) as chat:
        with written(opened, chat) as writer:
            place = work(writer)
        if as_json:
            output.as_json(_place_json(place) | notes_json(writer))
            return
        output.changes(place.changes)
        at = place.manifest_id[: output.SHORT] if place.manifest_id else "no manifest yet"
        output.say(f"on {place.branch}, at {at}")
        if place.message_id is None:
            output.say("before the first message", dim=True)
            return
        message = Conversation.of(chat).find(place.message_id)
        output.say(f"{_title(message)}", dim=True)
        output.say(f"message {message.id}", dim=True)


def _place_json(place: Place) -> JsonObject:
    return {
        "branch": place.branch,
        "manifest_id": place.manifest_id,
        "message_id": place.message_id,
        "changes": [output.change_json(change) for change in place.changes],
    }


def _title(message: Message) -> str:
    return f"{message.role}{_number(message)}: {shorten(message.line, _MOST_LETTERS)}"


def _number(message: Message) -> str:
    return f" {message.number}/{message.siblings}" if message.siblings > 1 else ""


def _text(given: str | None) -> str | None:
    return sys.stdin.read() if given == "-" else given
