"""``covalt-git storage``."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import Group, JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.operations import storage

if TYPE_CHECKING:
    from covalt_git.serving.storage_server import ServedStorage


@click.group(cls=Group)
def command() -> None:
    """Check the git server that has the chats; move chats to it, or from it; be such a server."""


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


@command.command("serve", cls=JsonCommand)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--host", default="127.0.0.1", help="Listen on this host, 127.0.0.1 by default.")
@click.option("--port", default=8788, type=click.IntRange(0, 65535), help="8788 by default.")
@click.option("--name", "names", multiple=True, help="A further host name of the server.")
@click.option("--verbose", is_flag=True, help="Print a line for every request.")
def serve(folder: Path, host: str, port: int, names: tuple[str, ...], *, verbose: bool) -> None:
    """Be the git server of projects on several machines, until Ctrl-C.

    The repositories are in FOLDER, and a push creates them. The command needs git, and no project. It prints the value of
    storage.url. The password is in COVALT_GIT_TOKEN, or is new at every start and is printed. The connection is not
    encrypted: on other hosts than 127.0.0.1, put a proxy with TLS before it.

    Example: covalt-git storage serve chats
    """
    from covalt_git.serving.storage_server import serve_storage  # noqa: PLC0415 - it loads the server

    serve_storage(
        folder,
        on_ready=_print_storage,
        on_request=partial(output.say, err=True, dim=True) if verbose else None,
        host=host,
        port=port,
        names=names,
    )
    output.say("stopped", err=True)


def _print_storage(served: ServedStorage) -> None:
    is_new = "COVALT_GIT_TOKEN" not in os.environ
    if wants_json():
        about = {"url": served.url, "port": served.listener.port, "pid": os.getpid()}
        click.echo(json.dumps(about | ({"password": served.token} if is_new else {})))
        return
    if served.listener.open_to_others:
        output.say(
            "warning: other machines can reach the server, and the connection and the password are not encrypted",
            err=True,
            fg="yellow",
        )
    if is_new:
        output.say(f"the password, with any user name: {served.token}", err=True)
    output.say("serving chats until Ctrl-C; storage.url in covalt.yaml:", err=True)
    click.echo(served.url)
