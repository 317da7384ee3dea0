"""HTTP transport that connects to granted hosts only, at addresses that were checked.

A name is resolved once for each connection, every address that it has is checked, and exactly those
are connected to.  No proxy is taken from the environment.  The transport is asynchronous: an MCP
client uses it by :func:`agent_client`, and :class:`~covalt_git.http_client.HttpClient` runs it in
the caller's thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import httpcore2
import httpx2

from covalt_git.hosts import BadHostError, origin_of
from covalt_git.http_client.errors import HttpError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from covalt_git.hosts import Origin

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host that is asked for with a port, or raises OSError."""

_READ_S = 300.0
"""How long a stream of an MCP server may be silent, in seconds, as the SDK has it."""

_OTHER_S = 30.0


class Reaching(Protocol):
    """Grants that decide where requests may go, as :class:`covalt_git.hosts.Reach` has them."""

    def covers(self, origin: Origin) -> bool:
        """Return whether requests to an origin are granted, whatever its addresses are."""

    def why_not(self, host: str, address: str) -> str:
        """Return why a host may not be reached at an address, or an empty text."""


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host as this machine knows them; an address is its own.

    Raises:
        OSError: when the host has no address.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def granted_origin(reach: Reaching, url: str) -> Origin:
    """Return the origin of a URL that requests may go to.

    Raises:
        HttpError: when they may not.
    """
    try:
        origin, _ = origin_of(url)
    except BadHostError as error:
        raise HttpError("refused_destination", error.message, hint=error.hint) from None
    if not reach.covers(origin):
        raise HttpError("refused_destination", f"{origin} was not granted")
    return origin


def agent_client(
    reach: Reaching,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None = None,
    answered: Callable[[int], None] = lambda _: None,
) -> httpx2.AsyncClient:
    """Return a client for MCP that sends those headers, and connects to where ``reach`` allows.

    The SDK follows redirects within an origin itself.  ``answered`` hears the status of every
    answer, which the SDK does not pass on.
    """

    async def note(response: httpx2.Response) -> None:
        answered(response.status_code)

    return httpx2.AsyncClient(
        event_hooks={"response": [note]},
        transport=Transport(reach, trust=system_trust()),
        headers=dict(headers),
        auth=auth,
        timeout=httpx2.Timeout(_OTHER_S, read=_READ_S),
        trust_env=False,
    )


def why_unreachable(error: BaseException) -> str:
    """Return why a server was not reached; an empty text for other errors."""
    if isinstance(error, HttpError):
        return error.message
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered {error.response.status_code} {error.response.reason_phrase}"
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, httpx2.TransportError):
        said = str(error).partition("\n")[0][:200].lower()
        return f"the connection failed: {said or type(error).__name__}"
    return ""


class Transport(httpx2.AsyncHTTPTransport):
    """httpx2's own, over a pool that connects to checked addresses only.

    ``trust`` decides whether a host is who it says; without one each connection loads the system's
    certificates.
    """

    def __init__(
        self,
        reach: Reaching,
        *,
        resolve: Resolve = resolve,
        trust: ssl.SSLContext | None = None,
        max_idle: int | None = None,
    ) -> None:
        # The initializer of httpx2 sets only the pool, and accepts no network backend.
        self._reach = reach
        self.network = Network(reach, resolve)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trust, max_keepalive_connections=max_idle, network_backend=self.network
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to where it may go.

        Raises:
            HttpError: where it may not.
        """
        granted_origin(self._reach, str(request.url))
        return await super().handle_async_request(request)


class Network(httpcore2.AsyncNetworkBackend):
    """Connects to granted hosts only; ``waits_for`` says what for at the moment."""

    def __init__(self, reach: Reaching, resolve: Resolve) -> None:
        self._reach = reach
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()
        self.waits_for = ""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of a host that answers; all of them are checked before.

        Raises:
            HttpError: when one of them may not be reached, or none answers.
        """
        self.waits_for = f"looking up {host}"
        try:
            addresses = await self._looked_up(host, port)
        except (OSError, UnicodeError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise HttpError(
                "connection_failed", f"{host} has no address: {why}", passing=True
            ) from None
        for address in addresses:
            why = self._reach.why_not(host, address)
            if why:
                raise HttpError("refused_destination", f"{why}, and was not granted")
        why = "it has no address"
        for address in addresses:
            self.waits_for = f"connecting to {address}"
            try:
                stream = await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectTimeout:
                why = f"no answer within {timeout:g} s"
            except httpcore2.ConnectError as error:
                why = why_broken(error)
            else:
                self.waits_for = f"the answer of {host}"
                return stream
        raise HttpError("connection_failed", f"{host} cannot be reached: {why}", passing=True)

    async def _looked_up(self, host: str, port: int) -> Sequence[str]:
        """Look a host up in a daemon thread of its own: the system's resolver takes no time limit.

        The loop's executor has few threads, and a process that ends waits for them.
        """
        found: concurrent.futures.Future[Sequence[str]] = concurrent.futures.Future()
        found.set_running_or_notify_cancel()

        def look_up() -> None:
            try:
                found.set_result(self._resolve(host, port))
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                found.set_exception(error)

        threading.Thread(target=look_up, daemon=True, name=f"resolve {host}").start()
        return await asyncio.wrap_future(found)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class LimitedStream(httpx2.AsyncByteStream):
    """An answer as it travels, up to ``most`` bytes; more of them raise ``too_large``."""

    def __init__(self, stream: Any, most: int, too_large: HttpError) -> None:
        self._stream = stream
        self._most = most
        self._too_large = too_large

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise self._too_large
            yield chunk

    async def aclose(self) -> None:
        """Close the answer."""
        await self._stream.aclose()


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it wraps, down to the system's or that of TLS."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def why_broken(error: BaseException) -> str:
    """Return what the system or TLS says about a connection that failed."""
    for cause in causes(error):
        if reason := getattr(cause, "reason", None):
            return str(reason).lower().replace("_", " ")
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
    return str(error).lower() or "it was closed"


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """Return what decides whether a host is who it says: the system's certificates."""
    return httpcore2.default_ssl_context()
