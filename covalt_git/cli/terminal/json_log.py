"""``--log-format json``: stderr as JSON Lines."""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from covalt_git.calls.telemetry import current_call
from covalt_git.cli.terminal import output

if TYPE_CHECKING:
    from types import TracebackType

_OURS = ("covalt_git", "covalt_server")
_logger = logging.getLogger("covalt_git.cli")


class JsonLines(logging.Formatter):
    """Formatter of records as JSON: ``time``, ``level``, ``logger``, ``message`` and further fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        call = current_call()
        if call is not None:
            ids = {"chat_id": call.chat_id, "call_id": call.call_id}
            line |= {name: value for name, value in ids.items() if value}
        line |= getattr(record, "facts", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def install() -> None:
    """Write all stderr output of this process in this format, also warnings of libraries and bugs."""
    if output.lines is not None:
        return
    output.lines = say
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)
    # Only our loggers, because info records of libraries may contain URLs with secrets.
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    # Tools may log at the level debug.
    _logger.setLevel(logging.DEBUG)
    logging.captureWarnings(capture=True)
    sys.excepthook = _broken
    threading.excepthook = lambda args: _broken(args.exc_type, args.exc_value, args.exc_traceback)


def say(text: str, *, level: str = "info", **facts: Any) -> None:
    """Write a line of text output as a record."""
    text = text.strip()
    if text or facts:
        number = logging.getLevelNamesMapping()[level.upper()]
        _logger.log(number, "%s", text, extra={"facts": facts})


def _broken(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    what = (kind, error or kind(), trace)
    _logger.critical("this is a bug in covalt-git", exc_info=what)
