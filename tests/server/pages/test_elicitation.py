"""Elicitation requests of calls: answered over the API, and on the page of the call."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from covalt_git.names import new_id
from tests.api_client import Api, refused
from tests.browser import violations
from tests.live_server import Live
from tests.mcp_client import add_toolset
from tests.server.event_streams import coming, events, follow, names, resume, until
from tests.server.visitor import Visitor

QUIZ = """\
id: quiz
name: Quiz
version: "1"
tools:
  - {id: order, entrypoint: tools.quiz:order}
  - {id: two, entrypoint: tools.quiz:two}
  - {id: page, entrypoint: tools.quiz:page}
  - {id: odd, entrypoint: tools.quiz:odd}
  - {id: careful, entrypoint: tools.quiz:page, requires_confirmation: true}
"""
QUIZ_PYTHON = """\
from typing import Literal

from pydantic import BaseModel, Field

from covalt_toolset import Address, Form, get_context


class Order(BaseModel):
    name: str = Field(min_length=2, description="Whose it is")
    size: int = Field(3, ge=1)
    gift: bool = False


COLORS = {
    "type": "object",
    "properties": {
        "color": {
            "type": "string",
            "title": "Which color",
            "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}],
        },
        "extras": {"type": "array", "items": {"type": "string", "enum": ["bow", "card"]}},
    },
    "required": ["color"],
}


def order() -> dict:
    answer = get_context().elicit("What should we <b>pack</b>?", Order)
    if not answer.accepted:
        return {"did": answer.action}
    more = get_context().elicit(f"And the paper for {answer.content.name}?", COLORS)
    return {**answer.content.model_dump(), **(more.content or {})}


def two() -> list:
    found = get_context().ask(
        {"who": Form("Who?", Order), "there": Address("Go", "https://example.com/in")}
    )
    return [found["who"].action, found["there"].action]


def page() -> str:
    return get_context().elicit_url("Sign in at Example", "https://example.com/in?a=1").action


def odd() -> str:
    return get_context().elicit_url("Look", "javascript:alert(1)").action
"""


@pytest.fixture(autouse=True)
def quiz(api: Api) -> Api:
    add_toolset(api.root, "quiz", QUIZ, QUIZ_PYTHON)
    return api


# The API


def asked(api: Api, tool_id: str, **body: Any) -> tuple[Iterator[Any], str, Any]:
    """Call a tool; return its events, its id, and its question."""
    call_id = new_id()
    how = {"call_id": call_id, "can_ask": ["form", "url"], **body}
    told = coming(follow(api, tool_id, body=how))
    return told, call_id, until(told, "Question")


def test_a_request_is_answered_key_by_key(quiz: Api) -> None:
    told, call_id, question = asked(quiz, "quiz:two")
    where = {"call_id": call_id, "question_id": question["question_id"]}
    who = {"action": "accept", "content": {"name": "Ada"}}

    assert question["questions"]["there"] == {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "Go", "url": "https://example.com/in"},
    }
    wrong = {"who": {"action": "accept", "content": {"name": 7}}}
    refused(quiz.tell("answer_question", **where, answers=wrong), 400, "invalid_answer")
    left = quiz.post("answer_question", **where, answers={"who": who})
    assert left == {"open": ["there"]}
    refused(quiz.tell("answer_question", **where, answers={"who": who}), 409, "not_asked")
    done = quiz.post("answer_question", **where, answers={"there": {"action": "decline"}})
    assert done == {"open": []}

    rest = [*told]
    assert names(rest) == ["QuestionClosed", "ToolCallCompleted"]
    assert rest[-1][2]["call"]["result"] == ["accept", "decline"]
    refused(quiz.tell("answer_question", **where, answers={"who": who}), 409, "not_asked")


def test_a_refused_approval_does_not_end_the_call(quiz: Api) -> None:
    call_id = new_id()
    told = events(follow(quiz, "quiz:careful", body={"call_id": call_id}))
    quiz.write("other.txt", "a change since the request")
    visitor = Visitor(quiz.app)
    waits = visitor.open(f"/approvals/{told[-1][2]['call']['execution_id']}")
    again = visitor.send(waits.form("/approve"))
    resumed = events(resume(quiz, call_id))

    assert names(resumed) == ["ApprovalRequired"]
    assert resumed[-1][2]["call"]["execution_id"] in again.address


# The page


def run(page: Page, served: Live, name: str) -> None:
    page.goto(f"{served.url}/tools/quiz:{name}?chat=c1")
    page.get_by_role("button", name="Run", exact=True).last.click()


@pytest.mark.rest
def test_a_form_is_answered_with_the_keyboard(page: Page, served: Live) -> None:
    run(page, served, "order")
    expect(page.get_by_text("What should we <b>pack</b>?")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("name").focus()
    page.keyboard.type("A")
    expect(page.get_by_text("shorter than 2")).to_be_visible()
    page.keyboard.type("da")
    page.keyboard.press("Enter")

    expect(page.get_by_text("And the paper for Ada?")).to_be_visible()
    page.get_by_label("Which color").focus()
    page.keyboard.type("b")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Answer").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text('"color": "b"')
    expect(page.locator("main")).to_contain_text('"name": "Ada"')

    run(page, served, "order")
    page.get_by_role("button", name="Decline").click()
    expect(page.locator("main")).to_contain_text('"did": "decline"')


def test_a_url_is_shown_and_opened_by_the_user(page: Page, served: Live) -> None:
    page.goto(f"{served.url}/tools/quiz:careful?chat=c1")
    page.get_by_role("button", name="Request approval").click()
    page.get_by_role("button", name="Approve and run").click()
    link = page.get_by_role("link", name="https://example.com/in?a=1")
    assert link.get_attribute("rel") == "noopener noreferrer"
    asked_at = page.url
    page.get_by_role("button", name="Agree").click()
    expect(page.locator("main")).to_contain_text('"accept"')
    page.goto(asked_at)  # the request is closed, so this is the result of the call
    expect(page.locator("main")).to_contain_text('"accept"')

    run(page, served, "odd")
    expect(page.get_by_text("is not an http or https URL")).to_be_visible()
    expect(page.get_by_role("link", name="javascript")).to_have_count(0)


@pytest.mark.rest
def test_a_question_is_answered_in_the_conversation(page: Page, served: Live) -> None:
    page.goto(f"{served.url}/tools/quiz:careful?chat=c1")
    page.get_by_role("button", name="Request approval").click()
    page.goto(f"{served.url}/chats/c1")
    page.get_by_role("button", name="Approve and run").click()
    turns = page.locator("#turns")
    expect(turns.get_by_role("link", name="https://example.com/in?a=1")).to_be_visible()
    turns.get_by_role("button", name="Agree").click()
    expect(turns.get_by_role("button", name="Agree")).to_have_count(0)

    turns.get_by_text("Careful").click()
    expect(turns).to_contain_text('"accept"')
    assert page.url.startswith(f"{served.url}/chats/c1#c-")
