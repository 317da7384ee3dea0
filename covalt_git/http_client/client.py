"""One exchange: a request sent, its redirects followed, and an answer read within its limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpcore2
import httpx2

import covalt_git
from covalt_git.hosts import BadHostError, Origin, Reach, origin_of
from covalt_git.http_client.failures import HttpError
from covalt_git.http_client.sockets import Network, resolve
from covalt_git.url_templates import lies_in

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from covalt_git.http_client.patience import Patience
    from covalt_git.http_client.sockets import Resolve

_MIB = 1 << 20
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_SEE_OTHER = 303
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate", "identity"})
_FOR_ANYBODY = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that another origin is sent as well: whatever else there is may be a credential."""

_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_OF_CONTENT = frozenset(
    {"content-type", "content-encoding", "content-language", "content-location"}
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a multipart body; with a file name it is a file."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent.  ``url`` is all ASCII, everything in it encoded; ``parts`` go before ``content``.

    Redirects at the origin of ``within`` stay in that folder.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    content: bytes = field(default=b"", repr=False)
    parts: tuple[Part, ...] = field(default=(), repr=False)
    within: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: headers in lower case, several of a name joined; the content decoded."""

    url: str
    status: int
    reason: str
    headers: dict[str, str]
    content: bytes
    redirects: int = 0


@dataclass(frozen=True, slots=True)
class HttpClient:
    """Sends requests to where ``reach`` allows.

    ``connect_s`` and ``read_s`` bound single waits; the whole exchange has its
    :class:`~covalt_git.http_client.Patience`.  ``most`` bounds the answer in bytes, as it travels
    and decoded.
    """

    reach: Reach
    most: int = 16 * _MIB
    connect_s: float = 10.0
    read_s: float = 30.0
    redirects: int = 5
    resolve: Resolve = resolve
    trust: ssl.SSLContext | None = None

    def send(self, request: Request, patience: Patience) -> Answer:
        """Send a request and return the answer, whatever its status.

        Raises:
            HttpError: when there is none, or it breaks a limit.
        """
        network = Network(self.reach, self.resolve, patience, connect_s=self.connect_s)
        with httpcore2.ConnectionPool(
            ssl_context=self.trust or (_trust() if request.url.startswith("https:") else None),
            max_keepalive_connections=0,
            network_backend=network,
        ) as pool:
            for followed in range(self.redirects + 1):
                answer = self._exchange(pool, request, patience)
                location = answer.headers.get("location")
                if answer.status not in _REDIRECTS or not location:
                    return replace(answer, redirects=followed)
                request = _redirected(request, answer.status, location)
        raise HttpError(
            "bad_redirect",
            f"{_host(request)} redirects more than {self.redirects} times",
            sent=True,
        )

    def _exchange(
        self, pool: httpcore2.ConnectionPool, request: Request, patience: Patience
    ) -> Answer:
        origin = self._checked(request.url)
        outgoing = _outgoing(request, origin)
        limits = {"connect": self.connect_s, "read": self.read_s, "write": self.read_s}
        try:
            with pool.stream(
                outgoing.method,
                httpcore2.URL(
                    scheme=origin.scheme.encode(),
                    host=origin.host.encode(),
                    port=origin.port,
                    target=outgoing.url.raw_path,
                ),
                headers=outgoing.headers.raw,
                content=outgoing.read() or None,
                extensions={"timeout": limits | {"pool": patience.left}},
            ) as incoming:
                return self._read(incoming, outgoing, origin)
        except (httpcore2.RemoteProtocolError, httpx2.DecodingError) as error:
            raise HttpError(
                "bad_answer",
                f"the answer of {origin.shown_host} is broken: {_why(error)}",
                sent=True,
                passing=True,
            ) from None
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
            raise HttpError("bad_answer", f"this cannot be sent: {_why(error)}") from None
        except (httpcore2.NetworkError, httpcore2.TimeoutException) as error:
            raise HttpError(
                "connection_failed",
                f"the connection to {origin.shown_host} broke: {_why(error)}",
                sent=True,
                passing=True,
            ) from None

    def _checked(self, url: str) -> Origin:
        """Return the origin of an address that requests may go to."""
        try:
            origin, _ = origin_of(url)
        except BadHostError as error:
            raise HttpError("refused_destination", error.message, hint=error.hint) from None
        if not self.reach.covers(origin):
            raise HttpError("refused_destination", f"{origin} was not granted")
        return origin

    def _read(
        self, incoming: httpcore2.Response, outgoing: httpx2.Request, origin: Origin
    ) -> Answer:
        headers: dict[str, str] = {}
        for raw, content in incoming.headers:
            name, value = raw.decode("latin-1").lower(), content.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        encodings = {one.strip().lower() for one in headers.get("content-encoding", "").split(",")}
        unknown = sorted(encodings - _ENCODINGS - {""})
        if unknown:
            raise HttpError(
                "bad_answer",
                f"{origin.shown_host} encoded its answer as {unknown[0][:40]!r}, which nobody asked for",
                sent=True,
            )
        wrapped = httpx2.Response(
            incoming.status,
            headers=incoming.headers,
            stream=_Counted(incoming, self._too_large(origin), self.most),
            request=outgoing,
        )
        decoded = bytearray()
        for chunk in wrapped.iter_bytes():
            decoded += chunk
            if len(decoded) > self.most:
                raise self._too_large(origin)
        reason = incoming.extensions.get("reason_phrase", b"").decode("latin-1")
        return Answer(str(outgoing.url), incoming.status, reason, headers, bytes(decoded))

    def _too_large(self, origin: Origin) -> HttpError:
        return HttpError(
            "output_too_large",
            f"the answer of {origin.shown_host} is larger than {self.most / _MIB:g} MiB",
            sent=True,
        )


class _Counted(httpx2.SyncByteStream):
    """An answer as it travels, up to a size: what it decodes to is counted elsewhere."""

    def __init__(self, incoming: httpcore2.Response, too_large: HttpError, most: int) -> None:
        self._incoming = incoming
        self._too_large = too_large
        self._most = most

    def __iter__(self) -> Iterator[bytes]:
        received = 0
        for chunk in self._incoming.iter_stream():
            received += len(chunk)
            if received > self._most:
                raise self._too_large
            yield chunk


def _outgoing(request: Request, origin: Origin) -> httpx2.Request:
    """Return the request as httpx2 writes it, with the headers that are ours to set."""
    headers = [
        ("Host", origin.shown_host),
        ("User-Agent", f"covalt-git/{covalt_git.__version__}"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "gzip, deflate"),
    ]
    given = [(name, value) for name, value in request.headers if name.lower() not in _OURS]
    names = {name.lower() for name, _ in given}
    headers = [one for one in headers if one[0].lower() not in names] + given
    files = [(part.name, (part.filename, part.content, part.media_type)) for part in request.parts]
    rest = origin_of(request.url)[1].partition("#")[0]
    target = rest if rest.startswith("/") else f"/{rest}"
    try:
        written = httpx2.Request(
            request.method,
            f"{origin}{target}",
            headers=headers,
            content=request.content or None,
            files=files or None,
        )
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        raise HttpError("bad_answer", f"this cannot be sent: {_why(error)}") from None
    if written.url.raw_path != target.encode():
        raise HttpError("refused_destination", "its path can be read in two ways")
    return written


def _redirected(request: Request, status: int, location: str) -> Request:
    """Return the request that a redirect asks for (RFC 9110, section 15.4).

    Another origin gets no credential: of the headers only those that say nothing about us.
    """
    before, _ = origin_of(request.url)
    # httpx2 writes what servers send raw, as spaces and letters, the way a URL has to be.
    try:
        url = str(httpx2.URL(urljoin(request.url, location.strip()))).partition("#")[0]
        after, _ = origin_of(url)
    except (httpx2.InvalidURL, ValueError, BadHostError):
        raise HttpError(
            "bad_redirect", f"{before.shown_host} redirects to what is no address", sent=True
        ) from None
    headers = request.headers
    method, content, parts = request.method, request.content, request.parts
    if status not in _KEEPS_METHOD and (
        method == "POST" or (status == _SEE_OTHER and method != "HEAD")
    ):
        method, content, parts = "GET", b"", ()
        headers = tuple(one for one in headers if one[0].lower() not in _OF_CONTENT)
    if after != before:
        if content or parts:
            raise HttpError(
                "bad_redirect",
                f"{before.shown_host} redirects what was sent to {after.shown_host}",
                sent=True,
            )
        headers = tuple(one for one in headers if one[0].lower() in _FOR_ANYBODY)
    if before.scheme == "https" and after.scheme == "http":
        raise HttpError("bad_redirect", f"{before.shown_host} redirects to plain http", sent=True)
    if request.within is not None and not _stays(url, request.within):
        _, path = origin_of(url)
        _, folder = origin_of(request.within)
        raise HttpError(
            "bad_redirect",
            f"{after.shown_host} redirects to {path.partition('?')[0][:100]}, which is not in {folder}",
            hint="let the tool's url begin where its answers lead to",
            sent=True,
        )
    return replace(request, method=method, url=url, headers=headers, content=content, parts=parts)


def _stays(url: str, within: str) -> bool:
    """Tell whether a redirect keeps to a folder; of another origin the folder says nothing."""
    return origin_of(url)[0] != origin_of(within)[0] or lies_in(url, within)


def _why(error: Exception) -> str:
    """Return what a library says about an error, without the bytes that it shows behind a colon."""
    return str(error).partition(":")[0][:200].lower() or type(error).__name__


def _host(request: Request) -> str:
    return origin_of(request.url)[0].shown_host


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Return what decides whether a host is who it says: the system's certificates."""
    return httpcore2.default_ssl_context()
