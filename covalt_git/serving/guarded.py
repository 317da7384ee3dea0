"""An ASGI app behind the checks that every request of the server meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.serving.error_answer import send_error
from covalt_git.serving.resource_metadata import address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from covalt_git.serving.asgi import App, Receive, Scope, Send

CHECKED = "covalt_git.checked"
"""Where the scope of a request has what its check returned."""

_UNAUTHORIZED = 401


class Guarded:
    """An app whose requests are checked by their headers, which ``check`` raises a CovaltError for.

    What it returns stands in the scope under :data:`CHECKED`.  Who has no token is told where the
    ``metadata`` of the resource is, a path of this server.
    """

    def __init__(
        self, app: App, check: Callable[[Mapping[str, str]], object], *, metadata: str | None = None
    ) -> None:
        self._app = app
        self._check = check
        self._metadata = metadata

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] == "http":
            try:
                scope[CHECKED] = self._check(_headers(scope))
            except CovaltError as error:
                await send_error(send, error, *self._challenge(scope, error))
                return
        await self._app(scope, receive, send)

    def _challenge(self, scope: Scope, error: CovaltError) -> Iterator[tuple[bytes, bytes]]:
        """Yield the header that says how a client may prove who it is, where that is what it lacks."""
        if error.http_status != _UNAUTHORIZED:
            return
        realm = 'Bearer realm="covalt-git"'
        if any(name == b"authorization" for name, _ in scope["headers"]):
            realm += ', error="invalid_token"'  # RFC 6750, section 3.1
        if self._metadata is not None:
            realm += f', resource_metadata="{address(scope, self._metadata)}"'
        yield b"www-authenticate", realm.encode("latin-1")


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by their usual names; of one that is there twice, both as one value."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").title()
        before = f"{headers[name]}," if name in headers else ""
        headers[name] = before + value.decode("latin-1")
    return headers
