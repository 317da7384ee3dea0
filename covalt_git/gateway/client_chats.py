"""Which chat a client works in: the one it names, or one of its own, made when it first needs one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.gateway.tool_listing import CHAT_ARGUMENT

if TYPE_CHECKING:
    from covalt_git.project import Project

MOST_CLIENTS = 4096
"""Of how many clients the chats are remembered; the one that was longest silent is forgotten."""


class OtherChatError(CovaltError):
    """A client names a chat that is not the one it works in."""

    code = "other_chat"
    http_status = 403


class Client(NamedTuple):
    """Who asks.

    Attributes:
        key: what all requests of this client have and no other client's; None where nothing tells.
        name: what it calls itself.
    """

    key: str | None
    name: str = ""

    @property
    def title(self) -> str:
        """The title of a chat made for it."""
        return self.name or "an MCP client"


class ClientChat(NamedTuple):
    """The chat that a client works in.

    Attributes:
        new: whether it was made just now.
        way_back: how the client says that it goes on in it.
    """

    id: str
    new: bool = False
    way_back: str = ""


class ClientChats:
    """The chats of the clients of one server, ``only`` one of them if it is given; for many threads."""

    def __init__(self, only: str | None = None) -> None:
        self.only = only
        self._lock = threading.Lock()
        self._chats: OrderedDict[str, str] = OrderedDict()

    def known(self, client: Client, named: str | None = None) -> str | None:
        """Return the id of the chat that the client works in, or None where it has none yet.

        Raises:
            OtherChatError: when it names another than the one it is bound to.
        """
        with self._lock:
            return self._find_chat(client, named)

    def needed(self, project: Project, client: Client, named: str | None = None) -> ClientChat:
        """Return the chat that the client works in; make one where it has none.

        Raises:
            OtherChatError: when it names another than the one it is bound to.
        """
        with self._lock:
            found = self._find_chat(client, named)
            if found is not None:
                return ClientChat(found)
            with project.chats.new(title=client.title) as chat:
                made = chat.id
            if client.key is not None:
                self._chats[client.key] = made
                if len(self._chats) > MOST_CLIENTS:
                    self._chats.popitem(last=False)
            way_back = (
                f"covalt-git mcp --chat {made}, or ?chat={made} in the address, goes on in it"
            )
            if client.key is None:
                way_back = f"pass it as {CHAT_ARGUMENT} to go on in it"
            return ClientChat(made, new=True, way_back=way_back)

    def _find_chat(self, client: Client, named: str | None) -> str | None:
        bound = self.only
        if bound is None and client.key is not None:
            bound = self._chats.get(client.key)
            if bound is not None:
                self._chats.move_to_end(client.key)
        if named is not None and bound is not None and named != bound:
            raise OtherChatError(
                f"this client works in the chat {bound!r}, not in {named!r}",
                hint=f"covalt-git mcp --chat {named}",
            )
        return bound or named
