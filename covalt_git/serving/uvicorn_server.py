"""uvicorn for one process that a person starts: quiet, and ended by Ctrl-C within seconds."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import FrameType

    from covalt_git.serving.asgi import App

GRACE_S = 2
"""How long the requests that run may still take when the server ends, in seconds."""


class Server(uvicorn.Server):
    """uvicorn, told when to be quiet and how to end.

    ``on_ready`` is called when the first request would be answered.  Ctrl-C and SIGTERM stop it: it
    stops listening at once, requests that run have ``grace_s`` seconds, and then their clients are
    hung up on.  A second Ctrl-C hangs up at once.
    """

    def __init__(self, app: App, on_ready: Callable[[], None], *, grace_s: int = GRACE_S) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
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
