"""``covalt-git status``: what needs you in the whole project."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations import needs


@click.command("status", cls=JsonCommand)
def command() -> None:
    """Show what needs you: approvals, conflicts, errors, missing permissions, failed calls.

    Each line is followed by the command that shows it or repairs it.  Uncommitted changes are listed once they are
    older than an hour.

    Example: covalt-git status
    """
    listing = ask_to_print(needs.list_needs)
    for damaged in listing.damaged:
        output.damaged(damaged.chat_id, damaged.message, damaged.hint)
    for need in listing.needs:
        place = f"{need.path}{f':{need.line}' if need.line else ''}: " if need.path else ""
        chat = f"{need.chat_id}: " if need.chat_id else ""
        output.fact(f"{chat}{place}{need.message}", fg="yellow")
        output.say(f"  {need.command}", dim=True)
    if not listing.needs:
        output.say("nothing needs you")
    if listing.unscanned:
        output.say(
            f"not scanned for uncommitted changes: {output.plural(len(listing.unscanned), 'chat')};"
            " covalt-git chat status CHAT scans one",
            dim=True,
        )
