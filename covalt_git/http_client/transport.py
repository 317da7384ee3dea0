"""HTTP transport that connects only to granted hosts, at checked IP addresses.

A name is resolved once for each connection, all its addresses are checked, and only these are connected to.
Proxies of the environment are not used.  MCP clients use the asynchronous transport by
:func:`mcp_http_client`; :class:`~covalt_git.http_client.HttpClient` runs it in the caller's thread.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import httpcore2
import httpx2

from covalt_git.errors import failure_text
from covalt_git.hosts import BadHostError, origin_of, resolve
from covalt_git.http_client.errors import HttpError
from covalt_git.system.daemon_thread import in_daemon_thread

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    from covalt_git.hosts import WebOrigin

Response = httpx2.Response
"""The response that ``on_response`` of :func:`mcp_http_client` gets."""

Resolve = Callable[[str, int], Sequence[str]]
"""Function that returns the IP addresses of a host and port, or raises OSError."""

_READ_S = 300.0
"""Read timeout of an MCP server's stream in seconds; the SDK's default."""

_OTHER_S = 30.0


class HostPolicy(Protocol):
    """Hosts that requests may go to; implemented by :class:`covalt_git.hosts.Reach`."""

    def covers(self, origin: WebOrigin) -> bool:
        """Return whether an origin may be requested, before its name is resolved."""

    def why_not(self, host: str, address: str) -> str:
        """Return why a host may not be reached at an IP address; "" if it may."""


def granted_origin(reach: HostPolicy, url: str) -> WebOrigin:
    """Return the origin of a URL.

    Raises:
        HttpError: if the URL is invalid, or its origin is not granted.
    """
    try:
        origin, _ = origin_of(url)
    except BadHostError as error:
        raise HttpError("refused_destination", error.message, hint=error.hint) from None
    if not reach.covers(origin):
        raise HttpError("refused_destination", f"{origin} was not granted")
    return origin


def mcp_http_client(
    reach: HostPolicy,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None = None,
    on_response: Callable[[httpx2.Response], Awaitable[None]] | None = None,
) -> httpx2.AsyncClient:
    """Return an HTTP client for the SDK's MCP client, with ``headers`` on each request.

    The SDK follows redirects within an origin itself.  ``on_response`` is called with each response, which the
    SDK does not expose.
    """
    return httpx2.AsyncClient(
        event_hooks={"response": [on_response] if on_response else []},
        transport=Transport(reach, trust=system_trust()),
        headers=dict(headers),
        auth=auth,
        timeout=httpx2.Timeout(_OTHER_S, read=_READ_S),
        trust_env=False,
    )


def why_unreachable(error: BaseException) -> str:
    """Return why a server cannot be reached; "" for other errors."""
    if isinstance(error, HttpError):
        return error.message
    if isinstance(error, httpx2.HTTPStatusError):
        return f"it answered {error.response.status_code} {error.response.reason_phrase}"
    if isinstance(error, httpx2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, httpx2.TransportError):
        return f"the connection failed: {failure_text(error).lower()}"
    return ""


class Transport(httpx2.AsyncHTTPTransport):
    """Transport of httpx2 with a pool that connects only to checked addresses.

    ``trust`` verifies certificates; without it, each connection loads the system's certificates.
    """

    def __init__(
        self,
        reach: HostPolicy,
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
        """Send a request to a granted origin.

        Raises:
            HttpError: if the origin is not granted.
        """
        granted_origin(self._reach, str(request.url))
        return await super().handle_async_request(request)


class Network(httpcore2.AnyIOBackend):
    """Network backend that connects only to granted hosts; ``step`` is its current step."""

    def __init__(self, reach: HostPolicy, resolve: Resolve) -> None:
        self._reach = reach
        self._resolve = resolve
        self.step = ""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is httpcore2's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of a host that answers, after a check of all its addresses.

        Raises:
            HttpError: if an address is not granted, or none answers.
        """
        self.step = f"looking up {host}"
        try:
            # In a daemon thread, because the system's resolver has no time limit.
            addresses = await in_daemon_thread(lambda: self._resolve(host, port), f"resolve {host}")
        except (OSError, UnicodeError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise HttpError(
                "connection_failed", f"{host} has no address: {why}", is_transient=True
            ) from None
        # All of them before the first connection: a name that has a reserved address too is an attack (DNS rebinding).
        for address in addresses:
            why = self._reach.why_not(host, address)
            if why:
                raise HttpError("refused_destination", f"{why}, and was not granted")
        why = "it has no address"
        for address in addresses:
            self.step = f"connecting to {address}"
            try:
                stream = await super().connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectTimeout:
                why = f"no answer within {timeout:g} s"
            except httpcore2.ConnectError as error:
                why = why_broken(error)
            else:
                self.step = f"the response of {host}"
                return stream
        raise HttpError("connection_failed", f"{host} cannot be reached: {why}", is_transient=True)


class LimitedStream(httpx2.AsyncByteStream):
    """Encoded body of a response; more than ``most`` bytes raise ``too_large``."""

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
        await self._stream.aclose()


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, down to that of the system or TLS."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def why_broken(error: BaseException) -> str:
    """Return the message of the system or TLS for a failed connection."""
    for cause in causes(error):
        if reason := getattr(cause, "reason", None):
            return str(reason).lower().replace("_", " ")
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
    return str(error).lower() or "it was closed"


@lru_cache(maxsize=1)
def system_trust() -> ssl.SSLContext:
    """Return an SSL context with the system's certificates."""
    # Once for a process: loading them takes tens of milliseconds.
    return httpcore2.default_ssl_context()
