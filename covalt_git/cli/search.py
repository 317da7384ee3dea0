"""``covalt-git search``."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import click

from covalt_git.cli.context import ask_to_print
from covalt_git.cli.groups import JsonCommand
from covalt_git.cli.terminal import output
from covalt_git.operations import search

if TYPE_CHECKING:
    from covalt_git.operations.search import SearchHit, UnsearchedFiles


@click.command(cls=JsonCommand)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--kind", type=click.Choice(get_args(search.SearchedKind)), help="Only results of this kind."
)
@click.option("--chat", help="Only messages, files and calls of this chat.")
@click.option(
    "--limit", type=int, default=10, show_default=True, help="Number of results of each kind."
)
def command(words: tuple[str, ...], kind: str | None, chat: str | None, limit: int) -> None:
    """Search chats, messages, files, calls, tools and toolsets.

    Files are those of the active branches; of calls, the arguments are searched. A result has all WORDS; the last one may
    be the beginning of a word. For a phrase, use quotes within quotes: '"red apple"'.

    Example: covalt-git search table
    """
    results = ask_to_print(
        search.search, query=" ".join(words), kind=kind, chat_id=chat, limit=limit
    )
    rows = [_line(hit) for group in results.groups for hit in group.hits]
    output.table(
        rows, titles=("KIND", "WHERE", "ID", "TEXT"), empty="nothing has all of these words"
    )
    for group in results.groups:
        if group.more:
            output.say(f"more: covalt-git search ... --kind {group.kind} --limit 200", dim=True)
    for unsearched in results.unsearched:
        output.say(_unsearched(unsearched), dim=True)


def _line(hit: SearchHit) -> tuple[str, ...]:
    place = f"{hit.chat_id} {hit.branch}" if hit.branch else hit.chat_id
    text = "".join(part.text for part in hit.excerpt)
    title = "" if hit.title in {hit.id, text} else f"{hit.title}: "
    return hit.kind, place or "-", hit.id, title + text


def _unsearched(unsearched: UnsearchedFiles) -> str:
    files = output.plural(unsearched.files, "file")
    match unsearched.reason:
        case "binary":
            return f"not searched: the text of {files} that are not UTF-8 text"
        case "large":
            return f"not searched: the text of {files} over 256 KiB"
        case "full":
            return f"not searched: {files} over the limits of the index"
        case "pending":
            return f"not searched yet: {files}; covalt-git index rebuild"
