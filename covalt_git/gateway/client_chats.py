"""The current chat of each MCP client: the chat that it named last, else a new chat."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.project import Project

MOST_CLIENTS = 4096
"""Number of clients whose chats are remembered; the least recently active client is dropped."""

NEW = "new"
"""The name with which a client without a session requests a new chat; unless a chat has this id."""

_MOST_NAMED = 5


class ChatNeededError(CovaltError):
    """A client without a session does not name its chat, and is not the only one of its token.

    ``chats`` are the ids of the chats that it may have worked in, the newest first.
    """

    code = "chat_needed"
    http_status = 409

    def __init__(self, chats: Sequence[str]) -> None:
        super().__init__(
            "several conversations use this token, and this call does not name the chat of its own",
            hint=f"repeat the call with the argument covalt_chat: the id that an earlier result of this conversation "
            f'has, one of {", ".join(chats[:_MOST_NAMED])}; or "{NEW}" for a new chat',
        )


class NoChatError(CovaltError):
    """A client without a chat reads its workspace."""

    code = "no_chat"
    http_status = 404

    def __init__(self) -> None:
        super().__init__("this client has no chat yet", hint="a call that writes a file creates it")


class Client(NamedTuple):
    """An MCP client.

    Attributes:
        key: identifies it; empty if several clients may have sent the request.
        name: the name in its handshake or request.
        title: its name for users.
        stateless: whether it has no session, so that it names its chat in an argument.
        connected: identifies the client of all conversations, if ``key`` identifies one of them.
        is_certain: whether no other client may have sent the request.
    """

    key: str
    name: str = ""
    title: str = ""
    stateless: bool = False
    connected: str = ""
    is_certain: bool = True

    @property
    def anonymous(self) -> Client:
        """The client without its keys, which all windows of its host have in common."""
        return self._replace(key="", connected="") if self.stateless else self


class ClientChat(NamedTuple):
    """The chat of a call, whether the call created it, and whether later calls must name it."""

    id: str
    new: bool = False
    to_name: bool = False


class ClientChats:
    """The chats of the clients of one principal; thread-safe.

    A client with another one's key never works in its chat unless it names it: the windows of a host would overwrite
    each other's files.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._chats: OrderedDict[str, str] = OrderedDict()

    def find(self, project: Project, client: Client, named: str | None = None) -> str | None:
        """Return the id of the chat that the client names or works in; None if it has none."""
        if named is not None:
            return None if self._is_new(project, client, named) else named
        if project.only_chat is not None:
            return project.only_chat.id
        with self._lock:
            last = self._chats.get(client.key) if client.key else None
        # The user may have deleted it since.
        return last if last is not None and project.chats.has(last) else None

    def find_or_create(
        self, project: Project, client: Client, named: str | None = None
    ) -> ClientChat:
        """Return the client's chat; create one if it has none.

        Raises:
            UnknownNameError: if the client names a chat that does not exist, or that it may not see.
            ChatNeededError: as :meth:`check_known`.
        """
        if named is not None and not self._is_new(project, client, named):
            project.chats.check_exists(named)
        # One lock for both steps: two calls that a client sends at once would create two chats.
        with self._lock:
            self.check_known(project, client, named)
            chat_id = self.find(project, client, named)
            if chat_id is None:
                with project.chats.new(
                    title=client.title or client.name or "an MCP client"
                ) as chat:
                    client_chat = ClientChat(chat.id, new=True, to_name=client.stateless)
            else:
                client_chat = ClientChat(chat_id, to_name=not client.is_certain and named is None)
            # A client without a key has the key "": it is only known that a chat of its token exists.
            for key in {client.key, client.connected}:
                self._chats[key] = client_chat.id
                self._chats.move_to_end(key)
            while len(self._chats) > MOST_CLIENTS:
                self._chats.popitem(last=False)
        return client_chat

    def check_known(self, project: Project, client: Client, named: str | None = None) -> None:
        """Check that it is known which chat a call means, or that it can only mean a new one.

        Raises:
            ChatNeededError: if several clients may have sent the call, and the token has chats.
        """
        if client.key or named is not None or project.only_chat is not None:
            return
        with self._lock:
            recent = [
                chat_id for chat_id in reversed(self._chats.values()) if project.chats.has(chat_id)
            ]
        # Also chats from before this process, in which the client may have worked.
        newest = project.chats.newest_created()
        chats = dict.fromkeys([*recent, *([] if newest is None else [newest])])
        if chats:
            raise ChatNeededError([*chats])

    def _is_new(self, project: Project, client: Client, named: str) -> bool:
        # A chat may have this id, and then the name means the chat.
        return client.stateless and named == NEW and not project.chats.has(NEW)
