"""How long somebody waits: until a moment, or until nobody wants the answer any more."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from covalt_git.http_client.errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Result = TypeVar("Result")

SLICE_S = 0.1
"""How long a wait goes on before it asks again whether it is still wanted."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a whole exchange may take, in seconds, and a way to end it earlier."""

    seconds: float
    cancelled: Callable[[], bool] = _never
    sleep: Callable[[float], None] = time.sleep
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to wait."""
        object.__setattr__(self, "_until", time.monotonic() + self.seconds)

    @property
    def left(self) -> float:
        """The seconds that are left; never below nothing."""
        return max(0.0, self._until - time.monotonic())

    def check(self, waited_for: str) -> float:
        """Return the seconds that are left.

        Raises:
            HttpError: when none are, or nobody waits any more.
        """
        if self.cancelled():
            raise HttpError("cancelled", "a person stopped it", sent=True)
        left = self.left
        if not left:
            raise HttpError(
                "timed_out",
                f"{waited_for} took longer than the {self.seconds:g} s of the whole request",
                sent=True,
            )
        return left

    def pause(self, seconds: float, waited_for: str) -> None:
        """Wait that long, in slices.

        Raises:
            HttpError: as soon as :meth:`check` does.
        """
        while seconds > 0:
            slice_s = min(seconds, SLICE_S, self.check(waited_for))
            self.sleep(slice_s)
            seconds -= slice_s

    async def wait(self, work: Coroutine[Any, Any, Result], waits_for: Callable[[], str]) -> Result:
        """Return what ``work`` returns; ``waits_for`` says what it waits for at the moment.

        Raises:
            HttpError: as soon as :meth:`check` does; the work is cancelled then.
        """
        task = asyncio.create_task(work)
        try:
            while not task.done():
                left = self.check(waits_for())
                await asyncio.wait([task], timeout=min(left, SLICE_S))
        finally:
            task.cancel()
        return task.result()
