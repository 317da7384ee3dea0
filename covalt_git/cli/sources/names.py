"""Names of sources in commands: ``gear/disk``, or ``gear`` for all sources of a toolset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from covalt_git.cli.context import ask
from covalt_git.errors import WrongCallError
from covalt_git.operations import sources

if TYPE_CHECKING:
    from collections.abc import Sequence

sources_argument = click.argument("names", metavar="[SOURCE...]", nargs=-1)
source_argument = click.argument("name", metavar="SOURCE")


def named_sources(names: Sequence[str]) -> list[dict[str, str]]:
    """Return the fields of a request for each named source; one without fields for all sources."""
    parts = [name.partition("/") for name in names]
    return [{"toolset_id": toolset_id, "namespace": space} for toolset_id, _, space in parts] or [
        {}
    ]


def listed_sources(names: Sequence[str]) -> sources.SourceList:
    """Return the sources with these names; all sources if there are no names."""
    listings = [ask(sources.list_sources, **named) for named in named_sources(names)]
    return sources.SourceList(sources=tuple(row for listing in listings for row in listing.sources))


def single_source(name: str) -> sources.SourceRow:
    """Return the only source with a name.

    Raises:
        WrongCallError: if several sources have it, or none.
    """
    matches = listed_sources([name]).sources
    if len(matches) != 1:
        names = ", ".join(match.shown_id for match in matches) or "none"
        raise WrongCallError(f"name one source of {name!r}: {names}")
    return matches[0]
