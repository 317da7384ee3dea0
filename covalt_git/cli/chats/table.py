"""``covalt-git chat table``."""

from __future__ import annotations

import click

from covalt_git.cli.context import ask, ask_to_print, chat_argument
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations.chats import tables


@click.command(cls=JsonCommand)
@chat_argument
@click.argument("path", required=False)
@click.option("--call", "call_id", help="Read the result of this call, an array of objects.")
@click.option("--at", "commit", default="HEAD", show_default=True, help="The commit of the file.")
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Only rows with name~TEXT (contains), name=TEXT, size<3 or size>3; repeatable.",
)
@click.option("--sort", metavar="COLUMN", help="Sort by this column.")
@click.option("--descending", is_flag=True, help="Sort from the largest to the smallest.")
@click.option("--skip", type=click.IntRange(0), default=0, help="Number of rows to skip.")
@click.option(
    "-n", "--max-count", type=click.IntRange(1, 1000), default=100, help="At most this many rows."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print all matching rows as CSV.")
def table(
    chat_id: str,
    path: str | None,
    call_id: str | None,
    commit: str,
    where: tuple[str, ...],
    sort: str | None,
    skip: int,
    max_count: int,
    *,
    descending: bool,
    as_csv: bool,
) -> None:
    """Show rows of the CSV file PATH, or of a result.

    A column is a title, or #1 for the first one. Numbers sort as numbers, and empty cells come last.

    Example: covalt-git chat table c1 weather.csv --where 'temp_max>30' --sort temp_max
    """
    source = {"chat_id": chat_id, "path": path, "call_id": call_id, "manifest": commit}
    conditions = "\n".join(where)
    if as_csv:
        exported = ask(
            tables.export_table, **source, where=conditions, sort=sort, descending=descending
        )
        with exported.stream as stream:
            click.echo(stream.read(), nl=False)
        return
    page = ask_to_print(
        tables.read_table,
        **source,
        where=conditions,
        sort=sort,
        descending=descending,
        offset=skip,
        limit=max_count,
    )
    width = len(page.titles)
    rows = [(str(row.number), *row.cells, *[""] * (width - len(row.cells))) for row in page.rows]
    output.table(rows, titles=("#", *page.titles), empty="no row matches")
    if len(rows) < page.total:
        output.say(
            f"{len(rows):,} of {page.matching:,} matching rows, {page.total:,} in total", dim=True
        )
    if page.ragged:
        cells = f"{output.plural(page.ragged, 'row')} with more or fewer cells than titles"
        output.say(f"{cells}, the first is row {page.first_ragged:,}", dim=True)
    if page.unclosed_line is not None:
        quote = f"line {page.unclosed_line:,}: the quote is not closed"
        output.say(f"{quote}; from there on, lines are split without quotes", dim=True)
