"""``covalt-git chat message``: the messages of a chat; retries and edits of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.context import ask, ask_to_print, chat_argument
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import messages
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from covalt_git.operations.chats.conversation import TurnMessage
    from covalt_git.operations.chats.messages import MessagePlace, MessageRow
    from covalt_git.operations.registry import Operation, RequestT

_MOST_LETTERS = 72
_INDENT = "  "

message_argument = click.argument("message")
last_message_argument = click.argument("message", required=False)
branch_option = click.option("--branch", metavar="NAME", help="Name of the new branch.")
ref_option = click.option("--ref", metavar="ID", help="The application's id of the message.")


@click.group(cls=Group)
def command() -> None:
    """Add, list, retry, edit and continue messages.

    Each message is a commit.  A MESSAGE is the id of a message or its end, the application's id, or
    the commit that `message list` shows.
    """


@command.command("add")
@chat_argument
@click.argument("text", required=False)
@click.option("--role", default="user", help="user (default), assistant, system, tool, ...")
@ref_option
@click.option("--parent", metavar="MESSAGE", help="Add it after this one; default: the last one.")
@branch_option
def add(text: str | None, **fields: Any) -> None:
    """Add a message with a TEXT, a --ref, or both.

    `-` reads the TEXT from standard input.  If other messages follow --parent, the new one is on a
    new branch.  `covalt-git call CHAT TOOL --message ID` makes a call for a message.

    Example: covalt-git chat message add c1 "make a chart of it"
    """
    _go(messages.add_message, text=_text(text), **fields)


@command.command("list")
@chat_argument
def list_messages(chat_id: str) -> None:
    """Show the messages as a tree.

    Each has the end of its id, and the last commit of its calls.  `user 2/3` is the second of three
    messages after the same one.

    Example: covalt-git chat message list c1
    """
    listing = ask_to_print(messages.list_messages, chat_id=chat_id)
    if not listing.messages:
        output.say(f"no messages yet; add one: covalt-git chat message add {chat_id} TEXT")
    active = listing.active_branch
    depths: dict[str | None, int] = {None: 0}
    for message in listing.messages:
        depths[message.id] = depths[message.parent_id] + (
            message.siblings > 1 and message.parent_id is not None
        )
        at = message.manifest_id[: output.SHORT]
        names = ", ".join(f"*{name}" if name == active else name for name in message.branches)
        ends = f"  ({names})" if names else ""
        row = f"{message.id[-output.SHORT :]}  {at}  {_INDENT * depths[message.id]}{_title(message)}{ends}"
        output.say(row, dim=not message.active)


@command.command("show")
@chat_argument
@last_message_argument
def show(chat_id: str, message: str | None) -> None:
    """Show a MESSAGE and what its calls changed.

    Example: covalt-git chat message show c1 app-77
    """
    detail = ask_to_print(messages.get_message, chat_id=chat_id, message=message)
    output.say(detail.id, bold=True)
    output.say(f"{detail.role}{number(detail)}, {detail.created_at}, by {detail.by}")
    if detail.ref is not None:
        output.say(f"the application's id: {detail.ref}")
    output.say(f"its files: {detail.manifest_id[: output.SHORT]}")
    output.changes(detail.changes)
    if detail.text is not None:
        output.say()
        output.say(detail.text, prose=True)


@command.command("retry")
@chat_argument
@last_message_argument
@branch_option
def retry(**fields: Any) -> None:
    """Start a branch for another answer to a MESSAGE.

    For a user's MESSAGE, the branch starts after it, with the files from before its calls.  For
    another MESSAGE, such as an assistant's, it starts before it.  The default MESSAGE is the last one;
    the default branch is retry-1, ...

    Example: covalt-git chat message retry c1 app-77
    """
    _go(messages.retry_message, **fields)


@command.command("edit")
@chat_argument
@message_argument
@click.argument("text", required=False)
@click.option("--role", help="Its role; default: the same.")
@ref_option
@branch_option
def edit(text: str | None, **fields: Any) -> None:
    """Edit a MESSAGE: add the new TEXT on a new branch.

    `-` reads the TEXT from standard input.  The files are those from before the calls of the MESSAGE.
    The branch is edit-1, ... by default.

    Example: covalt-git chat message edit c1 app-77 "make a map of it"
    """
    _go(messages.edit_message, text=_text(text), **fields)


@command.command("switch")
@chat_argument
@message_argument
def switch(**fields: Any) -> None:
    """Check out the longest branch after a MESSAGE.

    If several branches are equally long, the newest is checked out.

    Example: covalt-git chat message switch c1 app-77
    """
    _go(messages.switch_to_message, **fields)


@command.command("continue")
@chat_argument
@last_message_argument
@branch_option
def go_on(**fields: Any) -> None:
    """Continue after a MESSAGE and its calls.

    Checks out the branch that ends with the MESSAGE, or a new branch continue-1, ...

    Example: covalt-git chat message continue c1 app-77
    """
    _go(messages.continue_message, **fields)


def _go(operation: Operation[RequestT, MessagePlace], *, chat_id: str, **fields: object) -> None:
    """Perform an operation, and print the current branch, commit and message of the chat."""
    place = ask_to_print(operation, chat_id=chat_id, **fields)
    output.changes(place.changes)
    at = place.manifest_id[: output.SHORT] if place.manifest_id else "no commit yet"
    output.say(f"on {place.branch}, at {at}")
    if place.message_id is None:
        output.say("before the first message", dim=True)
        return
    message = ask(messages.get_message, chat_id=chat_id, message=place.message_id)
    output.say(f"{_title(message)}", dim=True)
    output.say(f"message {message.id}", dim=True)


def _title(message: MessageRow) -> str:
    return f"{message.role}{number(message)}: {shorten(message.title, _MOST_LETTERS)}"


def number(message: MessageRow | TurnMessage) -> str:
    """Return the position of a message among its siblings; empty if it has none."""
    return f" {message.number}/{message.siblings}" if message.siblings > 1 else ""


def _text(text: str | None) -> str | None:
    return sys.stdin.read() if text == "-" else text
