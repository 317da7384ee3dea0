"""Printed text of a tool as records store it: complete, or its beginning and its end with the size of the rest."""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_STORED = 64 * 1024
"""Bytes of printed text that the record of a call stores: half of them from the beginning, half from the end."""

_HALF = MOST_STORED // 2
_GAP = "... {lines} of {all_lines} lines ({size} of {all_size} bytes) are not stored ...\n"
_FOUND = re.compile(
    r"^\.\.\. (\d+) of (\d+) lines \((\d+) of (\d+) bytes\) are not stored \.\.\.$", re.MULTILINE
)


class Size(NamedTuple):
    """Lines and bytes of a text that was printed, and those of them that are stored."""

    lines: int
    size: int
    stored_lines: int
    stored_size: int


class Printed:
    """Text that a tool prints; it needs the same memory whatever the size of the text."""

    def __init__(self) -> None:
        self._begin, self._end = bytearray(), bytearray()
        self._newlines = 0
        self._last = b""
        self.received = 0

    def take(self, chunk: bytes) -> None:
        """Add a chunk."""
        self.received += len(chunk)
        self._newlines += chunk.count(b"\n")
        self._last = chunk[-1:] or self._last
        room = _HALF - len(self._begin)
        self._begin += chunk[:room]
        self._end += chunk[max(room, 0) :]
        del self._end[:-_HALF]

    def __str__(self) -> str:
        begin, end = bytes(self._begin), bytes(self._end)
        if len(begin) + len(end) == self.received:
            return (begin + end).decode("utf-8", "replace")
        # Whole lines, if there are line breaks.
        begin = begin[: begin.rfind(b"\n") + 1] or begin
        end = end[end.find(b"\n") + 1 :] or end
        lines = self._newlines + (self._last != b"\n")
        gap = _GAP.format(
            lines=max(lines - _lines(begin) - _lines(end), 1),
            all_lines=lines,
            size=self.received - len(begin) - len(end),
            all_size=self.received,
        )
        newline = "" if begin.endswith(b"\n") else "\n"
        return begin.decode("utf-8", "replace") + newline + gap + end.decode("utf-8", "replace")


def shortened(text: str) -> str:
    """Return a text as a record stores it."""
    printed = Printed()
    printed.take(text.encode("utf-8", "replace"))
    return str(printed)


def size_of(stored: str) -> Size:
    """Return the size of a printed text, from what a record stores of it."""
    content = stored.encode("utf-8", "replace")
    lines, size = _lines(content), len(content)
    gap = _FOUND.search(stored)
    if gap is None:
        return Size(lines, size, lines, size)
    left, all_lines, left_size, all_size = map(int, gap.groups())
    return Size(all_lines, all_size, all_lines - left, all_size - left_size)


def _lines(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
