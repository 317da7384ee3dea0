"""Calling a tool of an MCP server once, and what its result is to a call.

A text is a text, and structure is what the tool returns; bytes become files of the workspace, and
references to them.  Whatever leaves this module is without the secrets that the server was given.
"""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.connections.connection import ServerCall
from covalt_git.connections.event_handlers import EventHandlers
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.connections.token_store import mask_of
from covalt_git.errors import CovaltError
from covalt_git.http_tools.files import file_name
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import MIB, Log, LogLevel, Outcome, Progress, limit_error
from covalt_git.models.project_config import DEFAULT_OUTPUT_MB, DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from concurrent.futures import Future

    from covalt_git.connections.definition import Definition
    from covalt_git.http_tools.files import LockedWorkspace
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Limits

_LEVELS: dict[str, LogLevel] = {
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warning": "warning",
}


class McpJob(NamedTuple):
    """Everything one call needs to know; ``limits`` has a value for time and output.

    Attributes:
        digest: of the tool's definition that was accepted.
        wanted: returns whether the server may still run.
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
    ask: Callable[[str, JsonObject, Future[None]], JsonObject] | None = None
    cancel: threading.Event | None = None


def run(job: McpJob) -> Outcome:
    """Make the call to its end, its limit or Ctrl-C."""
    log: list[str] = []
    hints = job.tool.annotations
    asked = ServerCall(
        job.tool.upstream or job.tool.id.name,
        job.digest,
        job.args,
        job.limits.timeout_s or DEFAULT_TIMEOUT_S,
        repeatable=hints.read_only is True or hints.idempotent is True,
    )

    def heard(level: str, message: str) -> None:
        log.append(message)
        job.report(Log(_LEVELS.get(level, "error"), message))

    handlers = EventHandlers(
        starting=lambda line: heard("info", line),
        progress=lambda done, total, message: job.report(Progress(done, total, message)),
        log=heard,
        ask=job.ask,
    )
    try:
        result = CONNECTIONS.call(
            job.definition, asked, handlers=handlers, wanted=job.wanted, cancel=job.cancel
        )
        outcome = _outcome(job, result)
    except (CancelledError, KeyboardInterrupt):
        outcome = Outcome.failed(CallError(code="cancelled", message="the user cancelled it"))
    except TimeoutError:
        outcome = Outcome.failed(limit_error("limit_time", job.limits))
    except CovaltError as error:
        outcome = Outcome.failed(error)
    return outcome._replace(output="".join(f"{line}\n" for line in log))


def _outcome(job: McpJob, result: JsonObject) -> Outcome:
    """Return the outcome of a call with a result (MCP specification, "Tools", section "Tool Result").

    Raises:
        CovaltError: if a file of the answer cannot be saved in the workspace.
    """
    if len(json.dumps(result)) > (job.limits.output_mb or DEFAULT_OUTPUT_MB) * MIB:
        return Outcome.failed(limit_error("limit_output", job.limits))
    content = _Content(job)
    shown = [content.shown(block) for block in result.get("content") or []]
    texts = [one for one in shown if isinstance(one, str)]
    only_text = len(texts) == len(shown)
    has_structure = "structuredContent" in result
    value: Any = content.mask.value(result.get("structuredContent"))
    if not has_structure:
        value = "\n".join(texts) if only_text else shown[0] if len(shown) == 1 else shown
    elif not only_text:
        value = {"structured_content": value, "content": shown}
    if result.get("isError") is not True:
        return Outcome("success", value)
    message = "\n".join(texts) or "the tool reported an error without a message"
    more = value if has_structure or not only_text else None
    return Outcome("error", more, error=CallError(code="tool_failed", message=message))


class _Content:
    """Content blocks of a result: masked, with files saved in the workspace."""

    def __init__(self, job: McpJob) -> None:
        self._job = job
        self.mask = mask_of(job.definition)

    def shown(self, block: JsonObject) -> Any:
        """Return the value of a block."""
        kind = block.get("type")
        if kind == "text":
            return self.mask.text(str(block.get("text", "")))
        if kind in {"image", "audio"}:
            media_type = str(block.get("mimeType", ""))
            ending = mimetypes.guess_extension(media_type) or ".bin"
            name = f"{self._job.tool.id.name}{ending}"
            return self._saved(name, _bytes(block.get("data")), media_type)
        if kind == "resource":
            return self._resource(block.get("resource") or {})
        if kind == "resource_link":
            kept = {"uri": "uri", "name": "name", "title": "title", "mimeType": "media_type"}
            link = {ours: block[theirs] for theirs, ours in kept.items() if block.get(theirs)}
            return self.mask.value(link)
        return self.mask.value(block)

    def _resource(self, resource: JsonObject) -> JsonObject:
        uri = self.mask.text(str(resource.get("uri", "")))
        text = resource.get("text")
        content = _bytes(resource.get("blob")) if text is None else str(text).encode()
        default = "application/octet-stream" if text is None else "text/plain"
        media_type = str(resource.get("mimeType") or default)
        name = file_name("", uri, media_type.partition(";")[0].strip())
        return {**self._saved(name, content, media_type), "uri": uri}

    def _saved(self, name: str, content: bytes, media_type: str) -> JsonObject:
        """Put bytes into the workspace; return a reference as every tool's files have."""
        content = self.mask.content(content)
        path = self._job.files.save(self.mask.text(name).replace("*", "_"), content)
        return {"file": path, "size": len(content), "media_type": media_type}


def _bytes(encoded: object) -> bytes:
    try:
        return base64.b64decode(str(encoded or ""), validate=True)
    except (binascii.Error, ValueError):
        return str(encoded).encode()
