"""Clients without a session, as since protocol version 2026-07-28: which requests come from the same client.

The windows of one host have the same token and the same name.  They are distinguished by what clients send:

- ``_meta`` has the id of the conversation, in the hosts of :data:`CONVERSATION_KEYS`;
- clients number their requests, from 0 or 1, so a request continues the client whose numbers it continues;
- clients of different processes use different connections.

A request that may come from several clients belongs to none: its chat must be named, never guessed.  So does one of a
client that this process does not know from its first request.  If a request is on another connection than those of the
client whose numbers it continues, its client is uncertain, and its result says in which chat it worked.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

CONVERSATION_KEYS = ("vscode.conversationId", "threadId", "openai/session", "sessionID")
"""Keys of a request's ``_meta`` with the id of a conversation.

In this order: VS Code; Codex (its pull request 18093); ChatGPT (the Apps SDK's reference); OpenCode (its pull request 46008).
"""

MOST_CLIENTS = 256
"""Number of clients that are remembered for a token; the least recently active client is dropped."""

NEAR = 8
"""Largest distance of the numbers of two successive requests of a client, which may send several at once."""

_MOST_NUMBERS = 4 * NEAR
_MOST_CONNECTIONS = 2 * NEAR
_MOST_ID = 200


_FIRST = 1
"""Largest number of a client's first request."""


class Sender(NamedTuple):
    """The client that sent a request.

    Attributes:
        key: identifies it; empty if several clients may have sent the request.
        is_certain: whether no other client may have sent it.
    """

    key: str = ""
    is_certain: bool = True


class _CountingClient:
    """A client by the numbers of its latest requests, and by their connections."""

    def __init__(self, key: str, name: str) -> None:
        self.key = key
        self.name = name
        self.connections: deque[str] = deque(maxlen=_MOST_CONNECTIONS)
        self._numbers: deque[int] = deque(maxlen=_MOST_NUMBERS)

    def may_send(self, number: int) -> bool:
        """Return whether a request may be the client's next one, also if requests overtake each other."""
        # No client sends an id twice, so a repeated one is of another client.
        return number not in self._numbers and abs(number - max(self._numbers)) <= NEAR

    def add(self, number: int, connection: str | None) -> None:
        """Add a request of the client."""
        self._numbers.append(number)
        if connection is not None and connection not in self.connections:
            self.connections.append(connection)


class StatelessClients:
    """The clients without a session of one token; one thread uses it."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, _CountingClient] = OrderedDict()
        self._created = 0
        self._pooled: set[str] = set()

    def sender(self, name: str, number: object, connection: str | None) -> Sender:
        """Return the client that sent a request.

        ``number`` is the id of the request.  ``connection`` identifies the connection, if no proxy sends requests of
        several clients through it.
        """
        # Ids that are texts have no order.
        if type(number) is not int:
            return Sender()
        fitting = [
            client
            for client in self._clients.values()
            if client.name == name and client.may_send(number)
        ]
        # A larger number is of a client from before a restart of this process.  The next such client would continue
        # its numbers, and would join its conversation.
        is_first = not fitting and number <= _FIRST
        if is_first:
            fitting = [self._create(name)]
        # Only then: a client may open a new connection for each request.
        if len(fitting) > 1 and name not in self._pooled:
            fitting = [client for client in fitting if connection in client.connections]
        if len(fitting) != 1:
            return Sender()
        (client,) = fitting
        # A client opens a new connection after a pause, and so may a client from before a restart, whose numbers happen
        # to continue those of this one.
        is_certain = is_first or (
            connection in client.connections and client.name not in self._pooled
        )
        self._note_pool(client, connection)
        client.add(number, connection)
        self._clients.move_to_end(client.key)
        return Sender(client.key, is_certain)

    def _create(self, name: str) -> _CountingClient:
        self._created += 1
        created = _CountingClient(f"stateless-{self._created}", name)
        self._clients[created.key] = created
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return created

    def _note_pool(self, client: _CountingClient, connection: str | None) -> None:
        """Note that clients of one process share its connections, which then distinguish no clients of that name."""
        if any(
            connection in other.connections
            for other in self._clients.values()
            if other is not client and other.name == client.name
        ):
            self._pooled.add(client.name)


def conversation_of(meta: Mapping[str, object]) -> str:
    """Return the id of the conversation in a request's ``_meta``, with its key; empty if it has none."""
    for key in CONVERSATION_KEYS:
        value = meta.get(key)
        if isinstance(value, str) and 0 < len(value) <= _MOST_ID:
            return f"{key}={value}"
    return ""
