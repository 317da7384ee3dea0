"""MCP server over streamable HTTP: with sessions, and stateless since 2026-07-28.

The caller checks hosts and tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from covalt_git.gateway.plain_json import PlainJson

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from covalt_git.gateway.mcp_server import RequestHandlers

PLACE = "/mcp"
"""Path of the endpoint."""

MAX_BODY_BYTES = 16 << 20
"""Largest request body, as of the HTTP API."""


def http_app(handlers: RequestHandlers) -> Starlette:
    """Return the ASGI app for the clients of one principal; it checks neither the host nor a token."""
    app = handlers.server().streamable_http_app(
        streamable_http_path=PLACE,
        max_request_body_size=MAX_BODY_BYTES,
        # The server around this app already checks the Host, with names that the SDK does not know.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.add_middleware(PlainJson)
    return app
