"""Outcome of one run of a tool, and the events that it reports while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.models.calls import CallError

if TYPE_CHECKING:
    from covalt_git.models.elicitation import QuestionRecord
    from covalt_git.models.tool_properties import Limits

MIB = 1 << 20

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


class Outcome(NamedTuple):
    """Result or error of a run, with its output.

    ``invalid_arguments`` and ``confirmation`` mean that the function was not called: the arguments do
    not match its schema, or its decorator requires an approval that the call does not have.
    """

    status: Literal["success", "error", "invalid_arguments", "confirmation"]
    result: Any = None
    error: CallError | None = None
    output: str = ""
    problems: tuple[tuple[str, str], ...] = ()
    asked: tuple[QuestionRecord, ...] = ()

    @classmethod
    def failed(cls, error: CallError | CovaltError) -> Outcome:
        """Return the outcome of a run that ended with an error."""
        if isinstance(error, CovaltError):
            error = CallError(code=error.code, message=error.message, hint=error.hint)
        return cls("error", error=error)


def limit_error(code: str, limits: Limits, traceback: str = "") -> CallError:
    """Return the error of a call that exceeded its limit ``code``."""
    if code == "limit_written" and limits.file_mb != limits.written_mb:
        code = "limit_workspace"  # the file alone exceeds the limit of the workspace
    text, key = {
        "limit_time": (f"the tool ran longer than {limits.timeout_s:g} s", "timeout_s"),
        "limit_cpu": (f"the tool used {limits.cpu_s or 0:g} s of CPU time", "cpu_s"),
        "limit_memory": (
            f"the tool needed more than {limits.memory_mb} MiB of memory",
            "memory_mb",
        ),
        "limit_processes": ("the tool started more processes than its limit allows", "processes"),
        "limit_written": (
            f"the tool wrote a file of more than {limits.written_mb} MiB",
            "written_mb",
        ),
        "limit_files": (f"the workspace has more than {limits.files} files", "files"),
        "limit_workspace": (
            f"the workspace has more than {limits.workspace_mb} MiB",
            "workspace_mb",
        ),
        "limit_tmp": (
            f"the folder /tmp has more than {_either(limits)}",
            "workspace_mb" if limits.files is None else "files",
        ),
        "limit_output": (
            f"the tool printed or returned more than {limits.output_mb} MiB",
            "output_mb",
        ),
    }[code]
    hint = f"raise limits.{key} of the tool, and in covalt.yaml if that is lower"
    if code == "limit_output":
        hint = f"write large results to a file of the workspace, or {hint}"
    return CallError(code=code, message=text, hint=hint, traceback=traceback)


def _either(limits: Limits) -> str:
    files, size = limits.files, limits.workspace_mb
    return " or ".join([f"{files} files"] * bool(files) + [f"{size} MiB"] * bool(size))
