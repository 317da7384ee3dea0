"""Printing: tables, JSON and errors, all of it safe to show on a terminal.

What came from a tool, a file name or a chat may hold control characters; they are shown, not obeyed.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from covalt_git.errors import CovaltError
    from covalt_git.models.base import JsonObject
    from covalt_git.models.chats import FileChange
    from covalt_git.models.commit_record import WorkspaceNotes

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_MORE_LINES = re.compile("[\t\n\u2028\u2029]")
SHORT = 12
"""Digits of a manifest's id that are printed: enough to type, and unique in any real chat."""

_BACK: Final = "\r\x1b[K"
"""Goes to the beginning of the line and empties it."""

MARKS = {"added": ("+", "green"), "deleted": ("-", "red"), "modified": ("~", "yellow")}

_LEVELS = {"red": "error", "yellow": "warning"}
"""What a colour says to machines."""

lines: Callable[..., None] | None = None
"""What says things on the error stream where that is for machines (``log_lines.install``)."""

_moving: list[str] = []
"""What stands in the line that moves, if anything does."""


def safe(text: str) -> str:
    """Return ``text`` with control and direction characters written out."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_line(text: str) -> str:
    """Return ``text`` as a part of a line: a file's name, say, that would begin a line of its own."""
    return safe(_MORE_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def say(text: str = "", **style: Any) -> None:
    """Print a line; ``style`` is click's, used on a terminal only."""
    if style.get("err") and lines is not None:
        lines(text, level=_LEVELS.get(style.get("fg", ""), "info"))
        return
    below = "".join(_moving)
    move()
    click.secho(safe(text), **style)
    move(below)


def move(text: str = "") -> None:
    """Show a person a text in a line that moves: below all that is said, until the next one or none."""
    if not is_watched() or not (text or _moving):
        return
    room = shutil.get_terminal_size((80, 24)).columns - 1
    shown = safe(text).replace("\n", " ")[:room]
    _moving[:] = [shown] if shown else []
    click.echo(_BACK, err=True, nl=False, color=True)  # it is no colour, which NO_COLOR forbids
    if shown:
        click.secho(shown, err=True, nl=False, dim=True)


def is_watched() -> bool:
    """Tell whether a person looks at the error stream, where a line may move."""
    return sys.stderr.isatty() and lines is None


def as_json(value: Any) -> None:
    """Print a value as JSON that people can read too."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Sequence[Sequence[str]], *, titles: Sequence[str]) -> None:
    """Print rows under their titles, the last column cut at the terminal's edge."""
    shown = [[safe(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(titles), *shown]) for at in range(len(titles))]
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000
    for number, row in enumerate([list(titles), *shown]):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = "  ".join(cells).rstrip()
        line = line if len(line) <= room else line[: room - 1] + "…"
        click.secho(line, dim=number == 0)


def error(problem: CovaltError, *, as_json: bool) -> None:
    """Print an error to the error stream."""
    if lines is not None:
        told = problem.as_json()
        lines(told.pop("error_description"), level="error", **told)
        return
    if as_json:
        click.echo(json.dumps(problem.as_json(), indent=2, ensure_ascii=False), err=True)
        return
    for line in str(problem).splitlines():
        click.echo(safe(line), err=True)


def changes(found: Iterable[FileChange]) -> None:
    """Print the paths that changed, each with its mark."""
    for change in found:
        mark, colour = MARKS[change.kind]
        say(f"  {mark} {in_line(change.path)}", fg=colour)


def change_json(change: FileChange) -> JsonObject:
    """Return a change as ``--json`` prints it."""
    return {"path": change.path, "kind": change.kind} | change.model_dump(exclude={"path"})


def notes(found: WorkspaceNotes) -> None:
    """Print what could not be stored, or not everywhere."""
    for note in found.not_stored:
        say(f"  ! {in_line(note.path)} is not stored: {note.reason}", fg="yellow", err=True)
    for note in found.unportable:
        say(
            f"  ! {in_line(note.path)} is stored, but not for every system: {note.reason}",
            fg="yellow",
            err=True,
        )


def plural(count: int, noun: str) -> str:
    """Return ``3 tools``, ``1 tool``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
