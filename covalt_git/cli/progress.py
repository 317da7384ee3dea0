"""How far long work is, on a terminal only and only once it has taken a second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

import click

from covalt_git.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Item = TypeVar("Item")

BACK: Final = "\r\x1b[K"
"""Goes to the beginning of the line and empties it."""

_BAR: Final = 20
_PATIENCE_S: Final = 1.0
_BETWEEN_S: Final = 0.1


def passing(items: Sequence[Item], noun: str, patience_s: float = _PATIENCE_S) -> Iterator[Item]:
    """Give the items one by one; show their number in a line that is gone after the last."""
    if not output.is_watched():
        yield from items
        return
    next_told = time.monotonic() + patience_s
    shown = False
    try:
        for done, item in enumerate(items):
            if time.monotonic() >= next_told:
                click.echo(f"{BACK}{bar(done, len(items))} {noun}", err=True, nl=False)
                shown = True
                next_told = time.monotonic() + _BETWEEN_S
            yield item
    finally:
        if shown:
            click.echo(BACK, err=True, nl=False)


def bar(done: float, total: float | None) -> str:
    """Return ``[#####...............] 1/4``."""
    if not total or total < 0:
        return f"{done:g}"
    filled = round(_BAR * min(max(done / total, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {done:g}/{total:g}"
