"""Router of the ASGI apps of the process, and its access log."""

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
    """Return an app that forwards requests to the app of their path, and all others to ``rest``.

    Args:
        rest: the app of all other paths.
        places: the app of each path and of all paths below it; it receives the whole path.
        lifespan: a context that is entered when the server starts and left when it ends.
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


def with_access_log(app: ASGIApp, tell: Callable[[str], None]) -> ASGIApp:
    """Return ``app`` with an access log: ``tell`` receives the method, path and status of each request.

    The query is left out, as it may hold the token.
    """

    async def telling(scope: Scope, receive: Receive, send: Send) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["raw_path"].decode("latin-1")
                tell(f"{scope['method']} {path} {message['status']}")
            await send(message)

        await app(scope, receive, noting if scope["type"] == "http" else send)

    return telling
