"""Notifications to MCP clients: changed lists, updated resources, log messages.

Since 2026-07-28 a client opens a stream for the notifications that it names (MCP specification,
"Subscriptions").  Older clients are notified of changed lists and of the resources that they subscribe to.
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
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from mcp.server import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp.server.subscriptions import ServerEvent

    from covalt_git.models.outcomes import Log
    from covalt_git.models.prompts import Prompt
    from covalt_git.models.tool import Tool


MOST_SUBSCRIPTIONS = 1000
"""Most resources to which one client may subscribe."""


@dataclass(slots=True)
class _LegacyClient:
    """A client with a session, of 2025-11-25 and older."""

    session: ServerSession
    subscribed: set[str] = field(default_factory=set)
    level: types.LoggingLevel | None = None


class Listeners:
    """Streams and sessions of the clients; sessions are found by the keys of their clients."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.streams = ListenHandler(self._bus)
        self._sessions: OrderedDict[str, _LegacyClient] = OrderedDict()

    def register(self, key: str, session: ServerSession) -> None:
        """Add or update a session; beyond MOST_CLIENTS, the least recently active one is dropped."""
        client = self._sessions.setdefault(key, _LegacyClient(session))
        client.session = session
        self._sessions.move_to_end(key)
        if len(self._sessions) > MOST_CLIENTS:
            self._sessions.popitem(last=False)

    def subscribe(self, key: str, uri: str) -> None:
        """Subscribe a session to a resource.

        Raises:
            MCPError: if it has too many subscriptions.
        """
        subscribed = self._sessions[key].subscribed
        if len(subscribed) >= MOST_SUBSCRIPTIONS:
            most = f"a client may subscribe to {MOST_SUBSCRIPTIONS} resources"
            raise MCPError(types.INVALID_PARAMS, most)
        subscribed.add(uri)

    def unsubscribe(self, key: str, uri: str) -> None:
        """Unsubscribe a session from a resource."""
        self._sessions[key].subscribed.discard(uri)

    def set_level(self, key: str, level: types.LoggingLevel) -> None:
        """Set the lowest level of log messages that a session receives."""
        self._sessions[key].level = level

    def level(self, key: str) -> types.LoggingLevel | None:
        """Return the lowest level of log messages that a session receives; None if it set none."""
        client = self._sessions.get(key)
        return None if client is None else client.level

    async def notify(self, event: ServerEvent) -> None:
        """Notify the streams and sessions that subscribe to an event."""
        await self._bus.publish(event)
        # A copy: another request may register a session while this one is notified.
        for client in [*self._sessions.values()]:
            if not isinstance(event, ResourceUpdated) or event.uri in client.subscribed:
                with suppress(Exception):  # the client has disconnected
                    await client.session.send_notification(event_to_notification(event, {}))

    def close(self) -> None:
        self.streams.close()


@dataclass(frozen=True, slots=True)
class Offer:
    """Tools, prompts, resources and skills for clients; empty if ``covalt.yaml`` or the index cannot be used.

    ``resources`` maps each URI to the digest of its toolset, so that a changed toolset counts as an update of
    its resources.  ``skills`` maps each URI to the digest of the skill with its files.
    """

    tools: Mapping[str, Tool] = field(default_factory=dict)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    resources: Mapping[str, str] = field(default_factory=dict)
    skills: Mapping[str, str] = field(default_factory=dict)


class OfferChanges:
    """Changes of the :class:`Offer` of the project at ``root``, which ``load`` returns."""

    def __init__(self, root: Path, load: Callable[[], Offer]) -> None:
        self._load = load
        self._changes = Changes(root)
        self.offer = self._now()

    def wait(self) -> tuple[Offer, Offer] | None:
        """Wait for a change, and return the offer before and after it; None after :meth:`close`."""
        while self._changes.wait():
            # The watch waits longer after a slow scan, so that a large project is not scanned all the time.
            began = time.monotonic()
            earlier, current = self.offer, self._now()
            self._changes.scanned(time.monotonic() - began)
            # Most saved files change no tool, and each notification makes hosts list everything again.
            if current != earlier:
                self.offer = current
                return earlier, current
        return None

    def close(self) -> None:
        """End :meth:`wait`."""
        self._changes.close()

    def _now(self) -> Offer:
        try:
            return self._load()
        except CovaltError:
            return Offer()


_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)


async def send_log(
    ctx: ServerRequestContext[Any, Any], log: Log, session_level: types.LoggingLevel | None
) -> None:
    """Send a log message of a tool to the client of the call, if the client requests that level."""
    requested: Collection[str] = ()
    if is_modern(ctx):
        requested = allowed_log_levels(ctx.protocol_version, ctx.meta)
    elif session_level is not None:
        requested = _LEVELS[_LEVELS.index(session_level) :]
    if log.level not in requested:
        return
    params = types.LoggingMessageNotificationParams(level=log.level, data=log.message)
    await ctx.session.send_notification(
        types.LoggingMessageNotification(params=params), related_request_id=ctx.request_id
    )
