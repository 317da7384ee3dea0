"""Error response of an ASGI app, in the format of the HTTP API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Send

    from covalt_git.errors import CovaltError

# The Flask apps add their security headers to their answers; these answers do not pass through Flask.
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
]

CLOSE = (b"connection", b"close")
"""Header that closes the connection after the response."""


async def send_error(send: Send, error: CovaltError, *headers: tuple[bytes, bytes]) -> None:
    """Send an error response; ``headers`` are added to it."""
    body = json.dumps(error.as_json()).encode()
    headers = (*_HEADERS, (b"content-length", str(len(body)).encode()), *headers)
    await send({"type": "http.response.start", "status": error.http_status, "headers": [*headers]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
