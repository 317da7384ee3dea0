"""Requests of git's smart HTTP protocol that this process makes itself, without a program.

A process for each request costs more than the request: git starts a second process, and opens a connection.  Here the
connections stay open, and a push needs one request, because the expected old values are known.  Stock git makes the request
if this cannot do it (:class:`UnsuitedError`): for ssh and files, with a proxy and other settings of git that are not supported
here, for a login, for large transfers, and to report why a server refuses.

The server may lie, and a program between may cut or replace an answer.  So a request counts as successful only after a complete
answer of the exact form.  The outcome of a push is not known after every other answer, except one of a server that has
certainly not processed it.  Formats: ``gitprotocol-http(5)``, ``gitprotocol-v2(5)``, ``gitprotocol-pack(5)``.
"""

from __future__ import annotations

import functools
import http.client
import io
import os
import re
import select
import ssl
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from dulwich.refs import Ref, check_ref_format

from covalt_git.git_store.objects import is_object_id

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from _typeshed import WriteableBuffer

FETCH, PUSH = "git-upload-pack", "git-receive-pack"
"""The services of a git server."""

MOST_BYTES = 8 << 20
"""Size of the largest request and response; stock git streams larger ones."""

_SILENT_S = 60.0
"""Time after which a server that sends nothing counts as unreachable, in seconds, as for stock git."""

_IDLE_S = 30.0
"""Time after which an idle connection is not used again, in seconds: the server may be closing it."""

_MOST_S = 600.0
"""Time that a request may take as a whole, in seconds."""

SETTINGS_S = 60.0
"""Time after which git's settings are read again, in seconds."""

_MOST_IDLE = 8
_OK = 200
_NOT_PROCESSED = {301, 302, 307, 308, 400, 401, 403, 404, 405, 407, 411, 413, 415}
"""Statuses of a request that the server has not processed, so that stock git may repeat it and report why.

No 5xx is one of them: a proxy also answers so after the server has moved the refs.
"""

_IMPORTANT = ("http.", "protocol.", "push.pushoption", "url.")
"""Settings of git that may matter to requests: they can also replace a URL, or forbid a protocol."""

_HARMLESS = {
    "http.followredirects",
    "http.lowspeedlimit",
    "http.lowspeedtime",
    "http.maxrequests",
    "http.minsessions",
    "http.postbuffer",
    "http.useragent",
    "http.version",
    "protocol.version",
}
"""Those of them that are supported here, or do not matter."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9:/._~%+@!$&'()*,;=-]+(?<!/)")
_DOTS = re.compile(r"/\.\.?(?:/|$)")
_PART = 1 << 16


class UnsuitedError(Exception):
    """Stock git has to make this request; the server has not processed it."""


class ServerPlace(NamedTuple):
    """The server to which connections go."""

    scheme: str
    host: str


@dataclass
class _Connections:
    """Idle connections to one place, the last used one last, each with the time of its last use; thread-safe."""

    place: ServerPlace
    idle: list[tuple[float, http.client.HTTPConnection]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> http.client.HTTPConnection:
        while (last := self._pop()) is not None:
            used, connection = last
            if time.monotonic() - used < _IDLE_S and not _is_closed(connection):
                return connection
            connection.close()
        return self._new()

    def _pop(self) -> tuple[float, http.client.HTTPConnection] | None:
        with self._lock:
            return self.idle.pop() if self.idle else None

    def _new(self) -> http.client.HTTPConnection:
        host = self.place.host
        if self.place.scheme == "http":
            return http.client.HTTPConnection(host, timeout=_SILENT_S)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, timeout=_SILENT_S, context=context)

    def give_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self.idle.append((time.monotonic(), connection))
            surplus, self.idle = self.idle[:-_MOST_IDLE], self.idle[-_MOST_IDLE:]
        for _, oldest in surplus:
            oldest.close()


_CONNECTIONS: dict[ServerPlace, _Connections] = {}
# A fork has the same sockets, and would read the answers to requests that are not its own.
os.register_at_fork(after_in_child=_CONNECTIONS.clear)

_DROPPED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
"""Errors of a connection that the server closed while it was idle."""


class _TimedReader(io.RawIOBase):
    """The bytes that arrive at a socket until a time."""

    def __init__(self, sock: socket.socket, end: float) -> None:
        self._socket = sock
        self._end = end
        # http.client closes the connection before the body is read if the server announces that it will close it.  This
        # file keeps the socket open.
        self._bytes = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._socket.settimeout(_left(self._end))
        return self._bytes.readinto(buffer)

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """A response that has to be complete at a time: a byte now and then does not keep the request alive."""

    def __init__(self, sock: socket.socket, *args: Any, end: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock, end))


def _left(end: float) -> float:
    """Return how long the next bytes may take, in seconds."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("the request takes too long")
    return min(_SILENT_S, left)


def _parts(connection: http.client.HTTPConnection, body: bytes, end: float) -> Iterator[bytes]:
    """Yield the body of a request in parts, because the time limit of a socket is that of one part."""
    for at in range(0, len(body), _PART):
        if connection.sock is not None:
            connection.sock.settimeout(_left(end))
        yield body[at : at + _PART]


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Return whether the server has closed an idle connection: then it can be read, although no answer is expected."""
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
    # Curl encodes other characters, removes `/../`, and leaves out `#`; and git, a slash at the end.
    if not _PLAIN_URL.fullmatch(url) or _DOTS.search(url):
        raise UnsuitedError
    parts = urlsplit(url)
    if parts.username is not None:
        raise UnsuitedError
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        raise UnsuitedError
    if parts.scheme == "https" and any(name.startswith("GIT_SSL") for name in os.environ):
        raise UnsuitedError
    if not _HARMLESS.issuperset(name for name in settings if name.startswith(_IMPORTANT)):
        raise UnsuitedError
    return ServerPlace(parts.scheme, parts.netloc)


@dataclass(frozen=True, slots=True)
class GitHttp:
    """Requests to one repository; ``headers`` are sent with each of them."""

    url: str
    place: ServerPlace
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    most_s: float = _MOST_S

    def get(self, service: str) -> bytes:
        """Return the refs that a service offers, and its capabilities.

        Raises:
            UnsuitedError: if stock git has to make the request.
            OSError: if the server does not answer; also HTTPException.
        """
        end = time.monotonic() + self.most_s
        path = f"/info/refs?service={service}"
        accept = f"application/x-{service}-advertisement"
        return self._request("GET", path, None, {"Accept": accept}, end)

    def post(self, service: str, body: bytes, **headers: str) -> bytes:
        """Return the answer of a service to a request.

        Raises:
            UnsuitedError: if stock git has to make the request.
            OSError: if it is not known what the server has done; also HTTPException.
        """
        end = time.monotonic() + self.most_s
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Accept"] = f"application/x-{service}-result"
        named["Content-Type"] = f"application/x-{service}-request"
        named["Content-Length"] = str(len(body))
        return self._request("POST", f"/{service}", body, named, end)

    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], end: float
    ) -> bytes:
        if body is not None and len(body) > MOST_BYTES:
            raise UnsuitedError
        connections = _CONNECTIONS.setdefault(self.place, _Connections(self.place))
        connection = connections.take()
        was_idle = connection.sock is not None
        target = urlsplit(self.url).path + path
        sent = {"User-Agent": "git/covalt-git", **dict(self.headers), **headers}
        timed = functools.partial(_TimedResponse, end=end)
        connection.response_class = cast("type[http.client.HTTPResponse]", timed)
        try:
            if connection.sock is not None:
                connection.sock.settimeout(_left(end))
            parts = None if body is None else _parts(connection, body, end)
            connection.request(method, target, parts, sent)
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
            return self._request(method, path, body, headers, end)
        except BaseException:
            connection.close()
            raise
        if not response.isclosed() or response.will_close:
            connection.close()
        else:
            connections.give_back(connection)
        return _checked(response, content, headers["Accept"], is_push=path == f"/{PUSH}")


def _checked(
    response: http.client.HTTPResponse, content: bytes, accepted: str, *, is_push: bool
) -> bytes:
    """Return the content of an answer, if it is complete and of the accepted type."""
    if response.status in _NOT_PROCESSED:
        raise UnsuitedError
    if response.status != _OK:
        raise http.client.HTTPException(f"the server answered with the status {response.status}")
    is_large, is_other = len(content) > MOST_BYTES, response.getheader("Content-Type") != accepted
    # Stock git may repeat a read, but this push may have moved the refs
    # (test_an_answer_of_another_type_to_a_push_leaves_its_outcome_unknown).
    if (is_large or is_other) and is_push:
        raise MalformedAnswerError("the server does not answer as a git server")
    if is_large or is_other:
        raise UnsuitedError
    if response.length:  # http.client does not report it
        raise MalformedAnswerError("the answer of the server is cut off")
    return content


# Pkt-lines

FLUSH, DELIMITER = b"0000", b"0001"
_MOST_LINE = 65_520
_LENGTH = re.compile(rb"[0-9a-fA-F]{4}")


class MalformedAnswerError(http.client.HTTPException):
    """The answer of a server is malformed or cut off."""


def line(text: str) -> bytes:
    """Return a pkt-line."""
    content = text.encode()
    return b"%04x%s" % (len(content) + 4, content)


def packets(content: bytes) -> Iterator[bytes | None]:
    """Yield the pkt-lines of an answer; None for a flush.

    Raises:
        MalformedAnswerError: if it is malformed or cut off, or has a delimiter, which no answer here has.
    """
    at = 0
    while at < len(content):
        # int() alone also accepts signs, spaces and underscores.
        digits = _LENGTH.match(content, at)
        size = int(digits[0], 16) if digits else 1
        if 0 < size < len(FLUSH) or size > _MOST_LINE:
            raise MalformedAnswerError("the answer of the server is malformed")
        if at + size > len(content):
            raise MalformedAnswerError("the answer of the server is cut off")
        yield content[at + len(FLUSH) : at + size] if size else None
        at += size or len(FLUSH)


def _section(content: bytes) -> list[bytes]:
    """Return the pkt-lines of an answer that has one flush, at its end.

    Raises:
        MalformedAnswerError: if it is not so, or if the server reports an error.
    """
    *lines, end = [*packets(content)] or [b""]
    for text in (*lines, end):
        if text is not None and text.startswith(b"ERR "):
            why = text[4:].decode("utf-8", "replace").rstrip()
            raise MalformedAnswerError(f"the server reports: {why}")
    texts = [text for text in lines if text is not None]
    if end is not None or len(texts) < len(lines):
        raise MalformedAnswerError("the answer of the server is malformed or cut off")
    return texts


def is_ref(name: str) -> bool:
    """Return whether a ref of a server has a valid name."""
    return name.startswith("refs/") and check_ref_format(Ref(name.encode("utf-8", "replace")))


_PEELED, _NO_REFS = "^{}", " capabilities^{}"
_DIGITS = {"sha1": 40, "sha256": 64}


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


def read_offer(content: bytes, service: str) -> OfferedRefs:
    """Return the first answer of a service, in version 0 of the protocol.

    Raises:
        UnsuitedError: if stock git has to read it.
        MalformedAnswerError: if it is malformed or cut off.
    """
    start = line(f"# service={service}\n") + FLUSH
    if not content.startswith(start):
        _section(content)  # it may be the report of an error
        raise MalformedAnswerError("the server does not answer as a git server")
    rows = [row.removesuffix(b"\n") for row in _section(content[len(start) :])]
    if not rows and service == FETCH:  # git's answer for an empty repository
        return OfferedRefs({}, frozenset())
    first, separator, words = (rows or [b""])[0].partition(b"\0")
    if not separator:
        raise MalformedAnswerError("the server does not answer as a git server")
    try:
        capabilities = frozenset(words.decode().split())
        texts = [row.decode() for row in (first, *rows[1:])]
    except UnicodeDecodeError:
        raise UnsuitedError from None
    offer = OfferedRefs({}, capabilities)
    digits = _DIGITS.get(offer.object_format)
    if digits is None:
        raise UnsuitedError
    if texts == ["0" * digits + _NO_REFS]:
        return offer
    for text in texts:
        oid, _, ref = text.partition(" ")
        if oid == "shallow":
            raise UnsuitedError
        if not is_object_id(oid) or len(oid) != digits or not oid.strip("0"):
            raise MalformedAnswerError("the server lists a malformed object id")
        if ref.endswith(_PEELED) and ref.removesuffix(_PEELED) in offer.refs:
            continue
        # `.have` is no ref, but names an object of a repository from which the server's repository borrows objects.
        if (ref not in {"HEAD", ".have"} and not is_ref(ref)) or ref in offer.refs:
            raise MalformedAnswerError("the server lists a ref with an invalid name")
        if ref.startswith("refs/"):
            offer.refs[ref] = oid
    return offer


def read_pack(content: bytes) -> list[bytes]:
    """Return the parts of the pack in the answer to a fetch, in version 2 of the protocol.

    Raises:
        UnsuitedError: if the server has no version 2, or not all objects.
        MalformedAnswerError: if the answer is malformed or cut off.
    """
    if not content.startswith(line("packfile\n")):
        raise UnsuitedError
    parts: list[bytes] = []
    for packet in _section(content)[1:]:
        band, part = packet[:1], packet[1:]
        if band == b"\3":
            raise UnsuitedError
        if band not in {b"\1", b"\2"}:
            raise MalformedAnswerError("the answer of the server is malformed")
        if band == b"\1":
            parts.append(part)
    return parts


def read_report(content: bytes, refs: Collection[str]) -> dict[str, str]:
    """Return the reason for each of ``refs`` that a push did not move: for all of them, or for none.

    Raises:
        UnsuitedError: if the server could not store the objects, and moved nothing.
        MalformedAnswerError: if it is not known what the server did.
    """
    first, *rows = [
        row.removesuffix(b"\n").decode("utf-8", "surrogateescape") for row in _section(content)
    ] or [""]
    moved: list[str] = []
    refused: dict[str, str] = {}
    for row in rows:
        word, _, rest = row.partition(" ")
        ref, _, why = rest.partition(" ")
        if word == "ok":
            moved.append(rest)
        elif word == "ng" and why:
            refused[ref] = why
        else:
            raise MalformedAnswerError("the report of the server is malformed")
    is_complete = len(rows) == len(refs) and {*moved, *refused} == {*refs}
    if not first.startswith("unpack ") or not is_complete:
        raise MalformedAnswerError("the report of the server does not have each ref once")
    if moved and (refused or first != "unpack ok"):
        why = "".join(f": {ref}: {reason}" for ref, reason in [*refused.items()][:1])
        raise MalformedAnswerError(f"the server moved some of the refs of an atomic push only{why}")
    if first != "unpack ok":
        raise UnsuitedError
    return refused


def report_request(moves: Iterable[tuple[str, str, str]], capabilities: str) -> bytes:
    """Return the part of a push before its pack: old and new object ids of refs, which are of zeros for no object."""
    lines = [f"{old} {new} {ref}" for ref, old, new in moves]
    first, *others = lines
    return b"".join([line(f"{first}\0{capabilities}"), *map(line, others), FLUSH])
