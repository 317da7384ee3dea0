"""Checks of every request to the server, and security headers of every answer.

Any web page that is open in a browser on this machine can send requests to the server.  So a request must
name one of the server's own hosts (against DNS rebinding), must not come from a page of another origin
(which includes the sandboxed pages of tools, with the origin ``null``), and must have the token that the
server printed when it started: in a cookie, or as ``Authorization: Bearer``.
"""

from __future__ import annotations

import hmac
import re
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlencode

from flask import current_app, g, redirect, request, session

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias, TypeVar

    from flask import Flask
    from werkzeug.datastructures import Headers
    from werkzeug.wrappers import Response

    from covalt_git.models.access_token import AccessToken
    from covalt_server.preview.keys import AnyPreviewKeys

    RequestHeaders: TypeAlias = Headers | Mapping[str, str]
    Agent = TypeVar("Agent")

LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HTTP = 80
API_PATHS = ("/api/", "/v1/")
"""Beginnings of the paths that accept access tokens of issuers."""

PREVIEW = "preview_files.file"
"""Endpoint of the files of previews."""

_PREVIEW_KEY = re.compile(r"(?<=preview/)/*[0-9a-f]{32,}")

SESSION_ID = "id"
"""Name of the session's id in the session cookie."""

_OWN_SITE = {"", "same-origin", "none"}

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": with that, a browser sends our own forms with the origin null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestRefusedError(CovaltError):
    """The request is refused by these checks, so its answer must not contain data of the project."""


class WrongHostError(RequestRefusedError):
    """The request is for a host that is not the server's, which is the sign of DNS rebinding."""

    code = "wrong_host"
    http_status = 421


class WrongOriginError(RequestRefusedError):
    """The request was made by a page of another origin."""

    code = "wrong_origin"
    http_status = 403


class NoTokenError(RequestRefusedError):
    """The request has no token, or a wrong one."""

    code = "no_token"
    http_status = 401


def _no_holder(_: str) -> None:
    return None


def _no_preview(_: str) -> bool:
    return False


def masked_path(path: str) -> str:
    """Return the percent-encoded path of a request for a log, without the key of a preview, which opens the files."""
    decoded = unquote(path)
    masked = _PREVIEW_KEY.sub("***", decoded)
    return path if masked == decoded else quote(masked, safe="/*")


class Guard(NamedTuple):
    """The checks of one server, with its ``port`` and ``token``.

    ``find_holder`` returns the facts of an access token of an issuer, which the API accepts; None for another text.
    ``is_preview`` returns whether a text is the key of a preview, whose frame has neither our cookie nor our origin.
    ``is_shared`` says that nodes with the same token are one server for browsers, behind a proxy.
    """

    token: str
    port: int
    hosts: tuple[str, ...] = ()
    find_holder: Callable[[str], AccessToken | None] = _no_holder
    is_preview: Callable[[str], bool] = _no_preview
    is_shared: bool = False

    def install(self, app: Flask) -> None:
        """Check every request of an app, and add the headers to every answer."""
        app.before_request(self.check)
        app.after_request(sealed)

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port: cookies ignore ports, and two servers may run at once."""
        return f"covalt_git_{self._cookie_suffix}"

    @property
    def messages_cookie(self) -> str:
        """The name of the cookie of a session, with its messages."""
        return f"covalt_git_{self._cookie_suffix}_messages"

    @property
    def _cookie_suffix(self) -> str:
        # The ports of nodes can differ, and a browser meets all of them at the port of the proxy.
        return self._derived("cookie").hex()[:16] if self.is_shared else str(self.port)

    @property
    def session_key(self) -> bytes:
        """The key that signs the cookie of a session: of this process, or the same for all nodes with the token."""
        return self._derived("session") if self.is_shared else secrets.token_bytes()

    @property
    def preview_secret(self) -> bytes:
        """The key that signs keys of previews, which all nodes with the token have."""
        return self._derived("preview")

    def _derived(self, purpose: str) -> bytes:
        return hmac.digest(self.token.encode(), f"covalt-git {purpose}".encode(), "sha256")

    def check(self) -> Response | None:
        """Check the current request; exchange the token of the printed URL for a cookie.

        Raises:
            WrongHostError: for another host.
            WrongOriginError: for a request of another origin.
            NoTokenError: without the token.
        """
        # Before the checks, because the page of a refused request has a policy with a nonce too.
        g.nonce = secrets.token_urlsafe(16)
        if request.endpoint == PREVIEW and self.is_preview((request.view_args or {})["key"]):
            self._check_host(request.headers)
            return None
        self.check_from(request.headers)
        # Only links have the token in their URL; with a POST, it would be a second way to send credentials.
        printed = request.args.get("token") if request.method == "GET" else None
        if printed is not None and self.is_token(printed):
            return self._signed_in()
        bearer = _bearer(request.headers)
        if not self.is_token(bearer or request.cookies.get(self.cookie, "")):
            # Only at the API: pages are for the user of this machine, who signs in with the printed URL.
            if request.path.startswith(API_PATHS):
                g.access_token = self.find_holder(bearer)
            if g.get("access_token") is not None:
                return None
            raise NoTokenError(
                "the request needs the server's token",
                hint="open the URL that covalt-git serve printed, with its ?token=...",
            )
        return None

    def sign_out(self) -> Response:
        """Delete the cookies of a browser, and end the previews of its session."""
        _end_session()
        answer = redirect("/", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(self.cookie, httponly=True, samesite="Strict", path="/")
        return answer

    def check_client(
        self, headers: RequestHeaders, find_agent: Callable[[str], Agent | None]
    ) -> Agent | None:
        """Return the agent of the token in the headers, which ``find_agent`` looks up; None for the server's token.

        Raises:
            WrongHostError: for another host.
            WrongOriginError: for a request of another origin.
            NoTokenError: without a valid token.
        """
        self.check_from(headers)
        token = _bearer(headers)
        if self.is_token(token):
            return None
        agent = find_agent(token)
        if agent is None:
            raise NoTokenError(
                "the request needs a valid access token of an agent",
                hint="create one with covalt-git token new --role ROLE, and send it as"
                " Authorization: Bearer",
            )
        return agent

    def check_from(self, headers: RequestHeaders) -> None:
        """Check host and origin in the headers of a request.

        Raises:
            WrongHostError: for another host.
            WrongOriginError: for a request of another origin.
        """
        self._check_host(headers)
        self._check_origin(headers)

    def is_token(self, text: str) -> bool:
        """Return whether ``text`` is the server's token; takes the same time for every text."""
        return hmac.compare_digest(text.encode(), self.token.encode())

    def _check_host(self, headers: RequestHeaders) -> None:
        if headers.get("Host", "").lower() not in self._own_hosts():
            raise WrongHostError(
                "the server does not answer requests to this host",
                hint=f"open http://127.0.0.1:{self.port}/, or add the host to "
                "server.allowed_hosts in covalt.yaml",
            )

    def _check_origin(self, headers: RequestHeaders) -> None:
        origin = headers.get("Origin")
        # A reverse proxy with an allowed host may speak https to the browser.
        own = {f"{scheme}://{host}" for scheme in ("http", "https") for host in self._own_hosts()}
        # With links, images and frames of another site, browsers send this header and no Origin; scripts
        # cannot set it.
        site = headers.get("Sec-Fetch-Site", "").lower()
        if (origin is not None and origin.lower() not in own) or site not in _OWN_SITE:
            raise WrongOriginError(
                "the request comes from a page of another origin",
                hint="type the URL, or follow a link on the server's own pages",
            )

    def _own_hosts(self) -> set[str]:
        # The Host of a reverse proxy does not have our port, and browsers leave out port 80.
        named = {name.lower() for name in self.hosts}
        own = {f"{name}:{self.port}" for name in {*LOCAL_NAMES, *named}} | named
        return own | set(LOCAL_NAMES) if self.port == _HTTP else own

    def _signed_in(self) -> Response:
        rest = [(name, value) for name, value in request.args.items(multi=True) if name != "token"]
        # After several leading slashes a browser would read a host.
        path = "/" + quote(request.path.lstrip("/\\"), safe="/:")
        answer = redirect(f"{path}?{urlencode(rest)}" if rest else path, 303)
        answer.set_cookie(
            self.cookie,
            self.token,
            httponly=True,
            secure=request.is_secure,
            samesite="Strict",
            path="/",
        )
        _end_session()
        session[SESSION_ID] = secrets.token_hex(16)
        # The URL of this answer has the token, and so has its cookie.
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _end_session() -> None:
    # Without a session, this would end the keys of all clients that have none, whose id is "".
    if SESSION_ID in session:
        keys: AnyPreviewKeys = current_app.config["COVALT_PREVIEWS"]
        keys.end(session[SESSION_ID])
    session.clear()


def _bearer(headers: RequestHeaders) -> str:
    """Return the token of an Authorization header, or an empty string."""
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    return bearer.strip() if scheme.lower() == "bearer" else ""


def page_policy(nonce: str, frames: Iterable[str] = (), ancestors: str = "'none'") -> str:
    """Return the content security policy of our pages.

    ``frames`` are the origins that the page may embed, and ``ancestors`` those that may embed the page.
    """
    embedded = " ".join(("'self'", *frames))
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            f"style-src 'self' 'nonce-{nonce}'",
            # Embedded images of Markdown documents are `data:` URLs; images of other hosts are never
            # loaded.
            "img-src 'self' data:",
            "media-src 'self'",
            "font-src 'self'",
            "connect-src 'self'",
            f"frame-src {embedded}",
            "form-action 'self'",
            "base-uri 'none'",
            "object-src 'none'",
            f"frame-ancestors {ancestors}",
        )
    )


def sealed(answer: Response) -> Response:
    """Add the security headers to an answer; headers that the route set stay."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    # A page that the browser stored keeps its nonce, and so the policy that it came with.
    is_stored = answer.status_code == HTTPStatus.NOT_MODIFIED
    if "Content-Security-Policy" not in answer.headers and not is_stored:
        answer.headers["Content-Security-Policy"] = page_policy(g.get("nonce", ""))
    if request.endpoint != "static":
        answer.headers.setdefault("Cache-Control", "no-cache")
    return answer
