"""A call is made for a message of the active branch, and its commit follows that message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.conversations import messages
from covalt_git.models.commit_record import MessageRecord

if TYPE_CHECKING:
    from tests.calls.conftest import World


def add_message(world: World, text: str, ref: str | None = None) -> str:
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        place = messages.add(writer, MessageRecord(role="user", text=text, ref=ref))
    assert place.message_id is not None
    return place.message_id


def retry(world: World) -> None:
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        messages.retry(writer)


def test_a_call_records_the_id_of_its_message_by_whichever_name_it_was_given(world: World) -> None:
    message_id = add_message(world, "go", ref="m1")
    outcome = world.call("add", message_id="m1")

    assert outcome.call.message_id == message_id
    assert world.log()[-1].message_id == message_id
    trailer = world.git("log", "-1", "--format=%(trailers:key=Covalt-Message,valueonly)")
    assert trailer.strip() == message_id
    assert [one.source for one in world.log()] == ["message", "tool_run"]


def test_a_chat_without_messages_takes_ids_of_the_application(world: World) -> None:
    assert world.call("add", message_id="m7").call.message_id == "m7"


def test_a_message_added_meanwhile_requires_no_new_approval(world: World) -> None:
    message_id = add_message(world, "go")
    execution_id = world.ask(message_id=message_id)
    add_message(world, "and hurry")
    done = world.approve(execution_id)

    assert (done.call.status, done.call.message_id) == ("success", message_id)
    assert [one.source for one in world.log()] == ["message", "message", "tool_run"]


def test_a_call_is_decided_on_a_branch_without_commits(world: World) -> None:
    add_message(world, "go")
    retry(world)
    approved, denied = world.ask(), world.ask()
    world.checkout("main")
    world.deny(denied)
    assert world.codes("retry-1") == ["denied"]
    world.checkout("retry-1")

    assert world.approve(approved).call.status == "success"
    assert [one.source for one in world.log("retry-1")] == ["tool_run"] * 2
