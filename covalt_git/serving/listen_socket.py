"""The socket that the server listens on: on this machine, unless the user chooses another host."""

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
"""Hosts that the pages answer to without being told."""

_BACKLOG = 128
_ANY_PORT = "choose a free port: covalt-git serve --port 0"

_Target: TypeAlias = tuple[socket.AddressFamily, int, tuple[Any, ...]]
"""A family, a protocol, and an address of that family whose second part is the port."""


class CannotListenError(CovaltError):
    """The server cannot listen where it should."""

    code = "cannot_listen"


class Listener(NamedTuple):
    """A socket that listens, and how it is reached.

    Attributes:
        socket: it; whoever asked for it closes it.
        host: as it stands in an address that a browser opens.
        port: never 0.
        open_to_others: whether other machines can reach it.
    """

    socket: socket.socket
    host: str
    port: int
    open_to_others: bool

    @property
    def address(self) -> str:
        """Where it is reached, without what lets anybody in."""
        return f"http://{self.host}:{self.port}"


def listen(config: ServerConfig, *, host: str | None, port: int | None) -> Listener:
    """Listen where ``host`` and ``port`` say, or else where ``covalt.yaml`` says.

    Raises:
        CannotListenError: when the port is taken or not allowed; when the host is unknown, one
            that the pages would not answer to, or open to others and not asked for by ``host``.
    """
    name = config.host if host is None else host
    wanted = config.port if port is None else port
    target = _resolve(name)
    address = unmapped(ip_address(target[2][0]))
    if not address.is_loopback and host is None:
        raise CannotListenError(
            f"covalt.yaml puts the server on {name!r}, where others can reach it",
            hint=f"if that is what you want: covalt-git serve --host {name}",
        )
    shown = _in_url(name, target)
    if shown not in OWN_HOSTS and shown not in config.allowed_hosts:
        raise CannotListenError(
            f"the pages would not answer to the host {shown!r}",
            hint=f'under server in covalt.yaml, write: allowed_hosts: ["{shown}"]',
        )
    try:
        listening = _listen(target, wanted)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotListenError(f"port {wanted} is in use", hint=_ANY_PORT) from None
        where = f"port {wanted}" if error.errno == errno.EACCES else target[2][0]
        raise CannotListenError(
            f"cannot listen on {where}: {(error.strerror or '').lower()}", hint=_ANY_PORT
        ) from None
    chosen = listening.getsockname()[1]
    return Listener(listening, shown, chosen, not address.is_loopback)


def _resolve(host: str) -> _Target:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CannotListenError(
            f"no host {host!r} is known here", hint="covalt-git serve --host 127.0.0.1"
        ) from None
    family, _, protocol, _, address = found[0]
    return family, protocol, address


def _in_url(name: str, target: _Target) -> str:
    """Return the host by which what listens on ``target`` is asked for."""
    address = ip_address(target[2][0])
    if unmapped(address).is_unspecified:  # on every address of the machine, so on this one too
        return OWN_HOSTS[target[0] is socket.AF_INET6]
    if unmapped(address).is_loopback or ":" in name:
        return f"[{ip_text(address)}]" if target[0] is socket.AF_INET6 else str(address)
    return name


def _listen(target: _Target, port: int) -> socket.socket:
    family, protocol, address = target
    # With its protocol named: only then asyncio turns off Nagle's algorithm, by which an answer
    # in two parts waits 40 ms for the client to acknowledge the first.
    listening = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        # A port whose last connections are only fading away is free.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address[0], port, *address[2:]))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
