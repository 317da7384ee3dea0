"""What operators see of calls: spans where OpenTelemetry is set up, and a log record at each end.

OpenTelemetry is set up by whoever runs this process, so that it has been imported by then and has a
provider; else there is nobody to tell and nothing is done.  Arguments, results, output and the words of
errors may hold what is nobody's business: neither a span nor a record has any of them.
"""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git import __version__
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.outcomes import CallOutcome

_logger = logging.getLogger(__name__)
_UNDER_WAY: ContextVar[Observed | None] = ContextVar("call", default=None)


@dataclass(slots=True)
class Observed:
    """A call that is under way: what is known of it so far."""

    chat_id: str
    tool_id: str
    call_id: str | None = None
    sandbox: str | None = None
    status: str = ""
    error: str = ""
    waited_s: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    def ended(self, outcome: CallOutcome) -> None:
        """Say what came of it."""
        self.call_id, self.status = outcome.call.id, outcome.call.status
        self.error = outcome.error.code if outcome.error else ""
        self.sandbox = outcome.sandbox

    def facts(self) -> dict[str, str]:
        """Return what is known, by the names that records and spans share."""
        known = {
            "chat_id": self.chat_id,
            "tool_id": self.tool_id,
            "call_id": self.call_id,
            "status": self.status,
            "error": self.error,
            "sandbox": self.sandbox,
        }
        return {name: value for name, value in known.items() if value}

    def times(self) -> dict[str, float]:
        """Return for how many seconds it has been under way, and waited for its chat beside that."""
        whole = time.monotonic() - self._began
        times = {"seconds": round(whole - self.waited_s, 4)}
        return times | {"waited_s": round(self.waited_s, 4)} if self.waited_s else times


def under_way() -> Observed | None:
    """Return the call that this thread makes, if it makes one."""
    return _UNDER_WAY.get()


@contextmanager
def observed(chat_id: str, tool_id: str, call_id: str | None = None) -> Iterator[Observed]:
    """Observe a call from the question whether it may run to what came of it."""
    call = Observed(chat_id, tool_id, call_id)
    outer = _UNDER_WAY.set(call)
    try:
        with _span("covalt_git.call") as span:
            try:
                yield call
            except CovaltError as error:
                call.status, call.error = "refused", error.code
                raise
            finally:
                _set_attributes(span, call)
                _logger.info(
                    "%s %s",
                    call.tool_id,
                    call.status or "broken",
                    extra={"facts": call.facts() | call.times()},
                )
    finally:
        _UNDER_WAY.reset(outer)


@contextmanager
def step(name: str, call_id: str | None = None) -> Iterator[None]:
    """Observe one step of the call that is under way: ``run``, ``snapshot`` or ``commit``."""
    call = under_way()
    if call is not None and call_id is not None:
        call.call_id = call_id
    with _span(f"covalt_git.{name}"):
        yield


@contextmanager
def waiting(told: Callable[[str], None] | None) -> Iterator[Callable[[str], None]]:
    """Yield a callback for the holders of a busy chat; pass them on, and take the time of the wait."""
    began: list[float] = []

    def waits(holder: str) -> None:
        if not began:
            began.append(time.monotonic())
        if told is not None:
            told(holder)

    try:
        yield waits
    finally:
        call = under_way()
        if began and call is not None:
            call.waited_s += time.monotonic() - began[0]


def _set_attributes(span: Any, call: Observed) -> None:
    if span is None:
        return
    for name, value in call.facts().items():
        span.set_attribute(f"covalt.{name}", value)
    if call.status not in {"success", "pending"}:
        status = sys.modules["opentelemetry.trace"]
        span.set_status(status.StatusCode.ERROR)


@contextmanager
def _span(name: str) -> Iterator[Any]:
    """Yield a span that is the current one, or None where nobody set OpenTelemetry up."""
    trace = sys.modules.get("opentelemetry.trace")
    # Its API alone is there with the SDK of MCP, too.
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield None
        return
    tracer = trace.get_tracer("covalt_git", __version__)
    # Not what an exception says: it may hold arguments.
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(name, **quiet) as span:
        yield span
