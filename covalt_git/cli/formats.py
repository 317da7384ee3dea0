"""``covalt-git formats``."""

from __future__ import annotations

import click

from covalt_git.cli.context import print_json
from covalt_git.cli.convert import perform
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.formats import conversions


@click.command(cls=JsonCommand)
def command() -> None:
    """List the tool formats that `covalt-git convert` reads and writes.

    Example: covalt-git formats
    """
    listing = perform(conversions.list_formats)
    print_json(listing)
    rows = [
        (
            row.name,
            "yes" if row.reads else "-",
            "yes" if row.writes else "-",
            row.syntax,
            row.file_name,
        )
        for row in listing.formats
    ]
    output.table(rows, titles=("FORMAT", "READ", "WRITE", "SYNTAX", "FILE"))
