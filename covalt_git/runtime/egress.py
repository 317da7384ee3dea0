"""Egress proxy: the only route out of a tool's network namespace, limited to granted hosts.

The proxy listens on the loopback interface of the namespace (:mod:`.sandbox.network`), and its address is in
``HTTP_PROXY`` and ``HTTPS_PROXY``.  We accept the connections, so no relay runs inside.  A connection names its
destination by ``CONNECT`` or by a request in absolute form (RFC 9110, 9.3.6 and RFC 9112, 3.2.2).  We check the
grant, resolve the name, reject reserved addresses, and connect to the address that was checked.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, Reach, WebOrigin, normal_host, origin_of, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MOST_CONNECTIONS: Final = 32
"""How many connections one tool may have open."""

# A connection takes a thread and two descriptors of our process.  A tool may send nothing over it, or a head without
# an end (test_head_without_end_is_cut).
_HEAD_BYTES = 64 * 1024
_CONNECT_S = 20.0
_SILENT_S = 300.0
_CHUNK = 64 * 1024
_MAX_PORT = 65535
_TARGET = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+):(?P<port>[0-9]{1,5})")
_PER_CONNECTION = {
    b"connection",
    b"proxy-connection",
    b"proxy-authorization",
    b"keep-alive",
    b"host",
}


class EgressRefusedError(CovaltError):
    """A connection that was refused; the tool receives ``http_status`` with the code as its reason."""

    code = "egress_refused"
    http_status = 403

    def __init__(self, message: str, *, code: str = code, status: int = http_status) -> None:
        super().__init__(message)
        self.code, self.http_status = code, status


class _Destination(NamedTuple):
    """Destination of a connection, and the first bytes to send."""

    origin: WebOrigin
    first: bytes
    tunnel: bool


class Egress:
    """Proxy of one sandbox, until it is closed.

    ``descriptor`` is for ``Policy.egress``; after it was sent to the sandbox, ``hand_over`` closes our copy.
    ``report`` gets the message and the destination of each connection that was refused, in a thread of the proxy.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        resolve: Callable[[str, int], Sequence[str]] = resolve,
        report: Callable[[str, WebOrigin], None] = lambda *_: None,
    ) -> None:
        self._reach = Reach.of(*hosts)
        self._resolve = resolve
        self._report = report
        self._ours, self._theirs = socket.socketpair()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        threading.Thread(target=self._serve, name="egress", daemon=True).start()

    @property
    def descriptor(self) -> int:
        """The end for the sandbox."""
        return self._theirs.fileno()

    def hand_over(self) -> None:
        """Close our copy of the sandbox's end."""
        self._theirs.close()

    def close(self) -> None:
        """End every connection, and take no more."""
        with self._lock:
            self._closed = True
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._theirs.close()

    @contextlib.contextmanager
    def _opened(self, end: socket.socket) -> Iterator[None]:
        """Close a socket after the block, which :meth:`close` interrupts.

        Raises:
            ConnectionAbortedError: if the proxy is closed.
        """
        with end:
            # Under the lock: a socket that is opened while `close` runs is either closed by it, or refused here.
            with self._lock:
                if self._closed:
                    raise ConnectionAbortedError
                self._open.add(end)
            try:
                yield
            finally:
                with self._lock:
                    self._open.discard(end)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the proxy is closed
            with self._opened(self._ours):
                _, descriptors, _, _ = socket.recv_fds(self._ours, 1, 1)
            for descriptor in descriptors:
                listener = socket.socket(fileno=descriptor)
                with self._opened(listener):
                    # Before it accepts: further connections wait in the kernel, and take no descriptor.
                    while self._slots.acquire():
                        end, _ = listener.accept()
                        threading.Thread(target=self._connection, args=(end,), daemon=True).start()

    def _connection(self, end: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), self._opened(end):  # one of the two sides has gone
                end.settimeout(_CONNECT_S)
                self._pass_on(end)
        finally:
            self._slots.release()

    def _pass_on(self, end: socket.socket) -> None:
        try:
            destination = _read_destination(end)
        except CovaltError as error:
            _answer(end, error)
            return
        try:
            other = self._reach_out(destination.origin)
        except CovaltError as error:
            if error.code == EgressRefusedError.code:
                self._report(error.message, destination.origin)
            _answer(end, error)
            return
        with self._opened(other):
            if destination.tunnel:
                end.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            other.sendall(destination.first)
            _splice(end, other)

    def _reach_out(self, origin: WebOrigin) -> socket.socket:
        """Return a connection to an address of ``origin`` that may be reached."""
        if not self._reach.covers(origin):
            raise EgressRefusedError(f"{origin} was not granted to this toolset")
        try:
            addresses = self._resolve(origin.host, origin.port)
        except OSError as error:
            raise _unreachable(f"{origin.host} has no address: {error.strerror or error}") from None
        why = "it has no address"
        # All before the first is tried: with a reserved one among them, a name is an attack (DNS rebinding), whichever
        # address comes first (test_name_is_refused_when_one_of_its_addresses_is_kept).
        for address in addresses:
            refused = self._reach.why_not(origin.host, address)
            if refused:
                raise EgressRefusedError(refused)
        for address in addresses:
            try:
                # To the address that was checked: a second look-up could have another answer.
                return socket.create_connection((address, origin.port), timeout=_CONNECT_S)
            except OSError as error:
                why = error.strerror or str(error)
        raise _unreachable(f"{origin} cannot be reached: {why}")


def _read_destination(end: socket.socket) -> _Destination:
    """Read the head of a request, and return what it asks for."""
    head, _, rest = _head(end).partition(b"\r\n\r\n")
    line, *fields = head.split(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
    except ValueError:
        raise _malformed("this is no request to a proxy") from None
    if method == "CONNECT":
        return _Destination(_tunnel_s_end(target), rest, tunnel=True)
    try:
        origin, path = origin_of(target)
    except BadHostError as error:
        raise _malformed(error.message) from None
    if origin.scheme != "http":
        raise _malformed("https goes through a tunnel")
    path = path.partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    others = [field for field in fields if field.partition(b":")[0].lower() not in _PER_CONNECTION]
    # The connection ends with its answer, so that no second request goes where the first one did.  The host is the one
    # that was checked, as a server may have several, and a tool can write another one in its field.
    own = [f"Host: {origin.shown_host}".encode(), b"Connection: close"]
    lines = [f"{method} {path} {version}".encode(), *own, *others]
    return _Destination(origin, b"\r\n".join(lines) + b"\r\n\r\n" + rest, tunnel=False)


def _tunnel_s_end(target: str) -> WebOrigin:
    parts = _TARGET.fullmatch(target)
    if parts is None or not 0 < int(parts["port"]) <= _MAX_PORT:
        raise _malformed("a tunnel goes to HOST:PORT")
    try:
        return WebOrigin("https", normal_host(parts["host"]), int(parts["port"]))
    except BadHostError as error:
        raise _malformed(error.message) from None


def _head(end: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        chunk = end.recv(_CHUNK)
        head += chunk
        if not chunk or len(head) > _HEAD_BYTES:
            raise _malformed("the head of the request is too long, or not whole")
    return head


def _splice(inner: socket.socket, outer: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended, or neither says anything any more."""
    for end in (inner, outer):
        end.settimeout(_SILENT_S)
    with selectors.DefaultSelector() as selector:
        selector.register(inner, selectors.EVENT_READ, outer)
        selector.register(outer, selectors.EVENT_READ, inner)
        while selector.get_map():
            ready = selector.select(_SILENT_S)
            if not ready:
                return
            for key, _ in ready:
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                chunk = source.recv(_CHUNK)
                if chunk:
                    target.sendall(chunk)
                    continue
                # Only this direction: a client may end its request so, and waits for the answer.
                selector.unregister(source)
                with contextlib.suppress(OSError):
                    target.shutdown(socket.SHUT_WR)


def _answer(end: socket.socket, error: CovaltError) -> None:
    text = f"covalt-git: {error.message}{os.linesep}".encode()
    head = (
        f"HTTP/1.1 {error.http_status} {error.code}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    end.sendall(head.encode() + text)


def _unreachable(message: str) -> EgressRefusedError:
    return EgressRefusedError(message, code="unreachable", status=502)


def _malformed(message: str) -> EgressRefusedError:
    return EgressRefusedError(message, code="malformed", status=400)
