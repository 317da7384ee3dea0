"""Progress of long work: a bar on a terminal, shown once the work has taken a second."""

from __future__ import annotations

import time
from typing import Final

from covalt_git.cli.terminal import output

_BAR: Final = 20
_PATIENCE_S: Final = 1.0
_BETWEEN_S: Final = 0.1


class Bar:
    """Callback that shows progress on a terminal, if the work takes longer than ``patience_s``."""

    def __init__(self, noun: str, patience_s: float = _PATIENCE_S) -> None:
        self._noun = noun
        self._patience_s = patience_s
        self._next: float | None = None
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show the bar, or remove it when the work is done."""
        if not output.is_watched():
            return
        if done == total:
            self.clear()
            return
        clock_s = time.monotonic()
        if self._next is None:
            self._next = clock_s + self._patience_s
        if clock_s >= self._next:
            self._next, self._is_shown = clock_s + _BETWEEN_S, True
            output.move(f"{bar(done, total)} {self._noun}")

    def clear(self) -> None:
        """Remove the bar; the next one again appears only after the delay."""
        if self._is_shown:
            output.move()
        self._next, self._is_shown = None, False


def bar(done: float, total: float | None) -> str:
    """Return ``[#####...............] 1/4``."""
    if not total or total < 0:
        return f"{done:g}"
    filled = round(_BAR * min(max(done / total, 0.0), 1.0))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {done:g}/{total:g}"
