"""Who may speak to the server: every request is checked here first, and every answer leaves here.

The server listens on this machine, where any web page that is open in a browser may try to reach
it.  So a request must name a host of ours (against DNS rebinding), must not come from a page of
another origin (the sandboxed pages of tools are such: their origin is ``null``), and must carry the
token that the start of the server printed: in a cookie, or as ``Authorization: Bearer``.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from flask import g, redirect, request

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias, TypeVar

    from flask import Flask
    from werkzeug.datastructures import Headers
    from werkzeug.wrappers import Response

    Given: TypeAlias = Headers | Mapping[str, str]
    Agent = TypeVar("Agent")

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP = 80
_OWN_SITE = {"", "same-origin", "none"}

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with that, a browser sends our own forms with the origin null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class WrongHostError(CovaltError):
    """The request names a host that is not ours: a page of elsewhere had our address for its own."""

    code = "wrong_host"
    http_status = 421


class WrongOriginError(CovaltError):
    """The request was made by a page that is not ours."""

    code = "wrong_origin"
    http_status = 403


class NoTokenError(CovaltError):
    """The request carries no token, or a wrong one."""

    code = "no_token"
    http_status = 401


class Guard(NamedTuple):
    """The checks of one server, which listens on ``port`` and knows one ``token``."""

    token: str
    port: int
    hosts: tuple[str, ...] = ()

    def install(self, app: Flask) -> None:
        """Have every request of an app checked and every answer of it sealed."""
        app.before_request(self.check)
        app.after_request(sealed)

    @property
    def cookie(self) -> str:
        """The cookie's name: cookies ignore ports, and two projects may be open at once."""
        return f"covalt_git_{self.port}"

    def check(self) -> Response | None:
        """Refuse what is not ours to answer; turn the printed address into a cookie.

        Raises:
            WrongHostError: for a foreign host.
            WrongOriginError: for a request of a foreign page.
            NoTokenError: without the token.
        """
        g.nonce = secrets.token_urlsafe(16)
        self.check_sender()
        printed = request.args.get("token") if request.method == "GET" else None
        if printed is not None and self.is_token(printed):
            return self._signed_in()
        if not self.is_token(self._carried()):
            raise NoTokenError(
                "this needs the token of the server",
                hint="open the address that covalt-git serve printed, with its ?token=...",
            )
        return None

    def check_sender(self) -> None:
        """Refuse what is not ours to answer, whoever asks.

        Raises:
            WrongHostError: for a foreign host.
            WrongOriginError: for a request of a foreign page.
        """
        self.check_from(request.headers)

    def check_client(self, headers: Given, known: Callable[[str], Agent | None]) -> Agent | None:
        """Return whom ``known`` knows by the token in the headers of a request; None by the server's own.

        Raises:
            WrongHostError: for a foreign host.
            WrongOriginError: for a request of a foreign page.
            NoTokenError: without a token that opens anything.
        """
        self.check_from(headers)
        given = _bearer(headers)
        if self.is_token(given):
            return None
        agent = known(given)
        if agent is None:
            raise NoTokenError(
                "this needs the token of an agent that is in force",
                hint="send Authorization: Bearer with what covalt-git token new --role ROLE printed",
            )
        return agent

    def check_from(self, headers: Given) -> None:
        """Refuse what is not ours to answer by its headers, with or without a token.

        Raises:
            WrongHostError: for a foreign host.
            WrongOriginError: for a request of a foreign page.
        """
        self._check_host(headers)
        self._check_origin(headers)

    def is_token(self, given: str) -> bool:
        """Tell whether ``given`` is the server's token, in a time that says nothing about it."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _check_host(self, headers: Given) -> None:
        if headers.get("Host", "").lower() not in self._own_hosts():
            raise WrongHostError(
                "the server does not answer to that host",
                hint=f"open http://127.0.0.1:{self.port}/, or name the host under "
                "server.allowed_hosts in covalt.yaml",
            )

    def _check_origin(self, headers: Given) -> None:
        origin = headers.get("Origin")
        own = {f"{scheme}://{host}" for scheme in ("http", "https") for host in self._own_hosts()}
        site = headers.get("Sec-Fetch-Site", "").lower()
        if (origin is not None and origin.lower() not in own) or site not in _OWN_SITE:
            raise WrongOriginError(
                "the request comes from a page of another origin",
                hint="type the address, or follow a link on the server's own pages",
            )

    def _own_hosts(self) -> set[str]:
        named = {name.lower() for name in self.hosts}
        own = {f"{name}:{self.port}" for name in {*LOCAL_NAMES, *named}} | named
        return own | set(LOCAL_NAMES) if self.port == _HTTP else own

    def _carried(self) -> str:
        return _bearer(request.headers) or request.cookies.get(self.cookie, "")

    def _signed_in(self) -> Response:
        rest = [(name, value) for name, value in request.args.items(multi=True) if name != "token"]
        # Leading slashes would make the path another host's.
        path = "/" + quote(request.path.lstrip("/\\"), safe="/:")
        answer = redirect(f"{path}?{urlencode(rest)}" if rest else path, 303)
        answer.set_cookie(self.cookie, self.token, httponly=True, samesite="Strict", path="/")
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _bearer(headers: Given) -> str:
    """Return the token of an Authorization header, or nothing."""
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else ""


def page_policy(nonce: str, frames: Iterable[str] = ()) -> str:
    """Return the content security policy of our pages; ``frames`` are origins they may embed."""
    embedded = " ".join(("'self'", *frames))
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' 'nonce-{nonce}'",
            "img-src 'self' data:",
            "media-src 'self'",
            "font-src 'self'",
            "connect-src 'self'",
            f"frame-src {embedded}",
            "form-action 'self'",
            "base-uri 'none'",
            "object-src 'none'",
            "frame-ancestors 'none'",
        )
    )


def sealed(answer: Response) -> Response:
    """Give an answer the headers that keep it where it belongs; what a route set itself stays."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    if "Content-Security-Policy" not in answer.headers:
        nonce = g.get("nonce", "")
        answer.headers["Content-Security-Policy"] = page_policy(nonce, g.get("frames", ()))
    if request.endpoint != "static":
        answer.headers.setdefault("Cache-Control", "no-cache")
    return answer
