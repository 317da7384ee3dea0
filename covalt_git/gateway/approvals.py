"""Leading a person to the page where a call is approved, while the call's client waits.

What the client answers approves nothing, as the agent may be the one who answers: only the record of
the approval counts, which a person's own channel writes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from covalt_git.elicitation.requests import CannotAskError, NotAnsweredError, inquire
from covalt_git.gateway.resuming import StillRunningError, as_it_stands
from covalt_git.models.elicitation import Question
from covalt_git.models.project_config import DEFAULT_ANSWER_S
from covalt_git.system import file_lock
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.calls.background import Follower
    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.models.calls import Approval
    from covalt_git.project import Project

KEY = "approval"
"""Under which key a client is asked to open the page."""

PATIENCE_S = 30.0
"""How long the record is looked at once the page was opened, before the client is told something."""

MOST_TIMES = 8
"""How often a client is asked to open the page: the SDK's give up after ten rounds, and would not learn
under which id the call waits."""


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
