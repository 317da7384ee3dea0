"""Why a request got no answer, in words that name the host and never a value that was sent."""

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
    """A request that got no answer which could be used.

    ``sent`` tells whether any of it may have reached the other side, ``passing`` whether another
    try could end better.
    """

    http_status = 502

    def __init__(
        self,
        code: Reason,
        message: str,
        *,
        hint: str = "",
        sent: bool = False,
        passing: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.sent = sent
        self.passing = passing
