"""Redirect URL of a login: a local HTTP server that accepts a single redirect.

Sources: RFC 8252, "Loopback Interface Redirection"; OAuth 2.1, "Authorization Response".
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Self
from urllib.parse import parse_qsl, urlsplit

_PATH = "/callback"
# Any program of the machine, and any page in a browser, can connect: each limit bounds what it costs.
_MOST_BYTES = 16 << 10
_READ_S = 10.0
_MOST_FIELDS = 20
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>covalt-git</title>
<p style="font: 1.1rem system-ui; margin: 4rem auto; max-width: 32rem">{text}</p>
"""
_ACCEPTED = 200
_ANSWERS = {
    _ACCEPTED: ("OK", "You can close this page. covalt-git shows whether the login succeeded."),
    400: ("Bad Request", "This is not the redirect that covalt-git waits for."),
    404: ("Not Found", "This page does not exist."),
    405: ("Method Not Allowed", "Only GET is allowed."),
    410: ("Gone", "The login is already over."),
}


class Callback:
    """Local HTTP server for one redirect of the authorization server; enter it before use.

    ``host`` is the name of this machine in the redirect URL, and ``port`` its port; 0 chooses an available one.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._name, self._port = host, port
        self._redirect: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._state: str | None = None

    async def __aenter__(self) -> Self:
        """Listen on the port.

        Raises:
            OSError: if another program listens on it.
        """
        # An IP address, since `localhost` may also resolve to an interface that others reach (RFC 8252, section
        # 8.3).
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self._port, limit=_MOST_BYTES
        )
        self._host = f"{self._name}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://{self._host}{_PATH}"

    def expect(self, state: str) -> None:
        """Accept only a redirect with this secret state."""
        self._state = state

    def paste(self, address: str) -> bool:
        """Accept the address that a browser of another machine ended at; return whether it is the expected redirect."""
        url, _, query = address.strip().partition("?")
        # Exactly: a prefix of another port or path would be the redirect of another program.
        return url == self.url and self._accept(query.partition("#")[0]) == _ACCEPTED

    async def redirect(self) -> dict[str, str]:
        """Wait for the redirect, and return its parameters."""
        return await self._redirect

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status = self._handle(head.decode("latin-1"))
                writer.write(_page(status))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _handle(self, head: str) -> int:
        """Return the HTTP status of a request; accept it if it is the expected redirect."""
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target, _, version = rest.partition(" ")
        hosts = [
            line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")
        ]
        # A page of another site reaches this port under its own name, by DNS rebinding.
        if hosts != [self._host] or not version.startswith("HTTP/1."):
            return 400
        path, _, query = target.partition("?")
        if path != _PATH:
            return 404
        if method != "GET":
            return 405
        return self._accept(query)

    def _accept(self, query: str) -> int:
        # A second redirect would be a replay; before the login has a state, each one is from another program.
        if self._redirect.done() or self._state is None:
            return 410
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError:
            return 400
        fields = dict(pairs)
        state = fields.get("state", "").encode()
        # Of a repeated parameter, this server and the SDK could read different values (RFC 6749, section 3.1).
        is_unique = len(fields) == len(pairs)
        # Without the state, a page could have the user sign in with the attacker's account (RFC 6749, section
        # 10.12); compared in constant time, because a page can try often.
        if not is_unique or not secrets.compare_digest(state, self._state.encode()):
            return 400
        if ("code" in fields) == ("error" in fields):
            return 400
        self._redirect.set_result(fields)
        return _ACCEPTED


def state_of(url: str) -> str:
    """Return the state of an authorization URL."""
    return dict(parse_qsl(urlsplit(url).query)).get("state", "")


def _page(status: int) -> bytes:
    reason, text = _ANSWERS[status]
    body = _PAGE.format(text=text).encode()
    head = [
        f"HTTP/1.1 {status} {reason}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body
