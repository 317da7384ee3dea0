"""Proving to a server who asks: by a token that is there, or by what it takes to have one.

What a sign-in fetches beside the request that it is for comes from hosts nobody has vetted: each request
is looked at before it leaves, none waits for ever, and an answer is small or it is none.
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
"""How large a document about signing in may be; real ones have a few KiB."""

_WAIT_S = 20.0
_UNAUTHORIZED, _FORBIDDEN, _SERVER_ERROR = 401, 403, 500


class Tokens(Protocol):
    """Where a bearer token comes from."""

    async def current(self) -> str:
        """Return the token, or nothing where there is none."""

    async def refresh(self, refused: str) -> str:
        """Return one in place of a token that was refused, or nothing."""

    async def report_insufficient(self, status: int, challenge: str) -> None:
        """Take note that no token is enough: the status, 401 or 403, and what the server said."""


class BearerAuth(httpx2.Auth):
    """Sends a token to one origin and nowhere else, and once more where it was refused and renewed."""

    def __init__(self, url: str, tokens: Tokens) -> None:
        self._origin, _ = origin_of(url)
        self._tokens = tokens

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield the request with its token, as httpx2 wants it."""
        if not self._is_ours(request):
            yield request
            return
        token = await self._tokens.current()
        response = yield _with(request, token)
        if response.status_code == _UNAUTHORIZED and token:
            token = await self._tokens.refresh(token)
            if token:
                response.headers.pop("content-encoding", None)  # it is only skipped
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
    """Has another one sign in, while each request of it and each document that comes back are checked.

    ``challenge`` is what the server said before when a token did not allow enough.  A server that lets
    everybody ask this much is taken to have answered 401: somebody wants to sign in.
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
        """Yield the requests that signing in takes, as httpx2 wants it.

        Raises:
            CovaltError: as the checks do, and for an answer that is too large or packed.
        """
        flow = self._auth.async_auth_flow(request)
        timeouts = httpx2.Timeout(_WAIT_S).as_dict()
        try:
            outgoing, asked = await anext(flow), False
            while True:
                if outgoing is request and not asked:
                    asked = True
                    if self._challenge is None:
                        response = await _challenged(request, (yield request))
                    else:
                        response = _answer(request, _FORBIDDEN, self._challenge)
                elif outgoing is request:
                    response = yield request
                else:
                    self._check_request(str(outgoing.url))
                    outgoing.extensions = {**outgoing.extensions, "timeout": timeouts}
                    response = _small((yield outgoing))
                    await response.aread()
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
            return  # a page of a site that has one for every path
        self._check_document(document)


async def _challenged(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    if response.status_code == _UNAUTHORIZED:
        return _small(response)
    if response.status_code >= _SERVER_ERROR:
        raise HttpError("bad_answer", f"the server answered {response.status_code}", passing=True)
    if isinstance(response.stream, httpx2.AsyncByteStream):
        await response.stream.aclose()
    response.stream = httpx2.ByteStream(b"")  # it is read to its end, which a stream may not have
    return _answer(request, _UNAUTHORIZED)


def _answer(request: httpx2.Request, status: int, challenge: str = "") -> httpx2.Response:
    headers = {"WWW-Authenticate": challenge} if challenge else {}
    return httpx2.Response(status, headers=headers, request=request)


def _small(response: httpx2.Response) -> httpx2.Response:
    """Return a response that can be read only as long as it is small."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise HttpError("bad_answer", f"{_origin(response)} answered packed, unasked")
    more = f"{_origin(response)} answered with more than {MOST_BYTES >> 10} KiB"
    too_large = HttpError("output_too_large", more)
    response.stream = LimitedStream(response.stream, MOST_BYTES, too_large)
    return response


def _origin(response: httpx2.Response) -> str:
    return str(origin_of(str(response.request.url))[0])
