"""``covalt-git storage``."""

from __future__ import annotations

from typing import Literal

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import Group
from covalt_git.cli.terminal import output
from covalt_git.operations import storage


@click.group(cls=Group)
def command() -> None:
    """Check the git server that has the chats; move chats to it, or from it."""


@command.command("check")
def check() -> None:
    """Try what the git server of storage in covalt.yaml must be able to do.

    It pushes to the list of chats on the server, and removes again what it pushed.

    Example: covalt-git storage check
    """
    checked = ask_to_print(storage.check_storage)
    output.say(f"this node is {checked.node}; the chats are on {checked.url}")
    for finding in checked.findings:
        output.fact(f"{'lacks' if finding.lacks else 'ok   '}  {finding.what}")
        if finding.lacks:
            output.fact(f"       {finding.lacks}")
    if any(finding.lacks for finding in checked.findings):
        raise SystemExit(1)


@command.command("migrate")
@click.argument("to", type=click.Choice(["git", "local"]))
def migrate(to: Literal["git", "local"]) -> None:
    """Move all chats to the git server of covalt.yaml, or from it to this machine.

    Moving to this machine takes the chats away from all other nodes. Afterwards, change storage in covalt.yaml. An
    interrupted migration is repeated.

    Example: covalt-git storage migrate git
    """
    migrated = ask_to_print(storage.migrate_storage, to=to)
    for chat in migrated.chats:
        output.fact(f"{chat.chat_id}  {chat.error or chat.outcome}")
        if chat.hint:
            output.fact(f"  hint: {chat.hint}")
    failed = sum(chat.outcome == "failed" for chat in migrated.chats)
    count = len(migrated.chats) - failed
    place = "on the git server" if to == "git" else "on this machine"
    output.say(f"{count} of {len(migrated.chats)} chats are {place}")
    if failed:
        raise SystemExit(1)
    if to == "local":
        output.say("now write storage: {type: local} into covalt.yaml, or remove the key")
