"""What a login may request and show: the hosts that its URLs may have, and the words of a server.

The URLs of a login come from documents of others.  Each is checked before it is requested or opened in a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, Reach, WebOrigin, is_local, is_loopback, origin_of
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_URL = 8192
_MOST_SHOWN = 300
_IN_URLS = frozenset("-._~:/?#[]@&+,=%")
"""Characters of URLs besides letters and digits; of a shell's special characters, only those of queries."""


class SignInFailedError(CovaltError):
    """A login that failed."""

    code = "sign_in_failed"
    http_status = 502


class LoginCallbacks(NamedTuple):
    """Callbacks of a login, for its user interface.

    Attributes:
        on_origin: receives each origin other than the server's, before a request to it.
        on_url: receives the URL at which the user signs in.
        open_browser: opens that URL, in a thread of its own.
    """

    on_origin: Callable[[WebOrigin], None]
    on_url: Callable[[str], None]
    open_browser: Callable[[str], None]


@dataclass(slots=True)
class LoginReach:
    """Reach of a login: public hosts over https, granted hosts and, for a local server, this machine."""

    granted: Reach
    local: bool

    def covers(self, origin: WebOrigin) -> bool:
        """Return whether an origin may be requested, before its name is resolved."""
        # A code or a token that is sent in clear text can be read on the network.
        return origin.scheme == "https" or (self.local and is_loopback(origin.host))

    def why_not(self, host: str, address: str) -> str:
        """Return why a host may not be reached at an IP address; "" if it may."""
        # With the address too: a name may resolve to another address after it was checked.
        if self.local and is_loopback(host) and is_loopback(address):
            return ""
        return self.granted.why_not(host, address)

    def check(self, url: object, what: str) -> WebOrigin:
        """Return the origin of an untrusted URL; ``what`` names the URL in errors.

        Raises:
            SignInFailedError: if it is invalid, ambiguous, or may not be requested.
        """
        # The server chooses the document; tests/connections/hostile_urls.yaml has what was tried.
        if not isinstance(url, str) or len(url) > _MOST_URL:
            raise SignInFailedError(f"{what} is not a URL")
        # Browsers are started by command lines, and a URL may be printed to a terminal; parsers disagree about
        # other characters, so that another host than the checked one would be opened.
        if not all(letter.isascii() and (letter.isalnum() or letter in _IN_URLS) for letter in url):
            raise SignInFailedError(f"{what} is a URL with invalid characters")
        try:
            origin, _ = origin_of(url)
        except BadHostError as error:
            raise SignInFailedError(f"{what}: {error.message}") from None
        # Also `file:` and schemes of installed applications, which a browser would open.
        if not self.covers(origin):
            raise SignInFailedError(f"{what} is {origin}, which is not https")
        # A server of the internet must not have this machine send requests to its own services or its network.
        is_allowed = self.local and is_loopback(origin.host)
        if is_local(origin.host) and not is_allowed and not self.granted.covers(origin):
            raise SignInFailedError(f"{what} is {origin}, which is local and not granted")
        return origin


def plain_words(text: str) -> str:
    """Return words of a server for a terminal: short, and without characters that deceive."""
    plain = "".join(letter if display.is_shown(letter) else " " for letter in text)
    return display.shorten(plain.strip(), _MOST_SHOWN)
