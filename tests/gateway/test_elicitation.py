"""Elicitation requests of calls, with clients of both protocol versions that answer well and badly."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from covalt_git.elicitation.requests import Inquiry
from covalt_git.gateway.elicitation import input_required
from covalt_git.models.elicitation import Question
from covalt_git.project import Project
from tests.examples import rest
from tests.mcp_client import (
    Requests,
    by_turns,
    call,
    commits,
    error_of,
    one_version,
    recorded,
    refused,
    talk,
    text,
    with_requests,
)

ADA: dict[str, Any] = {"action": "accept", "content": {"name": "Ada"}}
RESPONSES: dict[str, Any] = {
    "user_name": ADA,
    "who": ADA,
    "say": {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"},
    "where": {"roots": [{"uri": "file:///here"}]},
}


class User:
    """The user of a client, who gives these answers in turn, the last one for ever; ``asked`` has the questions."""

    def __init__(self, *answers: dict[str, Any] | str) -> None:
        self.asked: list[Any] = []
        self._answers = [
            types.ElicitResult(action=one)
            if isinstance(one, str)
            else types.ElicitResult(action="accept", content=one)
            for one in answers
        ]

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self._elicit,
            "sampling_callback": self._sample,
            "list_roots_callback": self._roots,
        }

    async def _elicit(self, _: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    async def _sample(self, _: Any, __: Any) -> types.CreateMessageResult:
        content = types.TextContent(text="hi")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def _roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///here")])


def runs(root: Path, chat_id: str) -> int:
    """Return how often the tool ``quiz.name`` has begun in a chat."""
    with Project.open(root).chats.open(chat_id) as chat:
        return len((chat.workspace / "runs").read_text())


@by_turns(
    ("tool", "answers", "result", "questions"),
    [
        ("name", [{"name": "Ada"}], "Hello, Ada!", 1),
        ("name", ["decline"], "decline", 1),
        ("name", [{"name": 7}, {"wrong": "a"}, {"name": "Ada"}], "Hello, Ada!", 3),
        ("rounds", [{"name": "Ada"}, {"name": "Bob"}], '["Ada", "Bob"]', 2),
        ("several", [{"name": "Ada"}], '["Ada", "hi", "file:///here"]', 1),
        ("page", [{}], "accept", 1),
        ("can", ["decline"], '["form", "url", "sampling", "roots"]', 0),
    ],
)
def test_a_tool_gets_the_valid_answers_of_the_user(
    shared: Path, version: str, tool: str, answers: list[Any], result: str, questions: int
) -> None:
    user = User(*answers)

    answer = call(shared, f"quiz.{tool}", version=version, callbacks=user.callbacks)

    assert text(answer).startswith(result)
    assert len(user.asked) == questions
    if tool == "name":
        assert runs(shared, answer.meta["covalt-git/chat"]) == 1


@one_version
def test_the_user_sees_the_question_and_its_schema_without_hidden_characters(
    shared: Path, version: str
) -> None:
    user, args = User({"name": "Ada"}), {"ask": "Name?\n(\U000e0041\u2060)"}

    result = call(shared, "quiz.name", args, version=version, callbacks=user.callbacks)

    (asked,) = user.asked
    assert asked.message == "Name?\n(\\u{e0041}\\u{2060})"
    assert asked.requested_schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 1}},
        "required": ["name"],
    }
    record = recorded(shared, result)
    assert [(one.message, one.answer) for one in record.asked] == [(args["ask"], "accept")]
    assert "Ada" not in str(record.asked)


def test_labels_of_a_form_are_shown_without_hidden_characters_and_its_values_are_unchanged() -> (
    None
):
    hidden, escaped = "a\u202eb", "a\\u{202e}b"
    choices = {"type": "string", "title": hidden, "enum": [hidden], "enumNames": [hidden]}
    titled = {"type": "string", "oneOf": [{"const": hidden, "title": hidden}], "default": hidden}
    form = {"type": "object", "properties": {"title": choices, "default": titled, hidden: choices}}
    params = {"message": hidden, "requestedSchema": form}
    inquiry = Inquiry({"q": Question(method="elicitation/create", params=params)})

    needed = input_required(inquiry)

    assert needed is not None
    shown = needed.model_dump(by_alias=True, mode="json")["inputRequests"]["q"]["params"]
    assert shown["message"] == escaped
    fields = shown["requestedSchema"]["properties"]
    assert list(fields) == ["title", "default", hidden]
    labelled = {"type": "string", "title": escaped, "enum": [hidden], "enumNames": [escaped]}
    assert fields["title"] == fields[hidden] == labelled
    assert fields["default"] == titled | {"oneOf": [{"const": hidden, "title": escaped}]}


@pytest.mark.parametrize(
    ("tool", "lacking"), [("name", "elicitation"), rest("several", "sampling")]
)
def test_a_client_learns_which_capability_it_lacks(shared: Path, tool: str, lacking: str) -> None:
    async def say(client: Client) -> types.ErrorData:
        return await refused(client.call_tool(f"quiz.{tool}", {}))

    callbacks = User({}).callbacks
    del callbacks["sampling_callback"]
    error = talk(shared, say, callbacks=callbacks if tool == "several" else None)

    assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert error.data == {"requiredCapabilities": {lacking: {}}}


def test_a_client_with_a_session_that_cannot_answer_gets_the_error_of_the_tool(
    shared: Path,
) -> None:
    async def fails(_: Any, __: Any) -> types.ErrorData:
        return types.ErrorData(code=-1, message="no display")

    for callbacks in ({}, {"elicitation_callback": fails}):
        result = call(shared, "quiz.name", version="legacy", callbacks=callbacks)
        assert error_of(result)["error"] == "cannot_ask"
    assert "no display" in text(result)


# Requests that a client of 2026-07-28 builds itself


CAN_ASK = User({}).callbacks


def test_a_forged_state_and_one_of_another_call_are_refused(shared: Path, chat_id: str) -> None:
    async def state_of(requests: Requests) -> str:
        await requests.send("quiz.name")
        state: str = requests.state
        return state

    of_another_server = with_requests(shared, state_of, callbacks=CAN_ASK)

    async def say(requests: Requests) -> None:
        state = await state_of(requests)
        for forged in (
            of_another_server,
            state + "-TAMPERED",
            state[:-2] + ("AA" if state[-2:] != "AA" else "BB"),
            state[:10] + state[11:],
            "v1.AAAA",
            '{"call": "x", "inquiry": "y"}',
            "",
        ):
            requests.state = forged
            error = await refused(requests.send("quiz.name", RESPONSES))
            assert (error.code, error.message) == (-32602, "Invalid or expired requestState")
        requests.state = state
        for tool, args in (("name", {"ask": "x"}), ("several", {})):
            assert (await refused(requests.send(f"quiz.{tool}", RESPONSES, args))).code == -32602

    with_requests(shared, say, callbacks=CAN_ASK, chat=chat_id)

    assert runs(shared, chat_id) == 1


def test_a_replayed_answer_returns_the_first_result(shared: Path, chat_id: str) -> None:
    async def say(requests: Requests) -> list[Any]:
        await requests.send("quiz.name")
        return [(await requests.send("quiz.name", RESPONSES)).content for _ in range(3)]

    first, *others = with_requests(shared, say, callbacks=CAN_ASK, chat=chat_id)

    assert first[0].text == "Hello, Ada!"
    assert others == [first, first]
    assert runs(shared, chat_id) == len(commits(shared, chat_id)) == 1


def test_another_call_of_the_client_cancels_one_that_it_left_with_a_question(
    shared: Path, chat_id: str
) -> None:
    async def say(requests: Requests) -> tuple[Any, Any]:
        await requests.send("quiz.name")
        left = requests.state
        requests.state = None
        other = await requests.send("quiz.can")
        requests.state = left
        return other, await requests.send("quiz.name", RESPONSES)

    other, left = with_requests(shared, say, callbacks=CAN_ASK, chat=chat_id)

    assert not other.is_error
    assert error_of(left)["error"] == "cancelled"
    assert "its client made another call" in text(left)
    assert len(commits(shared, chat_id)) == 2
