"""How the connections of this process to MCP servers are, for people who wonder why one does not work."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.connections.connection import Health

_LIVE = "covalt_git.connections.pool"


def health(root: Path) -> tuple[Health, ...]:
    """Return the connections of a project that were used in this process: by server, then by chat."""
    if _LIVE not in sys.modules:  # where nothing loaded the SDK, nothing is connected
        return ()
    from covalt_git.connections.pool import CONNECTIONS  # noqa: PLC0415

    found = CONNECTIONS.health(root)
    return tuple(sorted(found, key=lambda one: (one.toolset_id, one.server_id, one.chat_id or "")))
