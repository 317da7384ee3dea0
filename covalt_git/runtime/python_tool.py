"""Running a Python tool: the request, the wait with its limits, and what came of it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from covalt_git import canonical_json
from covalt_git.models.base import StrictModel
from covalt_git.models.calls import CallError
from covalt_git.runtime import sandbox

if TYPE_CHECKING:
    from covalt_git.models.base import JsonObject
    from covalt_git.models.toolset_manifest import Limits

KEPT_OUTPUT = 64 * 1024
"""How much of what a tool prints is kept in its record, in bytes."""

_MIB = 1 << 20
_GRACE_S = 0.2
_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything one run needs to know; ``limits`` has a value for time and output."""

    toolset_dir: Path
    toolset_id: str
    entrypoint: str
    args: JsonObject
    workspace: Path
    chat_id: str
    call_id: str
    limits: Limits
    message_id: str | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run.

    ``invalid_arguments`` and ``confirmation`` mean that the function was never called: its own
    schema refused the arguments, or its decorator asks for a confirmation that was not given.
    """

    status: Literal["success", "error", "invalid_arguments", "confirmation"]
    result: Any = None
    error: CallError | None = None
    output: str = ""
    problems: tuple[tuple[str, str], ...] = ()


class _Answer(StrictModel):
    """What the other side sends; a tool that writes to the pipe itself may send anything."""

    status: Literal["success", "error", "invalid_arguments", "confirmation"]
    result: Any = None
    code: str = "tool_died"
    message: str = ""
    traceback: str = ""
    problems: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Pipe:
    """One end that is read: what came so far, at most ``most`` bytes, and whether there was more."""

    most: int
    content: bytearray = field(default_factory=bytearray)
    received: int = 0

    def take(self, chunk: bytes) -> None:
        self.received += len(chunk)
        room = self.most - len(self.content)
        self.content += chunk[:room]


def run(job: Job) -> Outcome:
    """Run the job to its end, its limit or Ctrl-C; the processes it started are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="covalt-", ignore_cleanup_errors=True) as scratch:
        return _run(job, Path(scratch))


def _run(job: Job, scratch: Path) -> Outcome:
    request_read, request_write = os.pipe()
    answer_read, answer_write = os.pipe()
    output_read, output_write = os.pipe()
    # Unbuffered, so that both streams stand in the record in order, and to the last byte.
    argv = [sys.executable, "-I", "-B", "-u", "-X", "utf8", str(_CHILD)]
    argv += [str(request_read), str(answer_write), str(os.getpid())]
    try:
        process = sandbox.start(
            argv,
            folder=job.workspace,
            scratch=scratch,
            output=output_write,
            pipes=(request_read, answer_write),
        )
    except BaseException:
        for end in (request_write, answer_read, output_read):
            os.close(end)
        raise
    finally:
        for end in (request_read, answer_write, output_write):
            os.close(end)
    printed = _Pipe(KEPT_OUTPUT)
    answered = _Pipe((job.limits.output_mb or 16) * _MIB)
    try:
        _send(request_write, job)
        failure = _wait(process, job.limits, {output_read: printed, answer_read: answered})
    finally:
        sandbox.end(process)
        os.close(answer_read)
        os.close(output_read)
    return _outcome(process, job, printed, answered, failure)


def _send(end: int, job: Job) -> None:
    module, _, function = job.entrypoint.partition(":")
    request = {
        "toolset_dir": str(job.toolset_dir),
        "toolset_id": job.toolset_id,
        "module": module,
        "function": function,
        "args": job.args,
        "workspace": str(job.workspace),
        "chat_id": job.chat_id,
        "call_id": job.call_id,
        "message_id": job.message_id,
        "confirmed": job.confirmed,
        "limits": job.limits.model_dump(),
    }
    try:
        with os.fdopen(end, "wb") as pipe:
            pipe.write(json.dumps(request).encode())
    except BrokenPipeError:
        return  # it died before it read all of it, which the wait will tell


def _wait(
    process: subprocess.Popen[bytes], limits: Limits, pipes: dict[int, _Pipe]
) -> CallError | None:
    """Read what the tool prints and answers until it ends; return why it was stopped, if it was."""
    timeout = limits.timeout_s or 60.0
    too_slow = CallError(
        code="timed_out",
        message=f"it ran longer than {timeout:g} s",
        hint="raise limits.timeout_s of the tool or of covalt.yaml",
    )
    most = (limits.output_mb or 16) * _MIB
    end = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for descriptor in pipes:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                if time.monotonic() > end:
                    return too_slow
                # A process that ended may leave others behind that hold its pipes open.
                over = process.poll() is not None
                ready = selector.select(0 if over else min(_GRACE_S, end - time.monotonic() + 0.01))
                if over and not ready:
                    return None
                for key, _ in ready:
                    pipe = pipes[key.fd]
                    chunk = os.read(key.fd, 1 << 16)
                    if not chunk:
                        selector.unregister(key.fd)
                    pipe.take(chunk)
                    if pipe.received > most:
                        what = "printed" if pipe.most == KEPT_OUTPUT else "returned"
                        return CallError(
                            code="output_too_large",
                            message=f"it {what} more than {most >> 20} MiB",
                            hint="write large results to a file of the workspace",
                        )
            # It closed its pipes: it has ended, or is about to, or only wants to look like it.
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return too_slow
        except KeyboardInterrupt:
            return CallError(code="cancelled", message="a person stopped it")
    return None


def _outcome(
    process: subprocess.Popen[bytes],
    job: Job,
    printed: _Pipe,
    answered: _Pipe,
    failure: CallError | None,
) -> Outcome:
    output = bytes(printed.content).decode("utf-8", "replace")
    if printed.received > len(printed.content):
        output += f"\n... {printed.received - len(printed.content)} bytes more were not kept\n"
    if failure is not None:
        return Outcome("error", error=failure, output=output)
    try:
        answer = _Answer.model_validate(canonical_json.loads(bytes(answered.content)))
    except (canonical_json.NotJsonError, ValidationError):
        return Outcome("error", error=_death(process.returncode, job), output=output)
    if answer.status != "error":
        return Outcome(answer.status, answer.result, output=output, problems=answer.problems)
    error = CallError(code=answer.code, message=answer.message, traceback=answer.traceback)
    return Outcome("error", error=error, output=output)


def _death(returncode: int, job: Job) -> CallError:
    """Return why a tool ended without an answer."""
    if returncode == -signal.SIGXCPU and job.limits.cpu_s:
        return CallError(
            code="timed_out", message=f"it used {job.limits.cpu_s:g} s of processor time"
        )
    if returncode < 0:
        known = {one.value: one.name for one in signal.Signals}
        name = known.get(-returncode, f"signal {-returncode}")
        return CallError(code="tool_died", message=f"its process was ended by {name}")
    return CallError(code="tool_died", message=f"its process ended with {returncode} and no answer")
