"""Log lines for people: hidden characters in them are escaped."""

from __future__ import annotations

import logging

from covalt_git.text import display


class LogFormatter(logging.Formatter):
    """Formats a record as the standard library does, its hidden characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return display.in_lines(super().format(record))


def escape_logs() -> None:
    """Escape hidden characters in records that no handler takes, which Python prints itself."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LogFormatter())
