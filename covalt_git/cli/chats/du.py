"""``covalt-git chat du``: disk usage of a chat."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask_to_print, chat_argument
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import disk_usage
from covalt_git.text import display


@click.command(cls=JsonCommand)
@chat_argument
@click.option(
    "--limit", type=int, default=20, show_default=True, help="Maximum number of rows of each table."
)
def du(chat_id: str, *, limit: int) -> None:
    """Show the disk usage of a chat, by path and by call.

    Sizes are compressed, and include all versions in all branches.  Identical files count once.

    Example: covalt-git chat du c1
    """
    usage = ask_to_print(disk_usage.get_disk_usage, chat_id=chat_id, limit=limit)
    output.say(f"{chat_id}: {output.size(usage.size)}", bold=True)
    paths = [(output.size(row.size), display.in_line(row.path)) for row in usage.paths]
    output.table(paths, titles=("STORED", "PATH"))
    commits = [
        (output.size(commit.size), commit.manifest_id[: output.SHORT], commit.title)
        for commit in usage.commits
    ]
    output.table(commits, titles=("STORED", "COMMIT", "TITLE"))
    if usage.warning:
        output.say(usage.warning, fg="yellow", err=True)
    for folder in usage.large_folders:
        output.say(
            f"{display.in_line(folder.path)} has {output.size(folder.size)}; to exclude it from later commits, "
            f"write this under workspace in covalt.yaml:\n  {folder.ignore}",
            fg="yellow",
            err=True,
        )
