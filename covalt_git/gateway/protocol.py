"""Protocol versions: the stateless ones, since 2026-07-28, and those with structured content, since 2025-06-18."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

CHECKED = "covalt_git.checked"
"""Key of an ASGI scope with the token that was checked: of an agent, of an issuer, or None for the server's own."""

RECHECK = "covalt_git.recheck"
"""Key of an ASGI scope with an async function that checks the token of the request once more, and returns it."""

OPEN_CALLS = "covalt_git.open_calls"
"""Key of an ASGI scope with a list of the :class:`.OpenCall` of the request."""

# The codes of Starfly's tool calls over JSON-RPC, which has none for them.
NO_TOKEN, DENIED = -32001, -32002


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether a request has protocol version 2026-07-28 or later, which is stateless."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def has_structured_content(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether results of a request can have structured content, as since protocol version 2025-06-18."""
    return ctx.protocol_version >= "2025-06-18"
