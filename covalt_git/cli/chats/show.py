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
    manifest = ask_to_print(manifests.get_workspace_manifest, chat_id=chat_id, manifest=commit)
    output.say(f"{manifest.id}{branch_names(manifest, manifest.active_branch)}", bold=True)
    output.say(f"{manifest.title}, {manifest.created_at}, by {manifest.by}")
    if len(manifest.parents) > 1:
        joined = " and ".join(oid[: output.SHORT] for oid in manifest.parents)
        output.say(f"merges {joined}")
    if manifest.chat_made_by is not None:
        output.say(f"in a chat that {manifest.chat_made_by} created")
    if manifest.forked_from is not None:
        output.say(f"forked here from {manifest.forked_from.chat_id}")
    if manifest.message_id is not None:
        output.say(f"for the message {manifest.message_id}")
    output.changes(manifest.changes)
    if manifest.record:  # it is hidden with the tool of a call
        _print_record(chat_id, manifest)


def _print_record(chat_id: str, manifest: ManifestDetail) -> None:
    record = CommitRecord.model_validate(manifest.record)
    output.notes(record.workspace)
    if record.message is not None:
        output.say(f"message {record.id}")
        if record.message.ref is not None:
            output.say(f"the application's id: {record.message.ref}")
        if record.message.text is not None:
            output.say(f"{record.message.role}: {record.message.text}", prose=True)
    if record.call is not None:
        result_text.call(chat_id, manifest.id, record.call)
