"""A call with an idempotency key runs once, and repeating it returns what was recorded."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from covalt_git.calls.idempotency import IdTakenError
from covalt_git.names import new_id
from covalt_git.workspaces import branches
from tests.calls.conftest import World, code
from tests.examples import rest
from tests.settling import until


@pytest.fixture
def key() -> str:
    return new_id()


def test_several_processes_run_a_call_once(world: World, key: str) -> None:
    command = ("call", "c1", "demo:add", "--arg", "text=a", "--id", key, "--json")
    callers = [world.start(*command) for _ in range(3)]
    ended = [caller.end() for caller in callers]
    answers = [json.loads(one.stdout) for one in ended]

    assert {one.returncode for one in ended} == {0}
    assert sorted(one.pop("repeated") for one in answers) == [False, True, True]
    assert all(one == answers[0] for one in answers)
    assert world.runs() == 1
    assert world.codes() == ["success"]


def test_a_call_repeated_while_it_runs_waits_for_its_end(world: World, key: str) -> None:
    first = world.start("call", "c1", "demo:wait", "--no-terminal", "tested", "--id", key)
    until((world.workspace / "held").exists)
    with ThreadPoolExecutor() as pool:
        second = pool.submit(world.call, "wait", call_id=key)
        until(world.has_next_writer)
        os.kill(first.pid, signal.SIGTERM)
        first.end()
        outcome = second.result()

    assert (outcome.call.id, outcome.repeated, code(outcome)) == (key, True, "interrupted")
    assert world.runs() == 1


@pytest.mark.parametrize(
    ("tool", "other", "index"),
    [
        ("fail", {}, "present"),
        ("add", {"text": "b"}, "present"),
        rest("add", {"text": "b"}, "deleted"),
        ("add", {"text": "a", "times": True}, "unusable"),
        rest("add", {"text": "a", "times": 1, "chat_id": "c2"}, "present"),
        ("add", {"text": "a", "times": 1, "chat_id": "c2"}, "deleted"),
        rest("add", {"text": "a", "times": 1, "chat_id": "c2"}, "unusable"),
    ],
)
def test_a_key_belongs_to_one_call(
    world: World, key: str, tool: str, other: dict[str, Any], index: str
) -> None:
    world.project().chats.new("c2")
    world.call("add", call_id=key, text="a", times=1)
    with world.project().chats.open("c1") as chat, world.project().chat_index() as opened:
        opened.sync_chat(chat)
    world.lose_index(index)

    with pytest.raises(IdTakenError) as caught:
        world.call(tool, call_id=key, **other)

    assert caught.value.http_status == 409
    assert world.runs() == 1


@pytest.mark.parametrize("index", ["present", "deleted", "unusable"])
def test_a_call_of_a_deleted_branch_is_found_with_and_without_the_index(
    world: World, key: str, index: str
) -> None:
    world.call("add", text="before")
    world.branch("idea")
    first = world.call("add", call_id=key, text="a")
    world.checkout("main")
    with world.project().chats.open("c1") as chat, world.project().engine().writing(chat) as writer:
        branches.delete(writer, "idea", force=True)
    world.lose_index(index)
    again = world.call("add", call_id=key, text="a")

    assert (again.call, again.repeated) == (first.call, True)
    assert world.codes() == ["success"]
