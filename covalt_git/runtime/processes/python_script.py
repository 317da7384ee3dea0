"""Python scripts, by pydantic-monty: an interpreter in Rust that runs in a process of its own.

The script sees ``tools`` as a chain of objects, each of which is asked for its attributes; a call of the last one is a
call of a tool.  An attribute is looked up again each time, so no part of the chain can be listed.
"""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from covalt_git.runtime.processes.script_values import MOST_PATH, STUCK, NotJsonDataError, json_data

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.runtime.processes.script_process import Script

_GRACE_S = 2.0
_MOST_SUSPENSIONS = 10_000_000
"""Attribute lookups and calls: the script's own limits end it earlier, and the library's default is 1,000."""

_FILE = re.compile(r"<python-input-\d+>")
_LACKING = re.compile(r"module '[\w.]+' has no attribute")
_SPACE = uuid.UUID("6a1f5d4e-7d0c-4a55-9a0b-0b6f0c7a3d11")
_TOKENS = re.compile(
    r"""
      \#[^\n]*                                            # a comment
    | (?P<prefix>\b[a-zA-Z]{1,2})?                        # a text, with its prefix
      (?P<quote>'''|\"\"\"|'|")
      (?P<text>(?:\\.|(?!(?P=quote)).)*)(?P=quote)
    | \bawait\b
    """,
    re.VERBOSE | re.DOTALL,
)


class tools:  # noqa: N801 - the script sees this name in messages
    """The object that a script sees as ``tools``, and as each part of a path below it."""

    __slots__ = ()


def is_asynchronous(text: str) -> bool:
    """Return whether a script has the word ``await``, which makes its calls awaitable.

    Not by ``ast``: it differs by Python's version, and the same script has to do the same everywhere.
    """
    for token in _TOKENS.finditer(text):
        if token[0] == "await":
            return True
        if "f" in (token["prefix"] or "").lower() and re.search(
            r"\{[^{}]*\bawait\b", token["text"]
        ):
            return True
    return False


class PythonScript:
    """A Python script that runs until it needs a reply."""

    def __init__(self, script: Script) -> None:
        import pydantic_monty  # noqa: PLC0415 - in the sandbox, and it takes 0.1 s

        self._monty = pydantic_monty
        self._script = script
        # At once, so that a spare process has it: it takes 10 ms.
        self._pool = pydantic_monty.Monty(
            min_processes=1,
            max_processes=1,
            checkout_timeout=_GRACE_S,
            feed_duration_limit_grace=_GRACE_S,
        ).__enter__()
        self._objects: dict[str, Any] = {}
        self._paths: dict[uuid.UUID, str] = {}
        self._waiting: dict[int, Any] = {}
        self._future: Any = None
        self._used_s = 0.0
        self._lines_before = 0
        self._printed = {"stdout": "", "stderr": ""}

    def begin(self, text: str, args: dict[str, Any], started_ms: int, seed: int) -> None:
        """Run the script until it needs a reply or has ended."""
        session = self._session(text, started_ms, seed)
        inputs = {"tools": self._part(""), "args": args}
        self._run(
            lambda: session.feed_start(
                self._source.decode(), inputs=inputs, print_callback=self._print
            )
        )

    def check(self, text: str) -> None:
        """Report the first error of the syntax; no statement of the script runs."""
        # The interpreter reads all of the source before it runs the first statement.
        session = self._session("return\n" + text, 0, 0)
        self._lines_before = 1
        self._run(lambda: session.feed_start(self._source.decode()))

    def settle(self, index: int, value: Any, error: dict[str, str] | None) -> None:
        """Pass the reply to a call in, and run on."""
        answer = {"return_value": value} if error is None else self._raised(error)
        snapshot = self._waiting.pop(index)
        if self._is_asynchronous:
            future, self._future = self._future, None
            self._run(lambda: future.resume({snapshot: answer}))
        else:
            self._run(lambda: snapshot.resume(answer))

    def _session(self, text: str, started_ms: int, seed: int) -> Any:
        self._source = text.encode("utf-8", "replace")
        self._is_asynchronous = is_asynchronous(text)
        return self._pool.checkout(
            limits={
                "max_feed_duration_secs": float(self._script.time_s),
                "max_memory": self._script.memory_mb << 20,
                "max_suspensions": _MOST_SUSPENSIONS,
            },
            os_policy={
                "datetime": datetime.fromtimestamp(started_ms / 1000, UTC),
                "timezone": "utc",
                # The clock does not move, so there is nothing to wait for.
                "sleep": "zero",
                "random_start": {"seed": seed},
            },
            assert_message_annotations=False,
        ).__enter__()

    def _raised(self, error: dict[str, str]) -> dict[str, Any]:
        return {"exception": RuntimeError(self._script.fault(error))}

    def _run(self, begin: Callable[[], Any]) -> None:
        """Run until the script needs a reply or has ended."""
        monty = self._monty
        begun = time.monotonic() - self._used_s
        try:
            snapshot = begin()
            while not isinstance(snapshot, monty.MontyComplete):
                # The interpreter does not count the time of lookups.
                self._used_s = time.monotonic() - begun
                if self._used_s > self._script.time_s:
                    self._script.fail("script_time", line=self._line(snapshot.position))
                if isinstance(snapshot, monty.FutureSnapshot):
                    self._future = snapshot
                    if not self._script.is_waiting:
                        self._script.end_by("script_stuck", STUCK, self._line(snapshot.position))
                    break
                if isinstance(snapshot, monty.NameLookupSnapshot):
                    snapshot = self._looked_up(snapshot)
                    continue
                answer = self._answer(snapshot)
                if answer is None:  # a call of a tool, which the caller makes
                    break
                snapshot = snapshot.resume(answer) if answer else snapshot.resume_not_handled()
            else:
                self._flush()
                self._script.end(snapshot.output)
        except monty.MontyError as error:
            self._used_s = time.monotonic() - begun
            self._flush()
            self._failed(error)
        self._used_s = time.monotonic() - begun

    def _looked_up(self, snapshot: Any) -> Any:
        name = snapshot.variable_name
        path = self._paths.get(snapshot.object_id)
        if path is None or name.startswith("_") or len(path) + len(name) > MOST_PATH:
            return snapshot.resume()
        return snapshot.resume(value=self._part(f"{path}.{name}" if path else name))

    def _answer(self, snapshot: Any) -> dict[str, Any] | None:
        """Return the answer to a call; None for a tool's, and an empty one for the library's default."""
        if snapshot.is_os_function:
            return {}
        name = snapshot.function_name
        if snapshot.object_id is None:
            return self._of_function(name, snapshot.args)
        path = self._paths[snapshot.object_id]
        if name != "__call__":
            path = f"{path}.{name}" if path else name
        try:
            arguments = _arguments(path, snapshot.args, snapshot.kwargs)
        except TypeError as error:
            return {"exception": error}
        index = self._script.call(path, arguments, self._line(snapshot.position))
        if self._is_asynchronous:
            self._waiting[index] = snapshot.call_id
            return {"future": ...}
        self._waiting[index] = snapshot
        return None

    def _of_function(self, name: str, args: tuple[Any, ...]) -> dict[str, Any]:
        """Answer a call of a function that Monty does not have."""
        if name in {"dir", "vars"} and len(args) == 1 and isinstance(args[0], tools):
            return {"return_value": [] if name == "dir" else {}}
        return {"exception": NameError(f"name {name!r} is not defined")}

    def _part(self, path: str) -> Any:
        """Return the object for a path; the same for each lookup, so that a script cannot fill the memory by them."""
        if path not in self._objects:
            identity = uuid.uuid5(_SPACE, path)
            self._paths[identity] = path
            self._objects[path] = self._monty.ClassInstance(tools(), lazy_attrs="all", id=identity)
        return self._objects[path]

    def _line(self, position: Any) -> int | None:
        if not _FILE.fullmatch(position.filename):  # within eval() or exec()
            return None
        return self._source[: position.start].count(b"\n") + 1

    def _print(self, stream: str, text: str) -> None:
        *lines, self._printed[stream] = (self._printed[stream] + text).split("\n")
        if len(self._printed[stream]) > self._script.output_left:
            self._script.fail("script_output")
        for line in lines:
            self._script.log("info" if stream == "stdout" else "error", line)

    def _flush(self) -> None:
        """Log what was printed without the end of its line."""
        for stream, rest in self._printed.items():
            if rest:
                self._print(stream, "\n")

    def _failed(self, error: Any) -> None:
        monty = self._monty
        if isinstance(error, monty.MontyCrashedError):
            is_late = error.timed_out or self._used_s >= self._script.time_s
            self._script.fail("script_time" if is_late else "script_died", str(error))
        frames = error.traceback() if hasattr(error, "traceback") else []
        frame = next((f for f in reversed(frames) if _FILE.fullmatch(f.filename)), None)
        line = None if frame is None else max(1, frame.line - self._lines_before)
        col = None if frame is None else frame.column
        inner = error.exception()
        text = str(inner)
        if isinstance(error, monty.MontySyntaxError):
            self._script.end_by("script_syntax", text, line, col)
        elif isinstance(inner, TimeoutError) and "time limit exceeded" in text:
            self._script.fail("script_time", line=line)
        elif isinstance(inner, MemoryError) and "memory limit" in text:
            self._script.fail("script_memory", line=line)
        elif isinstance(inner, NotImplementedError | ImportError) or (
            isinstance(inner, AttributeError) and _LACKING.match(text)
        ):
            self._script.end_by("script_unsupported", text, line, col)
        else:
            self._script.end_by("script_raised", f"{type(inner).__name__}: {text}", line)


def _arguments(path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, which are one object, keywords, or both.

    Raises:
        TypeError: if they are something else.
    """
    given: dict[str, Any] = {}
    if args:
        if len(args) > 1 or not isinstance(args[0], dict):
            raise TypeError(f"tools.{path} takes its arguments as keywords, or as one dict")
        given = args[0]
    if both := sorted({*given} & {*kwargs}):
        raise TypeError(f"tools.{path} got {both[0]!r} twice")
    try:
        arguments: dict[str, Any] = json_data({**given, **kwargs}, f"an argument of tools.{path}")
    except NotJsonDataError as error:
        raise TypeError(str(error)) from None
    return arguments
