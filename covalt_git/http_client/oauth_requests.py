"""HTTP authentication for MCP: bearer tokens, and the checked requests of an OAuth login.

A login sends requests to hosts that are not granted.  So each request is checked before it is sent, and has
a time limit and a size limit for its response.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import httpx2

from covalt_git.hosts import BadHostError, origin_of
from covalt_git.http_client.errors import HttpError
from covalt_git.http_client.transport import LimitedStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

MOST_BYTES = 256 << 10
"""Limit of a response during a login; usual metadata has a few KiB."""

_WAIT_S = 20.0
_UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR = 401, 403, 500


class Tokens(Protocol):
    """Source of the bearer token of a server."""

    async def current(self) -> str:
        """Return the token, or "" without one."""

    async def refresh(self, refused: str) -> str:
        """Refresh a token that was refused; return the new one, or ""."""

    async def report_insufficient(self, status: int, challenge: str) -> None:
        """Record that the server requires another token: the status 401 or 403, and its challenge."""


class BearerAuth(httpx2.Auth):
    """Bearer authentication for a single origin; refreshes a refused token and retries once."""

    def __init__(self, url: str, tokens: Tokens) -> None:
        self._origin, _ = origin_of(url)
        self._tokens = tokens

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the request with its token, in httpx2's protocol."""
        # A redirect or an endpoint of the server may be at another origin, which must not see the token
        # (test_a_token_is_sent_to_its_origin_alone_and_refreshed_once).
        if not self._is_ours(request):
            yield request
            return
        token = await self._tokens.current()
        response = yield _with(request, token)
        if response.status_code == _UNAUTHORIZED and token:
            token = await self._tokens.refresh(token)
            if token:
                # The body of the refused request is read and discarded, so it need not be decoded.
                response.headers.pop("content-encoding", None)
                _small(response)
                response = yield _with(request, token)
        challenge = response.headers.get("www-authenticate", "")
        too_small = response.status_code == _FORBIDDEN and "insufficient_scope" in challenge
        if too_small or response.status_code == _UNAUTHORIZED:
            await self._tokens.report_insufficient(response.status_code, challenge)

    def _is_ours(self, request: httpx2.Request) -> bool:
        try:
            return origin_of(str(request.url))[0] == self._origin
        except BadHostError:
            return False


def _with(request: httpx2.Request, token: str) -> httpx2.Request:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


class CheckedAuth(httpx2.Auth):
    """Authentication by ``auth``, with a check of each of its requests, and of each document that it receives.

    ``challenge`` is the server's challenge from an earlier 403.  If the server answers the first request
    without authentication, the login starts as after a 401, because the user requested it.
    """

    def __init__(
        self,
        auth: httpx2.Auth,
        *,
        check_request: Callable[[str], None],
        check_document: Callable[[Any], None],
        challenge: str | None = None,
    ) -> None:
        self._auth = auth
        self._check_request = check_request
        self._check_document = check_document
        self._challenge = challenge

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the requests of the login, in httpx2's protocol.

        Raises:
            CovaltError: as the checks do, and for a response that is too large or compressed.
        """
        flow = self._auth.async_auth_flow(request)
        timeouts = httpx2.Timeout(_WAIT_S).as_dict()
        try:
            outgoing, is_sent = await anext(flow), False
            while True:
                if outgoing is request and not is_sent:
                    is_sent = True
                    if self._challenge is None:
                        response = await _challenged(request, (yield request))
                    else:
                        response = _answer(request, _FORBIDDEN, self._challenge)
                elif outgoing is request:
                    response = yield request
                else:
                    # A request of the SDK to a host that the server named: checked before it is sent.
                    self._check_request(str(outgoing.url))
                    outgoing.extensions = {**outgoing.extensions, "timeout": timeouts}
                    response = _small((yield outgoing))
                    await response.aread()
                    # Before the SDK reads it: it opens what the document names.
                    self._check_response(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _check_response(self, response: httpx2.Response) -> None:
        if response.status_code != httpx2.codes.OK or response.request.method != "GET":
            return
        try:
            document = json.loads(response.content)
        except (ValueError, RecursionError):
            return  # the answer of a site that answers every path
        self._check_document(document)


async def _challenged(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    if response.status_code == _UNAUTHORIZED:
        return _small(response)
    # Not a server without authentication, but one that does not work now.
    if response.status_code >= _SERVER_ERROR:
        raise HttpError(
            "bad_answer", f"the server answered {response.status_code}", is_transient=True
        )
    if isinstance(response.stream, httpx2.AsyncByteStream):
        await response.stream.aclose()
    response.stream = httpx2.ByteStream(b"")  # the SDK reads it to its end, and SSE has none
    return _answer(request, _UNAUTHORIZED)


def _answer(request: httpx2.Request, status: int, challenge: str = "") -> httpx2.Response:
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    return httpx2.Response(status, headers=headers, request=request)


def _small(response: httpx2.Response) -> httpx2.Response:
    """Limit the size of a response, and reject compressed ones."""
    # The limit counts the bytes that arrive, and a compressed document can decode to a thousand times as many.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise HttpError(
            "bad_answer",
            f"{_origin(response)} answered with compressed content, which was not accepted",
        )
    more = f"{_origin(response)} answered with more than {MOST_BYTES >> 10} KiB"
    too_large = HttpError("output_too_large", more)
    response.stream = LimitedStream(response.stream, MOST_BYTES, too_large)
    return response


def _origin(response: httpx2.Response) -> str:
    return str(origin_of(str(response.request.url))[0])
