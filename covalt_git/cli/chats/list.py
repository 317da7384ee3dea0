"""``covalt-git chat new``, ``list``, ``rename`` and ``status``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask_to_print, chat_argument
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import chats
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.operations.chats.chats import ChatRow

_TITLES = ("CHAT", "BRANCH", "COMMITS", "CALLS", "CREATED", "TITLE")


@click.command("new", cls=JsonCommand)
@click.option("--id", "chat_id", help="Its id; default: c1, c2, ...")
@click.option("--title", default="", help="Its title.")
def new_chat(chat_id: str | None, title: str) -> None:
    """Create a chat with an empty workspace.

    Example: covalt-git chat new --id c1 --title "Sales report"
    """
    chat = ask_to_print(chats.create_chat, chat_id=chat_id, title=title)
    output.say(f"{chat.id}: work in {os.path.relpath(chat.workspace)}")


@click.command("list", cls=JsonCommand)
def list_chats() -> None:
    """List the chats, newest first.

    Example: covalt-git chat list
    """
    listing = ask_to_print(chats.list_chats)
    for damaged in listing.damaged:
        output.damaged(damaged.chat_id, damaged.message, damaged.hint)
    rows = [_line(chat) for chat in listing.chats]
    output.table(rows, titles=_TITLES, empty="no chats yet; create one: covalt-git chat new")


@click.command("rename", cls=JsonCommand)
@chat_argument
@click.argument("title")
def rename(chat_id: str, title: str) -> None:
    """Change the TITLE of a chat; its id stays.

    Example: covalt-git chat rename c1 "Sales report"
    """
    renamed = ask_to_print(chats.rename_chat, chat_id=chat_id, title=title)
    output.say(f"the title of {renamed.id} is now {renamed.title!r}")


@click.command("status", cls=JsonCommand)
@chat_argument
def status(chat_id: str) -> None:
    """Show the branch, changes, conflicts and pending calls.

    Example: covalt-git chat status c1
    """
    chat = ask_to_print(chats.get_chat, chat_id=chat_id)
    heads = {branch.name: branch.manifest_id for branch in chat.branches}
    at = chat.active_manifest_id
    output.say(f"on {chat.active_branch}, at {at[: output.SHORT] if at else 'no commit yet'}")
    state = chat.status
    if state.switching_to is not None:
        to = (heads.get(state.switching_to) or "nothing")[: output.SHORT]
        output.say(
            f"a checkout of {state.switching_to}, at {to}, was interrupted: the next command completes it",
            fg="yellow",
        )
    output.say("changes that the next command commits:" if state.changes else "nothing to commit")
    output.changes(state.changes)
    output.notes(state.workspace)
    if state.ignored:
        ignored = ", ".join(map(display.in_line, state.ignored))
        output.say(f"ignored, and kept by every checkout: {ignored}", dim=True)
    if state.conflicts:
        output.say(f"conflicts, to resolve with covalt-git chat resolve {chat.id} PATH:")
        output.conflicts(state.conflicts)
    if state.stopped_merge is not None:
        output.say(
            f"conflicts stopped the merge of {state.stopped_merge}; list and resolve them: "
            f"covalt-git chat resolve {chat.id}",
            fg="yellow",
        )
    if state.store_warning:
        output.say(state.store_warning, fg="yellow")
    for lost in state.lost:
        output.say(
            f"{lost.ref} has work of a node that was replaced before it pushed it; make a branch of it: {lost.back}",
            fg="yellow",
        )
    for call in state.waiting:
        if call.status == "running":
            output.say(f"running: {call.tool_id} (call {call.call_id}, since {call.started_at})")
        else:
            output.say(
                f"waiting for approval: {call.tool_id}, see covalt-git approval list", fg="yellow"
            )


def _line(chat: ChatRow) -> tuple[str, ...]:
    """Return the row of a chat; its title has its creator, or the chat that it was forked from."""
    where = f"(created by {chat.made_by})" if chat.made_by else ""
    if chat.forked_from is not None:
        where = f"(forked from {chat.forked_from.chat_id})"
    title = " ".join(filter(None, (chat.title, where)))
    counts = str(chat.manifests), str(chat.tool_calls)
    return chat.id, chat.active_branch, *counts, chat.created_at, title
