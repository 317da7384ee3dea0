"""``covalt-git serve``."""

from __future__ import annotations

import json
import os
import threading
from functools import partial
from pathlib import Path

import click

from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output
from covalt_git.cli.worker import queue_option
from covalt_git.serving.server import TOKEN_VARIABLE, ServedProject, serve
from covalt_git.system import programs
from covalt_git.system.node_folder import folder_text

port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Listen on this port; 0 for any available port.",
)
host_option = click.option("--host", help="Listen on this host, 127.0.0.1 by default.")
open_option = click.option("--open", "opened", is_flag=True, help="Open the pages in your browser.")


@click.command(cls=JsonCommand)
@port_option
@host_option
@click.option(
    "--root", type=click.Path(path_type=Path), help="Serve the project in this folder instead."
)
@open_option
@queue_option
@click.option(
    "--drain",
    type=click.FloatRange(0),
    metavar="SECONDS",
    show_default="2",
    help="When it is stopped, wait so long for running requests.",
)
@click.option("--verbose", is_flag=True, help="Print a line for every request.")
def command(
    port: int | None,
    host: str | None,
    root: Path | None,
    queue: str | None,
    drain: float | None,
    *,
    opened: bool,
    verbose: bool,
) -> None:
    """Serve the project in your browser, until Ctrl-C.

    Prints the URL to open.  It contains a token that gives all your permissions.  The token is new at
    every start, unless COVALT_GIT_TOKEN is set; then the URL has no token with --log-format json, because
    logs are read by others.  Chats are at /git/CHAT for git clone and git push, with the token as the
    password.  With --queue, `covalt-git worker` makes the calls.

    Example: covalt-git serve --port 8000
    """
    given = click.get_current_context().find_root().obj

    def ready(serving: ServedProject) -> None:
        print_url(serving)
        if opened:
            open_pages(serving)

    serve(
        given["root"] if root is None else root,
        on_ready=ready,
        on_request=partial(output.say, err=True, dim=True) if verbose else None,
        host=host,
        port=port,
        role=given["role"],
        queue=queue,
        drain_s=drain,
    )
    output.say("stopped", err=True)


def print_url(serving: ServedProject) -> None:
    """Print the server's URL."""
    listener = serving.listener
    if listener.open_to_others:
        output.say(
            "warning: other machines can reach the server by the names in server.allowed_hosts of "
            "covalt.yaml, and the connection and the token are not encrypted",
            err=True,
            fg="yellow",
        )
    if serving.is_broken:
        output.say(
            "covalt.yaml has errors: the server uses its default settings, and its pages only show and repair the file",
            err=True,
            fg="yellow",
        )
    if wants_json():
        about = {"url": serving.url, "host": listener.host, "port": listener.port}
        click.echo(json.dumps(about | {"pid": os.getpid()}))
        return
    name = folder_text(serving.root)
    output.say(f"serving {name!r} until Ctrl-C; open in your browser:", err=True)
    # Alone on stdout, so that a script can read it.  Where logs are collected, stdout often is too: who reads them would
    # get the token, which the environment has.
    is_logged = output.lines is not None and TOKEN_VARIABLE in os.environ
    click.echo(listener.url if is_logged else serving.url)


def open_pages(serving: ServedProject) -> None:
    """Open the pages; in a thread, because a terminal browser runs until the user quits it."""
    threading.Thread(target=programs.browse, args=(serving.url,), daemon=True).start()
