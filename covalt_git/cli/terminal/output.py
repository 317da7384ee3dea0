"""Printing: tables, JSON and errors, all of it safe to show on a terminal.

Texts of tools, file names and chats may hold control characters; they are escaped, not obeyed.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click
from pydantic import BaseModel

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from covalt_git.errors import CovaltError
    from covalt_git.models.chats import FileChange
    from covalt_git.models.commit_record import WorkspaceNotes
    from covalt_git.operations.chats.merges import WaitingConflict
    from covalt_git.operations.results import Change, Notes

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


def say(text: str = "", *, prose: bool = False, **style: Any) -> None:
    """Print a text with its hidden characters escaped; ``style`` is click's, used on a terminal only.

    ``prose`` is for what is read only: messages, descriptions and results.
    """
    if style.get("err") and lines is not None:
        lines(text, level=_LEVELS.get(style.get("fg", ""), "info"))
        return
    below = "".join(_moving)
    move()
    click.secho(display.running(text) if prose else display.in_lines(text), **style)
    move(below)


def move(text: str = "") -> None:
    """Show a person a text in a line that moves: below all that is said, until the next one or none."""
    if not is_watched() or not (text or _moving):
        return
    room = shutil.get_terminal_size((80, 24)).columns - 1
    shown = display.in_line(text.replace("\n", " "))[:room]
    _moving[:] = [shown] if shown else []
    click.echo(_BACK, err=True, nl=False, color=True)  # it is no colour, which NO_COLOR forbids
    if shown:
        click.secho(shown, err=True, nl=False, dim=True)


def is_watched() -> bool:
    """Tell whether a person looks at the error stream, where a line may move."""
    return sys.stderr.isatty() and lines is None


def as_json(value: Any) -> None:
    """Print a value, or the result of an operation, as indented JSON."""
    if isinstance(value, BaseModel):
        click.echo(value.model_dump_json(indent=2, by_alias=True))
        return
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Sequence[Sequence[str]], *, titles: Sequence[str]) -> None:
    """Print rows under their titles, the last column cut at the terminal's edge."""
    shown = [[display.in_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(titles), *shown]) for at in range(len(titles))]
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000
    for number, row in enumerate([list(titles), *shown]):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.secho(display.shorten("  ".join(cells).rstrip(), room), dim=number == 0)


def error(problem: CovaltError, *, as_json: bool) -> None:
    """Print an error to the error stream."""
    if lines is not None:
        told = problem.as_json()
        lines(told.pop("error_description"), level="error", **told)
        return
    if as_json:
        click.echo(json.dumps(problem.as_json(), indent=2, ensure_ascii=False), err=True)
        return
    click.echo(display.in_lines(str(problem)), err=True)


def changes(found: Iterable[FileChange | Change]) -> None:
    """Print the paths that changed, each with its mark."""
    for change in found:
        mark, colour = MARKS[change.kind]
        say(f"  {mark} {display.in_line(change.path)}", fg=colour)


def notes(found: WorkspaceNotes | Notes, *, told: Notes | None = None) -> None:
    """Print what could not be stored, or not everywhere, but for what was ``told`` before."""
    known = () if told is None else (*told.not_stored, *told.unportable)
    for note in found.not_stored:
        if note in known:
            continue
        say(f"  ! {display.in_line(note.path)} is not stored: {note.reason}", fg="yellow", err=True)
    for note in found.unportable:
        if note in known:
            continue
        say(
            f"  ! {display.in_line(note.path)} is stored, but not for every system: {note.reason}",
            fg="yellow",
            err=True,
        )


def damaged(chat_id: str, message: str, hint: str) -> None:
    """Name a chat that cannot be read on the error stream."""
    say(f"the chat {chat_id!r} is damaged: {message}", err=True, fg="red")
    if hint:
        say(f"  hint: {hint}", err=True)


def conflicts(found: Sequence[WaitingConflict]) -> None:
    """Print the conflicts that wait to be decided."""
    if not found:
        say("no conflicts")
    for one in found:
        say(
            f"  ! {display.in_line(f'{one.path}: {one.about}; the other version is {one.saved_as}')}",
            fg="yellow",
        )
        conflicting_lines(one.lines)


def conflicting_lines(text: str | None) -> None:
    """Print the lines of a conflict, indented, if it has any."""
    for line in (text or "").splitlines():
        say(f"      {line}", dim=True)


def plural(count: int, noun: str) -> str:
    """Return ``3 tools``, ``1 tool``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
