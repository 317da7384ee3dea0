"""The two eras of the protocol, told apart by the version that a request is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext


def is_modern(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Tell whether a request is of the stateless era, of 2026-07-28 and later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
