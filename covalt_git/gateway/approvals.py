"""Leading a person to the page where a call is approved, while the call's client waits.

What the client answers approves nothing, as the agent may be the one who answers: only the record of
the approval counts, which a person's own channel writes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from covalt_git.calls.outcomes import CallOutcome, as_recorded
from covalt_git.conversations import commit_names
from covalt_git.elicitation.requests import CannotAskError, NotAnsweredError, inquire
from covalt_git.errors import CovaltError
from covalt_git.models.elicitation import Question
from covalt_git.models.project_config import DEFAULT_ANSWER_S
from covalt_git.names import is_new_id
from covalt_git.system import file_lock
from covalt_git.text import display
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import waiting_call
from covalt_git.workspaces.lock import ChatBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.calls.running import Follower
    from covalt_git.models.calls import Approval
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore


KEY = "approval"
"""Under which key a client is asked to open the page."""

PATIENCE_S = 30.0
"""How long the record is looked at once the page was opened, before the client is told something."""

MOST_TIMES = 2
"""How often a client is asked to open the page; clients of the SDK give up after ten rounds."""


def approved(
    project: Project,
    waiting: CallOutcome,
    follower: Follower,
    *,
    pages: Callable[[str], str | None],
    ask_again: bool,
) -> CallOutcome:
    """Return what came of a call that waits for a person, once a person has settled it; or that it waits.

    It waits still where ``pages`` has no address for it, where the client cannot lead anybody there or
    does not want to, and unless ``ask_again`` where nobody has settled it when patience is at its end.
    """
    for _ in range(MOST_TIMES if ask_again else 1):
        if waiting.approval is None or follower.cancel.is_set():
            break
        page = pages(waiting.approval.execution_id)
        if page is None:
            break
        try:
            inquiry = inquire(follower.respondent, {KEY: _question(waiting.approval, page)})
            patience_s = project.config.limits.answer_s or DEFAULT_ANSWER_S
            answer = inquiry.wait(patience_s, follower.cancel)[KEY]
        except (CannotAskError, NotAnsweredError):
            break
        if answer["action"] != "accept":
            break
        waiting = _settled(project, waiting, waiting.approval, follower)
    return waiting


def _question(approval: Approval, page: str) -> Question:
    reasons = display.in_line(", ".join(approval.reasons))
    message = f"{approval.tool_id} waits for a person: {reasons}"
    params = {"mode": "url", "message": message, "url": page}
    return Question(method="elicitation/create", params=params)


def _settled(
    project: Project, waiting: CallOutcome, asked: Approval, follower: Follower
) -> CallOutcome:
    """Return the call as it stands once it no longer waits, or when patience is at its end.

    One that was approved and runs is waited for: it has limits of its own.
    """
    end = time.monotonic() + PATIENCE_S
    while not follower.cancel.is_set():
        with suppress(StillRunningError):
            waiting = as_it_stands(project, asked)
            if waiting.approval is None or time.monotonic() > end:
                break
        follower.cancel.wait(file_lock.POLL_S)
    return waiting


class UnknownExecutionError(CovaltError):
    """No call of this client's waits or waited under that id."""

    code = "unknown_execution"
    http_status = 404


class StillRunningError(CovaltError):
    """A person has approved the call, and it has not ended yet."""

    code = "still_running"
    http_status = 409


def resumed(project: Project, execution_id: str) -> CallOutcome:
    """Return what came of a call that waited, or that it still does.

    Of one that was asked again, as its files had changed, it is the newer question.

    Raises:
        UnknownExecutionError: where it is none that this principal asked for under this role.
        StillRunningError: while it runs.
    """
    return as_it_stands(project, _find_approval(project, execution_id))


def as_it_stands(project: Project, asked: Approval) -> CallOutcome:
    """Return what came of a call that waits or waited with a question, or that it still does.

    Raises:
        StillRunningError: while it runs.
    """
    with project.chats.open(asked.chat_id) as chat:
        if asked.state == "pending" and asked.expires_at < commits.now():
            with project.writing(chat):
                pass  # whoever writes first records what ran out
        call = chat.call(asked.call_id)
        if call is not None and call.status == "running":
            # Whoever ran it may have been killed: then nobody holds the chat, and a writer records that.
            with suppress(ChatBusyError), project.engine().writing(chat, timeout_s=0):
                call = chat.call(asked.call_id)
        approval = _newest(chat, asked)
        if call is None:
            return as_recorded(chat, chat.manifest(commit_names.resolve(chat, asked.call_id)))
        if approval.state == "pending":
            return CallOutcome(waiting_call(call), approval)
    raise StillRunningError("a person has approved it, and it runs now", hint="resume it again")


def _find_approval(project: Project, execution_id: str) -> Approval:
    """Return the question that a call of this principal waits or waited with."""
    asker = (project.principal.id, project.principal.role)
    for chat_id in project.chats.ids() if is_new_id(execution_id) else ():
        with project.chats.open(chat_id) as chat:
            found = chat.approval(execution_id)
        if found is None:
            continue
        if (found.by, found.role) == asker and project.catalog.sees(found.tool_id):
            return found
    raise UnknownExecutionError(
        f"no call of yours waits under {execution_id!r}",
        hint="pass the execution_id that the call returned",
    )


def _newest(chat: ChatStore, asked: Approval) -> Approval:
    """Return the question that stands now in the place of one, or that one as it is now."""
    found = chat.approval(asked.execution_id)
    while found is not None and found.superseded_by is not None:
        asked, found = found, chat.approval(found.superseded_by)
    return found or asked
