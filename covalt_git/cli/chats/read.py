"""``covalt-git chat read``: the conversation of a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.chats.message import number
from covalt_git.cli.context import ask_to_print, chat_argument
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import conversation
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from covalt_git.operations.chats.conversation import TurnMessage
    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.results import CallLine

_MOST_LETTERS = 72


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("branch", required=False)
@click.option(
    "-n", "--max-count", type=click.IntRange(1, 500), help="Read at most this many commits."
)
@click.option("--before", metavar="COMMIT", help="Read only what is older than this commit.")
def read(chat_id: str, branch: str | None, max_count: int | None, before: str | None) -> None:
    """Read the conversation of a BRANCH, default: the active one.

    Each message is followed by the calls for it.

    Example: covalt-git chat read c1
    """
    limit = conversation.PAGE if max_count is None else max_count
    page = ask_to_print(
        conversation.read_conversation, chat_id=chat_id, branch=branch, before=before, limit=limit
    )
    if not page.turns and not page.unfinished:
        output.say(f"nothing yet; add a message: covalt-git chat message add {chat_id} TEXT")
    if page.more and page.before is not None:
        rest = f"--before {page.before[: output.SHORT]}"
        output.say(f"older: covalt-git chat read {chat_id} {page.branch} {rest}", dim=True)
    for turn in page.turns:
        if turn.message is not None:
            _print_message(turn.message)
        for row in turn.rows:
            _print_row(row)
    for call in page.unfinished:
        output.say(f"  {_call(call)}, {call.status}", fg="yellow")


def _print_message(message: TurnMessage) -> None:
    output.say(f"{message.role}{number(message)}, {message.created_at}", bold=True)
    if message.text is None:
        output.say(f"the application's id: {message.ref}", dim=True)
    else:
        output.say(message.text, prose=True)


def _print_row(row: ManifestRow) -> None:
    counts = f"  +{row.added_lines} -{row.deleted_lines}" if row.files_changed else ""
    if row.call is None:
        output.say(f"  {row.title}{counts}")
    elif row.call.error is None:
        output.say(f"  {_call(row.call)}{counts}")
    else:
        error = shorten(row.call.error.partition("\n")[0], _MOST_LETTERS)
        output.say(f"  {_call(row.call)}{counts}, {error}", fg="red")


def _call(call: CallLine) -> str:
    return f"{call.tool_id} {shorten(call.object, _MOST_LETTERS)}".rstrip()
