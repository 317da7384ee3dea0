"""uvicorn for one process that a person starts: quiet, and ended by Ctrl-C within seconds."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from covalt_git.serving.body_timeout import TIMEOUT_S

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import FrameType

    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle

GRACE_S = 2
"""How long the requests that run may still take when the server ends, in seconds."""


class _Connection(H11Protocol):
    """A connection that is closed where its client lets the server wait: ``timeout_s`` seconds.

    uvicorn has such a limit for an idle connection only, and one byte of the next request ends that.
    This one holds for the head of a request, for what remains of a body after the answer, and for a
    client that does not read; the body of a request that runs is :mod:`.body_timeout`'s.
    """

    timeout_s = TIMEOUT_S
    _timer: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait()

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unsent = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(self.timeout_s, self._look)

    def _look(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        runs = cycle is not None and not cycle.response_complete
        if runs and not self.flow.write_paused:
            return
        if self.transport.get_write_buffer_size() < self._unsent:  # the client reads
            self._wait()
        else:
            self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn, told when to be quiet and how to end.

    ``on_ready`` is called when the first request would be answered.  Ctrl-C and SIGTERM stop it: it
    stops listening at once, requests that run have ``grace_s`` seconds, and then their clients are
    hung up on.  A second Ctrl-C hangs up at once.  A client that sends no request, or does not read
    its answer, is hung up on after ``timeout_s`` seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        on_ready: Callable[[], None],
        *,
        grace_s: int = GRACE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=type("Connection", (_Connection,), {"timeout_s": timeout_s}),
                loop="asyncio",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="error",
                access_log=False,  # its lines would hold the token
                server_header=False,
                proxy_headers=False,  # no proxy stands before it, so whoever sends them made them up
                timeout_graceful_shutdown=GRACE_S
                + 1,  # for an app that does not mind the hanging up
            )
        )
        self._on_ready = on_ready
        self._grace_s = grace_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, and say so."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and end when every request has ended."""
        too_late = asyncio.get_running_loop().call_later(self._grace_s, self._hang_up)
        await super().shutdown(sockets)
        too_late.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and have it done with: uvicorn's own way raises it again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        caught = (signal.SIGINT, signal.SIGTERM)
        for one in caught:
            loop.add_signal_handler(one, self.handle_exit, one, None)
        try:
            yield
        finally:
            for one in caught:
                loop.remove_signal_handler(one)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and at the second Ctrl-C do not wait."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            self._hang_up()

    def _hang_up(self) -> None:
        # First the connections, so that uvicorn does not complain of answers that lack their end.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()
