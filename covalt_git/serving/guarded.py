"""An ASGI app behind the checks that every request of the server meets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.serving.asgi import App, Receive, Scope, Send

_UNAUTHORIZED = 401


class Guarded:
    """An app whose requests are checked by their headers, which ``check`` raises a CovaltError for."""

    def __init__(self, app: App, check: Callable[[Mapping[str, str]], None]) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] == "http":
            try:
                self._check(_headers(scope))
            except CovaltError as error:
                await _refuse(error, send)
                return
        await self._app(scope, receive, send)


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by their usual names; of one that is there twice, both as one value."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").title()
        before = f"{headers[name]}," if name in headers else ""
        headers[name] = before + value.decode("latin-1")
    return headers


async def _refuse(error: CovaltError, send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    if error.http_status == _UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="covalt-git"'))
    await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(error.as_json()).encode()})
