"""Deadline of an exchange, which can also be cancelled."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

from covalt_git.http_client.errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Result = TypeVar("Result")

POLL_S = 0.1
"""Seconds between two checks whether an exchange was cancelled."""

_BEFORE_REQUEST = ("looking up ", "connecting to ")
"""Beginnings of the steps before the server can receive anything; see :class:`.transport.Network`."""


class Deadline:
    """Time limit of a whole exchange in seconds, from its creation; ``cancelled`` ends it earlier."""

    def __init__(
        self,
        seconds: float,
        cancelled: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds = seconds
        self._cancelled = cancelled
        self._sleep = sleep
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def check(self, step: str) -> float:
        """Return the seconds that are left.

        Raises:
            HttpError: if none are left, or the exchange was cancelled.
        """
        is_sent = not step.startswith(_BEFORE_REQUEST)
        if self._cancelled():
            raise HttpError("cancelled", "the user cancelled it", sent=is_sent)
        left = self.left
        if not left:
            raise HttpError(
                "timed_out",
                f"{step} exceeded the time limit of {self.seconds:g} s",
                sent=is_sent,
            )
        return left

    def pause(self, seconds: float, step: str) -> None:
        """Sleep for ``seconds``, unless :meth:`check` fails meanwhile.

        Raises:
            HttpError: as :meth:`check`.
        """
        while seconds > 0:
            step_s = min(seconds, POLL_S, self.check(step))
            self._sleep(step_s)
            seconds -= step_s

    async def wait(
        self, work: Coroutine[Any, Any, Result], current_step: Callable[[], str]
    ) -> Result:
        """Return the result of ``work``; ``current_step`` returns its current step, for errors.

        Raises:
            HttpError: as :meth:`check`; the work is then cancelled.
        """
        task = asyncio.create_task(work)
        try:
            # In steps: the cancellation is set in another thread, which cannot wake this event loop.
            while not task.done():
                left = self.check(current_step())
                await asyncio.wait([task], timeout=min(left, POLL_S))
        finally:
            task.cancel()
        return task.result()
