"""Many small contents compressed beside what reads them, by a process of their own.

Threads are of no use for that: one of them is compressed in less time than two threads take to hand
the interpreter over.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.git_objects.compression import ISAL_FOLDER
from covalt_git.helper_process import HelperProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM = Path(__file__).with_name("deflater.py")


class Deflater:
    """The process, which takes one batch at a time; close it after use."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            HelperGoneError: when that is not possible.
        """
        self._count = 0
        self._process = HelperProcess(_PROGRAM, *filter(None, [ISAL_FOLDER]))
        self.close = self._process.close

    @property
    def is_working(self) -> bool:
        """Whether it was given a batch whose streams were not taken yet."""
        return self._count > 0

    def is_done(self) -> bool:
        """Tell whether the streams of its batch can be taken without waiting for them."""
        return self.is_working and self._process.has_answered()

    def give(self, contents: Sequence[bytes]) -> None:
        """Give it a batch, while it is not working.

        Raises:
            HelperGoneError: when it has ended.
        """
        sizes = struct.pack(f"!{len(contents) + 1}I", len(contents), *map(len, contents))
        self._process.tell(sizes + b"".join(contents))
        self._count = len(contents)

    def take(self) -> list[bytes]:
        """Wait for the streams of its batch, and return them in order.

        Raises:
            HelperGoneError: when it has ended.
        """
        count, self._count = self._count, 0
        sizes = struct.unpack(f"!{count}I", self._process.answer(4 * count))
        return [self._process.answer(size) for size in sizes]
