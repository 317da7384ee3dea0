"""The connections of this process: one event loop in a thread, and one connection for each name."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from covalt_git.connections.connection import Connection, Health, ServerCall
from covalt_git.connections.thread_bridge import EventHandlers, Voice, wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from covalt_git.connections.definition import Definition, Name
    from covalt_git.json_values import JsonObject

Result = TypeVar("Result")

_CLOSE_S = 10.0
"""How long connections have to end, in seconds; the SDK kills programs after four."""

_NOBODY = EventHandlers()


def _always() -> bool:
    return True


class Connections:
    """Connections to servers, used from any thread.

    ``wanted`` is asked every second whether a server may still be there, and ends it where not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connections: dict[Name, Connection] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def begin(
        self,
        definition: Definition,
        *,
        hears: EventHandlers = _NOBODY,
        wanted: Callable[[], bool] = _always,
        cancel: threading.Event | None = None,
    ) -> None:
        """Have a server there, however long its first start takes.

        Raises:
            CovaltError: when it cannot be started or reached.
            concurrent.futures.CancelledError: when ``cancel`` was set.
        """
        self._use(definition, wanted, lambda one, voice: one.begin(voice), hears, cancel)

    def tools(
        self,
        definition: Definition,
        *,
        hears: EventHandlers = _NOBODY,
        cancel: threading.Event | None = None,
    ) -> list[JsonObject]:
        """Return the definitions of a server's tools, as it gives them now.

        Raises:
            CovaltError: as :meth:`begin`, and when it cannot be understood.
        """
        return self._use(definition, _always, lambda one, voice: one.tools(voice), hears, cancel)

    def call(
        self,
        definition: Definition,
        asked: ServerCall,
        *,
        hears: EventHandlers = _NOBODY,
        wanted: Callable[[], bool] = _always,
        cancel: threading.Event | None = None,
    ) -> JsonObject:
        """Return the result of a call as the protocol has it.

        Raises:
            TimeoutError: when it takes too long.
            CovaltError: as :meth:`begin`, and when the server ends or answers with an error.
        """
        return self._use(
            definition, wanted, lambda one, voice: one.call(asked, voice), hears, cancel
        )

    def health(self, root: Path) -> list[Health]:
        """Return how the connections of a project are, those that were used."""
        with self._lock:
            if self._loop is None:
                return []
            loop = self._loop

        async def look() -> list[Health]:
            mine = [one for name, one in self._connections.items() if name.root == root]
            return [one.health() for one in mine]

        return asyncio.run_coroutine_threadsafe(look(), loop).result()

    def end(self, name: Name) -> None:
        """Have a connection end, if it is there; the next use begins it anew.

        It takes seconds where a program does not end when its input does; :meth:`close` waits for that.
        """
        with self._lock:
            if self._loop is None:
                return
            loop = self._loop

        async def stop() -> None:
            if (found := self._connections.pop(name, None)) is not None:
                ends = asyncio.create_task(found.stop())
                self._ending.add(ends)
                ends.add_done_callback(self._ending.discard)

        asyncio.run_coroutine_threadsafe(stop(), loop).result()

    def close(self) -> None:
        """End all of them, and the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return

        async def end() -> None:
            await asyncio.gather(*(one.stop() for one in self._connections.values()), *self._ending)
            self._connections.clear()

        with suppress(TimeoutError, concurrent.futures.CancelledError):
            asyncio.run_coroutine_threadsafe(end(), loop).result(_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_S)

    def _use(
        self,
        definition: Definition,
        wanted: Callable[[], bool],
        use: Callable[[Connection, Voice], Awaitable[Result]],
        hears: EventHandlers,
        cancel: threading.Event | None,
    ) -> Result:
        async def work(voice: Voice) -> Result:
            return await use(await self._connection(definition, wanted), voice)

        return wait(self._running(), work, hears, cancel)

    async def _connection(self, definition: Definition, wanted: Callable[[], bool]) -> Connection:
        """Return the connection of a definition; one of the same name that was defined otherwise ends."""
        for name in [name for name, one in self._connections.items() if one.idle]:
            if name != definition.name:
                del self._connections[name]
        found = self._connections.get(definition.name)
        if found is not None and found.definition == definition:
            return found
        made = self._connections[definition.name] = Connection(definition, wanted)
        if found is not None:
            await found.stop()
        return made

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="connections", daemon=True
                )
                self._thread.start()
            return self._loop

    def forget(self) -> None:
        """Forget all, in a process that was forked: the thread and the programs are its parent's."""
        self.__init__()  # type: ignore[misc]


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


CONNECTIONS = Connections()
"""The connections of this process."""

atexit.register(CONNECTIONS.close)
os.register_at_fork(after_in_child=CONNECTIONS.forget)
