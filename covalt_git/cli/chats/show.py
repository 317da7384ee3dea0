"""``covalt-git chat show``: one commit of a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.chats.log import branch_names
from covalt_git.cli.context import ask_to_print, chat_argument
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output, result_text
from covalt_git.models.commit_record import CommitRecord
from covalt_git.operations.chats import manifests

if TYPE_CHECKING:
    from covalt_git.operations.chats.manifests import ManifestDetail


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("commit", default="HEAD")
def show(chat_id: str, commit: str) -> None:
    """Show a COMMIT, default: HEAD, and its changed files.

    Example: covalt-git chat show c1 HEAD~1
    """
    shown = ask_to_print(manifests.get_workspace_manifest, chat_id=chat_id, manifest=commit)
    output.say(f"{shown.id}{branch_names(shown, shown.active_branch)}", bold=True)
    output.say(f"{shown.title}, {shown.created_at}, by {shown.by}")
    if len(shown.parents) > 1:
        joined = " and ".join(oid[: output.SHORT] for oid in shown.parents)
        output.say(f"merges {joined}")
    if shown.chat_made_by is not None:
        output.say(f"in a chat that {shown.chat_made_by} created")
    if shown.forked_from is not None:
        output.say(f"forked here from {shown.forked_from.chat_id}")
    if shown.message_id is not None:
        output.say(f"for the message {shown.message_id}")
    output.changes(shown.changes)
    if shown.record:  # it is hidden with the tool of a call
        _print_record(chat_id, shown)


def _print_record(chat_id: str, shown: ManifestDetail) -> None:
    record = CommitRecord.model_validate(shown.record)
    output.notes(record.workspace)
    if record.message is not None:
        output.say(f"message {record.id}")
        if record.message.ref is not None:
            output.say(f"the application's id: {record.message.ref}")
        if record.message.text is not None:
            output.say(f"{record.message.role}: {record.message.text}", prose=True)
    if record.call is not None:
        result_text.call(chat_id, shown.id, record.call)
