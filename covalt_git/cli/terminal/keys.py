"""Single keys that a user types at the terminal, and keys that were typed too early."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUIET_S: Final = 1.0
"""Seconds without a key, as the delay of a browser's security dialogs: a user needs them to see a new question."""


@contextmanager
def single_keys() -> Iterator[None]:
    """Read single keys in this block, without Enter; what was typed before is discarded."""
    if sys.platform == "win32":
        yield
        return
    import termios  # noqa: PLC0415 - not on Windows
    import tty  # noqa: PLC0415 - not on Windows

    terminal = sys.stdin.fileno()
    settings = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSAFLUSH)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, settings)


def discard_until_quiet() -> None:
    """Discard what the user types until no key was typed for a second; in a block of :func:`single_keys`."""
    if sys.platform == "win32":
        time.sleep(_QUIET_S)
        discard_typed()
        return
    import select  # noqa: PLC0415 - of a terminal not on Windows

    terminal = sys.stdin.fileno()
    while select.select([terminal], [], [], _QUIET_S)[0] and os.read(terminal, 1024):
        pass


def read_key() -> str:
    """Return one key that the user types, in a block of :func:`single_keys`; "q" at the end of the input."""
    if sys.platform == "win32":
        return click.getchar()
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"


def discard_typed() -> None:
    """Discard what the user typed at the terminal and no command has read yet."""
    if not sys.stdin.isatty():
        return
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - only on Windows

        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    import termios  # noqa: PLC0415 - not on Windows

    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
