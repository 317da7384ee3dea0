"""Runs of tools' examples, each in a scratch chat, with a comparison of actual and expected results.

An example is a normal call: it passes the access check, runs in the sandbox and is recorded.  Its chat is new
and temporary (a scratch chat), so a tool that only changes the chat's files needs no approval.  A tool that may
do more still needs it, because the author of the example chose its arguments: one with granted hosts or secrets,
and any tool on a machine without a sandbox.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from covalt_git.access import acting, allowed_roles
from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.calls import preconditions
from covalt_git.calls.approvals import Approvals
from covalt_git.calls.engine import CallRequest
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError
from covalt_git.grants.status import missing_grants
from covalt_git.json_values.difference import Difference, differences
from covalt_git.runtime.sandbox_levels import SandboxNeededError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.calls.engine import Engine
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.catalog.catalog import Found
    from covalt_git.grants.status import MissingGrant
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Example
    from covalt_git.toolsets.toolset import Toolset
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

Verdict = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class ExampleRun:
    """Outcome of one example.

    Attributes:
        tool_id: its tool.
        number: its number among the tool's examples, from 1.
        description: its description by the author.
        verdict: whether it passed, failed or was skipped.
        reason: why it failed or was skipped.
        hint: what to do about it.
        differences: differences from the expected result, by JSON path.
        result: the result of the call, if it succeeded.
        took_ms: duration of the call, in milliseconds.
        chat_id: the chat it ran in.
        cancelled: whether the user cancelled it.
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

    The tool must be read from the files: in the index, ``expected: null`` and no ``expected`` are the same.
    Errors of the tool or its toolset are returned, not raised.
    """
    example = tool.examples[number - 1]
    about = (tool.tool_id, number, example.description)
    request = CallRequest(tool.tool_id, example.args)
    try:
        target = engine.check(request)
    # These errors are about this machine and its grants, not about the example.
    except (GrantNeededError, DisabledToolError, SandboxNeededError) as error:
        return ExampleRun(*about, "skipped", error.message, error.hint)
    except CovaltError as error:
        return ExampleRun(*about, "failed", _one_line_error(error), error.hint)
    if tool.confirmation and (why := _approval_needed(engine, target)):
        return ExampleRun(*about, "skipped", *why)
    title = f"example {number} of {tool.tool_id}"
    with chats.new(title=title) as chat:
        _write_files(chat, example.files)
        began = time.perf_counter()
        try:
            outcome = engine.call(chat, request)
            # Only the import shows that a decorator requires approval, so the question comes a second time.
            if outcome.approval is not None:
                if why := _approval_needed(engine, target):
                    return ExampleRun(*about, "skipped", *why, chat_id=chat.id)
                outcome = Approvals(engine, chats).approve(outcome.approval.execution_id)
        except CovaltError as error:
            return ExampleRun(*about, "failed", _one_line_error(error), error.hint, chat_id=chat.id)
        took_ms = (time.perf_counter() - began) * 1000
    lacking = _secret_lacking(target.toolset, outcome)
    if lacking is not None:
        return ExampleRun(*about, "skipped", lacking.why, lacking.command, chat_id=chat.id)
    return _compare(about, example, outcome, took_ms, chat.id)


def _approval_needed(engine: Engine, target: Found) -> tuple[str, str] | None:
    """Return why a call needs approval even in a scratch chat, and a hint; None if it does not."""
    tool, toolset = target.tool, target.toolset
    hint = f"covalt-git call CHAT {tool.tool_id}"
    if not engine.catalog.may_approve(tool).allowed:
        who = acting(engine.config, engine.principal)
        others = allowed_roles(engine.config, "approve", tool)
        return f"it needs approval, which {who} may not give", others
    may = granted(toolset.id, toolset.state, toolset.digest)
    if may.reach.rules or may.secrets or not preconditions.is_confined(tool, engine.level):
        return "it requires approval, and may reach beyond the scratch chat", hint
    return None


def _secret_lacking(toolset: Toolset, outcome: CallOutcome) -> MissingGrant | None:
    """Return the grant of the secret that a Python tool lacked; None if it failed otherwise."""
    error = outcome.error
    if error is None or not error.message.startswith("SecretNotGranted"):
        return None
    secrets = (grant for grant in missing_grants(toolset) if grant.kind == "secret")
    return next((grant for grant in secrets if repr(grant.name) in error.message), None)


def _write_files(chat: ChatStore, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        target = chat.workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")


def _compare(
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
    mismatches: tuple[Difference, ...] = ()
    if "expected" in example.model_fields_set:
        mismatches = differences(example.expected, call.result)
    return ExampleRun(
        *about,
        "failed" if mismatches else "ok",
        "the result differs from the expected one" if mismatches else "",
        differences=mismatches,
        result=call.result,
        took_ms=took_ms,
        chat_id=chat_id,
    )


def _one_line_error(error: CovaltError) -> str:
    """Return an error with its problems in one line, for tables."""
    return "; ".join(
        [error.message, *(str(problem).partition("\n")[0] for problem in error.problems)]
    )
