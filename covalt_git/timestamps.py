"""Moments as our files have them: in UTC, to the millisecond, ``2026-11-20T17:24:00.123Z``."""

from __future__ import annotations

from datetime import UTC, datetime


def written(moment: datetime) -> str:
    """Return a moment of UTC as files have it; of two the later one is the greater text."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    """Return this moment as files have it."""
    return written(datetime.now(UTC))
