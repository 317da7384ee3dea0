"""uvicorn for a server that a user starts in a terminal: quiet, and stopped by Ctrl-C within seconds."""

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
"""Seconds that running requests have at a shutdown."""


class _Connection(H11Protocol):
    """HTTP connection that is closed if its client neither sends nor reads for ``timeout_s`` seconds.

    uvicorn limits only idle connections, and a single byte of the next request ends that limit.  This limit
    is for the head of a request, for the rest of a body after the response, and for a client that does not
    read.  :mod:`.body_timeout` limits the body of a running request.
    """

    timeout_s = TIMEOUT_S
    _timer: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_timer()

    def on_response_complete(self) -> None:
        self._start_timer()
        super().on_response_complete()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unsent = self.transport.get_write_buffer_size()
        self._timer = self.loop.call_later(self.timeout_s, self._check_progress)

    def _check_progress(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        runs = cycle is not None and not cycle.response_complete
        # The app may take any time; with_body_timeout limits the client's part of a running request.
        if runs and not self.flow.write_paused:
            return
        if self.transport.get_write_buffer_size() < self._unsent:  # the client reads
            self._start_timer()
        else:
            # close() would wait until the client has read what is buffered.
            self.transport.abort()


class Server(uvicorn.Server):
    """uvicorn server with time limits for its clients and for its shutdown.

    ``on_ready`` is called when the server accepts requests, and ``on_stop`` before it waits for running
    ones.  Ctrl-C and SIGTERM stop it: it stops listening, waits ``grace_s`` seconds for running requests, and
    closes all connections.  A second Ctrl-C closes them at once.  A connection is also closed if its client
    neither sends nor reads for ``timeout_s`` seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        on_ready: Callable[[], None],
        *,
        on_stop: Callable[[], None] = lambda: None,
        grace_s: float = GRACE_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=type("Connection", (_Connection,), {"timeout_s": timeout_s}),
                loop="asyncio",
                ws="none",
                # With "auto", uvicorn would serve although the start of the MCP servers failed.
                lifespan="on",
                log_config=None,
                log_level="error",
                access_log=False,  # its lines would contain the token
                server_header=False,
                proxy_headers=False,  # without a proxy, only clients send such headers
                timeout_graceful_shutdown=int(grace_s) + 1,  # if an app ignores the disconnect
            )
        )
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._grace_s = grace_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and call ``on_ready``."""
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, wait at most ``grace_s`` for running requests, and close all connections."""
        # First, so that event streams of open pages end by themselves: each would use up all of the grace.
        self._on_stop()
        timer = asyncio.get_running_loop().call_later(self._grace_s, self._close_all)
        await super().shutdown(sockets)
        timer.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at SIGINT or SIGTERM; unlike uvicorn's handler, do not raise the signal again afterwards."""
        # Python sets signal handlers in the main thread only; tests run servers in others.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at the second Ctrl-C, close all connections."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            self._close_all()

    def _close_all(self) -> None:
        # Connections first, so that uvicorn does not log incomplete responses.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in list(self.server_state.tasks):
            task.cancel()
