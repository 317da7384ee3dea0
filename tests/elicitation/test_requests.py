"""What a running call asks: who can be asked, which answers arrive, and how long it waits."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from covalt_git.elicitation.forms import BadFormError, form_fields
from covalt_git.elicitation.requests import (
    NOBODY,
    CannotAskError,
    Inquiry,
    InvalidAnswerError,
    NoOpenQuestionError,
    NotAnsweredError,
    Respondent,
    inquire,
)
from covalt_git.models.elicitation import Question

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "size": {"type": "integer", "minimum": 1, "default": 3},
        "color": {"type": "string", "enum": ["red", "blue"], "enumNames": ["Red", "Blue"]},
        "tags": {
            "type": "array",
            "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
        },
        "sure": {"type": "boolean"},
    },
    "required": ["name"],
}
NAME = Question(
    method="elicitation/create", params={"message": "Who?", "mode": "form", "requestedSchema": FORM}
)
OPEN = Question(
    method="elicitation/create", params={"message": "Go", "mode": "url", "url": "https://a.example"}
)
SAMPLE = Question(method="sampling/createMessage", params={"messages": [], "maxTokens": 5})
ROOTS = Question(method="roots/list")


def respondent(*kinds: Any) -> Respondent:
    return Respondent(frozenset(kinds), lambda _: None)


def test_questions_asked_together_are_answered_one_by_one() -> None:
    asked = inquire(respondent("form", "roots"), {"who": NAME, "where": ROOTS})
    threading.Timer(0.05, asked.answer, ["where", {"roots": [{"uri": "file:///a"}]}]).start()
    threading.Timer(
        0.1, asked.answer, ["who", {"action": "accept", "content": {"name": "Ada"}}]
    ).start()

    answers = asked.wait(5)

    assert list(answers) == ["who", "where"]
    assert answers["who"] == {"action": "accept", "content": {"name": "Ada"}}
    assert asked.is_over
    assert asked.open() == {}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (NAME, 12345),
        (NAME, {}),
        (NAME, {"action": "yes"}),
        (NAME, {"action": "accept"}),
        (NAME, {"action": "accept", "content": {"name": ""}}),
        (NAME, {"action": "accept", "content": {"name": "a", "size": "3"}}),
        (NAME, {"action": "accept", "content": {"name": "a", "color": "green"}}),
        (NAME, {"action": "accept", "content": {"name": "a", "tags": ["c"]}}),
        (SAMPLE, {"role": "assistant"}),
        (ROOTS, {"roots": [{"name": "a"}]}),
    ],
)
def test_an_answer_that_does_not_fit_does_not_arrive(question: Question, answer: Any) -> None:
    asked = Inquiry({"it": question})

    with pytest.raises(InvalidAnswerError):
        asked.answer("it", answer)

    assert [*asked.open()] == ["it"]


def test_what_was_declined_brings_no_content() -> None:
    asked = Inquiry({"it": NAME})
    asked.answer("it", {"action": "decline", "content": {"name": 1}})
    assert asked.wait(1) == {"it": {"action": "decline"}}


def test_an_answer_counts_once() -> None:
    asked = Inquiry({"it": OPEN})
    asked.answer("it", {"action": "accept"})

    with pytest.raises(NoOpenQuestionError):
        asked.answer("it", {"action": "decline"})
    with pytest.raises(NoOpenQuestionError):
        asked.answer("other", {"action": "accept"})

    assert asked.wait(1) == {"it": {"action": "accept"}}


def test_nobody_answers_in_time() -> None:
    asked = inquire(respondent("url"), {"it": OPEN})
    ended = threading.Event()
    asked.on_end(ended.set)

    with pytest.raises(NotAnsweredError, match=r"within 0\.1 s"):
        asked.wait(0.1)

    assert ended.is_set()
    with pytest.raises(NoOpenQuestionError):
        asked.answer("it", {"action": "accept"})


def test_a_cancelled_call_waits_no_longer() -> None:
    asked, cancel = inquire(respondent("url"), {"it": OPEN}), threading.Event()
    threading.Timer(0.1, cancel.set).start()
    began = time.monotonic()

    with pytest.raises(NotAnsweredError):
        asked.wait(30, cancel)

    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("who", "question"),
    [
        (NOBODY, NAME),
        (respondent("form"), OPEN),
        (respondent("url"), NAME),
        (respondent("form", "url"), SAMPLE),
        (respondent("form", "url", "sampling"), ROOTS),
    ],
)
def test_what_nobody_there_can_answer_is_not_asked(who: Respondent, question: Question) -> None:
    with pytest.raises(CannotAskError, match="nobody is there who could be asked"):
        inquire(who, {"it": question})


def test_whoever_cannot_answer_after_all_says_so() -> None:
    def show(inquiry: Inquiry) -> None:
        inquiry.fail(CannotAskError("it went away"))

    with pytest.raises(CannotAskError, match="it went away"):
        inquire(Respondent(frozenset({"url"}), show), {"it": OPEN}).wait(1)


def test_the_fields_of_a_form() -> None:
    name, size, color, tags, sure = form_fields(FORM)

    assert (name.kind, name.is_required, name.title) == ("string", True, "name")
    assert (size.kind, size.default, size.is_required) == ("integer", 3, False)
    assert (color.kind, color.options) == ("choice", (("red", "Red"), ("blue", "Blue")))
    assert (tags.kind, tags.options) == ("choices", (("a", "A"), ("b", "B")))
    assert sure.kind == "boolean"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"type": "object", "properties": {}}, "no text, number"),
        ({"type": "array", "items": {"type": "integer"}}, "no text, number"),
        ({"type": "string", "enum": [1]}, "no text, number"),
        ({"type": "string", "contentEncoding": "base64"}, "'contentEncoding'"),
        ({"$ref": "#/$defs/a"}, "no text, number"),
        ("text", "no text, number"),
    ],
)
def test_what_is_more_than_a_flat_field_is_no_form(field: Any, message: str) -> None:
    with pytest.raises(BadFormError, match=message):
        form_fields({"type": "object", "properties": {"it": field}})


@pytest.mark.parametrize("name", ["password", "github_token", "API_KEY", "apikey", "client-secret"])
def test_no_form_asks_for_a_secret(name: str) -> None:
    form = {"type": "object", "properties": {name: {"type": "string"}}}
    question = Question(
        method="elicitation/create", params={"message": "", "requestedSchema": form}
    )

    with pytest.raises(BadFormError, match="asks for a secret"):
        inquire(respondent("form"), {"it": question})
