"""Pool of connections: one event loop in a thread, and one connection for each name."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from covalt_git.connections.connection import Connection, Health, ServerCall
from covalt_git.connections.event_handlers import EventHandlers
from covalt_git.connections.server_tasks import CANCEL_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from covalt_git.connections.connection import Offers
    from covalt_git.connections.definition import Definition, Name
    from covalt_git.connections.server_tasks import TaskState
    from covalt_git.json_values import JsonObject

Result = TypeVar("Result")

_CLOSE_S = 10.0
"""Time limit of :meth:`Connections.close` in seconds; the SDK kills programs after four."""

# A future cannot wait for a threading.Event too.
LEAVE_S = CANCEL_S + 1
"""Time in which the request about a task that is left may still be answered, in seconds."""

_POLL_S = 0.1
"""Seconds between two checks whether the caller has cancelled."""

_NO_HANDLERS = EventHandlers()


def _always() -> bool:
    return True


def _nothing() -> None:
    pass


class Connections:
    """Connections to servers, for use from any thread.

    ``wanted`` is called every second while a server runs; the server is stopped when it returns False.
    ``check_again`` is called in another thread when the server has started, just before the request is sent, which it
    prevents by an error.
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
        handlers: EventHandlers = _NO_HANDLERS,
        wanted: Callable[[], bool] = _always,
        cancel: threading.Event | None = None,
    ) -> None:
        """Start a server if it does not run; the first start may take minutes.

        Raises:
            CovaltError: if it cannot be started or reached.
            concurrent.futures.CancelledError: if ``cancel`` was set.
        """
        self._use(
            definition,
            wanted,
            lambda connection, caller: connection.client(caller),
            handlers,
            cancel,
        )

    def tools(
        self,
        definition: Definition,
        *,
        handlers: EventHandlers = _NO_HANDLERS,
        cancel: threading.Event | None = None,
    ) -> list[JsonObject]:
        """Return a server's current tool definitions.

        Raises:
            CovaltError: as :meth:`begin`, and if the server answers with an error.
        """
        return self._use(
            definition,
            _always,
            lambda connection, caller: connection.tools(caller),
            handlers,
            cancel,
        )

    def offers(self, definition: Definition, *, handlers: EventHandlers = _NO_HANDLERS) -> Offers:
        """Return the definitions of a server's resources, resource templates, prompts and skills.

        Raises:
            CovaltError: as :meth:`begin`.
        """
        return self._use(
            definition,
            _always,
            lambda connection, caller: connection.offers(caller),
            handlers,
            None,
        )

    def get_prompt(
        self,
        definition: Definition,
        name: str,
        args: Mapping[str, str],
        timeout_s: float,
        *,
        wanted: Callable[[], bool] = _always,
        check_again: Callable[[], None] = _nothing,
    ) -> JsonObject:
        """Return a prompt of a server with its arguments as the protocol has it.

        Raises:
            TimeoutError: if it takes longer than ``timeout_s``.
            CovaltError: as :meth:`begin`, and if the server ends or answers with an error.
        """
        return self._use(
            definition,
            wanted,
            lambda connection, caller: connection.get_prompt(
                name, args, timeout_s, caller, check_again
            ),
            _NO_HANDLERS,
            None,
        )

    def complete(
        self,
        definition: Definition,
        request: JsonObject,
        timeout_s: float,
        *,
        wanted: Callable[[], bool] = _always,
        check_again: Callable[[], None] = _nothing,
    ) -> JsonObject:
        """Return the completion of an argument, as :meth:`ServerConnection.complete`.

        Raises:
            TimeoutError: if it takes longer than ``timeout_s``.
            CovaltError: as :meth:`begin`, and if the server ends or answers with an error.
        """
        return self._use(
            definition,
            wanted,
            lambda connection, caller: connection.complete(request, timeout_s, caller, check_again),
            _NO_HANDLERS,
            None,
        )

    def read_resource(
        self,
        definition: Definition,
        uri: str,
        timeout_s: float,
        *,
        wanted: Callable[[], bool] = _always,
        check_again: Callable[[], None] = _nothing,
    ) -> list[JsonObject]:
        """Return the contents of a server's resource as the protocol has them.

        Raises:
            TimeoutError: if it takes longer than ``timeout_s``.
            CovaltError: as :meth:`begin`, and if the server ends or answers with an error.
        """
        return self._use(
            definition,
            wanted,
            lambda connection, caller: connection.read_resource(
                uri, timeout_s, caller, check_again
            ),
            _NO_HANDLERS,
            None,
        )

    def call(
        self,
        definition: Definition,
        call: ServerCall,
        *,
        handlers: EventHandlers = _NO_HANDLERS,
        wanted: Callable[[], bool] = _always,
        cancel: threading.Event | None = None,
    ) -> JsonObject:
        """Return the result of a call as the server sent it, unchecked.

        Raises:
            TimeoutError: if the call exceeds its time limit.
            CovaltError: as :meth:`begin`, and if the server ends or answers with an error.
        """
        return self._use(
            definition,
            wanted,
            lambda connection, caller: connection.call(call, caller),
            handlers,
            cancel,
        )

    def task(
        self,
        definition: Definition,
        task_id: str,
        timeout_s: float,
        *,
        wanted: Callable[[], bool] = _always,
    ) -> tuple[TaskState, JsonObject | None]:
        """Return the state of a task from an earlier process, and its result if it is completed.

        Raises:
            UnknownServerTaskError: if the server does not know the task.
            TaskAnswerError: if the task is completed, and its result cannot be read.
            CovaltError: as :meth:`begin`, and if the server answers with an error.
        """
        return self._use(
            definition,
            wanted,
            lambda connection, caller: connection.task(task_id, timeout_s, caller),
            _NO_HANDLERS,
            None,
        )

    def cancel_task(
        self,
        definition: Definition,
        task_id: str,
        timeout_s: float,
        *,
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """Ask the server to cancel a task from an earlier process.

        Raises:
            CovaltError: as :meth:`begin`, and if the server answers with an error.
        """
        self._use(
            definition,
            wanted,
            lambda connection, caller: connection.cancel_task(task_id, timeout_s, caller),
            _NO_HANDLERS,
            None,
        )

    def health(self, root: Path) -> list[Health]:
        """Return the state of each connection of a project that was used."""
        with self._lock:
            if self._loop is None:
                return []
            loop = self._loop

        # On the loop, because connections are not thread-safe.
        async def collect() -> list[Health]:
            return [
                connection.health()
                for name, connection in self._connections.items()
                if name.root == root
            ]

        return asyncio.run_coroutine_threadsafe(collect(), loop).result()

    def end(self, name: Name) -> None:
        """Begin to stop a connection; its next use starts a new one.

        A program that ignores the end of its input takes seconds to stop; :meth:`close` waits for it.
        """
        with self._lock:
            if self._loop is None:
                return
            loop = self._loop

        async def stop() -> None:
            if (connection := self._connections.pop(name, None)) is not None:
                # A task: a program that ignores the end of its input needs two seconds, and the next server
                # need not wait for it.
                ends = asyncio.create_task(connection.stop())
                # The loop itself has only weak references to tasks.
                self._ending.add(ends)
                ends.add_done_callback(self._ending.discard)

        asyncio.run_coroutine_threadsafe(stop(), loop).result()

    def close(self) -> None:
        """Stop all connections, and the thread."""
        with self._lock:
            loop, thread = self._loop, self._thread
            # First, so that a use from now on starts a loop of its own, and does not wait for one that ends.
            self._loop = self._thread = None
        if loop is None or thread is None:
            return

        async def end() -> None:
            await asyncio.gather(
                *(connection.stop() for connection in self._connections.values()), *self._ending
            )
            self._connections.clear()

        # A program that does not end must not keep this process from ending.
        with suppress(TimeoutError, concurrent.futures.CancelledError):
            asyncio.run_coroutine_threadsafe(end(), loop).result(_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_CLOSE_S)

    def _use(
        self,
        definition: Definition,
        wanted: Callable[[], bool],
        use: Callable[[Connection, EventHandlers], Awaitable[Result]],
        handlers: EventHandlers,
        cancel: threading.Event | None,
    ) -> Result:
        results: list[Result] = []
        errors: list[Exception] = []
        over = threading.Event()

        async def work() -> Result:
            try:
                results.append(await use(await self._connection(definition, wanted), handlers))
                return results[0]
            except Exception as error:
                errors.append(error)
                raise
            finally:
                over.set()

        future = asyncio.run_coroutine_threadsafe(work(), self._running())
        try:
            # Not `result()` alone: a caller would notice its cancellation only when the server answers.
            while not concurrent.futures.wait([future], _POLL_S).done:
                if cancel is not None and cancel.is_set():
                    future.cancel()
            return future.result()
        # After Ctrl-C in the caller's thread, the coroutine would continue, and hold the connection.
        except BaseException:
            future.cancel()
            # The answer that has just arrived is not lost, although the future is cancelled.
            if handlers.leaves() and over.wait(LEAVE_S):
                if results:
                    return results[0]
                if errors:
                    raise errors[0] from None
            raise

    async def _connection(self, definition: Definition, wanted: Callable[[], bool]) -> Connection:
        """Return the connection of a definition; stop one of the same name with another definition."""
        for name in [name for name, connection in self._connections.items() if connection.idle]:
            # A pool that runs for months would keep a connection of each chat.
            if name != definition.name:
                del self._connections[name]
        previous = self._connections.get(definition.name)
        if previous is not None and previous.definition == definition:
            return previous
        # Before the wait for the old one, so that another caller meanwhile does not start a third.
        created = self._connections[definition.name] = Connection(definition, wanted)
        if previous is not None:
            await previous.stop()
        return created

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    # Daemon: Python joins other threads before it calls atexit, and this one ends only there.
                    target=_run,
                    args=(self._loop,),
                    name="connections",
                    daemon=True,
                )
                self._thread.start()
            return self._loop

    def forget(self) -> None:
        """Reset the pool in a forked process: the thread and the programs belong to the parent."""
        self.__init__()  # type: ignore[misc]


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


CONNECTIONS = Connections()
"""The connections of this process."""

# Programs would otherwise outlive the process that started them.
atexit.register(CONNECTIONS.close)
# A child that used the copied loop would wait for a thread that it does not have.
os.register_at_fork(after_in_child=CONNECTIONS.forget)
