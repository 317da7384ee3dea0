"""Tool process: makes one call of a Python tool and ends with it.

The request, events and the answer use a connection of the call; printed text goes to the standard streams.

The fork server imports this module, and the SDK imports packages of an environment, which may run in the sandbox
only.  So functions that run in the sandbox import the SDK themselves.
"""

from __future__ import annotations

import contextlib
import errno
import linecache
import mmap
import os
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.json_values.schema_rules import with_rule
from covalt_git.runtime.processes import wire
from covalt_git.runtime.sandbox.limits import open_reserve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from covalt_toolset.elicitation import Kind

_PROGRESS_S = 0.05
"""Progress that comes faster is left out, but never its end."""

_MOST_CAUSES = 10


class LoadedTool:
    """An imported module of a toolset, or the failure of its import."""

    def __init__(self, folder: Path, module: str) -> None:
        self.folder = folder
        self.module = module
        self.failure: dict[str, Any] | None = None

    def read_signatures(self, function: str) -> None:
        """Parse the signatures of ``function`` and of all functions marked as tools, once for all calls."""
        import covalt_toolset  # noqa: PLC0415 - in the sandbox

        module = sys.modules[self.module]
        for name, value in list(vars(module).items()):
            if callable(value) and (name == function or covalt_toolset.is_tool(value)):
                with contextlib.suppress(Exception):  # reported when it is called
                    covalt_toolset.describe(value)

    def function(self, name: str) -> Callable[..., object]:
        """Return the function.

        Raises:
            AttributeError: where the module has none of that name.
            TypeError: where it is something else.
        """
        function: Callable[..., object] = getattr(sys.modules[self.module], name)
        if not callable(function):
            raise TypeError(f"{self.module}:{name} is not a function")
        return function


class _Listener:
    """Sends events of the tool to the caller, and reports to the tool that it is cancelled."""

    def __init__(self, connection: socket.socket) -> None:
        self.kinds: tuple[Kind, ...] = ()
        self._connection = connection
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._last = 0.0
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether the call is cancelled: its connection is then closed."""
        if not self._cancelled:
            flags = socket.MSG_PEEK | socket.MSG_DONTWAIT  # an answer must stay readable
            with contextlib.suppress(OSError, ValueError):
                self._cancelled = not self._connection.recv(1, flags)
        return self._cancelled

    def progress(self, done: float, total: float | None, message: str) -> None:
        time_s = time.monotonic()
        if time_s - self._last >= _PROGRESS_S or done == total:
            self._last = time_s
            self.send({"event": "progress", "done": done, "total": total, "message": message})

    def log(self, level: str, message: str) -> None:
        """Send a log message, and print it too."""
        with contextlib.suppress(Exception):  # the tool may have replaced its streams
            sys.stderr.write(f"{level}: {message}\n")
        self.send({"event": "log", "level": level, "message": message})

    def ask(self, questions: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Send an elicitation to the caller and wait; one thread at a time."""
        import covalt_toolset  # noqa: PLC0415 - in the sandbox

        asked = {key: dict(question) for key, question in questions.items()}
        with self._asking:  # an answer does not say which question it is for
            self.send({"event": "ask", "questions": covalt_toolset.to_json(asked)})
            try:
                reply = wire.receive(self._connection)
            except (EOFError, OSError):
                reply = None
        if reply is None:
            raise covalt_toolset.NotAnswered("the call was cancelled")
        if "error" in reply:
            error = reply["error"]
            refusals: dict[str, type[Exception]] = {
                "cannot_ask": covalt_toolset.CannotAsk,
                "not_answered": covalt_toolset.NotAnswered,
            }
            raise refusals.get(error["code"], ValueError)(error["message"])
        answers: dict[str, dict[str, Any]] = reply["answers"]
        return answers

    def token(self, name: str) -> str:
        """Request the token of a sign-in from the caller and wait; one thread at a time."""
        import covalt_toolset  # noqa: PLC0415 - in the sandbox

        with self._asking:  # as in ask()
            self.send({"event": "token", "name": str(name)})
            try:
                reply = wire.receive(self._connection)
            except (EOFError, OSError):
                reply = None
        if reply is None or "token" not in reply:
            error = (reply or {}).get("error", {})
            raise covalt_toolset.SignInNeeded(error.get("message", "the call was cancelled"))
        return str(reply["token"])

    def send(self, event: dict[str, Any]) -> None:
        """Send an event; a cancelled call has no receiver."""
        with self._sending, contextlib.suppress(OSError):
            wire.send(self._connection, event)


def make_call(connection: socket.socket, output: int | None, tool: LoadedTool) -> int:
    """Make the call whose request comes over ``connection``; return the exit code of this process."""
    if output is not None:
        redirect_streams(output)
        os.close(output)
    listener = _Listener(connection)
    # The signal comes also where the tool hides the error (`passed_over` in test_python_tool_limits.yaml).  The memory
    # is shared with forks of the tool, whose failed writes count too.
    file_too_large = mmap.mmap(-1, 1)
    signal.signal(signal.SIGXFSZ, lambda *_: file_too_large.__setitem__(0, 1))
    own = os.getpid()
    with contextlib.suppress(EOFError, OSError):
        if request := wire.receive(connection):
            try:
                answer = _answer(tool, request, listener)
            except MemoryError as error:  # too little memory even for an error
                answer = failure("limit_memory", error, tool.folder)
            if file_too_large[0] and request["limits"]["file_mb"]:
                answer = {**answer, "status": "error", "code": "limit_written"}
            if os.getpid() == own:  # not in a fork that the tool let return
                flush_streams()  # first: what is printed after the answer is not counted as the tool's
                wire.send(connection, {"event": "answer", **answer})
            return 0
    return 1


def redirect_streams(end: int) -> None:
    """Make a descriptor the standard output and error of this process."""
    os.dup2(end, 1)
    os.dup2(end, 2)


def flush_streams() -> None:
    with contextlib.suppress(Exception):  # the tool may have replaced its streams
        sys.stdout.flush()
        sys.stderr.flush()


def _answer(tool: LoadedTool, request: dict[str, Any], listener: _Listener) -> dict[str, Any]:
    if tool.failure is not None:
        return tool.failure
    import covalt_toolset  # noqa: PLC0415 - in the sandbox

    folder = tool.folder
    try:
        function = tool.function(request["function"])
        if request["describes"] == "only":
            listener.send(_schemas(function))
            return {"status": "success"}
        if request["describes"] == "also":
            with contextlib.suppress(Exception):  # the call reports it
                listener.send(_schemas(function))
        marked = covalt_toolset.get_tool_metadata(function)
    except BaseException as error:  # noqa: BLE001 - it may be any object
        return failure("cannot_load", error, folder)
    if marked is not None and marked.requires_confirmation and not request["confirmed"]:
        return {"status": "confirmation"}
    context = covalt_toolset.ToolContext(
        workspace=Path(request["workspace"]),
        chat_id=request["chat_id"],
        toolset_id=request["toolset_id"],
        toolset_dir=folder,
        call_id=request["call_id"],
        message_id=request["message_id"],
        secrets=request["secrets"],
        listener=listener,
    )
    listener.kinds = tuple(request["kinds"])
    os.chdir(context.workspace)
    with covalt_toolset.set_context(context):
        return _call(function, request, folder)


def _schemas(function: Callable[..., object]) -> dict[str, Any]:
    """Return the event with the schemas of a function.

    Raises:
        ToolSignatureError: for a parameter that cannot be passed by name and as JSON.
        ResultNotJson: for a schema that is not JSON.
    """
    import covalt_toolset  # noqa: PLC0415 - in the sandbox
    from covalt_toolset.unsaid_checks import unsaid_parameters  # noqa: PLC0415 - in the sandbox

    description = covalt_toolset.describe(function)
    schemas = {
        "input_schema": description.input_schema,
        "output_schema": description.output_schema,
        "unsaid": unsaid_parameters(function),
    }
    return {"event": "schemas", **covalt_toolset.to_json(schemas)}


def _call(function: Callable[..., object], request: dict[str, Any], folder: Path) -> dict[str, Any]:
    import covalt_toolset  # noqa: PLC0415 - in the sandbox
    from covalt_toolset.files import save  # noqa: PLC0415 - in the sandbox
    from covalt_toolset.invoke import result_problems, rule_of  # noqa: PLC0415 - in the sandbox

    try:
        result = covalt_toolset.invoke(function, request["args"])
    except covalt_toolset.InvalidToolArguments as error:
        if _own_frames(error, folder):  # the tool had begun and raised it itself
            return failure("tool_raised", error, folder)
        schema = covalt_toolset.describe(function).input_schema
        problems = [
            [problem.path, with_rule(problem.message, rule_of(function, problem), schema)]
            for problem in error.problems
        ]
        return {"status": "invalid_arguments", "problems": problems}
    except covalt_toolset.ToolSignatureError as error:
        return failure("cannot_load", error, folder)
    except (covalt_toolset.CannotAsk, covalt_toolset.NotAnswered) as error:
        code = "cannot_ask" if isinstance(error, covalt_toolset.CannotAsk) else "not_answered"
        return {**failure(code, error, folder), "message": _text(error)}
    except covalt_toolset.SignInNeeded as error:
        return {**failure("sign_in_needed", error, folder), "message": _text(error)}
    except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of a tool too
        return failure(_limit_of(error, request["limits"]) or "tool_raised", error, folder)
    try:
        written = covalt_toolset.to_json(result, keep=save)
        wrong = result_problems(function, written) if request["check_result"] else []
    except covalt_toolset.ResultNotJson as error:
        return {"status": "error", "code": "bad_result", "message": str(error)}
    except BaseException as error:  # noqa: BLE001 - a value's own methods ran
        return failure(_limit_of(error, request["limits"]) or "bad_result", error, folder)
    if wrong:
        said = "; ".join(map(str, wrong))
        return {"status": "error", "code": "bad_result", "message": said}
    return {"status": "success", "result": written}


def _limit_of(error: BaseException, limits: dict[str, Any]) -> str:
    """Return the limit that caused an exception, directly or through its causes."""
    for cause, _ in _with_causes(error):
        if isinstance(cause, MemoryError) and limits.get("memory_mb"):
            return "limit_memory"
        number = cause.errno if isinstance(cause, OSError) else None
        if number == errno.EFBIG and limits.get("file_mb"):
            return "limit_written"
        # Python reports a refused thread by this text alone, and a refused process by the number of a connection
        # that has no data.
        if _text(cause) == "can't start new thread" or (
            number == errno.EAGAIN and _raised_by_a_fork(cause)
        ):
            return "limit_processes"
    return ""


def _with_causes(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """Yield an exception and its causes, each with its relation to the one before."""
    cause: BaseException | None = error
    how = ""
    for _ in range(_MOST_CAUSES):  # a chain may lead back into itself
        if cause is None:
            return
        yield cause, how
        if cause.__cause__ is not None:
            cause, how = cause.__cause__, "caused by"
        else:
            suppressed = cause.__suppress_context__  # `raise ... from None`
            cause, how = (None if suppressed else cause.__context__), "while handling"


def _raised_by_a_fork(error: BaseException) -> bool:
    """Return whether a fork raised it, rather than a connection without data."""
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    return "fork" in line or "spawn" in line


def failure(code: str, error: BaseException, folder: Path) -> dict[str, Any]:
    """Return the answer of a call that an exception ended."""
    if isinstance(error, MemoryError):
        open_reserve()  # the texts below need memory
    lines = _own_frames(error, folder)
    for cause, how in _with_causes(error):
        if cause is not error:
            lines += [f"{how} {_named(cause)}", *_own_frames(cause, folder)]
    message = _named(error)
    if code == "cannot_load" and (place := _place(error, folder)):
        if isinstance(error, SyntaxError):  # its text names the file without its folder
            message = f"{type(error).__name__}: {error.msg}"
        message = f"{message} ({place})"
    return {
        "status": "error",
        "code": code,
        "message": message,
        "traceback": "\n".join(lines),
    }


def _place(error: BaseException, folder: Path) -> str:
    """Return where in the toolset an exception is from, as ``path:line:col``: a syntax error, or the innermost frame."""
    places: list[tuple[str, int | None, int, str]] = [
        (
            frame.filename,
            frame.lineno,
            frame.colno or 0,
            linecache.getline(frame.filename, frame.lineno or 0),
        )
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError):
        column = max(0, (error.offset or 1) - 1)
        places.append((error.filename or "", error.lineno, column, error.text or ""))
    for filename, line, column, text in reversed(places):
        with contextlib.suppress(
            ValueError, TypeError
        ):  # a tool may have raised it with other values
            path = Path(filename).relative_to(folder)
            # Python counts bytes.
            head = text.encode("utf-8", "replace")[:column].decode("utf-8", "ignore")
            return f"{path}:{int(line or 1)}:{len(head) + 1}"
    return ""


def _named(error: BaseException) -> str:
    kind, text = type(error).__name__, _text(error)
    return f"{kind}: {text}" if text else kind


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - an exception's own __str__ ran
        return "(its text cannot be shown)"


def _own_frames(error: BaseException, folder: Path) -> list[str]:
    """Return the lines of the traceback that lie in the toolset, innermost last."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        with contextlib.suppress(ValueError):
            path = Path(frame.filename).relative_to(folder)
            lines.append(f"{path}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": "))
    return lines
