"""Our side of one call in a sandbox: the request, its events and answer, and its limits.

Received data is not trusted: what a tool sends can affect its own call only.  One exception: the module that a sandbox
imports has the connection of ``ENDED``, and can write a well-formed one.  Then the call ends early, and its sandbox is
reused although the tool may still run; but only for calls of the same code in the same workspace, and never if the
toolset is imported: such a sandbox serves one call.
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
from covalt_git.models.outcomes import (
    MIB,
    Log,
    LogLevel,
    Outcome,
    Progress,
    RunSchemas,
    limit_error,
)
from covalt_git.models.project_config import DEFAULT_OUTPUT_MB, DEFAULT_TIMEOUT_S
from covalt_git.runtime import process_tree
from covalt_git.runtime.disk_space import DiskSpace
from covalt_git.runtime.folder_size import FolderSize
from covalt_git.runtime.process_tree import ProcessorTime
from covalt_git.runtime.processes import wire
from covalt_git.runtime.tool_elicitation import TokenRequests, ToolElicitation
from covalt_git.text.printed import Printed

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_git.runtime.jobs import Job
    from covalt_git.runtime.pool import SandboxProcess

GRACE_S = 0.5
"""Time in which a cancelled call may end by itself."""

# A check reads /proc for each process of the tool, and may count its files: more often would slow the tool down.
# No descriptor becomes readable when a user answers, so the answer is polled, but only while the tool waits for it.
_CHECK_S = 0.1
_ANSWER_S = 0.01
"""Intervals of checking limits, and whether an elicitation has been answered."""
_READ = 1 << 16
_KILLED = range(-signal.NSIG, 0)
_OWN_PROCESSES = {"full": 2}
"""Processes of the sandbox itself: the waiter and the init."""

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


class _Token(StrictModel):
    event: Literal["token"]
    name: str


class _Schemas(StrictModel):
    event: Literal["schemas"]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    unsaid: tuple[str, ...] = ()


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
        "sign_in_needed",
    ] = "tool_raised"
    message: str = ""
    traceback: str = ""
    problems: tuple[tuple[str, str], ...] = ()


_EVENT: TypeAdapter[_Progress | _Log | _Ask | _Token | _Schemas | _Answer] = TypeAdapter(
    Annotated[_Progress | _Log | _Ask | _Token | _Schemas | _Answer, Field(discriminator="event")]
)


class AwaitedCall:
    """One call: started by the constructor, over when :meth:`outcome` returns.

    Afterwards ``is_reusable`` is whether the sandbox can serve another call.
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
        self._answer: _Answer | None = None
        self._schemas: RunSchemas | None = None
        self._status: int | None = None
        self._ended_after_s: float | None = None
        self._sandbox_is_gone = self._is_garbled = False
        self._processor_time = job.limits.cpu_s and ProcessorTime(sandbox.pid)
        self._workspace = FolderSize(job.workspace, job.limits)
        self._private = FolderSize(sandbox.scratch, job.limits)
        self._disks = DiskSpace(job.workspace, sandbox.scratch)
        self._questions = ToolElicitation(job)
        self._tokens = TokenRequests(job)
        self._selector = selectors.PollSelector()  # epoll takes six more system calls for each call

    def close(self) -> None:
        self._questions.close()
        self._connection.close()
        os.close(self._output)

    def outcome(self) -> Outcome | None:
        """Wait for the end and return the outcome; None if the sandbox ended before the call began.

        If the sandbox is not reusable, none of its processes is left.
        """
        more = selectors.EVENT_WRITE if self._send() else 0
        self._selector.register(self._connection, selectors.EVENT_READ | more)
        for end in (self._output, self._sandbox.calls, self._sandbox.life):
            self._selector.register(end, selectors.EVENT_READ)
        failure = self._wait()
        records = self._questions.close()
        # While the sandbox is there: what its processes used is read from /proc and from its control group.
        hit = self._sandbox.limit_hit() or ("limit_cpu" if self._exceeds_cpu() else "")
        # A control group that is out of memory kills all its processes (`memory.oom.group`).  So after SIGKILL the warm
        # sandbox may be about to end too, and must not be given back.
        if failure is not None or not self.is_reusable or self._status == -signal.SIGKILL:
            self.is_reusable = False
            self._sandbox.end()
        # The status comes over another connection and can overtake the answer and the last output.  Both ends are
        # non-blocking, and what was sent is in their buffers; so this ends, also after a false end of a tool that prints on,
        # when it has read faster than the tool prints.
        for end in (self._output, self._connection.fileno()):
            while self._take(end):
                pass
        if failure is None and (hit := hit or self._exceeded_at_end()):
            traceback = self._answer.traceback if self._answer else ""
            failure = limit_error(hit, self._job.limits, traceback)
        # A sandbox that receives no call ends with NOT_CALLED, unless it is killed.
        is_called = self._status is not None and self._status not in {wire.NOT_CALLED, *_KILLED}
        # The caller then calls again in another sandbox.  A tool that has begun may have had its effect, so its call
        # is not repeated.
        if failure is None and self._is_unread and not self._has_begun and not is_called:
            return None
        if failure is None and self._received > self._most:
            failure = limit_error("limit_output", self._job.limits)
        outcome = Outcome.failed(failure) if failure is not None else self._answered()
        if self._questions.unanswered:
            outcome = Outcome("question", unanswered=self._questions.unanswered)
        return outcome._replace(output=str(self._printed), asked=records, schemas=self._schemas)

    def _wait(self) -> CallError | None:
        """Exchange data until the call has ended; return the reason if it has to be stopped."""
        limits, cancel = self._job.limits, self._job.cancel
        checked = time.monotonic()
        end = checked + (limits.timeout_s or DEFAULT_TIMEOUT_S)
        cancelled, grace_end = False, end
        while self._status is None and not self._sandbox_is_gone:
            time_s = time.monotonic()
            if cancel is not None and cancel.is_set() and not cancelled:
                cancelled, grace_end = True, self._request_end()
            # A user may answer after minutes, which the tool is not to blame for
            # (test_the_time_limit_pauses_while_the_user_answers).
            late = end + self._questions.waited_s
            if time_s > (min(late, grace_end) if cancelled else late):
                break
            try:
                is_waiting = self._questions.is_open or self._tokens.is_open
                interval = _ANSWER_S if is_waiting else _CHECK_S
                # A millisecond beyond the limit: while a question is open, `late` moves with the clock.  A remaining time
                # of 0 would stay 0, and the loop would spin until the answer.
                self._exchange(min(interval, late - time_s + 0.001))
            # Elsewhere Ctrl-C leaves this module, and `python_tool` ends the sandbox.
            except KeyboardInterrupt:
                if cancelled:  # the second Ctrl-C does not wait for the end of the grace period
                    break
                cancelled, grace_end = True, self._request_end()
            if self._questions.unanswered:
                return CallError(code=CannotAskError.code, message="the call waits for a user")
            # After the answer, only processes that the tool left print, as much as they can before they are killed.
            printed = 0 if self._answer else self._printed.received
            if max(self._received, printed) > self._most:
                return limit_error("limit_output", limits)
            if time_s - checked > _CHECK_S:
                checked = time_s
                if code := self._exceeded():
                    return limit_error(code, limits)
                if full := self._disks.exceeded():
                    return CallError(code=full.code, message=full.message, hint=full.hint)
        # Also if the tool answered in its grace period (test_cancelled_tool_that_looks_may_tidy_up).
        if cancelled:
            return CallError(code="cancelled", message="the user cancelled it")
        if self._is_garbled:
            message = "its module wrote to a descriptor that belongs to the sandbox"
            return CallError(code="sandbox_failed", message=message)
        if self._status is None and not self._sandbox_is_gone:
            return limit_error("limit_time", limits)
        return None

    def _exchange(self, within_s: float) -> None:
        self._send_later(self._questions.reply())
        self._send_later(self._tokens.reply())
        for key, ready in self._selector.select(within_s):
            if ready & selectors.EVENT_WRITE and not self._send():
                self._selector.modify(key.fileobj, selectors.EVENT_READ)
            if ready & selectors.EVENT_READ and not self._take(key.fd):
                self._selector.unregister(key.fileobj)

    def _request_end(self) -> float:
        """Signal to the tool that it is cancelled; return the end of its grace period."""
        # Only this direction: the tool reads the end as its cancellation, and its last events still arrive.  What is
        # unsent cannot be sent after that.
        with contextlib.suppress(OSError, KeyError):
            self._selector.modify(self._connection, selectors.EVENT_READ)
            self._connection.shutdown(socket.SHUT_WR)
        return time.monotonic() + GRACE_S

    def _send_later(self, reply: JsonObject | None) -> None:
        """Append a reply to the unsent bytes, if there is one and the call is not cancelled."""
        if reply is None or (self._job.cancel is not None and self._job.cancel.is_set()):
            return
        self._unsent = memoryview(bytes(self._unsent) + wire.packed(reply))
        with contextlib.suppress(KeyError):  # its connection is closed
            self._selector.modify(self._connection, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _exceeded(self) -> str:
        """Return a limit that all processes together, or the files, exceed now."""
        most, spec = self._job.limits.memory_mb, self._sandbox.spec
        used = process_tree.usage(self._sandbox.pid)
        if used.tasks > spec.limits.processes + _OWN_PROCESSES.get(spec.level, 0):
            return "limit_processes"
        if self._exceeds_cpu():
            return "limit_cpu"
        if enforced := self._sandbox.limit_hit():
            return enforced
        # The quick sum counts pages that forks share once for each (`processes-that-share-their-memory` in
        # test_python_tool_limits.yaml), so it is never too small.  The exact sum walks all pages.
        if most and used.memory > most * MIB:
            used = process_tree.usage(self._sandbox.pid, exactly=True)
            if used.memory > most * MIB:
                return "limit_memory"
        code = self._private.exceeded_soon()
        code = "limit_tmp" if code in {"limit_files", "limit_workspace"} else code
        return self._workspace.exceeded_soon() or code

    def _exceeds_cpu(self) -> bool:
        """Return whether all processes together used the processor time of one."""
        most, time_ = self._job.limits.cpu_s, self._processor_time
        return bool(most and time_ and time_.used_s(at_end=self._ended_after_s) >= most)

    def _exceeded_at_end(self) -> str:
        """Return a limit that the workspace exceeds after the tool ran."""
        # The function did not run if its arguments were refused or a confirmation is needed: no files to count.
        has_run = self._answer is None or self._answer.status in {"success", "error"}
        return self._workspace.exceeded() if has_run else ""

    def _send(self) -> bool:
        """Send unsent bytes; return whether some are left."""
        try:
            self._unsent = self._unsent[self._connection.send(self._unsent) :]
        except BlockingIOError:
            return True
        except OSError:
            self._is_unread = True
            return False
        return bool(self._unsent)

    def _take(self, end: int) -> bool:
        """Receive from a descriptor; return False if it has no data or is closed."""
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
                # One byte more, so that a longer text is not taken for a message by its beginning.
                chunk = sandbox.calls.recv(wire.ENDED.size + 1)
                if len(chunk) == wire.ENDED.size:
                    self._status, self.is_reusable = wire.ENDED.unpack(chunk)
                elif chunk:
                    # A module that is imported has this descriptor too, and can write anything to it; what comes
                    # after that means nothing (test_a_module_that_writes_to_each_descriptor_is_an_error_of_its_call).
                    self._is_garbled = self._sandbox_is_gone = True
            else:
                chunk = sandbox.life.recv(wire.STATUS.size)
                if len(chunk) == wire.STATUS.size:
                    self._status, self._ended_after_s = wire.STATUS.unpack(chunk)
                else:
                    self._is_garbled |= bool(chunk)
                    self._sandbox_is_gone = True
        except ConnectionResetError:
            # The other end was closed with unread data: the request.
            self._is_unread = True
            return False
        except OSError:
            return False
        return bool(chunk)

    def _hear(self, chunk: bytes) -> None:
        """Handle complete events; skip invalid ones."""
        for frame in self._frames.feed(chunk):
            # Also for an invalid frame: it shows that the tool's code ran, so the call must not be repeated.
            self._has_begun = True
            try:
                event = _EVENT.validate_python(canonical_json.loads(frame))
            except (canonical_json.NotJsonError, ValidationError):
                continue
            match event:
                # The first one each: processes that the tool leaves behind have this connection too.
                case _Answer():
                    self._answer = self._answer or event
                case _Schemas() if self._job.describes != "no" and self._schemas is None:
                    self._schemas = RunSchemas(
                        event.input_schema, event.output_schema, event.unsaid
                    )
                case _Ask():
                    self._send_later(self._questions.ask(event.questions))
                case _Token():
                    self._tokens.request(event.name)
                case _Progress() if self._job.report:
                    self._job.report(Progress(event.done, event.total, event.message))
                case _Log() if self._job.report:
                    self._job.report(Log(event.level, event.message))

    def _answered(self) -> Outcome:
        """Return the outcome of the answer, or the error of a tool that ended without one."""
        answer, limits = self._answer, self._job.limits
        if answer is None:
            return Outcome.failed(self._death())
        if answer.status != "error":
            return Outcome(answer.status, answer.result, problems=answer.problems)
        if answer.code.startswith("limit_"):
            return Outcome.failed(limit_error(answer.code, limits, answer.traceback))
        refused = self._tokens.error
        if answer.code == "sign_in_needed" and refused is not None:
            # The refusal as this process has it: the tool could have written another command into its message.
            error = CallError(code=refused.code, message=refused.message, hint=refused.hint)
        else:
            hint = _HINTS.get(answer.code, "")
            error = CallError(code=answer.code, message=answer.message, hint=hint)
        return Outcome.failed(error.model_copy(update={"traceback": answer.traceback}))

    def _death(self) -> CallError:
        code = self._status
        if code == -signal.SIGXCPU and self._job.limits.cpu_s:
            return limit_error("limit_cpu", self._job.limits)
        if code is None:
            how = "was ended from outside"
        elif code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"was ended by {names.get(-code, f'signal {-code}')}"
        else:
            how = f"ended with {code} and no answer"
        return CallError(code="tool_died", message=f"its process {how}")


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
        "describes": job.describes,
        "kinds": sorted(job.kinds),
        "limits": {"memory_mb": job.limits.memory_mb, "file_mb": job.limits.file_mb},
    }
