"""The endpoint ``/mcp``: one MCP server for the server's own token, and one for each agent token.

Sessions, subscriptions and pending elicitation requests belong to the MCP server of a token: other
tokens cannot see them, and they end with the token.  Tokens of one role share one opened project.

A client without a token gets the URL of the resource metadata (RFC 9728; the MCP specification,
"Authorization").  The metadata names the trusted issuers of ``covalt.yaml`` as ``authorization_servers``.  Without one,
it names none, because the endpoint then accepts only the tokens of ``covalt-git token new``; the SDK's route for the
metadata requires such a server, so it is not used.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route, Router

from covalt_git.calls.running import STOPPED
from covalt_git.catalog.current_config import current_config
from covalt_git.catalog.token_holders import TokenHolders
from covalt_git.credentials.agent_tokens import NOTES, AgentTokens
from covalt_git.errors import CovaltError
from covalt_git.gateway.client_chats import ClientChats
from covalt_git.gateway.http import http_app
from covalt_git.gateway.mcp_server import RequestHandlers
from covalt_git.gateway.protocol import CHECKED, RECHECK
from covalt_git.gateway.service import Gateway
from covalt_git.issuers import is_jwt
from covalt_git.issuers.verification import SKEW_S
from covalt_git.manifests.followed_project import current_root
from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.manifests.project_root import NotAProjectError
from covalt_git.models.access_token import AccessToken
from covalt_git.serving.checked_answer import CheckedAnswer
from covalt_git.serving.error_answer import send_error
from covalt_git.workspaces.registry import OneChat
from covalt_git.workspaces.server_notes import notes_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from covalt_git.credentials.agent_tokens import AgentToken
    from covalt_git.json_values import JsonObject
    from covalt_git.workspaces.server_notes import ServerNotes

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""Path prefix of the metadata; the path of the resource follows."""

CLEANUP_S = 1.0
"""Seconds between two searches for revoked and expired tokens."""

ENDED = "the token of its client is not valid any more"
"""Why a call is cancelled when its token was revoked or has expired: unlike a stop, it cancels tasks of MCP servers."""

_UNAUTHORIZED = 401
_MOST_CHECKS = 8


class McpEndpoint:
    """ASGI app for the MCP clients of a project, behind :class:`AuthMiddleware`.

    Args:
        root: the folder of the project.
        role: the role of the server's own token.
        pages: returns the URL of the page of an approval.
        holders: the holders of access tokens of issuers.
    """

    def __init__(
        self,
        root: Path,
        role: str | None,
        *,
        pages: Callable[[str], str | None],
        holders: TokenHolders | None = None,
    ) -> None:
        self._root = root
        self._tokens = AgentTokens(root, self._notes)
        self._holders = holders or TokenHolders(root)
        self._own_gateway = Gateway(root, role, pages=pages)
        self._by_role: dict[str, Gateway] = {}
        self._servers: dict[str, _Server] = {}
        self._threads = CapacityLimiter(_MOST_CHECKS)
        self._holder_ends: dict[str, _HolderEnd] = {}
        """When the last token of a holder ends, by the keys of the holders' servers."""

    def _notes(self) -> ServerNotes | None:
        """Return the tokens that the nodes of the project share; none while ``covalt.yaml`` has errors."""
        with suppress(BrokenConfigError, NotAProjectError):
            return notes_of(current_config(current_root(self._root)).workspace, NOTES)
        return None

    def find_token(self, text: str) -> AgentToken | AccessToken | None:
        """Return the valid token of a text, of an agent or of an issuer, or None.

        Raises:
            CovaltError: ``role_gone``, if the role of the token is no longer in ``covalt.yaml``.
            ServerError: if tokens are on a git server that cannot be reached.
            InvalidTokenError: as :meth:`.TokenHolders.find`, which raises other errors too.
        """
        if is_jwt(text):
            return self._holders.find(text)
        token = self._tokens.find(text)
        if token is None:
            return None
        with suppress(BrokenConfigError, NotAProjectError):  # each request reports them
            if token.role not in self._of_role(token.role).project().config.roles:
                raise CovaltError(
                    f"the role {token.role!r} of this token is no longer in covalt.yaml",
                    hint="create a token with another role: covalt-git token new --role ROLE",
                    code="role_gone",
                    http_status=403,
                )
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request with the MCP server of its token."""
        token = scope[CHECKED]
        server = await self._server_of(token)
        answer = CheckedAnswer(scope, send, partial(self._is_continued, token), self._threads)
        with suppress(ClientDisconnect):
            async with answer.watched():
                await server.app(scope, _with_complete_body(receive), answer.send)

    async def _is_continued(self, token: AgentToken | AccessToken | None) -> bool:
        """Return whether an issuer's token has expired, and its holder has sent a newer one of the same role."""
        if not isinstance(token, AccessToken) or token.expires + SKEW_S > time.time():
            return False
        end = self._holder_ends.get(_key_of(token))
        if end is None or end.at <= time.time():
            return False
        return end.issuer in await run_sync(self._holders.issuers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer requests until the block ends; the MCP servers end with it."""
        await self._server_of(None)
        cleanup = asyncio.create_task(self._end_stale_servers())
        yield
        cleanup.cancel()
        await self._end({*self._servers}, STOPPED)

    async def _server_of(self, token: AgentToken | AccessToken | None) -> _Server:
        """Return the MCP server of a token, started with its first request.

        That of an issuer's token belongs to its holder, whose client gets new tokens while its session continues.
        """
        key = "" if token is None else _key_of(token)
        if isinstance(token, AccessToken):
            earlier = self._holder_ends.get(key)
            end = token.expires + SKEW_S
            self._holder_ends[key] = _HolderEnd(
                token.issuer, max(end, earlier.at if earlier else 0)
            )
        server = self._servers.get(key)
        if server is None or server.task.done():
            # A server that failed is replaced; otherwise each later request of its token would fail too.
            server = self._servers[key] = _Server(self._gateway_of(token))
        await server.wait_started()
        return server

    def _gateway_of(self, token: AgentToken | AccessToken | None) -> Gateway:
        if token is None:
            return self._own_gateway
        if isinstance(token, AccessToken):
            own = self._of_role(token.role)
            return replace(own, by=token.principal_id, chats=ClientChats(), token=token)
        only = None
        if token.chat is not None:
            # The id of a deleted chat is available again. A new chat with this id has another time of
            # creation, so the token does not open it (test_a_token_of_one_chat_opens_no_other).
            only = OneChat(token.chat, token.chat_created_at or "")
        return replace(self._of_role(token.role), by=token.agent, chats=ClientChats(), only=only)

    def _of_role(self, role: str) -> Gateway:
        if role not in self._by_role:
            own = self._own_gateway
            self._by_role[role] = Gateway(own.root, role, pages=own.pages)
        return self._by_role[role]

    async def _end_stale_servers(self) -> None:
        """End the MCP servers of tokens that were revoked or have expired, with their open streams."""
        while True:
            await asyncio.sleep(CLEANUP_S)
            # A request checks its token only when it begins, and a stream or a call may run for hours after
            # that (test_open_streams_are_closed_when_their_token_is_revoked).
            # Only tokens that were in use before this search: one that is created while the files are read is not
            # found, and its client would lose its session (test_a_token_that_is_created_during_a_search_keeps_its_session).
            holders = dict(self._holder_ends)
            agents = self._servers.keys() - {""} - holders.keys()
            stale = agents - {*(await run_sync(self._valid, agents) if agents else ())}
            accepted = await run_sync(self._holders.issuers) if holders else ()
            for key, end in holders.items():
                is_over = end.at <= time.time() or end.issuer not in accepted
                if is_over and self._holder_ends[key] is end:
                    del self._holder_ends[key]
                    stale |= {key}
            await self._end(stale & self._servers.keys(), ENDED)

    def _valid(self, keys: Collection[str]) -> Collection[str]:
        """Return those of the keys of agents' servers whose tokens are valid; all while their git server is away."""
        try:
            return {token.id for token in self._tokens.valid()}
        except CovaltError:
            return keys

    async def _end(self, keys: Collection[str], why: str) -> None:
        await asyncio.gather(*(self._servers.pop(key).end(why) for key in keys))


class _HolderEnd(NamedTuple):
    """The issuer of a holder's last token, and when the token ends, in seconds since 1970."""

    issuer: str
    at: float


def _key_of(token: AgentToken | AccessToken) -> str:
    if isinstance(token, AccessToken):
        return f"{token.principal_id} {token.role}"
    return token.id


class _Server:
    """MCP server of one token, in a separate task, because a task group must end in the task that started it."""

    def __init__(self, gateway: Gateway) -> None:
        self._handlers = RequestHandlers(gateway)
        self.app = http_app(self._handlers)
        self._started, self._stop = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            async with self.app.router.lifespan_context(self.app):
                self._started.set()
                await self._stop.wait()
        finally:
            # A start that failed must wake the requests that wait for it.
            self._started.set()

    async def wait_started(self) -> None:
        """Wait until the server has started; raise the error if it could not."""
        await self._started.wait()
        if self.task.done():
            self.task.result()

    async def end(self, why: str) -> None:
        """End the running calls, with the reason ``why``, and the streams."""
        self._handlers.end_reason = why
        self._stop.set()
        await asyncio.wait([self.task])


class AuthMiddleware:
    """ASGI app that checks the headers of each request before it calls ``app``.

    Args:
        app: the app behind the check.
        check: returns the value for :data:`CHECKED`, or raises a CovaltError.
        metadata: path of the resource metadata, sent to clients without a token.
        fetches: whether a check can read a git server.
    """

    def __init__(
        self,
        app: ASGIApp,
        check: Callable[[Mapping[str, str]], object],
        *,
        metadata: str | None = None,
        fetches: bool = False,
    ) -> None:
        self._app = app
        self._check = check
        self._fetches = fetches
        self._metadata = metadata
        self._threads = CapacityLimiter(_MOST_CHECKS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and call the app or send the error."""
        if scope["type"] == "http":
            try:
                check = partial(self._checked, _headers(scope))
                scope[CHECKED], scope[RECHECK] = await check(), check
            except CovaltError as error:
                await send_error(send, error, *self._challenge(scope, error))
                return
        await self._app(scope, receive, send)

    async def _checked(self, headers: Mapping[str, str]) -> object:
        # In a thread of its own limit: the keys of its issuer, or the tokens of agents, may have to be fetched, from a
        # server that does not answer, and other requests need threads too.
        if self._fetches or is_jwt(headers.get("Authorization", "")):
            return await run_sync(self._check, headers, limiter=self._threads)
        return self._check(headers)

    def _challenge(self, scope: Scope, error: CovaltError) -> Iterator[tuple[bytes, bytes]]:
        """Yield the ``WWW-Authenticate`` header of an answer 401."""
        if error.http_status != _UNAUTHORIZED:
            return
        realm = 'Bearer realm="covalt-git"'
        if any(name == b"authorization" for name, _ in scope["headers"]):
            realm += ', error="invalid_token"'  # RFC 6750, section 3.1
        if self._metadata is not None:
            realm += f', resource_metadata="{_url_of(scope, self._metadata)}"'
        yield b"www-authenticate", realm.encode("latin-1")


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by their usual names; values of a repeated header are joined by a comma."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").title()
        # Joined as RFC 9110, section 5.3, says, two Authorization headers are no token. So the server and a
        # proxy before it cannot choose different ones.
        earlier_values = f"{headers[name]}," if name in headers else ""
        headers[name] = earlier_values + value.decode("latin-1")
    return headers


def _with_complete_body(receive: Receive) -> Receive:
    """Return a ``receive`` that raises ClientDisconnect if the client leaves within its request's body.

    The SDK reads the body before it does anything else; later it would log that with a traceback.
    """
    more_body = True

    async def receive_or_raise() -> Message:
        nonlocal more_body
        message = await receive()
        if more_body and message["type"] == "http.disconnect":
            raise ClientDisconnect
        more_body = message.get("more_body", False)
        return message

    return receive_or_raise


def resource_metadata(
    paths: Collection[str], issuers: Callable[[], Sequence[str]] = tuple
) -> ASGIApp:
    """Return an app with the metadata of the resources at ``paths``; ``""`` is the whole server.

    ``issuers`` returns those of the accepted access tokens; a URN has no metadata, so it is left out.
    """

    async def describe(request: Request) -> Response:
        metadata: JsonObject = {
            "resource": _url_of(request.scope, request.url.path.removeprefix(WELL_KNOWN)),
            "resource_name": "covalt-git",
            "bearer_methods_supported": ["header"],
        }
        accepted = [issuer for issuer in await run_sync(issuers) if issuer.startswith("http")]
        if accepted:
            metadata["authorization_servers"] = accepted
        return JSONResponse(metadata, headers={"Cache-Control": "no-store"})

    routes = [Route(f"{WELL_KNOWN}{path}", describe) for path in paths]
    return Router(routes, redirect_slashes=False)


def _url_of(scope: Scope, path: str) -> str:
    """Return the URL of a path on the host of a request, which has been checked."""
    host = next(value for name, value in scope["headers"] if name == b"host")
    return f"{scope['scheme']}://{host.decode('latin-1')}{path}"
