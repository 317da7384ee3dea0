"""Exchange: a request, its redirects, and a response within the limits of size and time."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

import httpx2

import covalt_git
from covalt_git.errors import failure_text
from covalt_git.hosts import BadHostError, Reach, WebOrigin, origin_of, resolve
from covalt_git.http_client.errors import HttpError
from covalt_git.http_client.transport import (
    LimitedStream,
    Transport,
    causes,
    granted_origin,
    system_trust,
    why_broken,
)
from covalt_git.templating.url_templates import is_within_folder
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from covalt_git.http_client.deadline import Deadline
    from covalt_git.http_client.transport import Resolve

_MIB = 1 << 20
_PIECE = 1 << 16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEPS_METHOD = frozenset({307, 308})
_SEE_OTHER = 303
_ENCODINGS = frozenset({"gzip", "x-gzip", "deflate", "identity"})
# A list of what is sent, not of credentials: an API can have its key in a header of any name.
_SAFE_HEADERS = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that are sent to another origin too; all others may be credentials."""

# A second length or host would let a proxy and a server read two different requests (request smuggling).
_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
)
_CONTENT_HEADERS = frozenset(
    {"content-type", "content-encoding", "content-language", "content-location"}
)


class FormPart(NamedTuple):
    """Part of a multipart body; a file if it has a file name."""

    name: str
    content: bytes
    filename: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """Request with an ASCII, percent-encoded ``url``; ``parts`` precede ``content`` in the body.

    A redirect to the origin of the URL ``within`` must stay below the path of ``within``.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    content: bytes = field(default=b"", repr=False)
    parts: tuple[FormPart, ...] = field(default=(), repr=False)
    within: str | None = None


class Response(NamedTuple):
    """Response: headers in lower case, repeated ones joined by a comma, and the decoded content."""

    url: str
    status: int
    reason: str
    headers: dict[str, str]
    content: bytes
    redirects: int = 0


class HttpClient(NamedTuple):
    """Client that sends requests to the hosts of ``reach``.

    ``connect_s`` and ``read_s`` limit a single connect or read; a :class:`~covalt_git.http_client.Deadline`
    limits the exchange.  ``most`` limits the bytes of a response, both encoded and decoded.
    """

    reach: Reach
    most: int = 16 * _MIB
    connect_s: float = 10.0
    read_s: float = 30.0
    redirects: int = 5
    resolve: Resolve = resolve
    trust: ssl.SSLContext | None = None

    def send(self, request: ClientRequest, deadline: Deadline) -> Response:
        """Send a request and return the response, whatever its status.

        This runs an event loop in the caller's thread, so the thread must not have one.

        Raises:
            HttpError: if there is no response, or it exceeds a limit.
        """
        # Certificates take longer to load than a request over plain http takes.
        trust = self.trust or (system_trust() if request.url.startswith("https:") else None)
        transport = Transport(self.reach, resolve=self.resolve, trust=trust, max_idle=0)
        work = self._send(transport, request)
        return asyncio.run(deadline.wait(work, lambda: transport.network.step))

    async def _send(self, transport: Transport, request: ClientRequest) -> Response:
        async with transport:
            # Not by httpx2, which would follow a redirect before its host is checked and credentials are removed.
            for followed in range(self.redirects + 1):
                response = await self._exchange(transport, request)
                location = response.headers.get("location")
                if response.status not in _REDIRECTS or not location:
                    return response._replace(redirects=followed)
                request = _redirected(request, response.status, location)
        host = origin_of(request.url)[0].shown_host
        raise _bad_redirect(f"{host} redirects more than {self.redirects} times")

    async def _exchange(self, transport: Transport, request: ClientRequest) -> Response:
        origin = granted_origin(self.reach, request.url)
        outgoing = _outgoing(request, origin)
        timeouts = httpx2.Timeout(self.read_s, connect=self.connect_s, pool=None)
        outgoing.extensions["timeout"] = timeouts.as_dict()
        try:
            incoming = await transport.handle_async_request(outgoing)
            try:
                return await self._read(incoming, str(outgoing.url), origin)
            finally:
                await incoming.aclose()
        except httpx2.TransportError as error:
            raise self._failure(error, origin.shown_host) from None
        except httpx2.DecodingError as error:
            raise _bad_answer(error, origin.shown_host) from None

    def _failure(self, error: httpx2.TransportError, host: str) -> HttpError:
        """Return the error of a failed exchange."""
        if isinstance(error, httpx2.RemoteProtocolError):
            return _bad_answer(error, host)
        if isinstance(error, (httpx2.ProtocolError, httpx2.UnsupportedProtocol)):
            return HttpError("bad_answer", f"the request is invalid: {_why(error)}")
        if isinstance(error, httpx2.ConnectError):  # an error of TLS; Network raises errors of TCP
            return _no_tls(error, host)
        if isinstance(error, httpx2.TimeoutException):
            what, seconds = "the response of", self.read_s
            if isinstance(error, httpx2.ConnectTimeout):
                what, seconds = "the TLS handshake with", self.connect_s
            elif isinstance(error, httpx2.WriteTimeout):
                what = "sending to"
            why = f"{what} {host} took longer than {seconds:g} s"
            return HttpError("timed_out", why, sent=True, is_transient=True)
        why = f"the connection to {host} broke: {why_broken(error)}"
        return HttpError("connection_failed", why, sent=True, is_transient=True)

    async def _read(self, incoming: httpx2.Response, url: str, origin: WebOrigin) -> Response:
        headers: dict[str, str] = {}
        for raw, content in incoming.headers.raw:
            name, value = raw.decode("latin-1").lower(), content.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        declared = headers.get("content-encoding", "").split(",")
        unknown = sorted({encoding.strip().lower() for encoding in declared} - _ENCODINGS - {""})
        if unknown:
            raise HttpError(
                "bad_answer",
                f"{origin.shown_host} answered with the unsupported encoding {shorten(unknown[0], 40)!r}",
                sent=True,
            )
        too_large = HttpError(
            "output_too_large",
            f"the response of {origin.shown_host} is larger than {self.most / _MIB:g} MiB",
            sent=True,
        )
        # Both sizes: a compressed response can decode to a thousand times its bytes, and also have bytes without an
        # end that decode to none.
        incoming.stream = LimitedStream(incoming.stream, self.most, too_large)
        decoded = bytearray()
        async for chunk in incoming.aiter_bytes():
            decoded += chunk
            if len(decoded) > self.most:
                raise too_large
        reason = incoming.extensions.get("reason_phrase", b"").decode("latin-1")
        return Response(url, incoming.status_code, reason, headers, bytes(decoded))


class _Body(httpx2.AsyncByteStream):
    """Request body in pieces, so that the write timeout applies to each piece."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), _PIECE):
            yield self._content[start : start + _PIECE]


def _bad_answer(error: Exception, host: str) -> HttpError:
    why = f"the response of {host} is invalid: {_why(error)}"
    return HttpError("bad_answer", why, sent=True, is_transient=True)


def _no_tls(error: BaseException, host: str) -> HttpError:
    """Return the error of a failed TLS handshake; a certificate that is not trusted is permanent."""
    for cause in causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message.lower()
            return HttpError("tls_failed", f"the certificate of {host} is not trusted: {why}")
    return HttpError(
        "tls_failed",
        f"the TLS handshake with {host} failed: {why_broken(error)}",
        is_transient=True,
    )


def _outgoing(request: ClientRequest, origin: WebOrigin) -> httpx2.Request:
    """Return the request for httpx2, with the headers that this client sets."""
    headers = [
        ("Host", origin.shown_host),
        ("User-Agent", f"covalt-git/{covalt_git.__version__}"),
        ("Accept", "*/*"),
        ("Accept-Encoding", "gzip, deflate"),
    ]
    custom = [(name, value) for name, value in request.headers if name.lower() not in _OWN_HEADERS]
    names = {name.lower() for name, _ in custom}
    headers = [header for header in headers if header[0].lower() not in names] + custom
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
        raise HttpError("bad_answer", f"the request is invalid: {_why(error)}") from None
    # The path was checked as it is written; one that httpx2 reads otherwise could lead elsewhere
    # (test_an_ambiguous_path_is_not_sent).
    if written.url.raw_path != target.encode():
        raise HttpError("refused_destination", "the path of its URL is ambiguous")
    written.stream = _Body(written.read())
    return written


def _redirected(request: ClientRequest, status: int, location: str) -> ClientRequest:
    """Return the request of a redirect (RFC 9110, section 15.4).

    Another origin receives no credentials: only the headers of ``_SAFE_HEADERS``.
    """
    source, _ = origin_of(request.url)
    # httpx2 percent-encodes the spaces and letters that some servers send raw.
    try:
        url = str(httpx2.URL(urljoin(request.url, location.strip()))).partition("#")[0]
        target, _ = origin_of(url)
    except (httpx2.InvalidURL, ValueError, BadHostError):
        raise _bad_redirect(f"{source.shown_host} redirects to an invalid URL") from None
    headers = request.headers
    method, content, parts = request.method, request.content, request.parts
    if status not in _KEEPS_METHOD and (
        method == "POST" or (status == _SEE_OTHER and method != "HEAD")
    ):
        method, content, parts = "GET", b"", ()
        headers = tuple(header for header in headers if header[0].lower() not in _CONTENT_HEADERS)
    if target != source:
        # A body is for the host that it was granted to, and can have secrets
        # (test_a_body_is_not_sent_to_another_origin).
        if content or parts:
            raise _bad_redirect(
                f"{source.shown_host} redirects the request's body to {target.shown_host}"
            )
        headers = tuple(header for header in headers if header[0].lower() in _SAFE_HEADERS)
    if source.scheme == "https" and target.scheme == "http":
        raise _bad_redirect(f"{source.shown_host} redirects to plain http")
    # The manifest fixes the folder of the URL.  At the same origin the headers are kept, so a redirect out of it would
    # take the secrets to any path there.
    if request.within is not None:
        limited, folder = origin_of(request.within)  # other origins are not limited
        if target == limited and not is_within_folder(url, request.within):
            path = origin_of(url)[1].partition("?")[0][:100]
            raise _bad_redirect(
                f"{target.shown_host} redirects to {path}, which is not below {folder}",
                hint="use the redirect's path in the tool's url",
            )
    return replace(request, method=method, url=url, headers=headers, content=content, parts=parts)


def _bad_redirect(why: str, *, hint: str = "") -> HttpError:
    return HttpError("bad_redirect", why, hint=hint, sent=True)


def _why(error: Exception) -> str:
    """Return the message of a library's error, without the received bytes after its colon."""
    return failure_text(error).partition(":")[0].lower()
