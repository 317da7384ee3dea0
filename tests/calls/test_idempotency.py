"""A call under an id that its caller chose runs once, whoever makes it again, and wherever."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.calls.engine import Request
from covalt_git.calls.idempotency import IdTakenError
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.errors import UnknownNameError
from covalt_git.names import BadNameError, new_id

if TYPE_CHECKING:
    from tests.calls.conftest import World


def call(
    world: World, call_id: str, tool: str = "add", *, chat_id: str = "c1", **args: Any
) -> CallOutcome:
    project = world.project()
    with project.chats.open(chat_id) as chat:
        return project.engine().call(chat, Request(f"demo:{tool}", args, call_id=call_id))


def test_a_call_made_again_is_answered_as_it_was_recorded(world: World) -> None:
    given = new_id()
    first = call(world, given, text="a")
    again = call(world, given, text="a")

    assert first.call.id == given
    assert (first.repeated, again.repeated) == (False, True)
    assert again.call == first.call
    assert (again.changes, again.output, again.notes) == (
        first.changes,
        first.output,
        first.notes,
    )
    assert world.runs() == 1


def test_a_call_that_failed_is_not_tried_again(world: World) -> None:
    given = new_id()
    errors = [call(world, given, "fail").error for _ in range(2)]

    assert errors[0] == errors[1]
    assert world.codes() == ["tool_raised"]


def test_eight_processes_run_a_call_once(world: World) -> None:
    given = new_id()
    command = ("call", "c1", "demo:add", "--arg", "text=a", "--id", given, "--json")
    callers = [world.start(*command) for _ in range(8)]
    ends = [caller.communicate() for caller in callers]

    assert {caller.returncode for caller in callers} == {0}, ends
    told = [json.loads(out) for out, _ in ends]
    assert sorted(one.pop("repeated") for one in told) == [False, *[True] * 7]
    assert all(one == told[0] for one in told)
    assert world.runs() == 1
    assert world.codes() == ["success"]


def test_a_call_made_again_while_it_runs_waits_for_its_end(world: World) -> None:
    given = new_id()
    first = world.start("call", "c1", "demo:wait", "--yes", "--id", given)
    assert world.until((world.workspace / "held").exists)
    second = world.start("call", "c1", "demo:wait", "--id", given, "--json")
    queue = world.workspace.parent / "queue"
    assert world.until(lambda: any(one.name.isdigit() for one in queue.glob("*")))
    first.terminate()
    first.communicate()
    told = json.loads(second.communicate()[0])

    assert (told["id"], told["repeated"]) == (given, True)
    assert told["error"].startswith("interrupted: ")
    assert world.runs() == 1


def test_a_call_that_waits_for_a_person_is_the_one_that_waits(world: World) -> None:
    given = new_id()
    first = call(world, given, "ask")
    again = call(world, given, "ask")
    assert again.approval is not None
    assert (again.call, again.approval, again.repeated) == (first.call, first.approval, True)
    assert len(world.approvals()) == 1

    world.approve(again.approval.execution_id)
    last = call(world, given, "ask")

    assert (last.call.status, last.repeated, world.runs()) == ("success", True, 1)


def test_a_call_that_was_denied_stays_so(world: World) -> None:
    given = new_id()
    approval = call(world, given, "ask").approval
    assert approval is not None
    world.deny(approval.execution_id)

    assert call(world, given, "ask").error == world.log()[-1].record.call.error  # type: ignore[union-attr]
    assert world.runs() == 0


@pytest.mark.parametrize("index", ["there", "deleted", "unusable"])
@pytest.mark.parametrize(
    ("other", "what"),
    [
        pytest.param({"tool": "fail"}, "a call of another tool", id="another-tool"),
        pytest.param({"text": "b"}, "a call with other arguments", id="other-arguments"),
        pytest.param({"text": "a", "times": True}, "other arguments", id="true-is-not-1"),
        pytest.param({"text": "a", "times": 1, "chat_id": "c2"}, "another chat", id="another-chat"),
    ],
)
def test_an_id_is_one_calls(world: World, other: dict[str, Any], what: str, index: str) -> None:
    given = new_id()
    world.project().chats.new("c2")
    call(world, given, text="a", times=1)
    with world.project().chats.open("c1") as chat, world.project().index() as opened:
        opened.sync_chat(chat)
    lose_index(world, index)

    with pytest.raises(IdTakenError) as caught:
        call(world, given, **other)

    assert what in caught.value.message
    assert caught.value.http_status == 409
    assert world.runs() == 1


@pytest.mark.parametrize("index", ["there", "deleted", "unusable"])
def test_a_call_is_found_whatever_became_of_its_branch_and_the_index(
    world: World, index: str
) -> None:
    call(world, new_id(), text="before")
    world.branch("idea")
    given = new_id()
    first = call(world, given, text="a")
    world.checkout("main")
    assert world.cli("chat", "branch", "delete", "c1", "idea", "--force").returncode == 0
    lose_index(world, index)
    again = call(world, given, text="a")

    assert (again.call, again.repeated) == (first.call, True)
    assert world.codes() == ["success"]


def test_an_id_of_something_else_is_taken(world: World) -> None:
    world.call("add")
    (world.workspace / "edited.txt").write_text("by hand")
    world.call("add")
    edit = next(one for one in world.log() if one.source == "edit")

    with pytest.raises(IdTakenError, match="something that is no call"):
        call(world, edit.record.id)


def test_a_call_of_a_hidden_tool_is_not_told(world: World) -> None:
    given = new_id()
    call(world, given)
    world.configure('default_role: r\nroles: {r: {allow: ["app-builder.**"]}}')

    with pytest.raises(UnknownNameError):
        call(world, given)


def test_a_call_is_told_though_its_tool_has_been_switched_off(world: World) -> None:
    given = new_id()
    call(world, given)
    world.write("state/demo.yaml", "enabled: false\n")

    assert call(world, given).repeated


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "../../heads/main",
        "018F0000-0000-7000-8000-000000000000",
        "018f0000-0000-7000-8000-000000000000\n",
        "01234567-89ab-4def-8123-456789abcdef",
    ],
)
def test_an_id_is_a_uuid_as_we_make_them(world: World, text: str) -> None:
    with pytest.raises(BadNameError, match="cannot be a call id"):
        call(world, text)

    assert world.waiting() == []


def test_arguments_that_are_refused_leave_the_id_free(world: World) -> None:
    given = new_id()
    refused = world.cli("call", "c1", "demo:judge", "--arg", "number=3", "--id", given)
    made = call(world, given, "judge", number=4)

    assert refused.returncode == 1
    assert (made.call.status, made.repeated) == ("success", False)


def lose_index(world: World, how: str) -> None:
    index = world.root / "data" / "index.db"
    if how == "there":
        return
    index.unlink(missing_ok=True)
    if how == "unusable":
        index.mkdir()
        (index / "in the way").write_text("")
