"""``covalt-git worker``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from covalt_git.cli.groups import JsonCommand, wants_json
from covalt_git.cli.terminal import output

_MOST_PORT = 65535
queue_option = click.option(
    "--queue",
    envvar="COVALT_GIT_QUEUE",
    metavar="URL",
    help="The queue: redis://HOST:PORT/DB.  Without the option, COVALT_GIT_QUEUE.",
)


@click.command(cls=JsonCommand)
@queue_option
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=lambda: os.cpu_count() or 1,
    show_default="number of processors",
    help="Make this many calls at a time.",
)
@click.option(
    "--tags",
    default="",
    metavar="TAG,...",
    help="Make only the calls of tools with one of these tags of covalt.yaml.  Without the option, make those of tools"
    " without a tag.",
)
@click.option(
    "--monitor",
    metavar="HOST:PORT",
    help="Answer /healthz, /readyz and /metrics there.",
)
@click.option(
    "--root", type=click.Path(path_type=Path), help="Work for the project in this folder instead."
)
@click.option(
    "--drain",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="When it is stopped, wait so long for the calls that run.",
)
def command(
    queue: str | None,
    concurrency: int,
    tags: str,
    monitor: str | None,
    root: Path | None,
    drain: float,
) -> None:
    """Make the calls of servers that have the same queue, until Ctrl-C or SIGTERM.

    Tools run in the same sandbox as without a queue.  When it is stopped, the worker finishes the calls that run; those
    that need longer than --drain are cancelled and recorded.

    Example: covalt-git worker --queue redis://127.0.0.1:6379/0
    """
    from covalt_git.serving.worker import Worker  # noqa: PLC0415 - it loads Celery

    if queue is None:
        raise click.UsageError("Missing option '--queue'.")
    given = click.get_current_context().find_root().obj
    worker = Worker(
        given["root"] if root is None else root,
        queue,
        concurrency=concurrency,
        tags=[tag.strip() for tag in tags.split(",") if tag.strip()],
        drain_s=drain,
        monitor=_address(monitor),
    )

    def ready(started: Worker) -> None:
        if wants_json():
            about = {"worker": started.name, "pid": os.getpid(), "monitor": started.monitor_url}
            click.echo(json.dumps(about))
            return
        output.say(f"worker {started.name} makes calls until Ctrl-C", err=True)

    worker.run(ready)
    output.say("stopped", err=True)


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _MOST_PORT:
        raise click.UsageError("Write '--monitor' as HOST:PORT, such as 127.0.0.1:9101.")
    return host.strip("[]"), int(port)
