"""One call in a room, from this side: what is sent, what comes back, and when it is enough.

Nothing that comes back is trusted.  A tool can send what it likes over its connection; it then only
answers for itself, and its room ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from covalt_git.elicitation.requests import (
    MORE_TIME,
    WHERE_TO_ASK,
    CannotAskError,
    NotAnsweredError,
)
from covalt_git.json_values import canonical_json
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import CallError
from covalt_git.models.outcomes import MIB, Log, LogLevel, Outcome, Progress, limit_error
from covalt_git.models.project_config import DEFAULT_OUTPUT_MB, DEFAULT_TIMEOUT_S
from covalt_git.runtime import process_tree
from covalt_git.runtime.disk_space import DiskSpace
from covalt_git.runtime.folder_size import FolderSize
from covalt_git.runtime.process_tree import ProcessorTime
from covalt_git.runtime.processes import wire
from covalt_git.runtime.tool_questions import ToolQuestions

if TYPE_CHECKING:
    from covalt_git.models.elicitation import QuestionRecord
    from covalt_git.runtime.jobs import Job
    from covalt_git.runtime.pool import SandboxProcess

KEPT_OUTPUT = 64 * 1024
"""How much of what a tool prints is kept in its record, in bytes."""

GRACE_S = 0.5
"""How long a call that is cancelled may take to end by itself."""

_LOOK_S = 0.1
_READ = 1 << 16
_WALLS_OWN = {"full": 2}
"""How many processes walls consist of: the waiter outside, and the init."""
_ENFORCED = {"memory": "limit_memory", "pids": "limit_processes"}


_HINTS = {
    CannotAskError.code: WHERE_TO_ASK,
    NotAnsweredError.code: f"call it again, or {MORE_TIME}",
}


class _Progress(StrictModel):
    event: Literal["progress"]
    done: float
    total: float | None = None
    message: str = ""


class _Log(StrictModel):
    event: Literal["log"]
    level: LogLevel
    message: str


class _Ask(StrictModel):
    event: Literal["ask"]
    questions: Any


class _Answer(StrictModel):
    event: Literal["answer"]
    status: Literal["success", "error", "invalid_arguments", "confirmation"]
    result: Any = None
    code: Literal[
        "tool_raised",
        "cannot_load",
        "bad_result",
        "sandbox_failed",
        "limit_memory",
        "limit_processes",
        "limit_written",
        "cannot_ask",
        "not_answered",
    ] = "tool_raised"
    message: str = ""
    traceback: str = ""
    problems: tuple[tuple[str, str], ...] = ()


_EVENT: TypeAdapter[_Progress | _Log | _Ask | _Answer] = TypeAdapter(
    Annotated[_Progress | _Log | _Ask | _Answer, Field(discriminator="event")]
)


class Printed:
    """What a tool printed: the beginning of it, and how much there was."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self.received = 0

    def take(self, chunk: bytes) -> None:
        """Take more of it."""
        self.received += len(chunk)
        self._kept += chunk[: KEPT_OUTPUT - len(self._kept)]

    def __str__(self) -> str:
        text = bytes(self._kept).decode("utf-8", "replace")
        if self.received > len(self._kept):
            text += f"\n... {self.received - len(self._kept)} bytes more were not kept\n"
        return text


class AwaitedCall:
    """One call: made where it is created, over when :meth:`outcome` returns.

    ``is_reusable`` tells then whether the room can serve another one.
    """

    def __init__(self, sandbox: SandboxProcess, job: Job) -> None:
        self._connection, self._output = sandbox.next_call()
        self.is_reusable = False
        self._sandbox = sandbox
        self._job = job
        self._most = (job.limits.output_mb or DEFAULT_OUTPUT_MB) * MIB
        self._unsent = memoryview(wire.packed(_request(job)))
        self._frames = wire.Unpacking()
        self._printed = Printed()
        self._received = 0
        self._is_unread = self._has_begun = False
        self._unasked: list[Any] = []
        self._answer: _Answer | None = None
        self._status: int | None = None
        self._ended_after_s: float | None = None
        self._sandbox_is_gone = False
        self._processor_time = job.limits.cpu_s and ProcessorTime(sandbox.pid)
        self._workspace = FolderSize(job.workspace, job.limits)
        self._private = FolderSize(sandbox.scratch, job.limits)
        self._disks = DiskSpace(job.workspace, sandbox.scratch)
        self._questions = ToolQuestions(job)
        self._asked: tuple[QuestionRecord, ...] = ()

    def close(self) -> None:
        """Let go of the call's own connections."""
        self._questions.close()
        self._connection.close()
        os.close(self._output)

    def outcome(self) -> Outcome | None:
        """Wait for the end, and return what came of it; None where the call has never begun.

        Where the room is no longer good, nothing that ran in it is left.
        """
        more = selectors.EVENT_WRITE if self._send() else 0
        with selectors.PollSelector() as selector:  # epoll has one more to set up and to close
            selector.register(self._connection, selectors.EVENT_READ | more)
            for end in (self._output, self._sandbox.calls, self._sandbox.life):
                selector.register(end, selectors.EVENT_READ)
            failure = self._wait(selector)
        self._asked = self._questions.close()
        enforced = self._sandbox.limit_hit()
        hit = _ENFORCED[enforced] if enforced else "limit_cpu" if self._has_used_its_time() else ""
        if failure is not None or not self.is_reusable or self._status == -signal.SIGKILL:
            self.is_reusable = False
            self._sandbox.end()
        for end in (self._output, self._connection.fileno()):  # nobody writes to them any more
            while self._take(end):
                pass
        if failure is None and (hit := hit or self._left_too_much()):
            traceback = self._answer.traceback if self._answer else ""
            failure = limit_error(hit, self._job.limits, traceback)
        if failure is None and self._is_unread and not self._has_begun and self._was_not_called:
            return None
        return self._judged(failure)

    @property
    def _was_not_called(self) -> bool:
        """Whether the room ended as one does that nobody calls, or was killed."""
        return self._status is None or self._status == wire.NOT_CALLED or self._status < 0

    def _wait(self, selector: selectors.BaseSelector) -> CallError | None:
        """Send and take until the call has ended; return why it was stopped, if it was."""
        limits, cancel = self._job.limits, self._job.cancel
        looked = time.monotonic()
        end = looked + (limits.timeout_s or DEFAULT_TIMEOUT_S)
        cancelled, patience = False, end
        while self._status is None and not self._sandbox_is_gone:
            now = time.monotonic()
            if cancel is not None and cancel.is_set() and not cancelled:
                cancelled, patience = True, self._ask_to_end(selector)
            late = end + self._questions.waited_s
            if now > (min(late, patience) if cancelled else late):
                break
            try:
                if (reply := self._questions.reply()) is not None:
                    self._send_later(reply, selector)
                for key, ready in selector.select(min(_LOOK_S, late - now + 0.001)):
                    if key.fileobj is self._questions:
                        continue
                    if ready & selectors.EVENT_WRITE and not self._send():
                        selector.modify(key.fileobj, selectors.EVENT_READ)
                    if ready & selectors.EVENT_READ and not self._take(key.fd):
                        selector.unregister(key.fileobj)
                for asked in self._heard_questions():
                    if (reply := self._questions.ask(asked)) is not None:
                        self._send_later(reply, selector)
                    elif self._questions not in selector.get_map():
                        selector.register(self._questions, selectors.EVENT_READ)
            except KeyboardInterrupt:
                if cancelled:
                    break
                cancelled, patience = True, self._ask_to_end(selector)
            if self._received > self._most or (
                self._answer is None and self._printed.received > self._most
            ):
                return limit_error("limit_output", limits)
            if now - looked > _LOOK_S:
                looked = now
                if code := self._too_much():
                    return limit_error(code, limits)
                if full := self._disks.exceeded():
                    return CallError(code=full.code, message=full.message, hint=full.hint)
        if cancelled:
            return CallError(code="cancelled", message="a person stopped it")
        if self._status is None and not self._sandbox_is_gone:
            return limit_error("limit_time", limits)
        return None

    def _ask_to_end(self, selector: selectors.BaseSelector) -> float:
        """Let the tool see that it is cancelled; return until when it may end by itself."""
        with contextlib.suppress(OSError, KeyError):
            selector.modify(self._connection, selectors.EVENT_READ)
            self._connection.shutdown(socket.SHUT_WR)
        return time.monotonic() + GRACE_S

    def _heard_questions(self) -> list[Any]:
        asked, self._unasked = self._unasked, []
        return asked

    def _send_later(self, value: Any, selector: selectors.BaseSelector) -> None:
        """Send the tool something more, behind what it has not taken yet; not once it is to end."""
        if self._job.cancel is not None and self._job.cancel.is_set():
            return
        self._unsent = memoryview(bytes(self._unsent) + wire.packed(value))
        with contextlib.suppress(KeyError):  # its connection is gone
            selector.modify(self._connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _too_much(self) -> str:
        """Return the limit that the whole tree breaks, where each of its processes keeps to its own."""
        most = self._job.limits.memory_mb
        found, spec = process_tree.taken(self._sandbox.pid), self._sandbox.spec
        if found.tasks > spec.limits.processes + _WALLS_OWN.get(spec.level, 0):
            return "limit_processes"
        if self._has_used_its_time():
            return "limit_cpu"
        if enforced := self._sandbox.limit_hit():
            return _ENFORCED[enforced]
        if most and found.memory > most * MIB:
            found = process_tree.taken(self._sandbox.pid, exactly=True)
            if found.memory > most * MIB:
                return "limit_memory"
        return self._workspace.exceeded_soon() or _in_private(self._private.exceeded_soon())

    def _has_used_its_time(self) -> bool:
        """Tell whether the whole tree used what each of its processes may."""
        most, time_ = self._job.limits.cpu_s, self._processor_time
        return bool(most and time_ and time_.used_s(at_its_end=self._ended_after_s) >= most)

    def _left_too_much(self) -> str:
        """Return the limit that the workspace is over, where the tool has run."""
        if self._answer is None or self._answer.status in {"success", "error"}:
            return self._workspace.exceeded()
        return ""

    def _send(self) -> bool:
        """Send more of the request; False once there is nothing to send."""
        try:
            self._unsent = self._unsent[self._connection.send(self._unsent) :]
        except BlockingIOError:
            return True
        except OSError:
            self._is_unread = True
            return False
        return bool(self._unsent)

    def _take(self, end: int) -> bool:
        """Take what an end has to say; False where there is nothing, now or any more."""
        sandbox = self._sandbox
        try:
            if end == self._output:
                chunk = os.read(end, _READ)
                self._printed.take(chunk)
            elif end == self._connection.fileno():
                chunk = self._connection.recv(_READ)
                self._received += len(chunk)
                self._hear(chunk)
            elif end == sandbox.calls.fileno():
                chunk = sandbox.calls.recv(wire.ENDED.size)
                if chunk:
                    self._status, self.is_reusable = wire.ENDED.unpack(chunk)
            else:
                chunk = sandbox.life.recv(wire.STATUS.size)
                if chunk:
                    self._status, self._ended_after_s = wire.STATUS.unpack(chunk)
                self._sandbox_is_gone = not chunk
        except ConnectionResetError:
            # How a connection ends whose other side has left something unread: the request.
            self._is_unread = True
            return False
        except OSError:
            return False
        return bool(chunk)

    def _hear(self, chunk: bytes) -> None:
        """Take the events that are complete; one that is none is passed over."""
        for frame in self._frames.feed(chunk):
            self._has_begun = True
            try:
                event = _EVENT.validate_python(canonical_json.loads(frame))
            except (canonical_json.NotJsonError, ValidationError):
                continue
            match event:
                case _Answer():
                    self._answer = self._answer or event
                case _Ask():
                    self._unasked.append(event.questions)
                case _Progress() if self._job.tell:
                    self._job.tell(Progress(event.done, event.total, event.message))
                case _Log() if self._job.tell:
                    self._job.tell(Log(event.level, event.message))

    def _judged(self, failure: CallError | None) -> Outcome:
        output, answer = str(self._printed), self._answer
        if failure is None and self._received > self._most:
            failure = limit_error("limit_output", self._job.limits)
        if failure is not None:
            return Outcome("error", error=failure, output=output, asked=self._asked)
        if answer is None:
            return Outcome("error", error=self._death(), output=output, asked=self._asked)
        if answer.status != "error":
            return Outcome(
                answer.status,
                answer.result,
                output=output,
                asked=self._asked,
                problems=answer.problems,
            )
        if answer.code.startswith("limit_"):
            error = limit_error(answer.code, self._job.limits, answer.traceback)
        else:
            error = CallError(
                code=answer.code,
                message=answer.message,
                hint=_HINTS.get(answer.code, ""),
                traceback=answer.traceback,
            )
        return Outcome("error", error=error, output=output, asked=self._asked)

    def _death(self) -> CallError:
        """Return why a tool ended without an answer."""
        code = self._status
        if code is None:
            return CallError(code="tool_died", message="its process was ended from outside")
        if code == -signal.SIGXCPU and self._job.limits.cpu_s:
            return limit_error("limit_cpu", self._job.limits)
        if code < 0:
            known = {one.value: one.name for one in signal.Signals}
            name = known.get(-code, f"signal {-code}")
            return CallError(code="tool_died", message=f"its process was ended by {name}")
        return CallError(code="tool_died", message=f"its process ended with {code} and no answer")


def _in_private(code: str) -> str:
    """Return the limit that a tool's private folder is over, where that of a workspace is ``code``."""
    return "limit_tmp" if code in {"limit_files", "limit_workspace"} else code


def _request(job: Job) -> dict[str, Any]:
    return {
        "toolset_id": job.toolset.toolset_id,
        "function": job.entrypoint.partition(":")[2],
        "args": job.args,
        "workspace": str(job.workspace),
        "chat_id": job.chat_id,
        "call_id": job.call_id,
        "message_id": job.message_id,
        "confirmed": job.confirmed,
        "secrets": dict(job.secrets),
        "check_result": job.check_result,
        "kinds": sorted(job.kinds),
        "limits": {"memory_mb": job.limits.memory_mb, "file_mb": job.limits.file_mb},
    }
