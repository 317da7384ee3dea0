"""Connections to checked addresses, on which every wait ends in time or when it is cancelled."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import httpcore2

from covalt_git.http_client.failures import HttpError
from covalt_git.http_client.patience import SLICE_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.hosts import Reach
    from covalt_git.http_client.patience import Patience

Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a host that is asked for with a port, or raises OSError."""

Done = TypeVar("Done")
_CHUNK = 1 << 16
_UNDER_WAY = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY}


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host as this machine knows them; an address is its own.

    Raises:
        OSError: when there are none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Network(httpcore2.NetworkBackend):
    """Connects to granted hosts only; one for each exchange, whose patience it shares."""

    def __init__(
        self, reach: Reach, resolve: Resolve, patience: Patience, *, connect_s: float
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._patience = patience
        self._connect_s = connect_s

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the exchange has its own time
        local_address: str | None = None,  # noqa: ARG002 - nobody asks for one
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - nobody asks for some
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of the host that answers; all of them are checked before.

        Raises:
            HttpError: when one of them may not be reached, or none answers.
        """
        addresses = self._addresses(host, port)
        why = "it has no address"
        for address in addresses:
            try:
                return Stream(self._connected(address, port), host, self._patience)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
        raise HttpError("connection_failed", f"{host} cannot be reached: {why}", passing=True)

    def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = self._looked_up(host, port)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise HttpError(
                "connection_failed", f"{host} has no address: {why.lower()}", passing=True
            ) from None
        for address in addresses:
            why = self._reach.why_not(host, address)
            if why:
                raise HttpError("refused_destination", f"{why}, and was not granted")
        return addresses

    def _looked_up(self, host: str, port: int) -> Sequence[str]:
        """Look a host up in a thread of its own: the system's resolver takes no time limit."""
        answers: queue.SimpleQueue[Sequence[str] | Exception] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(self._resolve(host, port))
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                answers.put(error)

        threading.Thread(target=look_up, daemon=True, name=f"resolve {host}").start()
        while True:
            left = self._patience.check(f"looking up {host}")
            with contextlib.suppress(queue.Empty):
                answer = answers.get(timeout=min(left, SLICE_S))
                if isinstance(answer, Exception):
                    raise answer
                return answer

    def _connected(self, address: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = made.connect_ex((address, port))
            if code in _UNDER_WAY:
                self._wait_connected(made, address)
                code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
        except BaseException:
            made.close()
            raise
        return made

    def _wait_connected(self, made: socket.socket, address: str) -> None:
        end = time.monotonic() + self._connect_s
        while not _ready(made, select.POLLOUT, self._patience.check(f"connecting to {address}")):
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, f"no answer within {self._connect_s:g} s")


class Stream(httpcore2.NetworkStream):
    """One connection."""

    def __init__(self, made: socket.socket, host: str, patience: Patience) -> None:
        self._socket = made
        self._host = host
        self._patience = patience

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return what came, at most that much; nothing at the end.

        Raises:
            HttpError: when nothing comes in time, or the connection breaks.
        """
        try:
            return self._waiting(
                lambda: self._socket.recv(max_bytes), select.POLLIN, timeout, "the answer of"
            )
        except ssl.SSLEOFError:
            return b""  # cut off without a goodbye: what was framed tells whether all of it came
        except OSError as error:
            raise self._broken(error) from None

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it.

        Raises:
            HttpError: when it is not taken in time, or the connection breaks.
        """
        view = memoryview(buffer)
        try:
            while view:
                chunk = view[:_CHUNK]
                sent = self._waiting(
                    lambda chunk=chunk: self._socket.send(chunk),  # type: ignore[misc]
                    select.POLLOUT,
                    timeout,
                    "sending to",
                )
                view = view[sent:]
        except OSError as error:
            raise self._broken(error) from None

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Return the connection with TLS on it.

        Raises:
            HttpError: when the other side cannot show that it is the host, or there is no TLS.
        """
        secured = self._socket
        # The context of macOS verifies within wrap_socket(), so that the handshake has to be in it.
        at_once = type(ssl_context) is not ssl.SSLContext
        try:
            if at_once:
                left = self._patience.check(f"the handshake with {self._host}")
                secured.settimeout(left if timeout is None else min(left, timeout))
            secured = ssl_context.wrap_socket(
                secured, server_hostname=server_hostname, do_handshake_on_connect=at_once
            )
            secured.setblocking(False)
            self._socket = secured
            if not at_once:
                self._waiting(secured.do_handshake, select.POLLIN, timeout, "the handshake with")
        except ssl.SSLCertVerificationError as error:
            secured.close()
            why = error.verify_message.lower()
            raise HttpError("tls_failed", f"{self._host} cannot be trusted: {why}") from None
        except OSError as error:
            secured.close()
            why = (getattr(error, "reason", None) or error.strerror or str(error)).lower()
            raise HttpError(
                "tls_failed", f"no TLS with {self._host}: {why.replace('_', ' ')}", passing=True
            ) from None
        except HttpError:
            secured.close()
            raise
        return Stream(secured, self._host, self._patience)

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore2 asks about a connection."""
        if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket):
            return self._socket
        if info == "is_readable":
            return _ready(self._socket, select.POLLIN, 0)
        return None

    def _waiting(
        self, act: Callable[[], Done], event: int, timeout: float | None, doing: str
    ) -> Done:
        """Do something as soon as the connection lets us."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = self._patience.check(f"{doing} {self._host}")
            if end is not None and time.monotonic() > end:
                raise HttpError(
                    "timed_out",
                    f"{doing} {self._host} took longer than {timeout:g} s",
                    sent=True,
                    passing=True,
                )
            try:
                return act()
            except ssl.SSLWantReadError:
                _ready(self._socket, select.POLLIN, left)
            except ssl.SSLWantWriteError:
                _ready(self._socket, select.POLLOUT, left)
            except BlockingIOError:
                _ready(self._socket, event, left)

    def _broken(self, error: OSError) -> HttpError:
        why = (getattr(error, "reason", None) or error.strerror or str(error)).lower()
        return HttpError(
            "connection_failed",
            f"the connection to {self._host} broke: {why.replace('_', ' ')}",
            sent=True,
            passing=True,
        )


def _ready(one: socket.socket, event: int, left: float) -> bool:
    """Wait a slice, or less where less is left, until something can be done with a socket."""
    poll = select.poll()
    poll.register(one, event)
    return bool(poll.poll(min(left, SLICE_S) * 1000))
