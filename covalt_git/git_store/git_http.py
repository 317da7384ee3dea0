"""Requests of git's smart HTTP protocol that this process makes itself, without a program.

A process for each request costs more than the request: git starts a second process, and opens a connection.  Here the
connections stay open, and a push needs one request, because the expected old values are known.  Stock git makes the request
if this cannot do it (:class:`UnsuitedError`): for ssh and files, with settings of git that are not supported here, for a login,
for large transfers, and to report why a server refuses.  Formats: ``gitprotocol-http(5)``, ``gitprotocol-v2(5)``,
``gitprotocol-pack(5)``.
"""

from __future__ import annotations

import http.client
import os
import select
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FETCH, PUSH = "git-upload-pack", "git-receive-pack"
"""The services of a git server."""

MOST_BYTES = 8 << 20
"""Size of the largest request and response; stock git streams larger ones."""

_SILENT_S = 60.0
"""Time after which a server that sends nothing counts as unreachable, in seconds, as for stock git."""

_IDLE_S = 30.0
"""Time after which an idle connection is not used again, in seconds: the server may be closing it."""

SETTINGS_S = 60.0
"""Time after which git's settings are read again, in seconds."""

_MOST_IDLE = 8
_OK = 200
_NOT_PROCESSED = {301, 302, 307, 308, 400, 401, 403, 404, 405, 407, 411, 413, 415}
"""Statuses of a request that the server has not processed, so that stock git may repeat it and report why."""

_IMPORTANT = ("http.", "protocol.", "push.pushoption", "url.")
"""Settings of git that may matter to requests: they can also replace a URL, or forbid a protocol."""

_HARMLESS = {
    "http.followredirects",
    "http.lowspeedlimit",
    "http.lowspeedtime",
    "http.maxrequests",
    "http.minsessions",
    "http.postbuffer",
    "http.proxy",
    "http.useragent",
    "http.version",
    "protocol.version",
}
"""Those of them that are supported here, or do not matter."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class UnsuitedError(Exception):
    """Stock git has to make this request; the server has not processed it."""


class ServerPlace(NamedTuple):
    """Where connections go: a server, directly or through a proxy ``host:port``."""

    scheme: str
    host: str
    proxy: str = ""


@dataclass
class _Connections:
    """Idle connections to one place, the last used one last, each with the time of its last use; thread-safe."""

    place: ServerPlace
    idle: list[tuple[float, http.client.HTTPConnection]] = field(default_factory=list)

    def take(self) -> http.client.HTTPConnection:
        while self.idle:
            used, connection = self.idle.pop()
            if time.monotonic() - used < _IDLE_S and not _is_closed(connection):
                return connection
            connection.close()
        return self._new()

    def _new(self) -> http.client.HTTPConnection:
        target = self.place.proxy or self.place.host
        if self.place.scheme == "http":
            return http.client.HTTPConnection(target, timeout=_SILENT_S)
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(target, timeout=_SILENT_S, context=context)
        if self.place.proxy:
            connection.set_tunnel(self.place.host)
        return connection

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        self.idle.append((time.monotonic(), connection))
        while len(self.idle) > _MOST_IDLE:
            self.idle.pop(0)[1].close()


_CONNECTIONS: dict[ServerPlace, _Connections] = {}
# A fork has the same sockets, and would read the answers to requests that are not its own.
os.register_at_fork(after_in_child=_CONNECTIONS.clear)

_DROPPED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""Errors of a connection that the server closed while it was idle."""


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has closed an idle connection: then it can be read at once."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


def place_of(url: str, settings: Mapping[str, str]) -> ServerPlace:
    """Return where the connections of a repository go, with git's ``settings`` by their lower-case names.

    Raises:
        UnsuitedError: if stock git would do something that is not supported here.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or parts.username is not None or parts.query:
        raise UnsuitedError
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        raise UnsuitedError
    if parts.scheme == "https" and any(name.startswith("GIT_SSL") for name in os.environ):
        raise UnsuitedError
    if not _HARMLESS.issuperset(name for name in settings if name.startswith(_IMPORTANT)):
        raise UnsuitedError
    proxied = urlsplit(settings.get("http.proxy", ""))
    is_usual = proxied.scheme == "http" and proxied.port and proxied.username is None
    if proxied.geturl() and not is_usual:
        raise UnsuitedError
    return ServerPlace(parts.scheme, parts.netloc, proxied.netloc)


@dataclass(frozen=True, slots=True)
class GitHttp:
    """Requests to one repository; ``headers`` are sent with each of them."""

    url: str
    place: ServerPlace
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def get(self, service: str) -> bytes:
        """Return the refs that a service offers, and its capabilities.

        Raises:
            UnsuitedError: as of the class.
            OSError: if the server does not answer; also HTTPException.
        """
        path = f"/info/refs?service={service}"
        return self._request("GET", path, None, f"application/x-{service}-advertisement", {})

    def post(self, service: str, body: bytes, **headers: str) -> bytes:
        """Return the answer of a service to a request.

        Raises:
            UnsuitedError: as of the class.
            OSError: if it is not known what the server has done; also HTTPException.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Content-Type"] = f"application/x-{service}-request"
        return self._request("POST", f"/{service}", body, f"application/x-{service}-result", named)

    def _request(
        self, method: str, path: str, body: bytes | None, accept: str, headers: dict[str, str]
    ) -> bytes:
        if body is not None and len(body) > MOST_BYTES:
            raise UnsuitedError
        connections = _CONNECTIONS.setdefault(self.place, _Connections(self.place))
        connection = connections.take()
        was_idle = connection.sock is not None
        is_proxied = self.place.proxy and self.place.scheme == "http"
        target = self.url + path if is_proxied else urlsplit(self.url).path + path
        sent = {"User-Agent": "git/covalt-git", "Accept": accept, **dict(self.headers), **headers}
        try:
            connection.request(method, target, body, sent)
            response = connection.getresponse()
            content = response.read(MOST_BYTES + 1)
        except ssl.SSLCertVerificationError:
            connection.close()
            raise UnsuitedError from None  # git may have other certificates
        except _DROPPED:
            connection.close()
            # The server may close a connection while a request is on its way to it. A read is repeated. A push is not,
            # because the server may have moved the refs, and then refuses the second one.
            if not was_idle or path == f"/{PUSH}":
                raise
            return self._request(method, path, body, accept, headers)
        except BaseException:
            connection.close()
            raise
        if not response.isclosed() or response.will_close:
            connection.close()
        else:
            connections.give_back(connection)
        if response.status in _NOT_PROCESSED or len(content) > MOST_BYTES:
            raise UnsuitedError
        if response.status != _OK:
            raise http.client.HTTPException(
                f"the server answered with the status {response.status}"
            )
        if response.getheader("Content-Type") != accept:
            raise UnsuitedError
        return content


# Pkt-lines

FLUSH, DELIMITER = b"0000", b"0001"
_MOST_LINE = 65_516


class MalformedAnswerError(http.client.HTTPException):
    """The answer of a server is malformed or cut off."""


def line(text: str) -> bytes:
    """Return a pkt-line."""
    content = text.encode()
    return b"%04x%s" % (len(content) + 4, content)


def packets(content: bytes) -> Iterator[bytes | None]:
    """Yield the pkt-lines of an answer; None for a flush or a delimiter.

    Raises:
        MalformedAnswerError: if it is malformed or cut off.
    """
    at = 0
    while at < len(content):
        try:
            size = int(content[at : at + 4], 16)
        except ValueError:
            raise MalformedAnswerError("the answer of the server is malformed") from None
        if size < len(FLUSH):
            at += 4
            yield None
            continue
        if at + size > len(content) or size > _MOST_LINE + 4:
            raise MalformedAnswerError("the answer of the server is cut off")
        yield content[at + 4 : at + size]
        at += size


class OfferedRefs(NamedTuple):
    """The first answer of a service: its refs with their object ids, and its capabilities."""

    refs: dict[str, str]
    capabilities: frozenset[str]

    @property
    def head(self) -> str | None:
        """The branch in HEAD."""
        start = "symref=HEAD:"
        names = (name for name in self.capabilities if name.startswith(start))
        return next((name.removeprefix(start) for name in names), None)

    @property
    def object_format(self) -> str:
        """The object format of the repository."""
        start = "object-format="
        names = (name for name in self.capabilities if name.startswith(start))
        return next((name.removeprefix(start) for name in names), "sha1")


def read_offer(content: bytes) -> OfferedRefs:
    """Return the first answer of a service, in version 0 of the protocol.

    Raises:
        MalformedAnswerError: if it is malformed.
    """
    refs: dict[str, str] = {}
    capabilities: frozenset[str] = frozenset()
    for packet in packets(content):
        if packet is None or packet.startswith((b"# service=", b"version ")):
            continue
        text, _, words = packet.rstrip(b"\n").decode("utf-8", "surrogateescape").partition("\0")
        if words:
            capabilities = frozenset(words.split())
        oid, _, ref = text.partition(" ")
        if ref.startswith("refs/") and not ref.endswith("^{}"):
            refs[ref] = oid
    return OfferedRefs(refs, capabilities)


def read_pack(content: bytes) -> list[bytes]:
    """Return the parts of the pack in the answer to a fetch, in version 2 of the protocol.

    Raises:
        UnsuitedError: if the server has no version 2, or not all objects.
        MalformedAnswerError: if the answer is malformed or cut off.
    """
    parts: list[bytes] = []
    is_pack, is_complete = False, False
    try:
        for packet in packets(content):
            if not is_pack:
                if packet != b"packfile\n":
                    raise UnsuitedError
                is_pack = True
            elif packet is None:
                is_complete = True
            elif packet[:1] == b"\1":
                parts.append(packet[1:])
            elif packet[:1] == b"\3":
                raise UnsuitedError
    except MalformedAnswerError:
        if not is_pack:  # of a server without version 2
            raise UnsuitedError from None
        raise
    if not is_complete:
        raise MalformedAnswerError("the answer of the server is cut off")
    return parts


def read_report(content: bytes) -> dict[str, str]:
    """Return the reason for each ref that a push did not move.

    Raises:
        UnsuitedError: if the server could not store the objects.
        MalformedAnswerError: if the report is malformed or cut off.
    """
    refused: dict[str, str] = {}
    lines = [packet for packet in packets(content) if packet is not None]
    texts = [text.rstrip(b"\n").decode("utf-8", "replace") for text in lines]
    if not texts or not content.endswith(FLUSH):
        raise MalformedAnswerError("the report of the server is cut off")
    for text in texts:
        word, _, rest = text.partition(" ")
        if word == "unpack" and rest != "ok":
            raise UnsuitedError
        if word == "ng":
            ref, _, why = rest.partition(" ")
            refused[ref] = why
    return refused


def report_request(moves: Iterable[tuple[str, str, str]], capabilities: str) -> bytes:
    """Return the part of a push before its pack: old and new object ids of refs, which are of zeros for no object."""
    lines = [f"{old} {new} {ref}" for ref, old, new in moves]
    first, *others = lines
    return b"".join([line(f"{first}\0{capabilities}"), *map(line, others), FLUSH])
