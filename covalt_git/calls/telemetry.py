"""Telemetry of calls: a log record at the end of each, and spans if OpenTelemetry is configured.

The operator configures OpenTelemetry in this process, so that it is already imported and has a provider;
otherwise no spans are created.  Spans and records have no arguments, results, output or error messages,
because these may be confidential.
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
from covalt_git.system.metrics import Counter, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.outcomes import CallOutcome

CALLS = Counter("calls_total", "Calls that have ended.", ("tool", "status", "sandbox"))
CALL_SECONDS = Histogram("call_seconds", "Time of calls, without the wait for their chat.")
_logger = logging.getLogger(__name__)
_CURRENT: ContextVar[ObservedCall | None] = ContextVar("call", default=None)


@dataclass(slots=True)
class ObservedCall:
    """Telemetry of a running call."""

    chat_id: str
    tool_id: str
    call_id: str | None = None
    sandbox: str | None = None
    status: str = ""
    error: str = ""
    waited_s: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    def set_outcome(self, outcome: CallOutcome) -> None:
        self.call_id, self.status = outcome.call.id, outcome.call.status
        self.error = outcome.error.code if outcome.error else ""
        self.sandbox = outcome.sandbox

    def facts(self) -> dict[str, str]:
        """Return the known facts by their names, which records and spans share."""
        names = ("chat_id", "tool_id", "call_id", "status", "error", "sandbox")
        return {name: value for name in names if (value := getattr(self, name))}

    def times(self) -> dict[str, float]:
        """Return the seconds that it has run, and separately those that it waited for its chat."""
        total_s = time.monotonic() - self._began
        times = {"seconds": round(total_s - self.waited_s, 4)}
        return times | {"waited_s": round(self.waited_s, 4)} if self.waited_s else times


def current_call() -> ObservedCall | None:
    return _CURRENT.get()


@contextmanager
def observe_call(chat_id: str, tool_id: str, call_id: str | None = None) -> Iterator[ObservedCall]:
    """Observe a call from the access check to its outcome."""
    call = ObservedCall(chat_id, tool_id, call_id)
    outer = _CURRENT.set(call)
    try:
        with _span("covalt_git.call") as span:
            try:
                yield call
            except CovaltError as error:
                call.status, call.error = "refused", error.code
                raise
            finally:
                _set_attributes(span, call)
                CALLS.add(call.tool_id, call.status or "broken", call.sandbox or "none")
                CALL_SECONDS.observe(call.times()["seconds"])
                _logger.info(
                    "%s %s",
                    call.tool_id,
                    call.status or "broken",
                    extra={"facts": call.facts() | call.times()},
                )
    finally:
        _CURRENT.reset(outer)


@contextmanager
def step(name: str, call_id: str | None = None) -> Iterator[None]:
    """Observe one step of the current call: ``run``, ``snapshot`` or ``commit``."""
    call = current_call()
    if call is not None and call_id is not None:
        call.call_id = call_id
    with _span(f"covalt_git.{name}"):
        yield


@contextmanager
def waiting(report: Callable[[str], None] | None) -> Iterator[Callable[[str], None]]:
    """Yield a callback that passes the holder of a busy chat to ``report``, and measure the wait."""
    began: list[float] = []

    def report_holder(holder: str) -> None:
        if not began:
            began.append(time.monotonic())
        if report is not None:
            report(holder)

    try:
        yield report_holder
    finally:
        call = current_call()
        # Separate from the time of the call: a fast call after a slow one would look slow.
        if began and call is not None:
            call.waited_s += time.monotonic() - began[0]


def _set_attributes(span: Any, call: ObservedCall) -> None:
    if span is None:
        return
    for name, value in call.facts().items():
        span.set_attribute(f"covalt.{name}", value)
    if call.status not in {"success", "pending"}:
        status = sys.modules["opentelemetry.trace"]
        span.set_status(status.StatusCode.ERROR)


@contextmanager
def _span(name: str) -> Iterator[Any]:
    """Yield a new current span; None if OpenTelemetry is not configured."""
    trace = sys.modules.get("opentelemetry.trace")
    # The MCP SDK imports its API, which has only a proxy provider.
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        yield None
        return
    tracer = trace.get_tracer("covalt_git", __version__)
    # Not the exception's message, which may contain arguments.
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(name, **quiet) as span:
        yield span
