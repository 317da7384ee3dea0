"""Asking whoever made a call, while it runs: what is asked, who can be, and how the answer comes back.

Somebody who asks makes an :class:`Inquiry` by :func:`inquire` and waits for it.  A :class:`Respondent`
is shown it, and has whoever can answer it do so, in whatever thread.  An answer that does not fit its
question never arrives.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git import json_schema
from covalt_git.errors import CovaltError
from covalt_git.models.questions import AskedQuestion
from covalt_git.names import new_id
from covalt_git.question_forms import form_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.models.base import JsonObject
    from covalt_git.models.questions import Question, QuestionKind

MOST_MESSAGE = 2_000
"""How much of what a person was told is kept in a record, in characters."""

WHERE_TO_ASK = "call it at a terminal, on its page, or from an MCP client that can be asked"
MORE_TIME = "raise limits.answer_s of the tool, and of covalt.yaml where that says less"
"""What somebody can do where nobody was there, or nobody answered in time."""

_LOOK_S = 0.05
_WORDS = {
    "form": "to fill in a form",
    "url": "to open an address",
    "sampling": "for what a model says",
    "roots": "for its folders",
}


class CannotAskError(CovaltError):
    """Nobody is there who could answer."""

    code = "cannot_ask"
    http_status = 409


class NotAnsweredError(CovaltError):
    """Nobody has answered in time, or the call ended before."""

    code = "not_answered"
    http_status = 409


class InvalidAnswerError(CovaltError):
    """An answer that does not fit its question; it may be given again."""

    code = "invalid_answer"


class NotAskedError(CovaltError):
    """Nothing of that name is asked, or it was answered before."""

    code = "not_asked"
    http_status = 409


class Inquiry:
    """Questions that were asked together, each under a key; for use by many threads.

    ``future`` has all answers by their keys once the last one is there, for whoever rather waits
    in an event loop (``asyncio.wrap_future``); to cancel it withdraws the questions.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.id = new_id()
        self.questions = dict(questions)
        self.future: Future[dict[str, JsonObject]] = Future()
        self._lock = threading.Lock()
        self._answers: dict[str, JsonObject] = {}

    @property
    def is_over(self) -> bool:
        """Whether it has been answered, or nobody waits for it any more."""
        return self.future.done()

    def open(self) -> dict[str, Question]:
        """Return the questions that still lack an answer."""
        given = self.given()
        if self.is_over:
            return {}
        return {key: one for key, one in self.questions.items() if key not in given}

    def given(self) -> dict[str, JsonObject]:
        """Return the answers that have come."""
        with self._lock:
            return dict(self._answers)

    def answer(self, key: str, answer: object) -> None:
        """Give the answer to a question, as MCP's result object of its method.

        Raises:
            NotAskedError: where nothing is asked under that key (any more).
            InvalidAnswerError: where it does not fit the question, which stays open.
        """
        question = self.questions.get(key)
        if question is None:
            raise NotAskedError(f"nothing is asked under {key!r}")
        checked = checked_answer(question, answer)
        with self._lock:
            if key in self._answers or self.is_over:
                raise NotAskedError(f"{key!r} is not asked any more")
            self._answers[key] = checked
            complete = len(self._answers) == len(self.questions)
        if complete:
            with suppress(InvalidStateError):  # withdrawn this moment
                self.future.set_result({key: self._answers[key] for key in self.questions})

    def fail(self, error: CovaltError) -> None:
        """Tell whoever asked that there will be no answer."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def withdraw(self) -> None:
        """Ask no longer."""
        self.future.cancel()

    def on_end(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called once when it is over, in whichever thread ends it."""
        self.future.add_done_callback(lambda _: tell())

    def wait(self, limit_s: float, cancel: threading.Event | None = None) -> dict[str, JsonObject]:
        """Return the answers by their keys; when they do not come, the questions are withdrawn.

        Raises:
            NotAnsweredError: when they have not come within so many seconds, or ``cancel`` was set.
            CovaltError: what :meth:`fail` was told.
        """
        end = time.monotonic() + limit_s
        try:
            while cancel is None or not cancel.is_set():
                with suppress(TimeoutError):
                    left = end - time.monotonic()
                    return self.future.result(max(0.0, min(_LOOK_S, left)))
                if time.monotonic() >= end:
                    raise too_late(limit_s)
        except CancelledError:
            pass
        finally:
            self.withdraw()
        raise NotAnsweredError("it is not asked any more")


@dataclass(frozen=True, slots=True)
class Respondent:
    """Somebody who can be asked: a person at a terminal or a page, or the client of an MCP server.

    Attributes:
        kinds: what they can be asked.
        show: shows them an inquiry and returns at once; whoever answers calls :meth:`Inquiry.answer`.
        refused: is told what kind of thing they were to be asked and cannot be.
    """

    kinds: frozenset[QuestionKind]
    show: Callable[[Inquiry], None]
    refused: Callable[[QuestionKind], None] = lambda _: None


NOBODY = Respondent(frozenset(), lambda inquiry: inquiry.fail(_nobody("")))
"""Where a call runs that nobody looks at."""


def inquire(
    respondent: Respondent, questions: Mapping[str, Question], *, any_form: bool = False
) -> Inquiry:
    """Ask, and return at once.

    With ``any_form`` a form need not be of flat fields: what an MCP server asks is its own affair.

    Raises:
        CannotAskError: where nobody there can answer one of the questions.
        BadFormError: where a form is none that a person can be asked to fill in.
    """
    for question in questions.values():
        if question.kind not in respondent.kinds:
            respondent.refused(question.kind)
            raise _nobody(question.kind)
        if question.kind == "form" and not any_form:
            form_fields(question.params.get("requestedSchema"))
    inquiry = Inquiry(questions)
    respondent.show(inquiry)
    return inquiry


def asked(inquiry: Inquiry) -> list[AskedQuestion]:
    """Return what a record tells of an inquiry: what was asked and what became of it."""
    given = inquiry.given()
    return [
        AskedQuestion(
            method=one.method,
            message=one.message[:MOST_MESSAGE],
            answer=given[key].get("action", "given") if key in given else None,
        )
        for key, one in inquiry.questions.items()
    ]


def checked_answer(question: Question, answer: object) -> JsonObject:
    """Return an answer that fits its question.

    Of an elicitation that was accepted, the content of a form fits its schema; what comes beside it
    is left out, as MCP has it ("Elicitation", section "Response Actions").

    Raises:
        InvalidAnswerError: where it does not.
    """
    if not isinstance(answer, dict):
        raise InvalidAnswerError("an answer is an object")
    match question.kind:
        case "sampling":
            _check(answer, _SAMPLED)
            return answer
        case "roots":
            _check(answer, _ROOTS)
            return answer
    _check(answer, _ELICITED)
    if answer["action"] != "accept" or question.kind == "url":
        return {"action": answer["action"]}
    content = answer.get("content") or {}
    _check(content, question.params.get("requestedSchema") or {})
    return {"action": "accept", "content": content}


_ELICITED: JsonObject = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["accept", "decline", "cancel"]},
        "content": {"type": ["object", "null"]},
    },
    "required": ["action"],
}
_SAMPLED: JsonObject = {
    "type": "object",
    "properties": {
        "role": {"type": "string", "enum": ["user", "assistant"]},
        "content": {"type": ["object", "array"]},
        "model": {"type": "string"},
    },
    "required": ["role", "content", "model"],
}
_ROOTS: JsonObject = {
    "type": "object",
    "properties": {
        "roots": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"uri": {"type": "string"}},
                "required": ["uri"],
            },
        }
    },
    "required": ["roots"],
}


def _check(value: Any, schema: JsonObject) -> None:
    try:
        found = json_schema.value_problems(schema, value)
    except json_schema.BadSchemaError as error:
        raise InvalidAnswerError(f"no answer fits: {error.message}") from None
    if found:
        told = (f"{json_schema.json_path(place)}: {message}" for place, message in found)
        raise InvalidAnswerError("; ".join(told))


def too_late(limit_s: float) -> NotAnsweredError:
    """Return the error of a question that nobody answered in time."""
    return NotAnsweredError(
        f"nobody has answered within {limit_s:g} s",
        hint=MORE_TIME,
    )


def _nobody(kind: str) -> CannotAskError:
    wanted = f" {_WORDS[kind]}" if kind else ""
    return CannotAskError(
        f"nobody is there who could be asked{wanted}",
        hint=WHERE_TO_ASK,
    )
