"""The clients who are told things unasked.

Since 2026-07-28 a client opens a stream for what it names (MCP specification, "Subscriptions").  Before,
every session is told that lists have changed, and of the resources that it subscribed to.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.subscriptions import event_to_notification

from covalt_git.gateway.client_chats import MOST_CLIENTS

if TYPE_CHECKING:
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent

MOST_SUBSCRIPTIONS = 1000
"""To how many resources one client may be subscribed."""


@dataclass(slots=True)
class _Known:
    """A client of the first era."""

    session: ServerSession
    subscribed: set[str] = field(default_factory=set)
    level: types.LoggingLevel | None = None


class Listeners:
    """All of them; the sessions are known by the keys of their clients."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def seen(self, key: str, session: ServerSession) -> None:
        """Take note of a session; the one that was longest silent is forgotten."""
        known = self._known.setdefault(key, _Known(session))
        known.session = session
        self._known.move_to_end(key)
        if len(self._known) > MOST_CLIENTS:
            self._known.popitem(last=False)

    def subscribe(self, key: str, uri: str) -> None:
        """Have a session told when the resource of an address changes.

        Raises:
            MCPError: when it has too many of them.
        """
        subscribed = self._known[key].subscribed
        if len(subscribed) >= MOST_SUBSCRIPTIONS:
            most = f"a client may subscribe to {MOST_SUBSCRIPTIONS} resources"
            raise MCPError(types.INVALID_PARAMS, most)
        subscribed.add(uri)

    def unsubscribe(self, key: str, uri: str) -> None:
        """Have a session told of a resource no more."""
        self._known[key].subscribed.discard(uri)

    def set_level(self, key: str, level: types.LoggingLevel) -> None:
        """Have a session told what tools log, from a level on."""
        self._known[key].level = level

    def level(self, key: str) -> types.LoggingLevel | None:
        """Return the level from which on a session is told what tools log; None: it never asked."""
        known = self._known.get(key)
        return None if known is None else known.level

    async def tell(self, event: ServerEvent) -> None:
        """Tell everybody who wants to know of an event."""
        await self._bus.publish(event)
        for known in [*self._known.values()]:
            if not isinstance(event, ResourceUpdated) or event.uri in known.subscribed:
                with suppress(Exception):  # a client that is gone has nothing to be told
                    await known.session.send_notification(event_to_notification(event, {}))

    def close(self) -> None:
        """End the streams."""
        self.streams.close()
