"""What a call asks its client, in both eras, with clients that answer well and ones that do not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from covalt_git.project import Project
from tests.gateway.asking_tools import ANSWERS, Person, accept, make_asking_project
from tests.mcp_client import eras, over_stdio, talk, text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_asking_project(tmp_path / "project")


def called(name: str, args: dict[str, Any] | None = None) -> Any:
    async def said(client: Client) -> Any:
        return await client.call_tool(name, args or {})

    return said


async def sent(client: Client, name: str, args: Any = None, **more: Any) -> Any:
    """Return the answer to one request, be it the result or what it takes to get one."""
    return await client.session.call_tool(name, args or {}, allow_input_required=True, **more)


def runs(root: Path) -> int:
    """Return how often the tool has begun."""
    with Project.open(root).chats.open("c1") as chat:
        return len((chat.workspace / "runs").read_text())


@eras
def test_a_question_hides_nothing_from_the_person_at_the_client(root: Path, era: str) -> None:
    person = Person(accept(name="Ada"))

    asking = called("quiz.name", {"ask": "Name?\n(\U000e0041\u2060)"})
    talk(root, asking, era=era, can=person.callbacks())

    assert person.asked[0].message == "Name?\n(\\u{e0041}\\u{2060})"


@eras
def test_a_person_at_the_client_answers(root: Path, era: str) -> None:
    person = Person(accept(name="Ada"))

    result = talk(root, called("quiz.name"), era=era, can=person.callbacks())

    assert text(result).startswith("Hello, Ada!")
    (asked,) = person.asked
    assert asked.message == "What is your name?"
    assert asked.requested_schema == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 1}},
        "required": ["name"],
    }
    with Project.open(root).chats.open("c1") as chat:
        record = chat.manifest(chat.head() or "").record.call
        assert record is not None
        assert [(one.message, one.answer) for one in record.asked] == [
            ("What is your name?", "accept")
        ]
        assert "Ada" not in str(record.asked)
    assert runs(root) == 1


@eras
def test_a_person_declines(root: Path, era: str) -> None:
    person = Person(types.ElicitResult(action="decline"))

    result = talk(root, called("quiz.name"), era=era, can=person.callbacks())

    assert text(result).startswith("decline")


@eras
def test_a_call_asks_again_by_what_was_answered(root: Path, era: str) -> None:
    person, told = Person(accept(name="Ada"), accept(name="Charles")), []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def said(client: Client) -> Any:
        return await client.call_tool("quiz.rounds", {}, progress_callback=hear)

    result = talk(root, said, era=era, can=person.callbacks())

    assert '["Ada", "Charles"]' in text(result)
    assert [one.message for one in person.asked] == ["Who?", "Whom does Ada know?"]
    assert told == [(1, 2, "Ada")]


@eras
def test_several_things_are_asked_at_once(root: Path, era: str) -> None:
    result = talk(root, called("quiz.several"), era=era, can=Person(accept(name="Ada")).callbacks())

    assert '["Ada", "hi", "file:///here"]' in text(result)


@eras
def test_a_page_is_opened(root: Path, era: str) -> None:
    person = Person(types.ElicitResult(action="accept"))

    result = talk(root, called("quiz.page"), era=era, can=person.callbacks())

    assert text(result).startswith("accept")
    assert person.asked[0].url == "https://example.com/in"
    assert (person.asked[0].elicitation_id is None) == (era != "legacy")


@eras
def test_only_what_a_client_says_it_can_do_is_asked(root: Path, era: str) -> None:
    everything = talk(root, called("quiz.can"), era=era, can=Person(accept()).callbacks())
    nothing = talk(root, called("quiz.can"), era=era)

    assert '["form", "url", "sampling", "roots"]' in text(everything)
    assert text(nothing).startswith("[]")


def test_a_client_of_the_first_era_that_can_be_asked_nothing_has_the_tool_fail(root: Path) -> None:
    refused = talk(root, called("quiz.name"), era="legacy")

    assert refused.structured_content["error"] == "cannot_ask"


@pytest.mark.parametrize(
    ("tool", "lacking"), [("quiz.name", ["elicitation"]), ("quiz.several", ["sampling"])]
)
def test_a_client_is_told_what_it_would_have_to_declare(
    root: Path, tool: str, lacking: list[str]
) -> None:
    async def said(client: Client) -> Any:
        with pytest.raises(MCPError) as error:
            await client.call_tool(tool, {})
        return error.value.error

    callbacks = Person(accept()).callbacks()
    can = {key: one for key, one in callbacks.items() if "sampling" not in key}
    error = talk(root, said, can=can if tool == "quiz.several" else None)

    assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert error.data == {"requiredCapabilities": {name: {} for name in lacking}}


@eras
def test_a_client_that_started_us_is_asked(root: Path, era: str) -> None:
    person = Person(accept(name=7), accept(name="Ada"))

    result = over_stdio(root, called("quiz.name"), era=era, **person.callbacks())

    assert text(result).startswith("Hello, Ada!")
    assert len(person.asked) == 2


@eras
def test_an_answer_that_does_not_fit_is_asked_for_again(root: Path, era: str) -> None:
    person = Person(accept(name=7), accept(wrong="a"), accept(name="Ada"))

    result = talk(root, called("quiz.name"), era=era, can=person.callbacks())

    assert text(result).startswith("Hello, Ada!")
    assert len(person.asked) == 3
    assert runs(root) == 1


def test_a_client_of_the_first_era_that_never_answers_right_is_given_up(root: Path) -> None:
    person = Person(accept(name=7))

    result = talk(root, called("quiz.name"), era="legacy", can=person.callbacks())

    assert result.structured_content["error"] == "tool_raised"
    assert len(person.asked) == 3


def test_a_client_of_the_first_era_that_fails_ends_the_question(root: Path) -> None:
    async def fails(_: Any, __: Any) -> types.ErrorData:
        return types.ErrorData(code=-1, message="no display")

    result = talk(root, called("quiz.name"), era="legacy", can={"elicitation_callback": fails})

    assert result.structured_content["error"] == "cannot_ask"
    assert "no display" in text(result)


@eras
def test_nobody_answers_in_time(root: Path, era: str) -> None:
    async def slow(_: Any, __: Any) -> types.ElicitResult:
        await anyio.sleep(1.5)
        return accept(name="late")

    result = talk(root, called("quiz.short"), era=era, can={"elicitation_callback": slow})

    assert result.is_error
    assert result.structured_content["error"] == "not_answered"


def test_a_client_that_cancels_while_it_is_asked_ends_the_call(root: Path) -> None:
    async def said(client: Client) -> None:
        async def call() -> None:
            await client.call_tool("quiz.name", {})

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            with anyio.fail_after(20):
                await asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(20):
            await client.call_tool("quiz.can", {})  # the chat is free again

    asked = anyio.Event()

    async def think(_: Any, __: Any) -> types.ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    talk(root, said, era="legacy", can={"elicitation_callback": think})

    with Project.open(root).chats.open("c1") as chat:
        _, cancelled = chat.log(chat.head())
        assert cancelled.record.call is not None
        assert cancelled.record.call.error is not None
        assert cancelled.record.call.error.code == "cancelled"


# What a client of the second era may send


async def asked_once(client: Client) -> Any:
    first = await sent(client, "quiz.name")
    assert isinstance(first, types.InputRequiredResult)
    assert (first.input_requests or {})["user_name"].method == "elicitation/create"
    return first


def modern(root: Path, said: Any) -> Any:
    return talk(root, said, can=Person(accept(name="unused")).callbacks())


def test_answers_that_are_missing_or_wrong_are_asked_for_again(root: Path) -> None:
    async def said(client: Client) -> Any:
        first = await asked_once(client)
        for wrong in ({}, {"wrong_key": ANSWERS["who"]}, {"user_name": {"action": "accept"}}):
            again = await sent(
                client, "quiz.name", input_responses=wrong, request_state=first.request_state
            )
            assert [*again.input_requests] == ["user_name"]
        given = {"user_name": ANSWERS["user_name"], "more": {"action": "cancel"}}
        return await sent(
            client, "quiz.name", input_responses=given, request_state=again.request_state
        )

    assert modern(root, said).content[0].text == "Hello, Ada!"
    assert runs(root) == 1


def test_only_some_of_the_answers(root: Path) -> None:
    async def said(client: Client) -> Any:
        first = await sent(client, "quiz.several")
        some = {"who": ANSWERS["who"], "say": ANSWERS["say"]}
        rest = await sent(
            client, "quiz.several", input_responses=some, request_state=first.request_state
        )
        assert [*rest.input_requests] == ["where"]
        last = {"where": ANSWERS["where"], "who": {"action": "cancel"}}
        return await sent(
            client, "quiz.several", input_responses=last, request_state=rest.request_state
        )

    assert modern(root, said).content[0].text == '["Ada", "hi", "file:///here"]'


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"user_name": ANSWERS["user_name"], "unknown": {"action": "cancel"}}, True),
        ({"other": ANSWERS["user_name"]}, False),
        ({"user_name": {"action": "accept", "content": {"name": 5}}}, False),
        (None, False),
    ],
)
def test_an_answer_that_comes_with_the_call_is_taken_where_it_fits(
    root: Path, given: Any, *, fits: bool
) -> None:
    async def said(client: Client) -> Any:
        return await sent(client, "quiz.name", input_responses=given)

    result = modern(root, said)

    if fits:
        assert result.content[0].text == "Hello, Ada!"
    else:
        assert [*result.input_requests] == ["user_name"]


@pytest.mark.parametrize(
    "forge",
    [
        lambda state: state + "-TAMPERED",
        lambda state: state[:-2] + ("AA" if state[-2:] != "AA" else "BB"),
        lambda state: state[:10] + state[11:],
        lambda _: "v1.AAAA",
        lambda _: '{"call": "x", "inquiry": "y"}',
        lambda _: "",
    ],
)
def test_a_state_that_is_not_ours_is_refused(root: Path, forge: Any) -> None:
    async def said(client: Client) -> Any:
        first = await asked_once(client)
        forged = forge(first.request_state)
        with pytest.raises(MCPError) as refused:
            await sent(client, "quiz.name", input_responses=ANSWERS, request_state=forged)
        return refused.value.error

    error = modern(root, said)

    assert (error.code, error.message) == (-32602, "Invalid or expired requestState")
    assert runs(root) == 1


def test_a_state_is_good_for_its_tool_and_arguments_alone(root: Path) -> None:
    async def said(client: Client) -> list[int]:
        state = (await asked_once(client)).request_state
        codes = []
        for name, args in (("quiz.name", {"ask": "x"}), ("quiz.several", {})):
            with pytest.raises(MCPError) as refused:
                await sent(client, name, args, input_responses=ANSWERS, request_state=state)
            codes.append(refused.value.error.code)
        return codes

    assert modern(root, said) == [-32602, -32602]


def test_an_old_state_answers_no_later_question(root: Path) -> None:
    async def said(client: Client) -> Any:
        first = await sent(client, "quiz.rounds")
        given = {"input_responses": ANSWERS}
        second = await sent(client, "quiz.rounds", **given, request_state=first.request_state)
        assert second.input_requests["who"].params.message == "Whom does Ada know?"
        assert second.request_state != first.request_state
        replayed = await sent(client, "quiz.rounds", **given, request_state=first.request_state)
        assert replayed.input_requests["who"].params.message == "Whom does Ada know?"
        return await sent(client, "quiz.rounds", **given, request_state=replayed.request_state)

    assert modern(root, said).content[0].text == '["Ada", "Ada"]'


def test_a_replayed_answer_runs_nothing_again(root: Path) -> None:
    async def said(client: Client) -> Any:
        state = (await asked_once(client)).request_state
        return [
            await sent(client, "quiz.name", input_responses=ANSWERS, request_state=state)
            for _ in range(3)
        ]

    first, *others = modern(root, said)

    assert first.content[0].text == "Hello, Ada!"
    assert [one.content for one in others] == [first.content] * 2
    assert runs(root) == 1
    with Project.open(root).chats.open("c1") as chat:
        assert len([*chat.log(chat.head())]) == 1


def test_a_state_of_another_process_or_role_is_refused(root: Path) -> None:
    async def said(client: Client) -> Any:
        return (await asked_once(client)).request_state

    state = modern(root, said)

    async def again(client: Client) -> Any:
        with pytest.raises(MCPError) as refused:
            await sent(client, "quiz.name", input_responses=ANSWERS, request_state=state)
        return refused.value.error.code

    assert modern(root, again) == -32602


def test_a_question_ends_with_the_server(root: Path) -> None:
    began = time.monotonic()

    modern(root, asked_once)

    assert time.monotonic() - began < 15
    with Project.open(root).chats.open("c1") as chat:
        record = chat.manifest(chat.head() or "").record.call
        assert record is not None
        assert record.error is not None
        assert record.error.code == "cancelled"
        assert [one.answer for one in record.asked] == [None]
