"""Elicitation requests of a running call, and their way to a respondent and back.

A call makes an :class:`Inquiry` with :func:`inquire` and waits for it.  The :class:`Respondent` shows it,
and answers in any thread.  An answer that does not fit its question is rejected.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.elicitation.forms import form_fields
from covalt_git.errors import CovaltError
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.models.elicitation import QuestionRecord
from covalt_git.names import new_id
from covalt_git.system import file_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import Question, QuestionKind

MOST_MESSAGE = 2_000
"""How much of a message is kept in a record, in characters."""

WHERE_TO_ASK = "call it at a terminal, on its page, or from an MCP client that can be asked"
MORE_TIME = "raise limits.answer_s of the tool, and of covalt.yaml where that says less"
"""Hints for a call that has no respondent, or got no answer in time."""

_WORDS = {
    "form": "to fill in a form",
    "url": "to open an address",
    "sampling": "for what a model says",
    "roots": "for its folders",
}


class CannotAskError(CovaltError):
    """There is no respondent who could answer."""

    code = "cannot_ask"
    http_status = 409


class NotAnsweredError(CovaltError):
    """No answer came in time, or the call ended before."""

    code = "not_answered"
    http_status = 409


class InvalidAnswerError(CovaltError):
    """An answer that does not fit its question; the respondent may answer again."""

    code = "invalid_answer"


class NoOpenQuestionError(CovaltError):
    """No open question has that key."""

    code = "not_asked"
    http_status = 409


class Inquiry:
    """Questions that are asked together, each under a key; for use by many threads.

    ``future`` gets all answers by their keys, so that an event loop can wait for them
    (``asyncio.wrap_future``).  Cancelling it withdraws the questions.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.id = new_id()
        self.questions = dict(questions)
        self.future: Future[dict[str, JsonObject]] = Future()
        self._lock = threading.Lock()
        self._answers: dict[str, JsonObject] = {}

    @property
    def is_over(self) -> bool:
        """Whether all is answered, or the questions are withdrawn."""
        return self.future.done()

    def open(self) -> dict[str, Question]:
        """Return the questions without an answer."""
        given = self.given()
        if self.is_over:
            return {}
        return {key: one for key, one in self.questions.items() if key not in given}

    def given(self) -> dict[str, JsonObject]:
        """Return the answers so far."""
        with self._lock:
            return dict(self._answers)

    def answer(self, key: str, answer: object) -> None:
        """Answer a question with the result object that MCP has for its method.

        Raises:
            NoOpenQuestionError: if no open question has that key.
            InvalidAnswerError: if it does not fit the question, which stays open.
        """
        question = self.questions.get(key)
        if question is None:
            raise NoOpenQuestionError(f"nothing is asked under {key!r}")
        checked = checked_answer(question, answer)
        with self._lock:
            if key in self._answers or self.is_over:
                raise NoOpenQuestionError(f"{key!r} is not asked any more")
            self._answers[key] = checked
            complete = len(self._answers) == len(self.questions)
        if complete:
            with suppress(InvalidStateError):  # withdrawn this moment
                self.future.set_result({key: self._answers[key] for key in self.questions})

    def fail(self, error: CovaltError) -> None:
        """Let :meth:`wait` raise an error: there will be no answer."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def withdraw(self) -> None:
        """Withdraw the questions."""
        self.future.cancel()

    def on_end(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` once when it is over, in the thread that ends it."""
        self.future.add_done_callback(lambda _: tell())

    def wait(self, limit_s: float, cancel: threading.Event | None = None) -> dict[str, JsonObject]:
        """Wait for the answers and return them by their keys; without them, withdraw the questions.

        Raises:
            NotAnsweredError: if they did not come within ``limit_s`` seconds, or ``cancel`` was set.
            CovaltError: the one given to :meth:`fail`.
        """
        end = time.monotonic() + limit_s
        try:
            while cancel is None or not cancel.is_set():
                with suppress(TimeoutError):
                    left = end - time.monotonic()
                    return self.future.result(max(0.0, min(file_lock.POLL_S, left)))
                if time.monotonic() >= end:
                    raise too_late(limit_s)
        except CancelledError:
            pass
        finally:
            self.withdraw()
        raise NotAnsweredError("it is not asked any more")


class Respondent(NamedTuple):
    """A user at a terminal or a page, or the client of an MCP server, who answers questions.

    Attributes:
        kinds: the kinds of questions that they can answer.
        show: shows an inquiry and returns at once; the answer goes to :meth:`Inquiry.answer`.
        refused: is called with a kind that they were to be asked and cannot answer.
    """

    kinds: frozenset[QuestionKind]
    show: Callable[[Inquiry], None]
    refused: Callable[[QuestionKind], None] = lambda _: None


NO_RESPONDENT = Respondent(frozenset(), lambda inquiry: inquiry.fail(_nobody("")))
"""The respondent of a call without a user or a client."""


def inquire(
    respondent: Respondent, questions: Mapping[str, Question], *, any_form: bool = False
) -> Inquiry:
    """Show questions to a respondent, and return at once.

    With ``any_form`` the fields of a form need not be flat: MCP servers are not checked.

    Raises:
        CannotAskError: if the respondent cannot answer one of the questions.
        BadFormError: if a form is not of flat fields, or asks for a secret.
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


def asked(inquiry: Inquiry) -> list[QuestionRecord]:
    """Return the record of an inquiry: each question, and whether it was answered."""
    given = inquiry.given()
    return [
        QuestionRecord(
            method=one.method,
            message=one.message[:MOST_MESSAGE],
            answer=given[key].get("action", "given") if key in given else None,
        )
        for key, one in inquiry.questions.items()
    ]


def checked_answer(question: Question, answer: object) -> JsonObject:
    """Return an answer, checked against its question.

    The content of an accepted form must fit its schema; other actions have no content (MCP
    specification, "Elicitation", section "Response Actions").

    Raises:
        InvalidAnswerError: if it does not fit.
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
        told = (f"{json_path(place)}: {message}" for place, message in found)
        raise InvalidAnswerError("; ".join(told))


def too_late(limit_s: float) -> NotAnsweredError:
    """Return the error of a question without an answer in time."""
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
