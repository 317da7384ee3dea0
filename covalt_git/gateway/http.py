"""The MCP server over HTTP: streamable HTTP with sessions, and the stateless one since 2026-07-28.

Who may speak to it is for whoever puts it in its place to check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from covalt_git.gateway.mcp_server import Faces

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from covalt_git.gateway.service import Gateway

PLACE = "/mcp"
"""The path that it answers at."""

MAX_BODY_BYTES = 16 << 20
"""What a request may send, as it may to the API."""


def http_app(gateway: Gateway) -> Starlette:
    """Return the ASGI app that answers the clients of one principal.

    It checks neither the host nor a token.  A client that has no session names its chat in every call.
    """
    server = Faces(gateway).server()
    return server.streamable_http_app(
        streamable_http_path=PLACE,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
