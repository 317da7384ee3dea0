"""A call is made for a message: it descends from it, says so, and waits and goes on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from covalt_git.errors import UnknownNameError
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces import messages
from covalt_git.workspaces.conversation import MessageElsewhereError

if TYPE_CHECKING:
    from tests.calls.conftest import World


def say(world: World, text: str, ref: str | None = None) -> str:
    """Add a message to the chat and return its id."""
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        place = messages.add(writer, MessageRecord(role="user", text=text, ref=ref))
    assert place.message_id is not None
    return place.message_id


def retry(world: World) -> None:
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        messages.retry(writer)


def test_a_call_carries_the_id_of_the_message_whatever_name_was_given(world: World) -> None:
    message_id = say(world, "go", ref="m1")
    outcome = world.call_for("m1", "add")

    assert outcome.call.message_id == message_id
    assert world.log()[-1].message_id == message_id
    assert world.git("log", "-1", "--format=%(trailers:key=Covalt-Message,valueonly)").strip() == (
        message_id
    )
    assert [one.source for one in world.log()] == ["message", "tool_run"]


def test_an_unknown_message_stops_a_call_before_it_runs(world: World) -> None:
    say(world, "go", ref="m1")

    with pytest.raises(UnknownNameError, match="no message 'm2'") as caught:
        world.call_for("m2", "add")
    assert "did you mean 'm1'?" in caught.value.hint
    assert world.files() == {}


def test_a_message_of_another_branch_stops_a_call_before_it_runs(world: World) -> None:
    say(world, "go")
    second = say(world, "go on")
    retry(world)

    with pytest.raises(MessageElsewhereError):
        world.call_for(second, "add")
    assert world.waiting() == []


def test_an_application_that_keeps_its_messages_itself_names_them(world: World) -> None:
    assert world.call_for("m7", "add").call.message_id == "m7"


def test_a_message_added_meanwhile_asks_nobody_again(world: World) -> None:
    message_id = say(world, "go")
    outcome = world.call_for(message_id, "ask")
    assert outcome.approval is not None
    say(world, "and hurry")
    done = world.approve(outcome.approval.execution_id)

    assert (done.call.status, done.call.message_id) == ("success", message_id)
    assert [one.source for one in world.log()] == ["message", "message", "tool_run"]


def test_a_call_approved_on_a_branch_with_nothing_on_it_runs_there(world: World) -> None:
    say(world, "go")
    retry(world)
    execution_id = world.ask()
    world.checkout("main")
    world.checkout("retry-1")

    assert world.approve(execution_id).call.status == "success"
    assert [one.source for one in world.log("retry-1")] == ["tool_run"]


def test_a_call_denied_on_a_branch_with_nothing_on_it_ends_there(world: World) -> None:
    say(world, "go")
    retry(world)
    execution_id = world.ask()
    world.checkout("main")
    world.deny(execution_id)

    assert world.codes("retry-1") == ["denied"]
