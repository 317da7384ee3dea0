"""Outcome of one run of a tool, and the events that it reports while it runs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.calls import CallError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import Question, QuestionRecord
    from covalt_git.models.tool_properties import Limits

MIB = 1 << 20

UNKNOWN_EFFECT = "; the tool may have had its effect"
"""End of the message of a call that was sent and not answered."""

LogLevel = Literal["debug", "info", "warning", "error"]


class Progress(NamedTuple):
    """Progress of a tool; ``total`` is None if unknown."""

    done: float
    total: float | None
    message: str


class Log(NamedTuple):
    """Log message of a running tool."""

    level: LogLevel
    message: str


class RunSchemas(NamedTuple):
    """The schemas of a Python tool as they are when it runs; the tool may say anything here.

    ``unsaid`` are the parameters of which a call checks more than the input schema says.
    """

    input_schema: JsonObject
    output_schema: JsonObject | None
    unsaid: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """Result or error of a run, with its output.

    ``invalid_arguments`` and ``confirmation`` mean that the function was not called: the arguments do
    not match its schema, or its decorator requires an approval that the call does not have.  ``question`` means that
    the call was stopped when it asked ``unanswered``, which no user was there to answer.  ``schemas``
    are those of the function, if the job asks for them.  ``links`` are the positions of the content blocks of an MCP
    server's result that are links to resources.
    """

    status: Literal["success", "error", "invalid_arguments", "confirmation", "question"]
    result: Any = None
    error: CallError | None = None
    output: str = ""
    problems: tuple[tuple[str, str], ...] = ()
    asked: tuple[QuestionRecord, ...] = ()
    schemas: RunSchemas | None = None
    links: tuple[int, ...] = ()
    unanswered: Mapping[str, Question] = MappingProxyType({})

    @classmethod
    def failed(cls, error: CallError | CovaltError) -> Outcome:
        """Return the outcome of a run that ended with an error."""
        if isinstance(error, CovaltError):
            error = CallError(code=error.code, message=error.message, hint=error.hint)
        return cls("error", error=error)


_EXCEEDED = {
    "limit_time": ("timeout_s", "the tool ran longer than {0.timeout_s:g} s"),
    "limit_cpu": ("cpu_s", "the tool used {0.cpu_s:g} s of CPU time"),
    "limit_memory": ("memory_mb", "the tool needed more than {0.memory_mb} MiB of memory"),
    "limit_processes": ("processes", "the tool started more processes than its limit allows"),
    "limit_written": ("written_mb", "the tool wrote a file of more than {0.written_mb} MiB"),
    "limit_files": ("files", "the workspace has more than {0.files} files"),
    "limit_workspace": ("workspace_mb", "the workspace has more than {0.workspace_mb} MiB"),
    "limit_tmp": ("files", "the folder /tmp has more than {1}"),
    "limit_output": ("output_mb", "the tool printed or returned more than {0.output_mb} MiB"),
}
"""The limit of each error code, and the message."""


def limit_error(code: str, limits: Limits, traceback: str = "") -> CallError:
    """Return the error of a call that exceeded its limit ``code``."""
    if code == "limit_written" and limits.file_mb != limits.written_mb:
        code = "limit_workspace"  # the file alone exceeds the limit of the workspace
    key, message = _exceeded(code, limits)
    hint = f"raise limits.{key} of the tool, and in covalt.yaml if that is lower"
    if code == "limit_output":
        hint = f"write large results to a file of the workspace, or {hint}"
    return CallError(code=code, message=message, hint=hint, traceback=traceback)


def program_limit(code: str, limits: Limits) -> str:
    """Return why the program of an MCP server was ended: the limit ``code`` that it exceeded, and where to raise it."""
    key, message = _exceeded(code, limits)
    why = message.replace("the tool", "the program")
    return f"{why}, so it was ended: raise limits.{key} in covalt.yaml"


def _exceeded(code: str, limits: Limits) -> tuple[str, str]:
    """Return the key of a limit, and what exceeded it."""
    key, text = _EXCEEDED[code]
    if code == "limit_tmp" and limits.files is None:
        key = "workspace_mb"
    of_tmp = [f"{limits.files} files"] * bool(limits.files)
    of_tmp += [f"{limits.workspace_mb} MiB"] * bool(limits.workspace_mb)
    return key, text.format(limits, " or ".join(of_tmp))


def of_lost_answer(error: CallError) -> CallError:
    """Return the error of a call whose answer was lost, with a message that says so."""
    return error.model_copy(update={"message": error.message + UNKNOWN_EFFECT})
