"""What a tool requests during one call, questions and tokens of sign-ins, and the replies on their way to its process.

The process that makes the call decides about tokens; the tool has no file, variable or argument with one.
"""

from __future__ import annotations

import threading
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

MOST_TOKENS = 1_000
"""How often a call requests a token."""

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


class TokenRequests:
    """The requests of one call, one at a time; ``error`` is the last refusal."""

    def __init__(self, job: Job) -> None:
        self._token = job.token
        self._count = 0
        self._reply: JsonObject | None = None
        self.is_open = False
        self.error: CovaltError | None = None

    def request(self, name: str) -> None:
        """Begin to get the token of the sign-in ``name``; a second request before the reply has no effect."""
        if self.is_open:
            return
        self._count += 1
        self.is_open = True
        # In another thread: a refresh may take half a minute, in which the limits of the call must be checked.
        threading.Thread(target=self._get, args=(name,), daemon=True).start()

    def _get(self, name: str) -> None:
        try:
            if self._token is None or self._count > MOST_TOKENS:
                raise CovaltError("this call gets no token", code="sign_in_needed")
            self._reply = {"token": self._token(name)}
        except CovaltError as error:
            self.error = error
            self._reply = {"error": {"code": "sign_in_needed", "message": error.message}}
        except Exception:  # noqa: BLE001 - without a reply, the tool would wait until its time limit
            self.error = CovaltError(
                f"the token of {name[:60]!r} cannot be read", code="sign_in_needed"
            )
            self._reply = {"error": {"code": "sign_in_needed", "message": self.error.message}}

    def reply(self) -> JsonObject | None:
        """Return the reply to the tool, or None before there is one."""
        reply = self._reply
        if reply is not None:
            self._reply, self.is_open = None, False
        return reply


def _refusal(error: CovaltError) -> JsonObject:
    return {"error": {"code": error.code, "message": error.message}}
