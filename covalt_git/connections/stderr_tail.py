"""The end of what a program writes on its error stream: shown when it fails, told while it starts."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

KEPT_BYTES = 4096
_SHOWN_LINES = 12
_STRAY = 200
"""How much is shown of a line that is no message, in characters."""


class LastWords:
    """Reads an error stream on the event loop and keeps its end; ``tell`` hears each whole line."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._kept = b""
        self._line = b""

    @property
    def text(self) -> str:
        """The last lines, without what would steer a terminal."""
        lines = self._kept.decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
        return "\n".join(_plain(line) for line in lines if line.strip())

    @contextmanager
    def listening(self) -> Iterator[TextIO]:
        """Forget what was, and return the file that a program is given as its error stream.

        It is to be closed once the program runs.
        """
        self._kept = self._line = b""
        loop = asyncio.get_running_loop()
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)

        def read() -> None:
            try:
                found = os.read(ours, 1 << 16)
            except BlockingIOError:
                return
            if not found:
                loop.remove_reader(ours)
            self._append(found)

        loop.add_reader(ours, read)
        try:
            with open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123 - it is no path
                yield stream
        finally:
            loop.remove_reader(ours)
            os.close(ours)

    def stray(self, line: str) -> None:
        """Note a line of the other stream that is no message of the protocol: a server that prints."""
        begin = "\n" if self._line else ""
        self._append(f"{begin}no message, on its standard output: {line[:_STRAY]}\n".encode())

    def _append(self, found: bytes) -> None:
        self._kept = (self._kept + found)[-KEPT_BYTES:]
        *lines, self._line = (self._line + found).split(b"\n")
        self._line = self._line[-KEPT_BYTES:]
        for line in lines:
            said = _plain(line.decode("utf-8", "replace"))
            if said:
                self._tell(said)


def _plain(line: str) -> str:
    return "".join(one for one in line.expandtabs() if display.is_shown(one)).rstrip()
