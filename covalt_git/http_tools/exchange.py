"""One call of an HTTP tool: build the request, check grants, send it with retries, return the result.

The manifest is data, so no code of the toolset runs here.  Secrets that were sent are masked in the
result, the error, the log and the saved file.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.hosts import WebOrigin, origin_of
from covalt_git.http_client import ClientRequest, Deadline, HttpClient, HttpError, Response
from covalt_git.http_tools.answer import BadResultError, error_of, graphql_error, result_of
from covalt_git.http_tools.request import BadRequestError, RequestBuilder
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import MIB, Log, Outcome, limit_error, of_lost_answer
from covalt_git.models.project_config import DEFAULT_OUTPUT_MB, DEFAULT_TIMEOUT_S
from covalt_git.models.tool_properties import HttpBody
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from covalt_git.access.grants import Granted
    from covalt_git.connections.entry_tokens import ToolsetSignIns
    from covalt_git.credentials.values import SecretStore
    from covalt_git.http_tools.files import LockedWorkspace
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Progress
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Limits

_REPEATABLE = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
"""Methods whose second request changes nothing more (RFC 9110, section 9.2.2)."""

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that are safe (RFC 9110, section 9.2.1)."""

_NOT_DONE = frozenset({501, 505})
"""Errors of servers that do not perform a request at all."""

_TEMPORARY = frozenset({429, 502, 503, 504})
_SERVER_ERROR = 500
_UNAUTHORIZED = 401
_MAX_WAIT_S = 30.0
_MAX_SHOWN_URL = 500


class HttpJob(NamedTuple):
    """One call of an HTTP tool.

    Attributes:
        declared: the names of the secrets that the toolset declares.
        report: callback for progress and log messages, called in the thread that runs the job.
        cancel: ends the run when it is set.
        types: the types of the lock of a GraphQL source, with which selected fields are checked.
        sign_ins: the entries of the toolset's ``auth`` whose values are tokens.
    """

    tool: Tool
    args: JsonObject
    granted: Granted
    declared: frozenset[str]
    secrets: SecretStore
    files: LockedWorkspace
    limits: Limits
    report: Callable[[Progress | Log], None] | None = None
    cancel: threading.Event | None = None
    types: Mapping[str, Any] | None = None
    sign_ins: ToolsetSignIns | None = None


def run(job: HttpJob, *, sleep: Callable[[float], None] = time.sleep) -> Outcome:
    """Run the job until it ends, exceeds a limit or is interrupted; ``sleep`` waits between retries."""
    exchange = _Exchange(job, sleep)
    try:
        outcome = exchange.outcome()
    except KeyboardInterrupt:
        outcome = Outcome.failed(CallError(code="cancelled", message="the user cancelled it"))
    except BadRequestError as error:
        outcome = Outcome("invalid_arguments", problems=((error.place, error.message),))
    except HttpError as error:
        outcome = exchange.without_answer(error)
    except CovaltError as error:
        outcome = Outcome.failed(error)
    return exchange.masked(outcome)


class _Exchange:
    """One run with the secrets that it used and its log."""

    def __init__(self, job: HttpJob, sleep: Callable[[float], None]) -> None:
        assert job.tool.http is not None
        self._job = job
        self._http = job.tool.http
        self._lookup = Lookup(job.declared, job.secrets, job.sign_ins)
        self._log: list[str] = []
        self._may_have_effect = False  # at the server, whatever it answers next
        self._deadline = Deadline(
            job.limits.timeout_s or DEFAULT_TIMEOUT_S,
            cancelled=job.cancel.is_set if job.cancel else lambda: False,
            sleep=sleep,
        )
        most = (job.limits.output_mb or DEFAULT_OUTPUT_MB) * MIB
        self._client = HttpClient(job.granted.reach, most=most)

    def outcome(self) -> Outcome:
        """Send the request and return its outcome.

        Raises:
            CovaltError: if the request is not sent or not answered.
        """
        request, origin = self._request()
        answer = self._answered(request, origin)
        # A refused request had no effect, so it can be sent again with a new token.
        if answer.status == _UNAUTHORIZED and self._lookup.renew():
            self._log_line("the token was refused and renewed")
            request, origin = self._request()
            answer = self._answered(request, origin)
        if answer.status == _UNAUTHORIZED and (refused := self._lookup.refused_sign_in):
            return Outcome.failed(refused)
        # Masked before it is shortened, which could cut a secret in two.
        masked = answer._replace(content=self._lookup.mask.content(answer.content))
        error = error_of(masked, origin.shown_host)
        if error is not None:
            error = error.model_copy(update={"hint": self._hint(answer)})
            # Also if an earlier try had its effect: the second DELETE is answered with 404.
            return Outcome.failed(self._with_effect(error) if self._may_have_effect else error)
        is_head = self._http.method == "HEAD"
        try:
            result = (
                answer.headers
                if is_head
                else result_of(answer, self._save, lambda text: self._log_line(f"note: {text}"))
            )
            if self._is_graphql and (failure := graphql_error(result, origin.shown_host)):
                # Without data, the operation was not executed: the server refused the request.
                is_executed = isinstance(result, dict) and "data" in result
                failure = self._with_effect(failure) if is_executed else failure
                return Outcome("error", result, failure)
            self._check_schema(result)
        except BadResultError as bad:
            # The result is stored beside the error, because the request may have changed something.
            failure = CallError(code="bad_result", message=str(bad))
            return Outcome("error", bad.result, self._with_effect(failure))
        except CovaltError as lost:
            failure = CallError(code=lost.code, message=lost.message, hint=lost.hint)
            return Outcome.failed(self._with_effect(failure))
        return Outcome("success", result)

    def _request(self) -> tuple[ClientRequest, WebOrigin]:
        """Return the request and its origin, which are granted with all that the request contains.

        Raises:
            CovaltError: if something is not granted, or has no value.
        """
        job, lookup = self._job, self._lookup
        schema = job.tool.input_schema
        args = json_schema.with_defaults(schema, json_schema.with_integers(schema, job.args))
        parts = self._http, args, lookup.lookup, lookup.in_header, job.files.read
        request = RequestBuilder(*parts, types=job.types).build()
        # After the request is built: only then its host and its secrets are known, also those of a default.
        origin, _ = origin_of(request.url)
        lookup.check_hosts(origin)
        job.granted.check_request(origin, sorted(lookup.used))
        return request, origin

    def without_answer(self, error: HttpError) -> Outcome:
        """Return the outcome of a request without an answer; exceeded limits have their own errors."""
        if error.code == "timed_out" and not self._deadline.left:
            failure = limit_error("limit_time", self._job.limits)
        elif error.code == "output_too_large":
            hint = "ask for less, or raise limits.output_mb"
            failure = CallError(code="limit_output", message=error.message, hint=hint)
        else:
            failure = CallError(code=error.code, message=error.message, hint=error.hint)
        may_have = error.sent or self._may_have_effect
        return Outcome.failed(self._with_effect(failure) if may_have else failure)

    @property
    def _is_graphql(self) -> bool:
        body = self._http.body
        return isinstance(body, HttpBody) and body.graphql is not None

    def _with_effect(self, failure: CallError) -> CallError:
        """Return the error of a request that was sent; its message says so if the request may write."""
        if self._http.method in _READS or self._job.tool.annotations.read_only is True:
            return failure
        return of_lost_answer(failure)

    def masked(self, outcome: Outcome) -> Outcome:
        """Return an outcome with its log, and with the used secrets masked."""
        mask, error = self._lookup.mask, outcome.error
        if error is not None:
            update = {"message": mask.text(error.message), "hint": mask.text(error.hint)}
            error = error.model_copy(update=update)
        log = mask.text("".join(f"{line}\n" for line in self._log))
        return outcome._replace(result=mask.value(outcome.result), error=error, output=log)

    def _answered(self, request: ClientRequest, origin: WebOrigin) -> Response:
        """Send a request with retries, and return the last answer."""
        tried = 1
        while (wait := self._wait_after(result := self._sent(request), tried)) is not None:
            self._log_line(f"trying again in {wait:.1f} s")
            self._deadline.pause(wait, origin.shown_host)
            tried += 1
        if isinstance(result, HttpError):
            raise result
        return result

    def _sent(self, request: ClientRequest) -> Response | HttpError:
        """Send a request once and log how it ended."""
        started = time.monotonic()
        result: Response | HttpError
        try:
            result = self._client.send(request, self._deadline)
            note = f"{result.status}, {len(result.content)} bytes"
            note += f", {result.redirects} redirects" if result.redirects else ""
            # A server, or a gateway before it, may have failed after the request was performed.
            failed = result.status >= _SERVER_ERROR and result.status not in _NOT_DONE
            self._may_have_effect = self._may_have_effect or failed
        except HttpError as error:
            result, note = error, error.message
            self._may_have_effect = self._may_have_effect or error.sent
        url = shorten(self._lookup.mask.text(request.url), _MAX_SHOWN_URL)
        milliseconds = (time.monotonic() - started) * 1000
        self._log_line(f"{request.method} {url}: {note}, {milliseconds:.0f} ms")
        return result

    def _wait_after(self, result: Response | HttpError, tried: int) -> float | None:
        """Return the seconds before the next try, or None for no more tries."""
        idempotent = self._job.tool.annotations.idempotent is True
        repeatable = idempotent or self._http.method in _REPEATABLE
        requested = None
        if isinstance(result, HttpError):
            again = result.is_transient and (repeatable or not result.sent)
        else:
            again, requested = result.status in _TEMPORARY and repeatable, _retry_after(result)
        # It doubles with each try, and is shortened by chance to spread the retries of many clients.
        back_off = min(_MAX_WAIT_S, 2.0 ** (tried - 2)) * random.uniform(0.5, 1.0)  # noqa: S311
        wait = back_off if requested is None else requested
        # A wait beyond the time limit would end as an error about time, and hide the answer that there is
        # (test_a_wait_beyond_the_time_of_the_call_is_not_begun).
        is_last = tried > self._http.retries or not again or wait >= self._deadline.left
        return None if is_last else wait

    def _save(self, name: str, content: bytes) -> str:
        # The server may repeat a secret, also in the name.  The mask's asterisks are not portable in one.
        mask = self._lookup.mask
        return self._job.files.save(mask.text(name).replace("*", "_"), mask.content(content))

    def _log_line(self, line: str) -> None:
        self._log.append(line)
        if self._job.report is not None:
            self._job.report(Log("info", self._lookup.mask.text(line)))

    def _hint(self, answer: Response) -> str:
        if wait := _retry_after(answer):
            return f"it asks to wait {wait:.0f} s"
        if answer.status in {401, 403} and self._lookup.used:
            return f"check the value of {', '.join(sorted(self._lookup.used))}"
        return ""

    def _check_schema(self, result: Any) -> None:
        schema = self._job.tool.output_schema
        if schema is None:
            return
        exact = json_schema.with_integers(schema, result)
        if problems := json_schema.value_problems(schema, exact):
            mismatches = "; ".join(f"{json_path(loc)}: {why}" for loc, why in problems[:5])
            why = f"the answer does not match output_schema: {mismatches}"
            # The author of a toolset cannot correct the document of a service.
            if self._job.tool.source is not None:
                self._log_line(f"note: {why}")
                return
            raise BadResultError(why, result)


def _retry_after(answer: Response) -> float | None:
    """Return the seconds of ``Retry-After`` (RFC 9110, section 10.2.3), which may be a date."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])  # thirty years; a number of any length could become infinite
    try:
        until: datetime = parsedate_to_datetime(text)
    except ValueError:
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
