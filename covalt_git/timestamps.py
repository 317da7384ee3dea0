"""Timestamps in the format of all stored files: UTC, to the millisecond, ``2026-11-20T17:24:00.123Z``."""

from __future__ import annotations

from datetime import UTC, datetime


def written(moment: datetime) -> str:
    """Return a time in UTC as text; later times are greater texts."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    """Return the current time in this format."""
    return written(datetime.now(UTC))
