"""Many small contents compressed beside what reads them, by a process of their own.

Threads are of no use for that: one of them is compressed in less time than two threads take to hand
the interpreter over.
"""

from __future__ import annotations

import contextlib
import fcntl
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.git_objects.compression import ISAL_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM = Path(__file__).with_name("deflater.py")
_PIPE = 1 << 20


class DeflaterGoneError(Exception):
    """The process could not be started, or has ended; what it was given is to be compressed here."""


class Deflater:
    """The process, which takes one batch at a time; close it after use."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            DeflaterGoneError: when that is not possible.
        """
        self._count = 0
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), *filter(None, [ISAL_FOLDER])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
            )
        except OSError as error:
            raise DeflaterGoneError(str(error)) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        if sys.platform == "linux":
            for end in (self._in, self._out):
                with contextlib.suppress(OSError):  # where a user may have no pipe as large
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)

    @property
    def is_working(self) -> bool:
        """Whether it was given a batch whose streams were not taken yet."""
        return self._count > 0

    def is_done(self) -> bool:
        """Tell whether the streams of its batch can be taken without waiting for them."""
        return self.is_working and bool(select.select([self._out], [], [], 0)[0])

    def give(self, contents: Sequence[bytes]) -> None:
        """Give it a batch, while it is not working.

        Raises:
            DeflaterGoneError: when it has ended.
        """
        sizes = struct.pack(f"!{len(contents) + 1}I", len(contents), *map(len, contents))
        try:
            self._in.write(sizes + b"".join(contents))
            self._in.flush()
        except OSError as error:
            raise DeflaterGoneError(str(error)) from None
        self._count = len(contents)

    def take(self) -> list[bytes]:
        """Wait for the streams of its batch, and return them in order.

        Raises:
            DeflaterGoneError: when it has ended.
        """
        count, self._count = self._count, 0
        sizes = struct.unpack(f"!{count}I", self._read(4 * count))
        return [self._read(size) for size in sizes]

    def close(self) -> None:
        """End it."""
        for end in (self._in, self._out):
            with contextlib.suppress(OSError):
                end.close()
        self._process.wait()

    def _read(self, size: int) -> bytes:
        found = self._out.read(size)
        if len(found) < size:
            raise DeflaterGoneError("it ended before its time")
        return found
