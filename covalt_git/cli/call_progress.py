"""What a call tells while it runs, on the error stream: one line that moves, or a line for each."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from covalt_git.calls.running import Follower, Installing
from covalt_git.cli import output, questions
from covalt_git.cli.progress import BACK, bar
from covalt_git.runtime.jobs import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from covalt_git.asking import Respondent
    from covalt_git.calls.running import CallEvent


def following(*, wanted: bool | None, asks: bool = False) -> AbstractContextManager[Follower]:
    """Return a follower that shows what it is told; ``wanted`` None: where a person looks on.

    With ``asks``, the person at this terminal answers what the call asks.
    """
    shown = output.is_watched() if wanted is None else wanted
    moving = shown and output.is_watched()
    person = questions.respondent(wanted=asks)
    return _moving(person) if moving else _lines(person, shown=shown)


@contextmanager
def _lines(person: Respondent, *, shown: bool) -> Iterator[Follower]:
    """Show a line for each event; of an installation always, because it takes long."""

    def tell(event: CallEvent) -> None:
        text = _text(event)
        if text and (shown or isinstance(event, Installing)):
            output.say(text, err=True, dim=True)

    yield Follower(tell, respondent=person)


@contextmanager
def _moving(person: Respondent) -> Iterator[Follower]:
    """Show the last event in a line that is gone once the call has ended."""

    def tell(event: CallEvent) -> None:
        text = output.safe(_text(event)).replace("\n", " ")
        if text:
            room = shutil.get_terminal_size((80, 24)).columns - 1
            click.secho(BACK + text[:room], err=True, nl=False, dim=True)

    try:
        yield Follower(tell, respondent=person)
    finally:
        click.echo(BACK, err=True, nl=False)


def _text(event: CallEvent) -> str:
    match event:
        case Progress(done, total, message):
            return f"{bar(done, total)} {message}".rstrip()
        case Log(level, message):
            return f"{level}: {message}"
        case Installing(message):
            return message
    return ""
