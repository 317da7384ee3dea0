"""Log formatter that escapes hidden characters."""

from __future__ import annotations

import logging

from covalt_git.text import display


class LogFormatter(logging.Formatter):
    """The standard formatter, with hidden characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return display.in_lines(super().format(record))


def escape_logs() -> None:
    """Escape hidden characters in records without a handler, which Python prints itself."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LogFormatter())
