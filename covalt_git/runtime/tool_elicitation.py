"""What a tool asks during one call, and the answers on their way back to its process."""

from __future__ import annotations

import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from covalt_git.elicitation.requests import (
    CannotAskError,
    UserNeededError,
    question_records,
    too_late,
)
from covalt_git.errors import CovaltError
from covalt_git.models.elicitation import Question
from covalt_git.models.project_config import DEFAULT_ANSWER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import QuestionRecord
    from covalt_git.runtime.jobs import Job

# A tool is not trusted: it must not keep its user busy, or fill a page or a terminal.
MOST_INQUIRIES = 100
MOST_QUESTIONS = 16
"""How often a call asks, and how much at once."""

_QUESTIONS: TypeAdapter[dict[str, Question]] = TypeAdapter(dict[str, Question])


class ToolElicitation:
    """The inquiries of one call, one at a time; ``waited_s`` is how long it has waited for answers.

    Attributes:
        unanswered: the questions that only a user can answer who is not here; the call has to be stopped.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._limit_s = job.limits.answer_s or DEFAULT_ANSWER_S
        self._inquiry: Inquiry | None = None
        self._since = 0.0
        self._before_s = 0.0
        self._count = 0
        self._records: list[QuestionRecord] = []
        self._is_closed = False
        self.unanswered: Mapping[str, Question] = {}

    @property
    def is_open(self) -> bool:
        """Whether the tool waits for an answer."""
        return self._inquiry is not None

    @property
    def waited_s(self) -> float:
        """How long the call has waited for answers until now."""
        open_s = time.monotonic() - self._since if self._inquiry else 0.0
        return self._before_s + open_s

    def ask(self, received: Any) -> JsonObject | None:
        """Send an elicitation of a tool; return its reply if it is known at once."""
        try:
            questions = _QUESTIONS.validate_python(received)
        except ValidationError:
            return _refusal(CovaltError("the tool sent an invalid request to the user"))
        self._count += 1
        try:
            # The SDK asks once at a time.  A tool can write to the connection without it.
            if self._job.ask is None or self._inquiry or self._is_closed:
                raise CannotAskError("no user can be asked this")
            if not 0 < len(questions) <= MOST_QUESTIONS:
                raise CannotAskError(f"a call can ask 1 to {MOST_QUESTIONS} questions at once")
            if self._count > MOST_INQUIRIES:
                raise CannotAskError(
                    f"the call has asked the user {MOST_INQUIRIES} times, which is the limit"
                )
            self._inquiry = self._job.ask(questions)
        except UserNeededError as error:
            # Without a reply, after which the tool would continue.
            self.unanswered = error.questions
            return None
        except CovaltError as error:
            return _refusal(error)
        self._since = time.monotonic()
        return None

    def reply(self) -> JsonObject | None:
        """Return the reply to the tool, or None before there is one."""
        inquiry = self._inquiry
        if inquiry is None:
            return None
        if not inquiry.is_over and time.monotonic() - self._since < self._limit_s:
            return None
        try:
            return {"answers": inquiry.future.result(0)}
        except (TimeoutError, CancelledError):
            return _refusal(too_late(self._limit_s))
        except CovaltError as error:
            return _refusal(error)
        finally:
            self._end()

    def _end(self) -> None:
        """Record the elicitation, and withdraw it."""
        if self._inquiry is None:
            return
        self._before_s = self.waited_s
        self._records += question_records(self._inquiry)
        inquiry, self._inquiry = self._inquiry, None
        inquiry.withdraw()

    def close(self) -> tuple[QuestionRecord, ...]:
        """Withdraw what is still asked; return all that was."""
        self._end()
        self._is_closed = True
        return tuple(self._records)


def _refusal(error: CovaltError) -> JsonObject:
    return {"error": {"code": error.code, "message": error.message}}
