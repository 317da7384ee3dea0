"""Whether a request is sent again, and when: only what may be repeated, and never past its time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.http_client import Answer, HttpError
    from covalt_git.models.tool import Tool

_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
"""Methods whose second request changes nothing more (RFC 9110, section 9.2.2)."""

_PASSING = frozenset({429, 502, 503, 504})
_FIRST_S = 0.5
_MOST_S = 30.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call's request is tried again; ``repeatable`` tells whether a second one does harm."""

    most: int
    repeatable: bool

    @classmethod
    def of(cls, tool: Tool) -> Retries:
        """Return what the tool's manifest allows."""
        assert tool.http is not None
        repeatable = tool.http.method in _REPEATABLE or tool.annotations.idempotent is True
        return cls(tool.http.retries, repeatable)

    def after_error(self, error: HttpError, tried: int) -> float | None:
        """Return how long to wait before the next try, in seconds, or None where there is none."""
        if tried > self.most or not error.passing or (error.sent and not self.repeatable):
            return None
        return _back_off(tried)

    def after_answer(self, answer: Answer, tried: int) -> float | None:
        """Return how long to wait before the next try, in seconds, or None where there is none."""
        if tried > self.most or answer.status not in _PASSING or not self.repeatable:
            return None
        asked = asked_to_wait(answer)
        return _back_off(tried) if asked is None else asked


def asked_to_wait(answer: Answer) -> float | None:
    """Return how long an answer asks to wait (RFC 9110, section 10.2.3): seconds, or a date."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        until: datetime = parsedate_to_datetime(text)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def _back_off(tried: int) -> float:
    """Return a wait that doubles with each try, by chance shorter, so that not all come at once."""
    return min(_MOST_S, _FIRST_S * 2.0 ** (tried - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
