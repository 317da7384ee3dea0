"""How far the index is with reading toolsets: a line that moves, once that has taken a second."""

from __future__ import annotations

import time

import click

from covalt_git.cli import output
from covalt_git.cli.progress import BACK, bar

_PATIENCE_S = 1.0
_BETWEEN_S = 0.1


class Reading:
    """Hears how many toolsets have been read, and shows it to a person who looks on for long."""

    def __init__(self) -> None:
        self._started: float | None = None
        self._shown = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Show the bar, or take it away when all is read."""
        if not output.is_watched():
            return
        now = time.monotonic()
        if self._started is None:
            self._started = now
        if done == total:
            if self._shown:
                click.echo(BACK, err=True, nl=False)
            self._started, self._shown = None, 0.0
        elif now - self._started >= _PATIENCE_S and now - self._shown >= _BETWEEN_S:
            self._shown = now
            line = f"{BACK}{bar(done, total)} reading toolsets"
            click.secho(line, err=True, nl=False, dim=True)
