"""Which app answers a request: the apps of the one process, each at a path of its own."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def router(
    rest: ASGIApp,
    places: Mapping[str, ASGIApp],
    lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> ASGIApp:
    """Return an app that gives a request to the app of its place, and all others to ``rest``.

    A place is a path and all that is below it; its app sees the whole path.  A WSGI app takes one
    as a :class:`~covalt_git.serving.wsgi_bridge.WSGIBridge`.  ``lifespan`` is entered when the
    server starts, and left when it ends.
    """

    async def routing(scope: Scope, receive: Receive, send: Send) -> None:
        # Only the server's end cancels, and uvicorn would print a traceback for it.
        with suppress(asyncio.CancelledError):
            if scope["type"] == "lifespan":
                await receive()
                async with lifespan():
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
                await send({"type": "lifespan.shutdown.complete"})
                return
            path = f"{scope['path']}/"
            found = (app for place, app in places.items() if path.startswith(f"{place}/"))
            await next(found, rest)(scope, receive, send)

    return routing


def told(app: ASGIApp, tell: Callable[[str], None]) -> ASGIApp:
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
