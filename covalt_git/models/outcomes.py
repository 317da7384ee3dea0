"""Outcome of one run of a tool, and the events that it reports meanwhile."""

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

    ``invalid_arguments`` and ``confirmation`` mean that the function was never called: its schema
    refused the arguments, or its decorator requires an approval that was not given.
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
        code = "limit_workspace"  # the file alone is larger than the workspace may be
    text, key = {
        "limit_time": (f"it ran longer than {limits.timeout_s:g} s", "timeout_s"),
        "limit_cpu": (f"it used {limits.cpu_s or 0:g} s of processor time", "cpu_s"),
        "limit_memory": (f"it needed more than {limits.memory_mb} MiB of memory", "memory_mb"),
        "limit_processes": ("it started more processes than it may", "processes"),
        "limit_written": (f"it wrote a file of more than {limits.written_mb} MiB", "written_mb"),
        "limit_files": (f"its workspace holds more than {limits.files} files", "files"),
        "limit_workspace": (
            f"its workspace holds more than {limits.workspace_mb} MiB",
            "workspace_mb",
        ),
        "limit_tmp": (
            f"its /tmp holds more than {_either(limits)}",
            "workspace_mb" if limits.files is None else "files",
        ),
        "limit_output": (f"it printed or returned more than {limits.output_mb} MiB", "output_mb"),
    }[code]
    hint = f"raise limits.{key} of the tool, and of covalt.yaml where that says less"
    if code == "limit_output":
        hint = f"write large results to a file of the workspace, or {hint}"
    return CallError(code=code, message=text, hint=hint, traceback=traceback)


def _either(limits: Limits) -> str:
    files, size = limits.files, limits.workspace_mb
    return " or ".join([f"{files} files"] * bool(files) + [f"{size} MiB"] * bool(size))
