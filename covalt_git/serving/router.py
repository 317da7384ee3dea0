"""Router of the process's ASGI apps, and its access log."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


def router(
    default: ASGIApp,
    mounts: Mapping[str, ASGIApp],
    lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> ASGIApp:
    """Return an app that forwards each request to the app of its path.

    Args:
        default: the app of all other paths.
        mounts: the apps of some paths and of all paths below; each receives the full path.
        lifespan: a context that is entered when the server starts, and left when it ends.
    """

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        # Only a shutdown cancels; uvicorn would print a traceback.
        with suppress(asyncio.CancelledError):
            if scope["type"] == "lifespan":
                await receive()
                async with lifespan():
                    await send({"type": "lifespan.startup.complete"})
                    await receive()
                await send({"type": "lifespan.shutdown.complete"})
                return
            # Both have a slash at the end, so that /mcps and /github are paths of the pages. Starlette's
            # Mount is not used, because it cuts the path, which the SDK's app needs whole.
            path = f"{scope['path']}/"
            matches = (app for prefix, app in mounts.items() if path.startswith(f"{prefix}/"))
            await next(matches, default)(scope, receive, send)

    return route


def with_access_log(
    app: ASGIApp, log: Callable[[str], None], masked: Callable[[str], str]
) -> ASGIApp:
    """Return ``app`` with an access log; ``log`` is called with the method, path and status of each request.

    The query is omitted, because it may contain the token; ``masked`` removes secrets from the path.
    """

    async def app_with_log(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_and_log(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The raw path is percent-encoded, so a line break in it cannot forge a line of the log.
                path = masked(scope["raw_path"].decode("latin-1"))
                log(f"{scope['method']} {path} {message['status']}")
            await send(message)

        await app(scope, receive, send_and_log if scope["type"] == "http" else send)

    return app_with_log
