"""``covalt-git chat``: chats and their workspaces."""

from __future__ import annotations

import click

from covalt_git.cli.lazy_group import LazyGroup


@click.group(
    cls=LazyGroup,
    places={
        "new": "chat_list.new_chat",
        "list": "chat_list.list_chats",
        "rename": "chat_list.rename",
        "status": "chat_list.status",
        "files": "chat_files.files",
        "diff": "chat_files.diff",
        "upload": "chat_files.upload",
        "branch": "chat_branch.command",
        "checkout": "chat_branch.checkout",
        "log": "chat_log.log",
        "show": "chat_show.show",
        "merge": "chat_merge.merge",
        "resolve": "chat_merge.resolve",
        "message": "chat_message.command",
        "replay": "chat_replay.command",
        "restore": "chat_restore.restore",
        "undo": "chat_restore.undo",
        "redo": "chat_restore.redo",
        "fork": "chat_transfer.fork",
        "export": "chat_transfer.export",
        "import": "chat_transfer.import_chat",
        "gc": "chat_transfer.gc",
        "delete": "chat_transfer.delete",
    },
)
def command() -> None:
    """Create, list, branch and delete chats.

    A COMMIT is a branch, HEAD, the id of a commit or its beginning, or the id of a message or call;
    HEAD~2 is two commits before HEAD.
    """
