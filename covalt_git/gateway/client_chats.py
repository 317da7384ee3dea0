"""The current chat of each MCP client: the chat that it named last, else its newest chat, else a new chat."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from covalt_git.project import Project

MOST_CLIENTS = 4096
"""Number of clients whose chats are remembered; the least recently active client is dropped."""

STATELESS = ""
"""Key that all clients without a session share: all requests of one token."""


class NoChatError(CovaltError):
    """A client without a chat reads its workspace."""

    code = "no_chat"
    http_status = 404

    def __init__(self) -> None:
        super().__init__("this client has no chat yet", hint="a call that writes a file creates it")


class Client(NamedTuple):
    """An MCP client.

    Attributes:
        key: identifies its session; :data:`STATELESS` without one.
        name: the name in its handshake or request.
        title: its name for users.
    """

    key: str
    name: str = ""
    title: str = ""


class ClientChat(NamedTuple):
    """The chat of a call, and whether the call created it."""

    id: str
    new: bool = False


class ClientChats:
    """The chats of the clients of one principal; thread-safe.

    Without a session, a client of an agent works in the agent's newest chat, even after a restart of the server.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._chats: OrderedDict[str, str] = OrderedDict()

    def find(self, project: Project, client: Client, named: str | None = None) -> str | None:
        """Return the id of the chat that the client names or works in; None if it has none."""
        if named is not None:
            return named
        if project.only_chat is not None:
            return project.only_chat.id
        with self._lock:
            last = self._chats.get(client.key)
        if last is not None and project.chats.has(last):
            return last
        return project.chats.newest_created() if client.key == STATELESS else None

    def find_or_create(
        self, project: Project, client: Client, named: str | None = None
    ) -> ClientChat:
        """Return the client's chat; create one if it has none.

        Raises:
            UnknownNameError: if the client names a chat that does not exist, or that it may not see.
        """
        if named is not None:
            project.chats.check_exists(named)
        with self._lock:
            found = self.find(project, client, named)
            if found is None:
                with project.chats.new(
                    title=client.title or client.name or "an MCP client"
                ) as chat:
                    client_chat = ClientChat(chat.id, new=True)
            else:
                client_chat = ClientChat(found)
            self._chats[client.key] = client_chat.id
            self._chats.move_to_end(client.key)
            if len(self._chats) > MOST_CLIENTS:
                self._chats.popitem(last=False)
        return client_chat
