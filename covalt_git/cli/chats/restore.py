"""``covalt-git chat restore``, ``undo`` and ``redo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from covalt_git.cli.context import ask_to_print, chat_argument
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import workspace_edits

if TYPE_CHECKING:
    from covalt_git.operations.chats.workspace_edits import WorkspaceRestored


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("manifest", metavar="COMMIT")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--keep-files", is_flag=True, help="Create a branch at COMMIT, and keep the present files."
)
@click.option(
    "--branch", metavar="NAME", help="With --keep-files: its name; default: restore-1, ..."
)
def restore(*, keep_files: bool, **fields: Any) -> None:
    """Restore all files, or the PATHs, from a COMMIT.

    A PATH is relative to the workspace.  A folder is restored with everything in it; files that
    COMMIT does not have are removed.  The restore is a new commit, and uncommitted changes are
    committed first, so nothing is lost.

    Example: covalt-git chat restore c1 HEAD~2 report.md
    """
    result = ask_to_print(workspace_edits.restore_workspace, keep_files=keep_files, **fields)
    if keep_files:
        output.changes(result.changes)
        output.say(f"on {result.branch}, at {_at(result)}, with the files as they were")
    else:
        _print(result)


@click.command(cls=JsonCommand)
@chat_argument
def undo(chat_id: str) -> None:
    """Undo the last change of the files, in a new commit.

    Uncommitted changes are committed and undone first.  Another undo goes one change further back.
    `chat redo` reverts the last undo.

    Example: covalt-git chat undo c1
    """
    _print(ask_to_print(workspace_edits.undo_change, chat_id=chat_id))


@click.command(cls=JsonCommand)
@chat_argument
def redo(chat_id: str) -> None:
    """Revert the last undo, in a new commit.

    This is refused if files have changed since the undo.

    Example: covalt-git chat redo c1
    """
    _print(ask_to_print(workspace_edits.redo_change, chat_id=chat_id))


def _print(result: WorkspaceRestored) -> None:
    output.changes(result.changes)
    if result.made:
        output.say(f"{_at(result)} on {result.branch}", dim=True)
        if result.hint:
            output.say(f"  hint: {result.hint}")
    else:
        output.say("nothing to restore: the files are as in that commit")


def _at(result: WorkspaceRestored) -> str:
    return result.manifest_id[: output.SHORT] if result.manifest_id else "no commit"
