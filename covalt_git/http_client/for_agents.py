"""The HTTP client of connections to MCP servers: asynchronous, and no less careful about whom it reaches.

Names are resolved once for each connection and every address is checked, as for other requests.  The SDK
follows redirects within an origin itself; no proxy is taken from the environment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import httpcore2
import httpx2

from covalt_git.hosts import BadHostError, origin_of
from covalt_git.http_client.failures import HttpError
from covalt_git.http_client.sockets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from covalt_git.hosts import Origin

_READ_S = 300.0
"""How long a stream may be silent, in seconds, as the SDK has it."""

_OTHER_S = 30.0


class Reaching(Protocol):
    """What tells whom requests may go to, as :class:`covalt_git.hosts.Reach` does."""

    def covers(self, origin: Origin) -> bool:
        """Tell whether they may go to that origin, whatever addresses its name has."""

    def why_not(self, host: str, address: str) -> str:
        """Return why that host may not be reached at that address; else nothing."""


def agent_client(
    reach: Reaching,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None = None,
    answered: Callable[[int], None] = lambda _: None,
) -> httpx2.AsyncClient:
    """Return a client that sends those headers, and connects to where ``reach`` allows.

    ``answered`` hears the status of every answer, which the SDK does not pass on.
    """

    async def note(response: httpx2.Response) -> None:
        answered(response.status_code)

    return httpx2.AsyncClient(
        event_hooks={"response": [note]},
        transport=_Transport(reach),
        headers=dict(headers),
        auth=auth,
        timeout=httpx2.Timeout(_OTHER_S, read=_READ_S),
        trust_env=False,
    )


def why_unreachable(error: BaseException) -> str:
    """Return why a server at an address was not reached, in words; nothing for other errors."""
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


class _Transport(httpx2.AsyncHTTPTransport):
    """httpx2's own, over a pool that connects to checked addresses only."""

    def __init__(self, reach: Reaching) -> None:
        super().__init__(trust_env=False)
        self._reach = reach
        # It takes no network of ours otherwise.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpcore2.default_ssl_context(), network_backend=_Network(reach)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to where it may go.

        Raises:
            HttpError: where it may not.
        """
        try:
            origin, _ = origin_of(str(request.url))
        except BadHostError as error:
            raise HttpError("refused_destination", error.message, hint=error.hint) from None
        if not self._reach.covers(origin):
            raise HttpError("refused_destination", f"{origin} was not granted")
        return await super().handle_async_request(request)


class _Network(httpcore2.AsyncNetworkBackend):
    def __init__(self, reach: Reaching) -> None:
        self._reach = reach
        self._network = httpcore2.AnyIOBackend()

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
            HttpError: when the host has no address, or one that may not be reached.
        """
        try:
            addresses = await asyncio.to_thread(resolve, host, port)
        except (OSError, UnicodeError) as error:
            why = (getattr(error, "strerror", None) or str(error)).lower()
            raise HttpError("connection_failed", f"{host} has no address: {why}") from None
        for address in addresses:
            why = self._reach.why_not(host, address)
            if why:
                raise HttpError("refused_destination", f"{why}, and was not granted")
        failed: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                failed = error
        raise failed or httpcore2.ConnectError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
