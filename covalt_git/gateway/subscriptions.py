"""The clients who are told things unasked.

Since 2026-07-28 a client opens a stream for what it names (MCP specification, "Subscriptions").  Before,
every session is told that lists have changed, and of the resources that it subscribed to.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import mcp_types as types
from mcp import MCPError
from mcp.server.connection import allowed_log_levels
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.subscriptions import event_to_notification

from covalt_git.errors import CovaltError
from covalt_git.gateway.client_chats import MOST_CLIENTS
from covalt_git.gateway.protocol import is_modern
from covalt_git.project_watch import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from mcp.server import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent

    from covalt_git.models.outcomes import Log
    from covalt_git.models.prompts import Prompt
    from covalt_git.models.tool import Tool


MOST_SUBSCRIPTIONS = 1000
"""To how many resources one client may be subscribed."""


@dataclass(slots=True)
class _LegacyClient:
    """A client of the first era."""

    session: ServerSession
    subscribed: set[str] = field(default_factory=set)
    level: types.LoggingLevel | None = None


class Listeners:
    """All of them; the sessions are known by the keys of their clients."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)
        self._known: OrderedDict[str, _LegacyClient] = OrderedDict()

    def seen(self, key: str, session: ServerSession) -> None:
        """Take note of a session; the one that was longest silent is forgotten."""
        known = self._known.setdefault(key, _LegacyClient(session))
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


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is for clients; none of it where ``covalt.yaml`` or the index cannot be used.

    ``resources`` has the digest of its toolset for each address, as more than that is not known of what
    it holds.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)


class OfferChanges:
    """Waits until ``offered`` of a project returns something else; close it to end the waiting."""

    def __init__(self, root: Path, offered: Callable[[], Offer]) -> None:
        self._offered = offered
        self._changes = Changes(root)
        self.offer = self._now()

    def wait(self) -> tuple[Offer, Offer] | None:
        """Wait until it does, and return what it offered and what it offers; None once it was closed."""
        while self._changes.wait():
            began = time.monotonic()
            before, now = self.offer, self._now()
            self._changes.scanned(time.monotonic() - began)
            if now != before:
                self.offer = now
                return before, now
        return None

    def close(self) -> None:
        """End the waiting."""
        self._changes.close()

    def _now(self) -> Offer:
        try:
            return self._offered()
        except CovaltError:
            return Offer()


_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)


async def tell(
    ctx: ServerRequestContext[Any, Any], log: Log, session_level: types.LoggingLevel | None
) -> None:
    """Tell the client of a request what its tool logs, where it wants to hear of that level."""
    if log.level not in _wanted_levels(ctx, session_level):
        return
    params = types.LoggingMessageNotificationParams(level=log.level, data=log.message)
    await ctx.session.send_notification(
        types.LoggingMessageNotification(params=params), related_request_id=ctx.request_id
    )


def _wanted_levels(
    ctx: ServerRequestContext[Any, Any], session_level: types.LoggingLevel | None
) -> frozenset[types.LoggingLevel]:
    if is_modern(ctx):
        return allowed_log_levels(ctx.protocol_version, ctx.meta)
    if session_level is None:
        return frozenset()
    return frozenset(_LEVELS[_LEVELS.index(session_level) :])
