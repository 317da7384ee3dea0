"""``/mcp``: the clients of the server's own token, and those of each agent's, apart from each other.

Every token has an MCP server of its own in the process.  So what one token has - its sessions, those who
listen, the calls that wait for its answers and the seal of what they carry - is not there for any other, and
ends with the token.  What is read of the project is shared by the tokens of a role.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.files.agent_tokens import AgentTokens
from covalt_git.files.project_files import BrokenConfigError, NotAProjectError
from covalt_git.gateway.client_chats import ClientChats
from covalt_git.gateway.gateway import Gateway
from covalt_git.gateway.http import http_app
from covalt_git.serving.guarded import CHECKED
from covalt_git.serving.places import Life
from covalt_git.workspaces.chats import OneChat

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.files.agent_tokens import AgentToken
    from covalt_git.serving.asgi import App, Receive, Scope, Send

LOOK_S = 1.0
"""How long a token that was taken back may still be told what it listens for, in seconds."""


class RoleGoneError(CovaltError):
    """The role of a token is no longer one of ``covalt.yaml``."""

    code = "role_gone"
    http_status = 403


class Agents:
    """An ASGI app for the clients of the project at ``root``; who asks has been checked.

    ``role`` is that of the server's own token, by which the person at this machine asks.  ``pages`` has the
    address of the page where a person settles an approval.
    """

    def __init__(self, root: Path, role: str | None, *, pages: Callable[[str], str | None]) -> None:
        self._tokens = AgentTokens(root)
        self._persons = Gateway(root, role, pages=pages)
        self._by_role: dict[str, Gateway] = {}
        self._servers: dict[str, asyncio.Task[_Server]] = {}
        self._scope: Scope = {}

    def known(self, text: str) -> AgentToken | None:
        """Return the token in force that ``text`` is, or None where it is none.

        Raises:
            RoleGoneError: when nothing says any more what it may do.
        """
        token = self._tokens.find(text)
        if token is None:
            return None
        with suppress(
            BrokenConfigError, NotAProjectError
        ):  # which the client is told at whatever it asks
            if token.role not in self._of_role(token.role).project().config.roles:
                raise RoleGoneError(
                    f"the role {token.role!r} of this token is not in covalt.yaml any more",
                    hint="covalt-git token new --role ROLE makes one of another role",
                )
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of whom its check found, or live through the server's life."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        server = await self._server_of(scope[CHECKED])
        await server.app(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        self._scope = scope
        failure = (await self._server_of(None)).failure
        if failure is not None:
            await send({"type": "lifespan.startup.failed", "message": failure})
            return
        looks = asyncio.create_task(self._look())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        looks.cancel()
        await asyncio.gather(*(self._end(key) for key in [*self._servers]))
        await send({"type": "lifespan.shutdown.complete"})

    async def _server_of(self, token: AgentToken | None) -> _Server:
        """Return the MCP server of a token, which begins when it is first asked for."""
        key = "" if token is None else token.id
        if key not in self._servers:
            server = _Server(http_app(self._gateway_of(token)), self._scope)
            self._servers[key] = asyncio.create_task(server.begun())
        server = await asyncio.shield(self._servers[key])
        if server.failure is not None:
            self._servers.pop(key, None)  # the next request may find that it can
        return server

    def _gateway_of(self, token: AgentToken | None) -> Gateway:
        if token is None:
            return self._persons
        only = None
        if token.chat is not None:
            only = OneChat(token.chat, token.chat_created_at or "")
        chats = ClientChats(token.chat)
        return replace(self._of_role(token.role), by=token.agent, chats=chats, only=only)

    def _of_role(self, role: str) -> Gateway:
        if role not in self._by_role:
            persons = self._persons
            self._by_role[role] = Gateway(persons.root, role, pages=persons.pages)
        return self._by_role[role]

    async def _look(self) -> None:
        """End the servers whose tokens were taken back or have expired, with all that they have open."""
        while True:
            await asyncio.sleep(LOOK_S)
            known = {"", *(one.id for one in self._tokens.in_force())}
            await asyncio.gather(*(self._end(key) for key in self._servers.keys() - known))

    async def _end(self, key: str) -> None:
        server = await self._servers.pop(key)
        await server.end()


class _Server:
    """The MCP server of one token; ``failure`` says why it could not begin."""

    def __init__(self, app: App, scope: Scope) -> None:
        self.app = app
        self.failure: str | None = None
        self._life = Life(app, scope)

    async def begun(self) -> _Server:
        """Return it once it answers."""
        self.failure = await self._life.tell("lifespan.startup")
        return self

    async def end(self) -> None:
        """End the calls that run, and the streams."""
        await self._life.tell("lifespan.shutdown")
