"""A program of ours that works for this process on another core, and is told and answers by pipes.

It is run by itself: it imports the standard library, starts in some 10 ms, and ends when nobody can
tell it anything any more.  Nothing depends on it: what it does not answer is done here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_PIPE = 1 << 20


class HelperGoneError(Exception):
    """The process could not be started, or has ended; what it was given is to be done here."""


def has_a_core() -> bool:
    """Tell whether there is a core for another process to work on."""
    cores = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return len(cores) > 1


class HelperProcess:
    """The process; close it after use."""

    def __init__(self, program: Path, *arguments: str) -> None:
        """Start it.

        Raises:
            HelperGoneError: when that is not possible.
        """
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(program), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                process_group=0,  # Ctrl-C is for this process, which then ends that one
            )
        except OSError as error:
            raise HelperGoneError(str(error)) from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        if sys.platform == "linux":
            for end in (self._in, self._out):
                with contextlib.suppress(OSError):  # where a user may have no pipe as large
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)

    def tell(self, content: bytes) -> None:
        """Send it something, all of which it takes before it answers.

        Raises:
            HelperGoneError: when it has ended.
        """
        try:
            self._in.write(content)
            self._in.flush()
        except OSError as error:
            raise HelperGoneError(str(error)) from None

    def answered(self) -> bytes:
        """Return what it has answered since; nothing where that is not there yet.

        Raises:
            HelperGoneError: when it has ended.
        """
        if not select.select([self._out], [], [], 0)[0]:
            return b""
        found = os.read(self._out.fileno(), _PIPE)
        if not found:
            raise HelperGoneError("it has ended")
        return found

    def close(self) -> None:
        """End it."""
        for end in (self._in, self._out):
            with contextlib.suppress(OSError):
                end.close()
        self._process.wait()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        for end in (self._in, self._out):
            with contextlib.suppress(OSError):
                os.close(end.fileno())
        self._process.returncode = 0
