"""Tail of a program's stderr, for errors; its lines are also reported while the program starts."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

TAIL_BYTES = 4096
_SHOWN_LINES = 12
_MOST_STRAY = 200
"""Characters shown of a line on stdout that is not a protocol message."""


class StderrTail:
    """Reader of a stderr pipe on the event loop; ``on_line`` is called with each complete line.

    ``on_report`` is called with what the sandbox of the program reports, which is in the tail too.
    """

    def __init__(
        self, on_line: Callable[[str], None], on_report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._on_line = on_line
        self._on_report = on_report
        self._tail = b""
        self._line = b""
        self._is_cut = False

    @property
    def text(self) -> str:
        """The last lines, without terminal control characters."""
        mark = "…" if self._is_cut else ""
        lines = (mark + self._tail.decode("utf-8", "replace")).splitlines()[-_SHOWN_LINES:]
        return "\n".join(_plain(line) for line in lines if line.strip())

    @contextmanager
    def capture(self) -> Iterator[TextIO]:
        """Clear the tail, and yield the file for the program's stderr.

        Close it when the program has started.
        """
        self._tail, self._line, self._is_cut = b"", b"", False
        loop = asyncio.get_running_loop()
        read_end, write_end = os.pipe()
        # A read that waits would stop the loop, and with it every other server.
        os.set_blocking(read_end, False)

        def read() -> None:
            try:
                chunk = os.read(read_end, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                loop.remove_reader(read_end)
            self._append(chunk)

        loop.add_reader(read_end, read)
        try:
            # The program needs a descriptor, so that it writes without this process between.
            with open(write_end, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor
                yield stream
        finally:
            loop.remove_reader(read_end)
            os.close(read_end)

    def add_stray_line(self, line: str) -> None:
        """Append a line of stdout that is not a protocol message, as from a server that prints."""
        begin = "\n" if self._line else ""
        self._append(
            f"{begin}not a protocol message, on stdout: {display.shorten(line, _MOST_STRAY)}\n".encode()
        )

    def add_report(self, text: str) -> None:
        """Append what the sandbox of the program reports, such as a refused host."""
        begin = "\n" if self._line else ""
        self._append(f"{begin}covalt-git: {text}\n".encode("utf-8", "replace"))
        self._on_report(text)

    def _append(self, chunk: bytes) -> None:
        self._is_cut |= len(self._tail) + len(chunk) > TAIL_BYTES
        self._tail = (self._tail + chunk)[-TAIL_BYTES:]
        *lines, self._line = (self._line + chunk).split(b"\n")
        # A line without an end must not fill the memory; marked as cut, because a mask then looks for the rest of a
        # secret there.
        if len(self._line) > TAIL_BYTES:
            self._line = "…".encode() + self._line[-TAIL_BYTES + len("…".encode()) :]
        for line in lines:
            text = _plain(line.decode("utf-8", "replace"))
            if text:
                self._on_line(text)


def _plain(line: str) -> str:
    return "".join(letter for letter in line.expandtabs() if display.is_shown(letter)).rstrip()
