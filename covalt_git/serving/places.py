"""Which app answers a request: the places of the one process, told apart by their paths."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.serving.asgi import App, Message, Receive, Scope, Send


class Places:
    """An ASGI app that gives a request to the app of its place, and all others to ``rest``.

    A place is a path and all that is below it; its app sees the whole path.  A WSGI app takes one
    as a :class:`~covalt_git.serving.wsgi_bridge.WSGIBridge`.  Apps that want to know are told when
    the server starts and ends.
    """

    def __init__(self, rest: App, places: Mapping[str, App]) -> None:
        self._rest = rest
        self._places = {path.rstrip("/"): app for path, app in places.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live through the server's life."""
        # Only the server's end cancels, and uvicorn would print a traceback for it.
        with suppress(asyncio.CancelledError):
            if scope["type"] == "lifespan":
                await self._live(scope, receive, send)
            else:
                await self._at(scope["path"])(scope, receive, send)

    def _at(self, path: str) -> App:
        for place, app in self._places.items():
            if path == place or path.startswith(f"{place}/"):
                return app
        return self._rest

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        lives = [Life(app, scope) for app in dict.fromkeys(self._places.values())]
        for _ in ("startup", "shutdown"):
            event = (await receive())["type"]
            told = [await life.tell(event) for life in lives]
            failures = [why for why in told if why is not None]
            if failures:
                await send({"type": f"{event}.failed", "message": "\n".join(failures)})
            else:
                await send({"type": f"{event}.complete"})


class Life:
    """What one app is told of the server's life, in a task of its own as it may need one."""

    def __init__(self, app: App, scope: Scope) -> None:
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._answers: asyncio.Queue[Message | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._run(app, scope))
        self._over = False

    async def tell(self, event: str) -> str | None:
        """Wait until the app has done what ``event`` asks of it; return why it could not."""
        if self._over:
            return None
        await self._events.put({"type": event})
        answer = await self._answers.get()
        if answer is not None and answer["type"] == f"{event}.complete":
            return None
        self._over = True
        return None if answer is None else answer.get("message", "")

    async def _run(self, app: App, scope: Scope) -> None:
        # An app that does not care raises or returns: the protocol has no other way to say so.
        with suppress(Exception):
            await app(scope, self._events.get, self._answers.put)
        await self._answers.put(None)


def told(app: App, tell: Callable[[str], None]) -> App:
    """Return ``app`` with a line told for every request: its method, path and status.

    The query is left out: the token may be in it.
    """

    async def telling(scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["raw_path"].decode("latin-1")
                tell(f"{scope['method']} {path} {message['status']}")
            await send(message)

        await app(scope, receive, noting if scope["type"] == "http" else send)

    return telling
