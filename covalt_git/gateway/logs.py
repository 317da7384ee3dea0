"""What tools log, for the clients that want to hear of it (MCP specification, "Logging").

Since 2026-07-28 a request says from which level on, in its ``_meta``; before, a session did.  Who never
said so is told nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import mcp_types as types
from mcp.server.connection import allowed_log_levels

from covalt_git.gateway.protocol import is_modern

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

    from covalt_git.runtime.jobs import Log

_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)


async def tell(
    ctx: ServerRequestContext[Any, Any], log: Log, session_level: types.LoggingLevel | None
) -> None:
    """Tell the client of a request what its tool logs, where it wants to hear of that level."""
    if log.level not in _wanted(ctx, session_level):
        return
    params = types.LoggingMessageNotificationParams(level=log.level, data=log.message)
    await ctx.session.send_notification(
        types.LoggingMessageNotification(params=params), related_request_id=ctx.request_id
    )


def _wanted(
    ctx: ServerRequestContext[Any, Any], session_level: types.LoggingLevel | None
) -> frozenset[types.LoggingLevel]:
    if is_modern(ctx):
        return allowed_log_levels(ctx.protocol_version, ctx.meta)
    if session_level is None:
        return frozenset()
    return frozenset(_LEVELS[_LEVELS.index(session_level) :])
