"""Error of a request without a usable response; messages name the host, never values of the request."""

from __future__ import annotations

from typing import Literal

from covalt_git.errors import CovaltError

Reason = Literal[
    "refused_destination",
    "connection_failed",
    "tls_failed",
    "timed_out",
    "output_too_large",
    "bad_redirect",
    "bad_answer",
    "cancelled",
]


class HttpError(CovaltError):
    """A request without a usable response.

    ``sent``: the server may have received a part of it.  ``is_transient``: a retry may succeed.
    """

    http_status = 502

    def __init__(
        self,
        code: Reason,
        message: str,
        *,
        hint: str = "",
        sent: bool = False,
        is_transient: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.sent = sent
        self.is_transient = is_transient
