"""Ctrl-C while a call is made: it cancels the call, which is brought to its end and recorded.

Python would raise ``KeyboardInterrupt`` wherever it is just then, between a run and its record too.
Keys repeat and people press twice: what comes soon after the first changes nothing any more, and
what comes later ends the process, should something not end.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S: Final = 2.0
"""How long Ctrl-C is passed over once it was pressed; a call that is cancelled ends within a second."""


@contextmanager
def cancelling(cancel: threading.Event, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Let Ctrl-C set ``cancel`` and raise nothing; once it did, it is passed over for a while."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return

    def cancel_it(*_: Any) -> None:
        pass_over(patience_s)  # first: nobody may set an event while this thread is at it
        cancel.set()

    signal.signal(signal.SIGINT, cancel_it)
    try:
        yield
    finally:
        if not cancel.is_set():
            signal.signal(signal.SIGINT, before)


def pass_over(patience_s: float = PATIENCE_S) -> None:
    """Pass over Ctrl-C for a while, as it was pressed already."""
    until = time.monotonic() + patience_s

    def pressed_again(number: int, frame: Any) -> None:
        if time.monotonic() > until:
            signal.default_int_handler(number, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, pressed_again)
