"""``covalt-git index``."""

from __future__ import annotations

import click

from covalt_git.cli import output
from covalt_git.cli.session import json_option, project, synced


@click.group()
def command() -> None:
    """Rebuild or inspect the index, a cache of the files."""


@command.command("rebuild")
@json_option
def rebuild(*, as_json: bool) -> None:
    """Delete the index and make every row again from the files and the chats."""
    with project().index() as index:
        index.rebuild()
        _print(index.counts(), as_json=as_json)


@command.command("status")
@json_option
def status(*, as_json: bool) -> None:
    """Bring the index up to date and count its rows."""
    with project().index() as index:
        synced(index)
        _print(index.counts(), as_json=as_json)


def _print(counts: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        output.as_json(counts)
    else:
        output.table(
            [(name, str(count)) for name, count in counts.items()], titles=("TABLE", "ROWS")
        )
