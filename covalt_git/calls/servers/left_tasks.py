"""Calls whose MCP server made a task of them, and whose process has ended: their answers are fetched and recorded.

The id of the task is stored with the running call.  When the next writer opens the chat, the call becomes pending,
and waits for no approval (``workspaces/writing.py``), so that other calls of the chat can run.  A server of covalt-git
collects the answers when it starts.  If the MCP server has no such task any more, the call is recorded as interrupted,
with what the server said.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from covalt_git import timestamps
from covalt_git.access import Principal
from covalt_git.access.grants import GrantNeededError
from covalt_git.calls.outcomes import encodable, record_of
from covalt_git.calls.servers import mcp_calls
from covalt_git.calls.tool_grants import program_level
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import canonical_json
from covalt_git.models.outcomes import UNKNOWN_EFFECT
from covalt_git.workspaces import commits
from covalt_git.workspaces.lock import ChatBusyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from covalt_git.calls.engine import Engine
    from covalt_git.models.calls import PendingCall
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

_logger = logging.getLogger(__name__)


def collect(engine: Engine, chats: Chats, chat_ids: Iterable[str]) -> set[str]:
    """Fetch and record the answers of calls in chats; return the ids of the chats that have others."""
    waiting: set[str] = set()
    for chat_id in chat_ids:
        # A damaged or deleted chat must not hide the others; commands report it.
        with suppress(CovaltError, OSError):
            # Each start of a server reads all chats, and this takes a third of the time of `open`.
            with chats.as_left(chat_id) as chat:
                if not _left(chat):
                    continue
            try:
                if not _collect(engine, chats, chat_id):
                    waiting.add(chat_id)
            except (CovaltError, OSError):
                raise
            except Exception:
                # What a server answers must not stop the collection for the other chats.
                _logger.exception("the answers of %s cannot be collected because of a bug", chat_id)
    return waiting


def _collect(engine: Engine, chats: Chats, chat_id: str) -> bool:
    """Fetch and record the answers of calls in a chat; return whether all are recorded."""
    with chats.open(chat_id) as chat:
        try:
            # Its lock is also that of a call that runs: then there is nothing to collect yet.
            with engine.writing(chat, timeout_s=0):
                pass
            recorded = [collect_one(engine, chat, call) for call in _left(chat)]
            return all(recorded)
        except ChatBusyError:
            return False


def _left(chat: ChatStore) -> list[PendingCall]:
    return [call for call in chat.calls() if call.server_task is not None]


def collect_one(engine: Engine, chat: ChatStore, call: PendingCall) -> bool:
    """Fetch and record the answer of a call; return whether it is recorded."""
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    # With the rights of the caller: the tool must still be visible to it, and granted.
    own = replace(engine, principal=Principal(call.by, call.role))
    why, end = "", call.server_answer
    try:
        target = own.catalog.find_callable(call.tool_id)
        job = mcp_calls.task_job(own.job(target, chat), call.args)
        if end is None:
            # Before the chat is locked, because a server may take long to answer.
            end = mcp_tool.task_end(job, call.server_task or "")
            if end is None:
                why = "its MCP server has not answered in time"
    except DisabledToolError as error:
        why = f"its answer cannot be fetched: {error.message}"
    except (UnknownNameError, GrantNeededError) as error:
        why = f"its answer cannot be fetched: {error.message}"
        if end is None:
            return _record_loss(own, chat, call, why)
    except CovaltError as error:
        why = f"its MCP server cannot be reached: {error.message}"
    if why or end is None:
        # It may answer, be reached, be enabled or be granted again later.
        return _is_late(own, call) and _record_loss(own, chat, call, why)
    with own.writing(chat) as writer:
        # Another process may have recorded it.
        if chat.call(call.id) != call:
            return chat.call(call.id) is None
        # Its user has switched to another branch, whose files the result must not change.  The server may forget the
        # answer, so it is stored.
        if chat.active_branch() != call.branch:
            if call.server_answer is None:
                writer.put_call(call.model_copy(update={"server_answer": end}))
            return False
        writer.commit_changes()
        outcome = mcp_tool.task_outcome(job, end)
        level = program_level(target.toolset, target.tool)
        record = record_of(writer, call, target, outcome, outcome.error, level=level, read=None)
        snapshot = writer.scan()
        try:
            writer.finish_call(call, record, snapshot=snapshot)
        except (canonical_json.NotJsonError, ValueError):
            writer.finish_call(call, encodable(record), snapshot=snapshot)
    return True


def cancel(engine: Engine, chat: ChatStore, call: PendingCall, why: str) -> None:
    """Cancel a call at its server, and record it as cancelled; one whose answer is stored is recorded with the answer."""
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    if call.server_answer is not None:
        return
    # Its client wants no answer any more, also if the server cannot be reached or does not know the task.
    with suppress(CovaltError):
        job = mcp_calls.task_job(
            engine.job(engine.catalog.find_callable(call.tool_id), chat), call.args
        )
        mcp_tool.cancel_task(job, call.server_task or "")
    with engine.writing(chat) as writer:
        if chat.call(call.id) == call:
            message = f"{why}{UNKNOWN_EFFECT}"
            writer.finish_call(call, commits.unfinished(call, "cancelled", message))


def end_all(
    engine: Engine, chat: ChatStore, is_ended: Callable[[PendingCall], bool], why: str
) -> None:
    """Cancel the tasks that MCP servers made of calls, and record the answers that are stored.

    Before the chat is locked, because a server may take long to answer.
    """
    with engine.writing(chat):
        pass  # calls whose process was killed become pending
    for call in _left(chat):
        if is_ended(call):
            if call.server_answer is None:
                cancel(engine, chat, call, why)
            else:
                collect_one(engine, chat, call)


def _record_loss(engine: Engine, chat: ChatStore, call: PendingCall, why: str) -> bool:
    """Record a call as interrupted, with the answer that is stored, and return that it is recorded.

    On another branch than its own, an answer is not recorded, because its record would be a commit of that branch.
    """
    message = f"the process that made the call ended, and {why}{UNKNOWN_EFFECT}"
    record = commits.unfinished(call, "interrupted", message)
    end = call.server_answer
    if end is not None:
        # Without its tool, what the answer means is unknown. It is masked, and complete as the server sent it.
        record = record.model_copy(update={"result": end.get("answer", end)})
    with engine.writing(chat) as writer:
        if end is not None and chat.active_branch() != call.branch:
            return False
        if chat.call(call.id) == call:
            writer.finish_call(call, record)
    return True


def _is_late(engine: Engine, call: PendingCall) -> bool:
    """Return whether a call has waited as long as a pending approval may."""
    limit = timedelta(seconds=engine.config.limits.approval_expires_s)
    return call.started_at < timestamps.written(datetime.now(UTC) - limit)
