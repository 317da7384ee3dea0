"""What a run of a tool is asked, what it tells on the way, and what came of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from covalt_git.models.calls import CallError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.elicitation import Question, QuestionKind, QuestionRecord
    from covalt_git.models.toolset_manifest import Limits
    from covalt_git.toolsets.toolset_copies import ToolsetCopy

MIB = 1 << 20

LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a tool has come; ``total`` is None where it does not know."""

    done: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True)
class Log:
    """Something that a tool has to say while it runs."""

    level: LogLevel
    message: str


@dataclass(frozen=True, slots=True)
class Job:
    """Everything one run needs to know; ``limits`` has a value for time and output.

    Attributes:
        toolset: the copy that the tool runs from.
        warm: whether what the module imports is kept for further calls of this toolset in this workspace.
        secrets: the values that the tool may have, by name.
        hosts: that were granted; no others are reached, and none at all but at the level ``full``.
        python: the interpreter, which has what the toolset needs.
        check_result: whether the result has to be what the function's annotation promises.
        begin: is called before anything of the toolset's runs for this job, when the process that will
            run it is there where one has waited for it.
        tell: is told what happens meanwhile, in the thread that waits for the run.
        cancel: set by anybody, ends the run.
        ask: asks whoever made the call, who can be asked ``kinds``; raises CannotAskError.
    """

    toolset: ToolsetCopy
    entrypoint: str
    args: JsonObject
    workspace: Path
    chat_id: str
    call_id: str
    level: SandboxLevel
    limits: Limits
    message_id: str | None = None
    confirmed: bool = False
    warm: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()
    check_result: bool = True
    python: Path = Path(sys.executable)
    begin: Callable[[], None] | None = None
    tell: Callable[[Progress | Log], None] | None = None
    cancel: threading.Event | None = None
    kinds: frozenset[QuestionKind] = frozenset()
    ask: Callable[[Mapping[str, Question]], Inquiry] | None = None


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
    asked: tuple[QuestionRecord, ...] = ()


def limit_error(code: str, limits: Limits, traceback: str = "") -> CallError:
    """Return the error of a call that took more than its limit ``code`` lets it."""
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
