"""Running the examples of tools: each in a scratch chat, its result beside what is expected.

An example is a call like others: it passes the one door, runs behind the same walls and is recorded.
What differs is the chat, which is new and belongs to nobody, so that nobody is asked before a tool
that cannot reach beyond it.  One that may, for it was granted a host, still asks: an example is no
reason to send anything that a person wants to see first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from covalt_git.access import acting, allowed_roles
from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.calls.approvals import Approvals
from covalt_git.calls.engine import Request
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError
from covalt_git.json_values.difference import Difference, differences
from covalt_git.runtime.sandbox_levels import SandboxNeededError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.calls.engine import Engine
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.catalog import Found
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Example
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

Verdict = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class ExampleRun:
    """What came of one example.

    Attributes:
        tool_id: its tool.
        number: which of the tool's examples it is, from 1.
        description: what its author says of it.
        verdict: whether it did what it should, or was not run at all.
        reason: why it failed or was skipped, in words.
        hint: what to do about that.
        differences: where its result is not the expected one, by JSON path.
        result: what the call returned, if it ran to its end.
        took_ms: how long the call took, in milliseconds.
        chat_id: the chat it ran in.
        cancelled: whether a person stopped it.
    """

    tool_id: str
    number: int
    description: str
    verdict: Verdict
    reason: str = ""
    hint: str = ""
    differences: tuple[Difference, ...] = ()
    result: Any = None
    took_ms: float = 0.0
    chat_id: str | None = None
    cancelled: bool = False


def run_example(engine: Engine, chats: Chats, tool: Tool, number: int) -> ExampleRun:
    """Run one example of a tool, counted from 1, in a new chat of ``chats``.

    The tool is to come from the files: the index does not tell an ``expected: null`` from none.

    Never raises for what the tool or its toolset does.
    """
    example = tool.examples[number - 1]
    about = (tool.tool_id, number, example.description)
    request = Request(tool.tool_id, example.args)
    try:
        found = engine.check(request)
    except (GrantNeededError, DisabledToolError, SandboxNeededError) as error:
        return ExampleRun(*about, "skipped", error.message, error.hint)
    except CovaltError as error:
        return ExampleRun(*about, "failed", _one_line_error(error), error.hint)
    if tool.confirmation and (why := _why_asked(engine, found)):
        return ExampleRun(*about, "skipped", *why)
    title = f"example {number} of {tool.tool_id}"
    with chats.new(title=title) as chat:
        _write(chat, example.files)
        began = time.perf_counter()
        try:
            outcome = engine.call(chat, request)
            if outcome.approval is not None:
                if why := _why_asked(engine, found):
                    return ExampleRun(*about, "skipped", *why, chat_id=chat.id)
                outcome = Approvals(engine, chats).approve(outcome.approval.execution_id)
        except CovaltError as error:
            return ExampleRun(*about, "failed", _one_line_error(error), error.hint, chat_id=chat.id)
        took_ms = (time.perf_counter() - began) * 1000
    return _judged(about, example, outcome, took_ms, chat.id)


def _why_asked(engine: Engine, found: Found) -> tuple[str, str] | None:
    """Return why a person is asked even here, and what to do; None where the call cannot reach out."""
    tool, toolset = found.tool, found.toolset
    hint = f"covalt-git call CHAT {tool.tool_id} asks you"
    if not engine.catalog.may_approve(tool).allowed:
        who = acting(engine.config, engine.principal)
        others = allowed_roles(engine.config, "approve", tool)
        return f"it needs approval, which {who} may not give", others
    may = granted(toolset.id, toolset.state, toolset.digest)
    if tool.kind != "python" or may.reach.rules or may.secrets:
        return "it asks first, and may reach beyond the scratch chat", hint
    return None


def _write(chat: ChatStore, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = chat.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")


def _judged(
    about: tuple[str, int, str],
    example: Example,
    outcome: CallOutcome,
    took_ms: float,
    chat_id: str,
) -> ExampleRun:
    call, error = outcome.call, outcome.error
    if call.status != "success":
        return ExampleRun(
            *about,
            "failed",
            f"{error.code}: {error.message}" if error else call.status,
            error.hint if error else "",
            took_ms=took_ms,
            chat_id=chat_id,
            cancelled=error is not None and error.code == "cancelled",
        )
    found: tuple[Difference, ...] = ()
    if "expected" in example.model_fields_set:
        found = differences(example.expected, call.result)
    return ExampleRun(
        *about,
        "failed" if found else "ok",
        "the result is not the expected one" if found else "",
        differences=found,
        result=call.result,
        took_ms=took_ms,
        chat_id=chat_id,
    )


def _one_line_error(error: CovaltError) -> str:
    """Return an error with its problems in one line, as a table shows it."""
    return "; ".join([error.message, *(str(one).partition("\n")[0] for one in error.problems)])
