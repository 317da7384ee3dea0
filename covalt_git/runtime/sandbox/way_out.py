"""A tool's way to the hosts that were granted: a listener inside that somebody outside accepts on.

A socket belongs to the network namespace that it was made in, whoever holds it.  So the listener is
made on the tool's own loopback interface and handed out; :mod:`covalt_git.runtime.egress` answers.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox.walls import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOCAL = ("localhost", "127.", "[::1]")


def hand_out(end: int) -> str:
    """Make the listener, hand it out over the Unix socket ``end``, and return the proxy's address.

    Raises:
        SandboxError: nobody takes it.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(fileno=end) as outside,
    ):
        try:
            socket.send_fds(outside, [b"1"], [listener.fileno()])
        except OSError as error:
            raise SandboxError("hand out its way out", error.strerror or str(error)) from error
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def variables(proxy: str, hosts: Sequence[str]) -> dict[str, str]:
    """Return the environment that tells programs of the proxy."""
    found = {
        name: proxy
        for kind in ("http", "https")
        for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY")
    }
    if not any(host.rpartition("://")[2].startswith(_LOCAL) for host in hosts):
        own = "localhost,127.0.0.1,::1"  # a server that the tool itself started
        found |= {"no_proxy": own, "NO_PROXY": own}
    return found
