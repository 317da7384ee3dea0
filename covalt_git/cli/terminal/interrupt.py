"""Ctrl-C during a call: it cancels the call, which then ends and is recorded as cancelled.

Without this module, Python raises ``KeyboardInterrupt`` anywhere, even between a run and its record.  Further presses
shortly after the first are ignored, because keys repeat; a later one ends the process, in case the call
does not end.
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
"""Time for which further Ctrl-C are ignored, in seconds; a cancelled call ends within a second."""


@contextmanager
def cancelling(cancel: threading.Event, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Make Ctrl-C set ``cancel`` instead of raising; after that, it is ignored for a while."""
    handler = signal.getsignal(signal.SIGINT)
    # Python sets handlers in the main thread only. A process that was started to ignore Ctrl-C, such as a background
    # job, has to ignore it here too.
    if handler is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return

    def cancel_it(*_: Any) -> None:
        # First, so that a second signal does not interrupt `set`.
        pass_over(patience_s)
        cancel.set()

    signal.signal(signal.SIGINT, cancel_it)
    try:
        yield
    finally:
        # After a cancellation, keys are ignored until the call is recorded.
        if not cancel.is_set():
            signal.signal(signal.SIGINT, handler)


def pass_over(patience_s: float = PATIENCE_S) -> None:
    """Ignore Ctrl-C for a while."""
    until = time.monotonic() + patience_s

    def pressed_again(number: int, frame: Any) -> None:
        if time.monotonic() > until:
            signal.default_int_handler(number, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, pressed_again)
