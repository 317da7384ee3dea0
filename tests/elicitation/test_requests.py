"""Elicitation requests of a running call: supported kinds, valid answers, and the wait."""

import threading
from typing import Any

import pytest

from covalt_git.elicitation.forms import BadFormError, form_fields
from covalt_git.elicitation.requests import (
    NO_RESPONDENT,
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


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://a.example\u202e/x",
     "https://a.example/\x1b[2J", f"https://a.example/{'x' * 8000}", None],
)  # fmt: skip
def test_a_url_that_a_user_cannot_read_or_open_is_not_shown(url: str | None) -> None:
    question = OPEN.model_copy(update={"params": {**OPEN.params, "url": url}})
    shown: list[Inquiry] = []

    with pytest.raises(CannotAskError, match="the URL that the user is asked to open"):
        inquire(Respondent(frozenset({"url"}), shown.append), {"go": question})

    assert shown == []


def test_questions_of_one_request_are_answered_one_by_one() -> None:
    inquiry = inquire(respondent("form", "roots"), {"who": NAME, "where": ROOTS})
    threading.Timer(0.01, inquiry.answer, ["where", {"roots": [{"uri": "file:///a"}]}]).start()
    threading.Timer(
        0.02, inquiry.answer, ["who", {"action": "accept", "content": {"name": "Ada"}}]
    ).start()

    answers = inquiry.wait(5)

    assert list(answers) == ["who", "where"]
    assert answers["who"] == {"action": "accept", "content": {"name": "Ada"}}
    assert inquiry.is_over
    assert inquiry.open() == {}


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
def test_an_invalid_answer_leaves_the_question_open(question: Question, answer: Any) -> None:
    inquiry = Inquiry({"it": question})

    with pytest.raises(InvalidAnswerError):
        inquiry.answer("it", answer)

    assert [*inquiry.open()] == ["it"]


def test_a_declined_question_has_no_content() -> None:
    inquiry = Inquiry({"it": NAME})
    inquiry.answer("it", {"action": "decline", "content": {"name": 1}})
    assert inquiry.wait(1) == {"it": {"action": "decline"}}


def test_only_the_first_answer_of_a_question_counts() -> None:
    inquiry = Inquiry({"it": OPEN})
    inquiry.answer("it", {"action": "accept"})

    with pytest.raises(NoOpenQuestionError):
        inquiry.answer("it", {"action": "decline"})
    with pytest.raises(NoOpenQuestionError):
        inquiry.answer("other", {"action": "accept"})

    assert inquiry.wait(1) == {"it": {"action": "accept"}}


def test_a_question_without_an_answer_times_out() -> None:
    inquiry = inquire(respondent("url"), {"it": OPEN})
    ended = threading.Event()
    inquiry.on_end(ended.set)

    with pytest.raises(NotAnsweredError, match=r"within 0\.05 s"):
        inquiry.wait(0.05)

    assert ended.is_set()
    with pytest.raises(NoOpenQuestionError):
        inquiry.answer("it", {"action": "accept"})


@pytest.mark.parametrize(
    ("who", "question"),
    [
        (NO_RESPONDENT, NAME),
        (respondent("form"), OPEN),
        (respondent("url"), NAME),
        (respondent("form", "url"), SAMPLE),
        (respondent("form", "url", "sampling"), ROOTS),
    ],
)
def test_a_kind_that_the_respondent_does_not_support_is_not_asked(
    who: Respondent, question: Question
) -> None:
    with pytest.raises(CannotAskError, match="there is no user or client that can"):
        inquire(who, {"it": question})


def test_a_schema_becomes_the_fields_of_a_form() -> None:
    name, size, color, tags, sure = form_fields(FORM)

    assert (name.kind, name.is_required, name.title) == ("string", True, "name")
    assert (size.kind, size.default, size.is_required) == ("integer", 3, False)
    assert (color.kind, color.options) == ("choice", (("red", "Red"), ("blue", "Blue")))
    assert (tags.kind, tags.options) == ("choices", (("a", "A"), ("b", "B")))
    assert sure.kind == "boolean"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"type": "object", "properties": {}}, "is not a string, number"),
        ({"type": "array", "items": {"type": "integer"}}, "is not a string, number"),
        ({"type": "string", "enum": [1]}, "is not a string, number"),
        ({"type": "string", "contentEncoding": "base64"}, "'contentEncoding'"),
        ({"$ref": "#/$defs/a"}, "is not a string, number"),
        ("text", "is not a string, number"),
    ],
)
def test_a_nested_field_is_refused(field: Any, message: str) -> None:
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
