"""Network at the level ``full``: a loopback interface, and a listener for the egress proxy.

A socket belongs to the network namespace that it was created in, in whatever process it is used.  So the
listener is created on the sandbox's loopback interface and sent out; :mod:`covalt_git.runtime.egress` accepts
on it.
"""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox.policy import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOCAL = ("localhost", "127.", "[::1]")
_SET_FLAGS = 0x8914
_UP_AND_RUNNING = 0x41


def bring_up_loopback() -> None:
    """Bring up the loopback interface of this network namespace, its only one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("=16sh14x", b"lo", _UP_AND_RUNNING))


def send_listener(end: int) -> str:
    """Create the listener, send it over the Unix socket ``end``, and return the proxy's URL.

    Raises:
        SandboxError: if the other end is closed.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(fileno=end) as outside,
    ):
        try:
            socket.send_fds(outside, [b"1"], [listener.fileno()])
        except OSError as error:
            raise SandboxError(
                "connect to the egress proxy", error.strerror or str(error)
            ) from error
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def reaches_this_machine(hosts: Sequence[str]) -> bool:
    """Return whether a host of this machine is granted; without one, programs do not use the proxy for ``localhost``."""
    return any(host.rpartition("://")[2].startswith(_LOCAL) for host in hosts)


def variables(proxy: str, hosts: Sequence[str]) -> dict[str, str]:
    """Return the environment variables that make programs use the proxy."""
    # Both spellings: curl reads the lower case of `http_proxy` only, and other programs one of the two.
    values = {
        name: proxy
        for kind in ("http", "https")
        for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY")
    }
    values["NODE_USE_ENV_PROXY"] = "1"  # without it, Node's own fetch ignores the others
    if not reaches_this_machine(hosts):
        own = "localhost,127.0.0.1,::1"  # servers that the tool itself started
        values |= {"no_proxy": own, "NO_PROXY": own}
    return values
