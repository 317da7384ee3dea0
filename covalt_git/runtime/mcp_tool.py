"""Calling a tool of an MCP server once, and what its result is to a call.

A text is a text, and structure is what the tool returns; bytes become files of the workspace, and
references to them.  Whatever leaves this module is without the secrets that the server was given.
"""

from __future__ import annotations

import base64
import json
import mimetypes
import re
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from covalt_git.connections.connection import STRAY_LINE, CallTimeoutError, ServerCall
from covalt_git.connections.event_handlers import EventHandlers
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.connections.server_tasks import (
    TaskAnswerError,
    TaskCancelledError,
    UnknownServerTaskError,
)
from covalt_git.connections.server_texts import message_of
from covalt_git.connections.token_store import mask_of
from covalt_git.errors import CovaltError
from covalt_git.http_tools.files import file_name
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.json_values.storable import storable
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import (
    MIB,
    UNKNOWN_EFFECT,
    Log,
    LogLevel,
    Outcome,
    Progress,
    limit_error,
    of_lost_answer,
)
from covalt_git.models.project_config import DEFAULT_OUTPUT_MB, DEFAULT_TIMEOUT_S
from covalt_git.runtime.pool import ProgramSpec
from covalt_git.runtime.sandbox.network import reaches_this_machine
from covalt_git.text.display import shorten
from covalt_git.text.printed import shortened

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from covalt_git.connections.definition import Definition
    from covalt_git.credentials.values import Mask
    from covalt_git.http_tools.files import LockedWorkspace
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Limits

Answer = TypeVar("Answer")

_LEVELS: dict[str, LogLevel] = {
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warning": "warning",
}

_ENVELOPE = frozenset({"_meta", "content", "isError", "resultType", "structuredContent"})
_MOST_PROBLEMS = 5
_NO_ANSWER = re.compile("Connection refused|ECONNREFUSED", re.IGNORECASE)
_OWN_LOCALHOST = (
    "in the sandbox, localhost is not that of this machine; a connection to it is refused until its host, such as "
    "http://localhost:8080, is granted"
)


class McpJob(NamedTuple):
    """Everything one call needs to know; ``limits`` has a value for time and output.

    Attributes:
        digest: of the tool's definition that was accepted.
        wanted: returns whether the server may still run.
        held: receives the id of the task that the server made of the call.
        ended: called when the server has said how this task ended.
        leaves: returns whether the server keeps running this task if the call is cancelled.
        ask: answers elicitations of the server, until the future is cancelled; None without a user.
    """

    tool: Tool
    args: JsonObject
    definition: Definition
    digest: str
    files: LockedWorkspace
    limits: Limits
    wanted: Callable[[], bool]
    report: Callable[[Progress | Log], None]
    held: Callable[[str], None] = lambda _: None
    ended: Callable[[], None] = lambda: None
    leaves: Callable[[], bool] = lambda: False
    ask: Callable[[str, JsonObject, Future[None]], JsonObject] | None = None
    cancel: threading.Event | None = None


def run(job: McpJob) -> Outcome:
    """Make the call to its end, its limit or Ctrl-C."""
    log: list[str] = []
    asked = ServerCall(
        job.tool.upstream or job.tool.id.name,
        job.digest,
        json_schema.with_integers(job.tool.input_schema, job.args),
        job.limits.timeout_s or DEFAULT_TIMEOUT_S,
        repeatable=_is_repeatable(job.tool),
    )

    def heard(level: str, message: str) -> None:
        log.append(message)
        job.report(Log(_LEVELS.get(level, "error"), message))

    def note(text: str) -> None:
        heard("warning", f"note: {text}")

    handlers = EventHandlers(
        starting=lambda line: heard("info", line),
        progress=lambda done, total, message: job.report(Progress(done, total, message)),
        log=heard,
        held=job.held,
        ended=job.ended,
        leaves=job.leaves,
        ask=job.ask,
    )
    try:
        result = CONNECTIONS.call(
            job.definition, asked, handlers=handlers, wanted=job.wanted, cancel=job.cancel
        )
        outcome = _outcome(job, result, note)
        # The tool has run, only its answer is lost: an agent that calls again would do the work twice.
        if outcome.error is not None and outcome.error.code == "limit_output":
            failure = outcome.error if asked.repeatable else of_lost_answer(outcome.error)
            outcome = Outcome.failed(failure)
    except (CancelledError, KeyboardInterrupt):
        outcome = Outcome.failed(CallError(code="cancelled", message="the user cancelled it"))
    except CallTimeoutError as timeout:
        failure = limit_error("limit_time", job.limits)
        message = failure.message
        if timeout.stray_line:  # it may be the answer, or show what the server waits for
            message += f"; {STRAY_LINE}: '{timeout.stray_line}'"
        failure = failure.model_copy(update={"message": message})
        is_lost = timeout.is_sent and not asked.repeatable
        outcome = Outcome.failed(of_lost_answer(failure) if is_lost else failure)
    except CovaltError as error:
        outcome = Outcome.failed(error)
    return outcome._replace(output=shortened("".join(f"{line}\n" for line in log)))


def _is_repeatable(tool: Tool) -> bool:
    hints = tool.annotations
    return hints.read_only is True or hints.idempotent is True


_TASK_S = 10.0
"""Time limit of a request about a task of an earlier process, in seconds."""


def task_end(job: McpJob, task_id: str) -> JsonObject | None:
    """Return how a task from an earlier process ended, masked; None while the server works on it.

    Its keys are ``answer``, what the server has sent, or ``error``, an error of a call.  It can be stored, because a server
    may forget an answer that it has sent.

    Raises:
        CovaltError: if the server cannot be reached, which may be for a short time only.
    """
    mask = mask_of(job.definition)

    def failed(code: str, message: str) -> JsonObject:
        return {"error": CallError(code=code, message=message).model_dump(mode="json")}

    try:
        state, answer = CONNECTIONS.task(job.definition, task_id, _TASK_S, wanted=job.wanted)
    except UnknownServerTaskError as error:
        message = message_of(job.definition, error.message)
        lost = f"the process that made the call ended, and its MCP server has no answer: {message}"
        return failed("interrupted", lost + UNKNOWN_EFFECT)
    except TaskAnswerError as error:
        # Not None, after which the caller asks again: the result of a completed task does not change.
        return failed(error.code, mask.text(error.message) + UNKNOWN_EFFECT)
    why = message_of(
        job.definition, state.status_message or (state.error.message if state.error else "")
    )
    if state.status == "failed":
        return failed("server_error", why or "the task failed")
    if state.status == "cancelled":
        cancelled = TaskCancelledError(why, "" if _is_repeatable(job.tool) else UNKNOWN_EFFECT)
        return failed(cancelled.code, cancelled.message)
    return None if answer is None else {"answer": mask.value(storable(answer)[0])}


def cancel_task(job: McpJob, task_id: str) -> None:
    """Ask the server to cancel a task from an earlier process.

    Raises:
        CovaltError: if the server cannot be reached, or refuses.
    """
    CONNECTIONS.cancel_task(job.definition, task_id, _TASK_S, wanted=job.wanted)


def task_outcome(job: McpJob, end: JsonObject) -> Outcome:
    """Return the outcome of a task that ended as :func:`task_end` returned; it may write files into the workspace."""
    if "error" in end:
        return Outcome.failed(CallError.model_validate(end["error"]))
    log: list[str] = []
    outcome = _outcome(job, end["answer"], log.append)
    return outcome._replace(output=shortened("".join(f"note: {line}\n" for line in log)))


def read_resource(
    definition: Definition,
    uri: str,
    limits: Limits,
    wanted: Callable[[], bool],
    check_again: Callable[[], None],
) -> list[JsonObject]:
    """Return the contents of a server's resource, masked, with the keys of MCP.

    Raises:
        CovaltError: as ``check_again``, which is called just before the request is sent; and if it cannot be read, takes too long or is too large.
    """

    def read(timeout_s: float) -> list[JsonObject]:
        return CONNECTIONS.read_resource(
            definition, uri, timeout_s, wanted=wanted, check_again=check_again
        )

    mask = mask_of(definition)
    return [_masked(mask, part) for part in _within(limits, read)]


def get_prompt(
    definition: Definition,
    name: str,
    args: Mapping[str, str],
    limits: Limits,
    wanted: Callable[[], bool],
    check_again: Callable[[], None],
) -> JsonObject:
    """Return a prompt of a server with its arguments, masked, with the keys of MCP.

    Raises:
        CovaltError: as :func:`read_resource`; if the server does not return it, or it takes too long or is too large.
    """

    def read(timeout_s: float) -> JsonObject:
        return CONNECTIONS.get_prompt(
            definition, name, args, timeout_s, wanted=wanted, check_again=check_again
        )

    masked: JsonObject = mask_of(definition).value(_within(limits, read))
    return masked


def complete(
    definition: Definition,
    request: JsonObject,
    limits: Limits,
    wanted: Callable[[], bool],
    check_again: Callable[[], None],
) -> JsonObject:
    """Return the completion of an argument by a server, masked, with the keys of MCP.

    Raises:
        CovaltError: as :func:`get_prompt`.
    """

    def read(timeout_s: float) -> JsonObject:
        return CONNECTIONS.complete(
            definition, request, timeout_s, wanted=wanted, check_again=check_again
        )

    masked: JsonObject = mask_of(definition).value(_within(limits, read))
    return masked


def _within(limits: Limits, read: Callable[[float], Answer]) -> Answer:
    """Return what ``read`` returns within the limits; it gets the time limit in seconds."""
    try:
        answer = read(limits.timeout_s or DEFAULT_TIMEOUT_S)
    except TimeoutError:
        failure = limit_error("limit_time", limits)
        raise CovaltError(failure.message, code="limit_time", http_status=504) from None
    if len(json.dumps(answer)) > (limits.output_mb or DEFAULT_OUTPUT_MB) * MIB:
        failure = limit_error("limit_output", limits)
        raise CovaltError(failure.message, code="limit_output", http_status=502)
    return answer


def _masked(mask: Mask, content: JsonObject) -> JsonObject:
    """Return the content of a resource without secrets, also inside of its bytes."""
    masked: JsonObject = mask.value(content)
    blob = content.get("blob")
    if isinstance(blob, str) and (decoded := _decoded(blob)) is not None:
        masked["blob"] = base64.b64encode(mask.content(decoded)).decode()
    return masked


def _outcome(job: McpJob, answer: JsonObject, note: Callable[[str], None]) -> Outcome:
    """Return the outcome of a call with a result (MCP specification, "Tools", section "Tool Result").

    The tool has run, so no result is refused: ``note`` is called with each difference from the protocol.
    """
    mask = mask_of(job.definition)
    mismatch = _mismatch(job.tool, answer)  # before integers beyond 2^53 become texts
    result, notes = storable(answer)
    if len(json.dumps(result)) > (job.limits.output_mb or DEFAULT_OUTPUT_MB) * MIB:
        return Outcome.failed(limit_error("limit_output", job.limits))
    for text in (*notes, *mismatch):
        note(mask.text(text))
    content = _Content(job, mask, note)
    blocks = _blocks(result, note)
    values = [content.value(block) for block in blocks]
    links = tuple(at for at, block in enumerate(blocks) if _is_link(block))
    texts = [block for block in values if isinstance(block, str)]
    only_text = len(texts) == len(values)
    has_structure = result.get("structuredContent") is not None
    value: Any = mask.value(result.get("structuredContent"))
    if not has_structure:
        value = "\n".join(texts) if only_text else values[0] if len(values) == 1 else values
    elif not only_text or (values and (mismatch or not isinstance(result["content"], list))):
        # Only text in a list of blocks is known to repeat the structured content.
        value = {"structured_content": value, "content": values}
    if result.get("isError") is not True:
        return Outcome("success", value, links=links)
    message = "\n".join(texts) or "the tool reported an error without a message"
    if _NO_ANSWER.search(message) and _has_own_localhost(job.definition):
        # No proxy refused it, which would report the host: the connection stayed in the sandbox.
        note(_OWN_LOCALHOST)
    more = value if has_structure or not only_text else None
    return Outcome("error", more, error=CallError(code="tool_failed", message=message))


def _has_own_localhost(definition: Definition) -> bool:
    """Return whether a connection of a server's program to ``localhost`` does not leave its sandbox."""
    sandbox = definition.sandbox
    return (
        isinstance(sandbox, ProgramSpec)
        and sandbox.level == "full"
        and not reaches_this_machine(sandbox.hosts)
    )


def _mismatch(tool: Tool, answer: JsonObject) -> tuple[str, ...]:
    """Return a note if the structured content of a successful result does not match the output schema."""
    schema, value = tool.output_schema, answer.get("structuredContent")
    if schema is None or answer.get("isError") is True:
        return ()
    if value is None:
        return ("the tool has an output schema, but its result has no structured content",)
    try:
        problems = json_schema.value_problems(schema, value)
    except CovaltError:  # the server's own schema is invalid
        return ()
    if not problems:
        return ()
    texts = "; ".join(f"{json_path(place)}: {text}" for place, text in problems[:_MOST_PROBLEMS])
    return (f"the structured content does not match the output schema of the tool: {texts}",)


def _blocks(result: JsonObject, note: Callable[[str], None]) -> list[Any]:
    """Return the content blocks of a result, also of one that is not as the protocol requires."""
    content = result.get("content")
    if isinstance(content, list):
        return content
    if content is not None:
        note("the content of the result is not a list")
        return [content]
    if result.get("structuredContent") is not None:
        return []
    rest = {name: value for name, value in result.items() if name not in _ENVELOPE}
    note("the result has no content")
    return [rest] if rest else []


def _is_link(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.get("type") == "resource_link"
        and isinstance(block.get("uri"), str)
    )


class _Content:
    """Content blocks of a result: masked, with files saved in the workspace."""

    def __init__(self, job: McpJob, mask: Mask, note: Callable[[str], None]) -> None:
        self._job = job
        self._mask = mask
        self._note = note

    def value(self, block: Any) -> Any:
        """Return the value of a block."""
        if not isinstance(block, dict):
            self._note("a content block is not an object")
            return self._mask.value(block)
        kind = block.get("type")
        self._check(
            block, {"text": "text", "image": "data", "audio": "data", "resource_link": "uri"}
        )
        if kind == "text":
            return self._mask.text(str(block.get("text", "")))
        if kind in {"image", "audio"}:
            media_type = str(block.get("mimeType", ""))
            ending = mimetypes.guess_extension(media_type) or ".bin"
            name = f"{self._job.tool.id.name}{ending}"
            return self._saved(name, block.get("data"), media_type)
        if kind == "resource" and isinstance(block.get("resource"), dict):
            return self._resource(block["resource"])
        if kind == "resource_link":
            names = {"uri": "uri", "name": "name", "title": "title", "mimeType": "media_type"}
            link = {ours: block[theirs] for theirs, ours in names.items() if block.get(theirs)}
            return self._mask.value(link)
        self._note(
            self._mask.text(f"a content block has the unknown type {shorten(str(kind), 100)!r}")
        )
        return self._mask.value(block)

    def _check(self, block: JsonObject, keys: Mapping[str, str]) -> None:
        """Note that a block of a known type has no text at the key that has its content."""
        kind = block.get("type")
        key = keys.get(kind) if isinstance(kind, str) else None
        if key is not None and not isinstance(block.get(key), str):
            problem = f"whose {key!r} is not a text" if key in block else f"without {key!r}"
            self._note(f"the result has a content block of the type {kind!r} {problem}")

    def _resource(self, resource: JsonObject) -> JsonObject:
        uri = self._mask.text(str(resource.get("uri", "")))
        text = resource.get("text")
        if text is None and "blob" not in resource:
            self._note("a resource in the result has no content")
        content = resource.get("blob") if text is None else str(text).encode()
        default = "application/octet-stream" if text is None else "text/plain"
        media_type = str(resource.get("mimeType") or default)
        name = file_name("", uri, media_type.partition(";")[0].strip())
        return {**self._saved(name, content, media_type), "uri": uri}

    def _saved(self, name: str, content: Any, media_type: str) -> JsonObject:
        """Put bytes, or what their base64 means, into the workspace; return a reference as every tool's files have.

        Data that is not base64 becomes a text file: as an image, it would make requests to a model fail.
        """
        if not isinstance(content, bytes):
            decoded = _decoded(content)
            if decoded is None:
                self._note(f"the data of {media_type or name} is not base64, and is saved as text")
                name, media_type = f"{name}.txt", "text/plain"
            content = str(content).encode() if decoded is None else decoded
        content = self._mask.content(content)
        try:
            # The server may repeat a secret in the name.  The mask's asterisks are not portable in one.
            path = self._job.files.save(self._mask.text(name).replace("*", "_"), content)
        except (CovaltError, OSError) as error:
            problem = error.message if isinstance(error, CovaltError) else str(error.strerror)
            self._note(f"a file of the result, {media_type or name}, is not saved: {problem}")
            return {"not_saved": problem, "size": len(content), "media_type": media_type}
        return {"file": path, "size": len(content), "media_type": media_type}


def _decoded(encoded: object) -> bytes | None:
    """Return the bytes of base64, also with line breaks; None if it is something else."""
    try:
        return base64.b64decode("".join(str(encoded or "").split()), validate=True)
    except ValueError:
        return None
