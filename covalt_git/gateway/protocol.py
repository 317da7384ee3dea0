"""The stateless protocol, since 2026-07-28, and the older one with sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether a request has protocol version 2026-07-28 or later, which is stateless."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
