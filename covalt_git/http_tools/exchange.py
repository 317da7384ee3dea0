"""Running an HTTP tool once: its request built, granted, sent, tried again, and its answer understood.

Nothing of a tool's own runs here: its manifest is data, and so is the answer.  Whatever leaves this
module, the result, the error, the log and the file in the workspace, is without the secrets that
were sent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from covalt_git.errors import CovaltError
from covalt_git.hosts import Origin, origin_of
from covalt_git.http_client import Answer, HttpClient, HttpError, Patience, Request, resolve
from covalt_git.http_tools.answer import BadResultError, error_of, result_of
from covalt_git.http_tools.request import BadRequestError, build
from covalt_git.http_tools.retries import Retries, asked_to_wait
from covalt_git.http_tools.secret_lookup import Lookup
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import MIB, Log, Outcome, limit_error
from covalt_git.models.project_config import DEFAULT_OUTPUT_MB, DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    import ssl
    import threading
    from collections.abc import Callable

    from covalt_git.access.grants import Granted
    from covalt_git.credentials.values import SecretStore
    from covalt_git.http_client import Resolve
    from covalt_git.http_tools.files import WorkspaceFiles
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Progress
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import Limits

_MAX_SHOWN_URL = 500


@dataclass(frozen=True, slots=True)
class HttpJob:
    """Everything one run needs to know; ``limits`` has a value for time and output.

    Attributes:
        declared: the names of secrets that the toolset may ask for.
        tell: is told what happens meanwhile, in the thread that waits for the run.
        cancel: set by anybody, ends the run.
    """

    tool: Tool
    args: JsonObject
    granted: Granted
    declared: frozenset[str]
    secrets: SecretStore
    files: WorkspaceFiles
    limits: Limits
    tell: Callable[[Progress | Log], None] | None = None
    cancel: threading.Event | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run takes from this machine: how names are resolved, whom it trusts, how it waits."""

    resolve: Resolve = resolve
    trust: ssl.SSLContext | None = None
    sleep: Callable[[float], None] = time.sleep


def run(job: HttpJob, surroundings: Surroundings | None = None) -> Outcome:
    """Run the job to its end, its limit or Ctrl-C."""
    exchange = _Exchange(job, surroundings or Surroundings())
    try:
        outcome = exchange.outcome()
    except KeyboardInterrupt:
        outcome = Outcome("error", error=CallError(code="cancelled", message="a person stopped it"))
    except BadRequestError as error:
        outcome = Outcome("invalid_arguments", problems=((error.place, error.message),))
    except HttpError as error:
        outcome = Outcome("error", error=exchange.call_error(error))
    except CovaltError as error:
        failure = CallError(code=error.code, message=error.message, hint=error.hint)
        outcome = Outcome("error", error=failure)
    return exchange.masked(outcome)


class _Exchange:
    """One run: what was looked up for it, and its log."""

    def __init__(self, job: HttpJob, surroundings: Surroundings) -> None:
        assert job.tool.http is not None
        self._job = job
        self._http = job.tool.http
        self._lookup = Lookup(job.declared, job.secrets)
        self._log: list[str] = []
        cancel = job.cancel
        self._patience = Patience(
            job.limits.timeout_s or DEFAULT_TIMEOUT_S,
            cancelled=cancel.is_set if cancel is not None else lambda: False,
            sleep=surroundings.sleep,
        )
        self._client = HttpClient(
            job.granted.reach,
            most=(job.limits.output_mb or DEFAULT_OUTPUT_MB) * MIB,
            resolve=surroundings.resolve,
            trust=surroundings.trust,
        )

    def outcome(self) -> Outcome:
        """Send the request and return what came of it.

        Raises:
            CovaltError: what keeps it from being sent or answered.
        """
        job = self._job
        request = build(
            self._http,
            job.args,
            look_up=self._lookup.look_up,
            in_header=self._lookup.in_header,
            read_file=job.files.read,
        )
        origin, _ = origin_of(request.url)
        job.granted.check_origin(origin)
        for name in sorted(self._lookup.used):
            job.granted.check_secret(name, origin)
        answer = self._answered(request, origin)
        # Masked here already: what is cut short may end within a secret.
        masked = replace(answer, content=self._lookup.mask.content(answer.content))
        error = error_of(masked, origin.shown_host)
        if error is not None:
            return Outcome("error", error=error.model_copy(update={"hint": self._hint(answer)}))
        if self._http.method == "HEAD":
            return self._checked(answer.headers)
        try:
            result = result_of(answer, self._save)
        except BadResultError as bad:
            return Outcome("error", error=CallError(code="bad_result", message=str(bad)))
        return self._checked(result)

    def call_error(self, error: HttpError) -> CallError:
        """Return why there was no answer, as the call's error; a limit is told as that limit."""
        if error.code == "timed_out" and not self._patience.left:
            return limit_error("limit_time", self._job.limits)
        if error.code == "output_too_large":
            limit = limit_error("limit_output", self._job.limits)
            return limit.model_copy(
                update={"message": error.message, "hint": "ask for less, or raise limits.output_mb"}
            )
        return CallError(code=error.code, message=error.message, hint=error.hint)

    def masked(self, outcome: Outcome) -> Outcome:
        """Return an outcome without the secrets that were used for it, and with the log."""
        mask = self._lookup.mask
        error = outcome.error
        if error is not None:
            update = {"message": mask.text(error.message), "hint": mask.text(error.hint)}
            error = error.model_copy(update=update)
        return replace(
            outcome,
            result=mask.value(outcome.result),
            error=error,
            output=mask.text("".join(f"{line}\n" for line in self._log)),
        )

    def _answered(self, request: Request, origin: Origin) -> Answer:
        """Send a request, again where that may help, and return its last answer."""
        retries = Retries.of(self._job.tool)
        tried = 0
        while True:
            tried += 1
            started = time.monotonic()
            try:
                answer = self._client.send(request, self._patience)
            except HttpError as error:
                self._note(request, error.message, started)
                wait = retries.after_error(error, tried)
                if wait is None or wait >= self._patience.left:
                    raise
            else:
                size = len(answer.content)
                redirected = f", {answer.redirects} redirects" if answer.redirects else ""
                self._note(request, f"{answer.status}, {size} bytes{redirected}", started)
                wait = retries.after_answer(answer, tried)
                if wait is None or wait >= self._patience.left:
                    return answer
            self._say(f"trying again in {wait:.1f} s")
            self._patience.pause(wait, f"{origin.shown_host}")

    def _save(self, name: str, content: bytes) -> str:
        mask = self._lookup.mask
        return self._job.files.save(mask.text(name).replace("*", "_"), mask.content(content))

    def _note(self, request: Request, what: str, started: float) -> None:
        milliseconds = (time.monotonic() - started) * 1000
        url = self._lookup.mask.text(request.url)
        if len(url) > _MAX_SHOWN_URL:
            url = f"{url[:_MAX_SHOWN_URL]}..."
        self._say(f"{request.method} {url}: {what}, {milliseconds:.0f} ms")

    def _say(self, line: str) -> None:
        self._log.append(line)
        if self._job.tell is not None:
            self._job.tell(Log("info", self._lookup.mask.text(line)))

    def _hint(self, answer: Answer) -> str:
        """Return what may help after a refusal."""
        wait = asked_to_wait(answer)
        if wait:
            return f"it asks to wait {wait:.0f} s"
        if answer.status in {401, 403} and self._lookup.used:
            return f"check the value of {', '.join(sorted(self._lookup.used))}"
        return ""

    def _checked(self, result: Any) -> Outcome:
        schema = self._job.tool.output_schema
        found = json_schema.value_problems(schema, result) if schema is not None else []
        if not found:
            return Outcome("success", result)
        said = "; ".join(f"{json_path(loc)}: {why}" for loc, why in found[:5])
        message = f"the answer is not what output_schema says: {said}"
        return Outcome("error", error=CallError(code="bad_result", message=message))
