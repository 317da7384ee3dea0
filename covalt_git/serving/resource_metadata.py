"""What a client without a token is told of the resource that it asked for (RFC 9728).

The MCP specification, "Authorization", has clients look there after a 401.  No ``authorization_servers``
are named: the only tokens that open it are of its own making, which its person hands over, and a client
that is sent to sign in elsewhere would come back with one that is not taken.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.serving.asgi import Receive, Scope, Send

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""Where the metadata is; the path of a resource stands behind it."""


class ResourceMetadata:
    """An ASGI app that describes the resources at these ``paths``, ``""`` being the whole server."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        """Answer with the metadata of the resource that the path names."""
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(WELL_KNOWN)
        if path not in self._paths:
            status, told = HTTPStatus.NOT_FOUND, b""
        elif scope["method"] not in {"GET", "HEAD"}:
            status, told = HTTPStatus.METHOD_NOT_ALLOWED, b""
        else:
            about = {
                "resource": address(scope, path),
                "resource_name": "covalt-git",
                "bearer_methods_supported": ["header"],
            }
            status, told = HTTPStatus.OK, json.dumps(about).encode()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else told}
        )


def address(scope: Scope, path: str) -> str:
    """Return the address of a path by the host that a request names, which has been checked."""
    host = next(value for name, value in scope["headers"] if name == b"host")
    return f"{scope['scheme']}://{host.decode('latin-1')}{path}"
