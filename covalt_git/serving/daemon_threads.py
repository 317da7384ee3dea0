"""Threads for blocking work of the event loop that do not keep the process from ending.

The threads of ``concurrent.futures`` are waited for when the interpreter exits, however long their
work takes.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class DaemonThreads:
    """At most ``most`` threads, started when they are needed and kept for what comes next."""

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._idle = threading.Semaphore(0)
        self._jobs: SimpleQueue[tuple[Callable[[], None], Callable[[], None]]] = SimpleQueue()

    async def run(self, work: Callable[[], None]) -> BaseException | None:
        """Run ``work`` as soon as a thread is free, and return what it raised.

        Cancelling stops the wait, not the work.
        """
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        raised: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - whoever waits decides what it means
                raised.append(error)

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(over.set)

        async with self._free:
            self._jobs.put((guarded, tell))
            if not self._idle.acquire(blocking=False):
                threading.Thread(target=self._work, name="worker", daemon=True).start()
            await over.wait()
        return raised[0] if raised else None

    def _work(self) -> None:
        while True:
            job, tell = self._jobs.get()
            job()
            # Idle before anybody knows: whoever waited may have the next job at once.
            self._idle.release()
            tell()
            del job, tell  # what they hold is not to wait for the next ones
