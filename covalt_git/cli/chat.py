"""``covalt-git chat``: chats and their workspaces."""

from __future__ import annotations

import click

from covalt_git.cli.groups import Group


@click.group(
    cls=Group,
    places={
        "new": "chats.list.new_chat",
        "list": "chats.list.list_chats",
        "rename": "chats.list.rename",
        "status": "chats.list.status",
        "files": "chats.files.files",
        "diff": "chats.files.diff",
        "upload": "chats.files.upload",
        "table": "chats.table.table",
        "branch": "chats.branch.command",
        "checkout": "chats.branch.checkout",
        "read": "chats.read.read",
        "log": "chats.log.log",
        "show": "chats.show.show",
        "merge": "chats.merge.merge",
        "resolve": "chats.merge.resolve",
        "message": "chats.message.command",
        "replay": "chats.replay.command",
        "restore": "chats.restore.restore",
        "undo": "chats.restore.undo",
        "redo": "chats.restore.redo",
        "fork": "chats.transfer.fork",
        "export": "chats.transfer.export",
        "import": "chats.transfer.import_chat",
        "gc": "chats.transfer.gc",
        "du": "chats.du.du",
        "delete": "chats.transfer.delete",
    },
)
def command() -> None:
    """Create, list, branch and delete chats.

    A COMMIT is a branch, HEAD, the id of a commit or its beginning, or the id of a message or call;
    HEAD~2 is two commits before HEAD.
    """
