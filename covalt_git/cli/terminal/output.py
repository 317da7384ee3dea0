"""Printing of texts, tables, JSON and errors.

Control characters are escaped, because texts of tools, file names and chats may contain them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from covalt_git.cli.terminal.keys import discard_typed
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from covalt_git.errors import CovaltError
    from covalt_git.models.chats import FileChange
    from covalt_git.models.commit_record import WorkspaceNotes
    from covalt_git.operations.chats.merges import WaitingConflict
    from covalt_git.operations.results import Change, Notes

SHORT = 12
"""Length of a printed commit id, which is unique in any real chat."""

_BACK: Final = "\r\x1b[K"
"""Control sequence that moves to the start of the line and clears it."""

_BAR: Final = "  | "
"""What each line of a quoted text begins with."""

MARKS = {"added": ("+", "green"), "deleted": ("-", "red"), "modified": ("~", "yellow")}

_LEVELS = {"red": "error", "yellow": "warning"}
"""Log level of lines with a color."""

lines: Callable[..., None] | None = None
"""Writer of stderr lines if their format is JSON (:func:`json_log.install`)."""

_moving: list[str] = []
"""The text of the status line, if there is one."""


def say(text: str = "", *, prose: bool = False, **style: Any) -> None:
    """Print a text with its invisible characters escaped; ``style`` is click's, used on a terminal only.

    ``prose`` is for texts that users only read: messages, descriptions and results.
    """
    _write(display.running(text) if prose else display.in_lines(text), **style)


def _write(text: str, **style: Any) -> None:
    if style.get("err") and lines is not None:
        lines(text, level=_LEVELS.get(style.get("fg", ""), "info"))
        return
    # The status line has to stay the last one: text printed on it would continue it.
    below = "".join(_moving)
    move()
    click.secho(text, color=_color(), **style)
    move(below)


def fact(text: str, **style: Any) -> None:
    """Print one line above a question: a text of others in it must not add a line of its own.

    Line breaks are escaped, and on a terminal a long line is divided, as by :func:`quote`.
    """
    line = display.in_line(text)
    is_terminal = (sys.stderr if style.get("err") else sys.stdout).isatty()
    for part in divided(line) if is_terminal else [line]:
        _write(part, **style)


def quote(text: str, **style: Any) -> None:
    """Print a text of others above a question, each line behind a bar, so that it cannot look like ours.

    A terminal would continue a long line at its left edge, so such a line is divided.
    """
    for line in text.splitlines():
        for part in divided(_BAR + display.running(line)):
            _write(part, **style)


def divided(text: str) -> Iterator[str]:
    """Yield the lines of an escaped text on this terminal; all but the first begin with a bar.

    Terminals differ in the cells of a character that is not ASCII, and two are the most.  A tab has up to eight.
    """
    text = text.expandtabs()
    columns = max(shutil.get_terminal_size().columns - 1, len(_BAR) + 20)
    line, cells = "", 0
    for character in text:
        needed = 1 if character.isascii() else 2
        if cells + needed > columns:
            yield line
            line, cells = _BAR, len(_BAR)
        line, cells = line + character, cells + needed
    yield line


def confirm(question: str, *, abort: bool = False, err: bool = False) -> bool:
    """Ask the user at the terminal; ``abort`` ends the command after a no."""
    *above, last = divided(display.in_line(question))
    for line in above:
        _write(line, err=err)
    discard_typed()  # a line that was typed before the question does not answer it
    # The only call of click.confirm: questions may have names from files of others, which are escaped here.
    return click.confirm(last, abort=abort, err=err)


def warn(text: str) -> None:
    say(text, err=True, fg="yellow")


def move(text: str = "") -> None:
    """Show a text in the status line below all output; without text, remove the line."""
    if not is_watched() or not (text or _moving):
        return
    # A full line would wrap, and only its last row would be cleared.
    room = shutil.get_terminal_size((80, 24)).columns - 1
    line = display.in_line(text.replace("\n", " "))[:room]
    _moving[:] = [line] if line else []
    # Always: this moves the cursor, and NO_COLOR is about colors only.
    click.echo(_BACK, err=True, nl=False, color=True)
    if line:
        click.secho(line, err=True, nl=False, dim=True, color=_color())


def _color() -> bool | None:
    """Return click's argument ``color``, whose default other threads than the main one do not know."""
    return False if os.environ.get("NO_COLOR") else None


def is_watched() -> bool:
    """Return whether stderr is a terminal, which can show a status line."""
    return sys.stderr.isatty() and lines is None


def as_json(value: Any) -> None:
    """Print a value, or the result of an operation, as indented JSON."""
    from pydantic import BaseModel  # noqa: PLC0415 - errors, such as of an unknown command, have no model

    if isinstance(value, BaseModel):
        click.echo(value.model_dump_json(indent=2, by_alias=True))
        return
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Sequence[Sequence[str]], *, titles: Sequence[str], empty: str = "") -> None:
    """Print rows with titles, or the text ``empty``; the last column is cut off at the width of the terminal."""
    if not rows and empty:
        say(empty)
        return
    escaped_rows = [[display.in_line(cell) for cell in row] for row in rows]
    widths = [
        max(len(row[at]) for row in [list(titles), *escaped_rows]) for at in range(len(titles))
    ]
    # Programs that read the table need complete cells.
    room = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 10_000
    for number, row in enumerate([list(titles), *escaped_rows]):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.secho(display.shorten("  ".join(cells).rstrip(), room), dim=number == 0)


def error(problem: CovaltError, *, as_json: bool) -> None:
    """Print an error to the error stream."""
    if lines is not None:
        facts = problem.as_json()
        lines(facts.pop("error_description"), level="error", **facts)
        return
    if as_json:
        click.echo(json.dumps(problem.as_json(), indent=2, ensure_ascii=False), err=True)
        return
    click.echo(display.in_lines(str(problem)), err=True)


def changes(differences: Iterable[FileChange | Change]) -> None:
    """Print changed paths, each with its mark."""
    for change in differences:
        mark, colour = MARKS[change.kind]
        fact(f"  {mark} {change.path}", fg=colour)


def notes(workspace_notes: WorkspaceNotes | Notes, *, printed: Notes | None = None) -> None:
    """Print the paths that are not stored or not portable, except those already ``printed``."""
    printed_notes = () if printed is None else (*printed.not_stored, *printed.unportable)
    for kind, noted in (
        ("stored", workspace_notes.not_stored),
        ("portable", workspace_notes.unportable),
    ):
        for note in noted:
            if note not in printed_notes:
                text = f"  ! {display.in_line(note.path)} is not {kind}: {note.reason}"
                say(text, fg="yellow", err=True)
    for note in workspace_notes.lost:
        if printed is None or note not in printed.lost:
            say(f"  ! {display.in_line(note.path)} {note.reason}", fg="yellow", err=True)


def damaged(chat_id: str, message: str, hint: str) -> None:
    """Print a chat that cannot be read to stderr."""
    say(f"the chat {chat_id!r} is damaged: {message}", err=True, fg="red")
    if hint:
        say(f"  hint: {hint}", err=True)


def conflicts(unresolved: Sequence[WaitingConflict]) -> None:
    """Print the unresolved conflicts."""
    if not unresolved:
        say("no conflicts")
    for conflict in unresolved:
        say(
            f"  ! {display.in_line(f'{conflict.path}: {conflict.about}; the other version is {conflict.saved_as}')}",
            fg="yellow",
        )
        conflicting_lines(conflict.lines)


def conflicting_lines(text: str | None) -> None:
    """Print the lines of a conflict, indented, if it has any."""
    for line in (text or "").splitlines():
        say(f"      {line}", dim=True)


def size(count: int) -> str:
    """Return a number of bytes with a unit."""
    value, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004 - the next unit
            break
        value, unit = value / 1024, larger
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def plural(count: int, noun: str) -> str:
    """Return ``3 tools``, ``1 tool``."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
