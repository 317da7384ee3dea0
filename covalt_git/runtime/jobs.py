"""Job of the runtime: one call of a Python tool."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.elicitation import Question, QuestionKind
    from covalt_git.models.outcomes import Log, Progress
    from covalt_git.models.tool_properties import Limits
    from covalt_git.toolsets.toolset_copies import ToolsetCopy


@dataclass(frozen=True, slots=True)
class Job:
    """Everything one run needs to know; ``limits`` has a value for time and output.

    Attributes:
        toolset: the copy that the tool runs from.
        warm: whether the sandbox may serve further calls of this toolset in this workspace.
        secrets: the values that the tool may have, by name.
        hosts: that were granted; no others are reached, and none at all but at the level ``full``.
        python: the interpreter, which has what the toolset needs.
        check_result: whether the result has to be what the function's annotation promises.
        describes: whether the outcome also has the function's schemas, or only those, without a call.
        begin: called before any code of the toolset runs for this job.
        report: callback for progress and log messages, in the thread that runs the job.
        cancel: ends the run when it is set.
        ask: sends elicitations of these ``kinds`` to the caller; raises CannotAskError.
        token: returns the token of a sign-in by the id of its entry, in another thread; raises CovaltError.
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
    describes: Literal["no", "also", "only"] = "no"
    python: Path = Path(sys.executable)
    begin: Callable[[], None] | None = None
    report: Callable[[Progress | Log], None] | None = None
    cancel: threading.Event | None = None
    kinds: frozenset[QuestionKind] = frozenset()
    ask: Callable[[Mapping[str, Question]], Inquiry] | None = None
    token: Callable[[str], str] | None = field(default=None, repr=False)
