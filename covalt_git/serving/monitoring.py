"""Health checks and metrics for load balancers and Prometheus: ``/healthz``, ``/readyz`` and ``/metrics``.

Everybody may read whether the process runs and is ready.  Reasons have names of hosts, and metrics have names of tools, so
both need a token: the server's own, or the one in ``COVALT_GIT_METRICS_TOKEN``, which gives access to nothing else.
The address of the client decides nothing, because behind a proxy every client has the address of the proxy.
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from covalt_git.errors import CovaltError
from covalt_git.system import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    Check = Callable[[], object]
    Gauges = Callable[[], Iterable[tuple[str, str, float]]]

HEALTH, READY, METRICS = "/healthz", "/readyz", "/metrics"
METRICS_VARIABLE = "COVALT_GIT_METRICS_TOKEN"
_FRESH_S = 2.0
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Readiness:
    """Checks of the parts that a process needs; each raises an error if its part is not ready."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._lock = threading.Lock()
        self._problems: dict[str, str] = {}
        self._checked_at = 0.0

    def problems(self) -> dict[str, str]:
        """Return why parts are not ready, by their names; the answer is at most two seconds old."""
        # Anyone may ask, and a check can start a program. So the checks run once at a time.
        with self._lock:
            if time.monotonic() - self._checked_at > _FRESH_S:
                self._problems = dict(self._read())
                self._checked_at = time.monotonic()
            return dict(self._problems)

    def _read(self) -> Iterable[tuple[str, str]]:
        for name, check in self._checks.items():
            try:
                check()
            except CovaltError as error:
                yield name, error.message
            except OSError as error:
                yield name, str(error)


def monitoring(
    readiness: Readiness,
    *,
    token: str | None = None,
    gauges: Gauges = tuple,
    project: Callable[[], str | None] = lambda: None,
) -> ASGIApp:
    """Return the app of the three paths.

    Args:
        readiness: the parts that are checked for ``/readyz``.
        token: a token that may read reasons and metrics, besides that of the environment.
        gauges: returns numbers that are read for each request of ``/metrics``.
        project: returns why the node is not at the newest commit of its project.  It is ready all the same: it makes calls
            with the last good commit, and without it there might be no node at all.
    """
    tokens = [name for name in (token, os.environ.get(METRICS_VARIABLE)) if name]

    def is_allowed(request: Request) -> bool:
        scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
        matches = [hmac.compare_digest(sent.strip().encode(), own.encode()) for own in tokens]
        return scheme.lower() == "bearer" and any(matches)

    def ready(*, has_token: bool) -> Response:
        problems = readiness.problems()
        behind = project()
        answer: dict[str, object] = {
            "ready": not problems,
            "not_ready": problems if has_token else dict.fromkeys(problems),
        }
        if behind is not None:
            answer["project"] = behind if has_token else "behind"
        return JSONResponse(answer, 503 if problems else 200, _HEADERS)

    def read_metrics() -> Response:
        text = metrics.text(gauges())
        return PlainTextResponse(text, headers=_HEADERS, media_type=metrics.CONTENT_TYPE)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        has_token = is_allowed(request)
        response: Response
        if request.method not in {"GET", "HEAD"}:
            response = Response(status_code=405, headers=_HEADERS | {"Allow": "GET, HEAD"})
        elif scope["path"] == HEALTH:
            response = JSONResponse({"alive": True}, headers=_HEADERS)
        elif scope["path"] == READY:
            response = await run_sync(lambda: ready(has_token=has_token))
        elif scope["path"] != METRICS:
            response = Response(status_code=404, headers=_HEADERS)
        elif not has_token:
            headers = _HEADERS | {"WWW-Authenticate": "Bearer"}
            body = {
                "error": "no_token",
                "error_description": "the metrics need a token",
                "hint": f"send the token in {METRICS_VARIABLE} as Authorization: Bearer",
            }
            response = JSONResponse(body, 401, headers)
        else:
            response = await run_sync(read_metrics)
        await response(scope, receive, send)

    return app
