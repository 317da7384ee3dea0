"""Timestamps in the format of all stored files: UTC, to the millisecond, ``2026-11-20T17:24:00.123Z``."""

from __future__ import annotations

from datetime import UTC, datetime

from covalt_git.errors import CovaltError


def written(moment: datetime) -> str:
    """Return a time in UTC as text; later times are greater texts."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parsed(text: str) -> str:
    """Return a time with a zone, in any form of RFC 3339, in this format.

    Raises:
        CovaltError: if the text is not a time of RFC 3339 with a zone.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
        return written(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise CovaltError(
            f"{text!r} is not a time with a zone", hint="write 2026-11-20T17:24:00Z"
        ) from None


def of_ns(ns: int) -> str:
    """Return a number of ns since 1970 in this format."""
    return written(datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC))


def seconds_between(start: str, end: str) -> int:
    """Return the whole seconds between two timestamps; 0 if the clock was set back in between."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0, int(passed.total_seconds()))


def now() -> str:
    """Return the current time in this format."""
    return written(datetime.now(UTC))
