"""Requests of a running call to a respondent, and the answers.

A call creates an :class:`Inquiry` with :func:`inquire` and waits for it.  The :class:`Respondent` shows
it, and answers in any thread.  Answers that do not match their request are rejected.
"""

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.elicitation.forms import form_fields
from covalt_git.errors import CovaltError
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.models.elicitation import QuestionRecord
from covalt_git.names import new_id
from covalt_git.system import file_lock
from covalt_git.text.display import is_shown, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.elicitation import Question, QuestionKind

MOST_MESSAGE = 2_000
"""The most characters of a message in a record."""

MOST_URL = 8_000
"""The most characters of a URL that a user is asked to open."""

WHERE_TO_ASK = "call the tool at a terminal, on its page, or from an MCP client with elicitation"
MORE_TIME = "raise limits.answer_s of the tool, and in covalt.yaml if that is lower"
"""Hints for a call without a respondent, or without an answer in time."""

_ACTIONS = {
    "form": "fill in a form",
    "url": "open a URL",
    "sampling": "call its model",
    "roots": "list its folders",
}


class CannotAskError(CovaltError):
    """No user or client can answer the request."""

    code = "cannot_ask"
    http_status = 409


class NotAnsweredError(CovaltError):
    """The answer did not arrive in time, or the call ended before."""

    code = "not_answered"
    http_status = 409


class UserNeededError(CannotAskError):
    """Only a user can answer, and none is here: the call is stopped, and becomes pending.

    Attributes:
        questions: what the call asks, by key.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__("the call waits for a user's answer")
        self.questions = dict(questions)


class InvalidAnswerError(CovaltError):
    """An answer does not match its request; the respondent can answer again."""

    code = "invalid_answer"


class NoOpenQuestionError(CovaltError):
    """No open request has that key."""

    code = "not_asked"
    http_status = 409


class Inquiry:
    """A group of requests, each with a key; thread-safe.

    The result of ``future`` is the answers by key, so that an event loop can wait for them
    (``asyncio.wrap_future``).  Cancelling it withdraws the requests.
    """

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.id = new_id()
        self.questions = dict(questions)
        self.future: Future[dict[str, JsonObject]] = Future()
        self._lock = threading.Lock()
        self._answers: dict[str, JsonObject] = {}
        self._on_answer: Callable[[str, JsonObject], None] = lambda *_: None

    @property
    def is_over(self) -> bool:
        """Whether all requests are answered or withdrawn."""
        return self.future.done()

    def open(self) -> dict[str, Question]:
        """Return the requests without an answer."""
        answers = self.answers()
        if self.is_over:
            return {}
        return {key: question for key, question in self.questions.items() if key not in answers}

    def answers(self) -> dict[str, JsonObject]:
        """Return the answers so far, by key."""
        with self._lock:
            return dict(self._answers)

    def answer(self, key: str, answer: object) -> None:
        """Answer a request with the result object of its MCP method.

        Raises:
            NoOpenQuestionError: if no open request has that key.
            InvalidAnswerError: if it does not match the request, which stays open.
        """
        question = self.questions.get(key)
        if question is None:
            raise NoOpenQuestionError(f"there is no request {key!r}")
        checked = checked_answer(question, answer)
        with self._lock:
            # A request can be shown in two windows: test_only_the_first_answer_of_a_question_counts.
            if key in self._answers or self.is_over:
                raise NoOpenQuestionError(f"the request {key!r} is already answered or withdrawn")
            self._answers[key] = checked
            complete = len(self._answers) == len(self.questions)
        self._on_answer(key, checked)
        # Outside of the lock: this thread runs the callbacks of the future, which can read the answers.
        if complete:
            with suppress(InvalidStateError):  # withdrawn at the same time
                self.future.set_result({key: self._answers[key] for key in self.questions})

    def fail(self, error: CovaltError) -> None:
        """Make :meth:`wait` raise an error, because no answer will arrive."""
        with suppress(InvalidStateError):  # answered or withdrawn at the same time
            self.future.set_exception(error)

    def withdraw(self) -> None:
        self.future.cancel()

    def on_answer(self, callback: Callable[[str, JsonObject], None]) -> None:
        """Call ``callback`` with the key and the content of each answer; set it before the inquiry is shown."""
        self._on_answer = callback

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when it is over, in the thread that ends it."""
        self.future.add_done_callback(lambda _: callback())

    def wait(self, limit_s: float, cancel: threading.Event | None = None) -> dict[str, JsonObject]:
        """Wait for all answers and return them by key; on errors, withdraw the requests.

        Raises:
            NotAnsweredError: if they did not arrive within ``limit_s`` seconds, or ``cancel`` was set.
            CovaltError: the error that was passed to :meth:`fail`.
        """
        end = time.monotonic() + limit_s
        try:
            # In steps, because a thread cannot wait for a future and an event at once.
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
        raise NotAnsweredError("the request was withdrawn")


class Respondent(NamedTuple):
    """A user at a terminal or a page, or an MCP client, who answers requests.

    Attributes:
        kinds: the kinds of requests that the respondent can answer.
        show: shows an inquiry and returns immediately; answers go to :meth:`Inquiry.answer`.
        refused: is called with the kind of a request that the respondent cannot answer.
        answers: the answers of a user who has given them before, by key.
    """

    kinds: frozenset[QuestionKind]
    show: Callable[[Inquiry], None]
    refused: Callable[[QuestionKind], None] = lambda _: None
    answers: Mapping[str, Any] | None = None


NO_RESPONDENT = Respondent(frozenset(), lambda inquiry: inquiry.fail(_cannot_ask("")))
"""The respondent of a call without a user or a client."""


_USER_KINDS: Final[frozenset[QuestionKind]] = frozenset({"form", "url"})
"""What any user can answer, who need not be at the client that made the call."""

_MOST_STORED = 64 << 10
"""Most bytes of the questions of a pending call."""


def waiting_for_user(respondent: Respondent) -> Respondent:
    """Return a respondent that stops a call which asks its user something that ``respondent`` cannot show.

    Its ``show`` raises :class:`UserNeededError` then.
    """

    def show(inquiry: Inquiry) -> None:
        questions = inquiry.questions
        if all(question.kind in respondent.kinds for question in questions.values()):
            respondent.show(inquiry)
            return
        stored = {key: question.model_dump(mode="json") for key, question in questions.items()}
        if len(json.dumps(stored)) > _MOST_STORED:
            raise CannotAskError(
                f"the questions are larger than {_MOST_STORED >> 10} KiB, and no user is here",
                hint=WHERE_TO_ASK,
            )
        raise UserNeededError(questions)

    return Respondent(respondent.kinds | _USER_KINDS, show, respondent.refused)


def answered_before(answers: Mapping[str, object]) -> Respondent:
    """Return a respondent with the answers of a user who knows the questions of a pending call.

    Each answer counts once.  For another question than the user has read, the call waits again.
    """
    left = dict(answers)

    def show(inquiry: Inquiry) -> None:
        open_questions = inquiry.open()
        try:
            for key in open_questions:
                inquiry.answer(key, left.pop(key))
        except (KeyError, InvalidAnswerError):
            raise UserNeededError(open_questions) from None

    return Respondent(_USER_KINDS, show, answers=dict(answers))


def check_answers(questions: Mapping[str, Question], answers: Mapping[str, object]) -> None:
    """Check that there is an answer to each question, and that it matches.

    Raises:
        InvalidAnswerError: otherwise, also for an answer without a question.
    """
    if unknown := sorted({*answers} - {*questions}):
        raise InvalidAnswerError(f"the call asks no question {unknown[0]!r}")
    for key, question in questions.items():
        if key not in answers:
            raise InvalidAnswerError(f"the question {key!r} has no answer")
        checked_answer(question, answers[key])


def check_answerable(
    respondent: Respondent, questions: Mapping[str, Question], hint: str = WHERE_TO_ASK
) -> None:
    """Check that a respondent can answer questions, before a call runs that asks them.

    Raises:
        CannotAskError: if it cannot.
    """
    for question in questions.values():
        if question.kind not in respondent.kinds:
            error = _cannot_ask(question.kind)
            error.hint = hint
            raise error


def inquire(
    respondent: Respondent, questions: Mapping[str, Question], *, any_form: bool = False
) -> Inquiry:
    """Show requests to a respondent, and return immediately.

    With ``any_form``, forms are not checked; they come from MCP servers.

    Raises:
        CannotAskError: if the respondent cannot answer one of the requests, or a URL cannot be shown or opened.
        BadFormError: if a form is not of flat fields, or asks for a secret.
    """
    # All are checked before any is shown: a user must not fill in a form of a group that fails.
    for question in questions.values():
        if question.kind not in respondent.kinds:
            respondent.refused(question.kind)
            raise _cannot_ask(question.kind)
        if question.kind == "url":
            _check_url(question)
        if question.kind == "form" and not any_form:
            form_fields(question.params.get("requestedSchema"))
    inquiry = Inquiry(questions)
    respondent.show(inquiry)
    return inquiry


def _check_url(question: Question) -> None:
    """Check that a user can read a URL of a tool or a server, and that to open it runs no script and reads no file."""
    url = question.params.get("url")
    why = ""
    if not isinstance(url, str) or not re.match("https?://", url, re.IGNORECASE):
        why = "is not an http or https URL"
    elif len(url) > MOST_URL:
        why = f"has {len(url):,} characters, and at most {MOST_URL:,} are shown"
    elif not is_shown(url):
        why = "has a hidden character"
    if why:
        raise CannotAskError(f"the URL that the user is asked to open {why}")


def question_records(inquiry: Inquiry) -> list[QuestionRecord]:
    """Return the records of an inquiry's requests, without the content of the answers."""
    answers = inquiry.answers()
    return [
        QuestionRecord(
            method=question.method,
            message=shorten(question.message, MOST_MESSAGE),
            answer=answers[key].get("action", "given") if key in answers else None,
        )
        for key, question in inquiry.questions.items()
    ]


def checked_answer(question: Question, answer: object) -> JsonObject:
    """Return an answer after checking it against its request.

    The content of an accepted form must match its schema; other actions have no content (MCP
    specification, "Elicitation", section "Response Actions").

    Raises:
        InvalidAnswerError: if it does not match.
    """
    if not isinstance(answer, dict):
        raise InvalidAnswerError("an answer must be an object")
    match question.kind:
        case "sampling":
            _check(answer, _SAMPLED)
            return answer
        case "roots":
            _check(answer, _ROOTS)
            return answer
    _check(answer, _ELICITED)
    # A client can send what the user typed before declining, and the tool must not get it
    # (test_a_declined_question_has_no_content).
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
        problems = json_schema.value_problems(schema, value)
    except json_schema.BadSchemaError as error:
        raise InvalidAnswerError(f"the requested schema is invalid: {error.message}") from None
    if problems:
        words = (f"{json_path(place)}: {message}" for place, message in problems)
        raise InvalidAnswerError("; ".join(words))


def too_late(limit_s: float) -> NotAnsweredError:
    """Return the error of a request without an answer in time."""
    return NotAnsweredError(
        f"no answer arrived within {limit_s:g} s",
        hint=MORE_TIME,
    )


def refused_kind(message: str) -> QuestionKind | None:
    """Return the kind of the question that could not be asked, from the message of its error; None if it has none."""
    # The record of a call has the message alone, and after a restart its client must get the same error.
    kinds: tuple[QuestionKind, ...] = ("form", "url", "sampling", "roots")
    return next((kind for kind in kinds if f"client that can {_ACTIONS[kind]}" in message), None)


def _cannot_ask(kind: str) -> CannotAskError:
    action = _ACTIONS.get(kind, "answer the tool's request")
    return CannotAskError(
        f"there is no user or client that can {action}",
        hint=WHERE_TO_ASK,
    )
