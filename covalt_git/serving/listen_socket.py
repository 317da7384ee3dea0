"""Listening socket of the server: on the loopback interface, unless the user chooses another host."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from covalt_git.errors import CovaltError
from covalt_git.hosts import ip_text, unmapped

if TYPE_CHECKING:
    from covalt_git.models.project_config import ServerConfig

OWN_HOSTS = ("127.0.0.1", "[::1]")
"""Hosts that are always allowed."""

_BACKLOG = 128
_ANY_PORT = "choose an available port: covalt-git serve --port 0"

_Target: TypeAlias = tuple[socket.AddressFamily, int, tuple[Any, ...]]
"""Family, protocol, and an address of the family, with the port as its second item."""


class CannotListenError(CovaltError):
    """A host or port on which the server cannot listen."""

    code = "cannot_listen"


class ListenSocket(NamedTuple):
    """Listening socket, and its URL.

    Attributes:
        socket: the socket; the caller closes it.
        host: the host in URLs of the server.
        port: the port that was bound, never 0.
        open_to_others: whether other machines can reach it.
    """

    socket: socket.socket
    host: str
    port: int
    open_to_others: bool

    @property
    def url(self) -> str:
        """The URL of the server, without a token."""
        return f"http://{self.host}:{self.port}"


def listen(config: ServerConfig, *, host: str | None, port: int | None) -> ListenSocket:
    """Listen on ``host`` and ``port``; if they are None, on the host and port of ``covalt.yaml``.

    Raises:
        CannotListenError: if the port is in use or forbidden; if the host is unknown or not allowed, or if
            ``covalt.yaml`` names a host that other machines can reach.
    """
    name = config.host if host is None else host
    requested_port = config.port if port is None else port
    target = _resolve(name)
    # Python 3.13 changed is_loopback of IPv4-mapped addresses, so the IPv4 address itself decides.
    address = unmapped(ip_address(target[2][0]))
    # A pull can change covalt.yaml, so only an option of the user's own command opens the server to other
    # machines.
    if not address.is_loopback and host is None:
        raise CannotListenError(
            f"not started: covalt.yaml sets the host {name!r}, which other machines can reach",
            hint=f"to allow that: covalt-git serve --host {name}",
        )
    url_host = _in_url(name, target)
    # The guard would refuse every request to the URL that the command prints.
    if url_host not in OWN_HOSTS and url_host not in config.allowed_hosts:
        raise CannotListenError(
            f"the host {url_host!r} is not allowed",
            hint=f'under server in covalt.yaml, add: allowed_hosts: ["{url_host}"]',
        )
    try:
        bound = _listen(target, requested_port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            # The next free port is not tried: no bookmark, host file or script knows it.
            raise CannotListenError(f"port {requested_port} is in use", hint=_ANY_PORT) from None
        where = f"port {requested_port}" if error.errno == errno.EACCES else target[2][0]
        raise CannotListenError(
            f"cannot listen on {where}: {(error.strerror or '').lower()}", hint=_ANY_PORT
        ) from None
    chosen = bound.getsockname()[1]
    return ListenSocket(bound, url_host, chosen, not address.is_loopback)


def _resolve(host: str) -> _Target:
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CannotListenError(
            f"the host {host!r} was not found", hint="covalt-git serve --host 127.0.0.1"
        ) from None
    family, _, protocol, _, address = addresses[0]
    return family, protocol, address


def _in_url(name: str, target: _Target) -> str:
    """Return the host of the URL of a socket that listens on ``target``."""
    address = ip_address(target[2][0])
    if unmapped(address).is_unspecified:  # all addresses of the machine, so loopback too
        return OWN_HOSTS[target[0] is socket.AF_INET6]
    if unmapped(address).is_loopback or ":" in name:
        return f"[{ip_text(address)}]" if target[0] is socket.AF_INET6 else str(address)
    return name


def _listen(target: _Target, port: int) -> socket.socket:
    family, protocol, address = target
    # Only with an explicit protocol, asyncio turns off Nagle's algorithm, which delays a response in two
    # parts by 40 ms, until the client acknowledges the first part.
    bound = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        # A port with old connections in TIME_WAIT is available.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address[0], port, *address[2:]))
        bound.listen(_BACKLOG)
    except BaseException:
        bound.close()
        raise
    return bound
