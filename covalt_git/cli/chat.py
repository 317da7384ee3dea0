"""``covalt-git chat``: chats and their workspaces."""

from __future__ import annotations

import click

from covalt_git.cli.lazy_group import LazyGroup


@click.group(
    cls=LazyGroup,
    places={
        "new": "chat_list.new_chat",
        "list": "chat_list.list_chats",
        "status": "chat_list.status",
        "files": "chat_files.files",
        "diff": "chat_files.diff",
        "upload": "chat_files.upload",
        "branch": "chat_branch.command",
        "checkout": "chat_branch.checkout",
        "log": "chat_log.log",
        "show": "chat_log.show",
        "merge": "chat_merge.merge",
        "resolve": "chat_merge.resolve",
        "message": "chat_message.command",
        "replay": "chat_replay.command",
        "restore": "chat_restore.command",
        "fork": "chat_transfer.fork",
        "export": "chat_transfer.export",
        "import": "chat_transfer.import_chat",
        "gc": "chat_transfer.gc",
        "delete": "chat_transfer.delete",
    },
)
def command() -> None:
    """Make chats; look at, branch and change their workspaces.

    A MANIFEST is a state of a chat's files: a branch, HEAD, a manifest's id or its beginning, or the
    id of a call.
    """
