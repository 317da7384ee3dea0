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
_PATIENCE_MS = 500


class HelperGoneError(Exception):
    """The process could not be started, or has ended; what it was given is to be done here."""


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
                bufsize=0,
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
        self._early = b""
        for end in (self._in, self._out):
            os.set_blocking(end.fileno(), False)
            if sys.platform == "linux":
                with contextlib.suppress(OSError):  # where a user may have no pipe as large
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE)

    def tell(self, content: bytes) -> None:
        """Send it something.

        Raises:
            HelperGoneError: when it has ended, or does not take it.
        """
        unwritten = memoryview(content)
        while unwritten:
            try:
                unwritten = unwritten[os.write(self._in.fileno(), unwritten) :]
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(self._in, select.POLLOUT)
                waiting.register(self._out, select.POLLIN)  # it may have to answer first
                if not waiting.poll(_PATIENCE_MS):
                    raise HelperGoneError("it does not take what it is told") from None
                self._early += self._read()
            except OSError as error:
                raise HelperGoneError(str(error)) from None

    def answered(self) -> bytes:
        """Return what it has answered since; nothing where that is not there yet.

        Raises:
            HelperGoneError: when it has ended.
        """
        early, self._early = self._early, b""
        return (
            early or self._read()
        )  # which raises where it has ended, and early is to be had first

    def wait(self, milliseconds: int) -> None:
        """Wait for something to be answered, or for its end."""
        waiting = select.poll()
        waiting.register(self._out, select.POLLIN)
        if not self._early:
            waiting.poll(milliseconds)

    def close(self) -> None:
        """End it."""
        self._in.close()
        self._out.close()
        self._process.kill()  # it has nothing that could be lost, and may not read
        self._process.wait()

    def forget(self) -> None:
        """Leave it to the process that this one was forked from."""
        self._in.close()
        self._out.close()
        self._process.returncode = 0

    def _read(self) -> bytes:
        try:
            found = os.read(self._out.fileno(), _PIPE)
        except BlockingIOError:
            return b""
        if not found:
            raise HelperGoneError("it has ended")
        return found
