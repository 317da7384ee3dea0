"""Read-only calls run concurrently with a writing call, on a copy of the last commit, and may not write."""

import hashlib
import queue
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.replay import replay
from covalt_git.calls.running import CallEvent, Cancel, Follower, Started
from covalt_git.json_values.json_schema import InvalidArgumentsError
from covalt_git.models.outcomes import Log
from covalt_git.workspaces.writer import Writer
from tests.calls.conftest import World, code
from tests.examples import rest

UNNAMED = "files/" + hashlib.sha256(b"unnamed").hexdigest()[:16] + ".png"


class Call:
    """A call in a thread of its own, and its events."""

    def __init__(self, pool: ThreadPoolExecutor, world: World, tool: str, **args: Any) -> None:
        self.events: queue.SimpleQueue[CallEvent] = queue.SimpleQueue()
        self.cancel = Cancel()
        follower = Follower(self.events.put, self.cancel)
        self.outcome: Future[CallOutcome] = pool.submit(
            world.call, f"reader:{tool}", follower=follower, **args
        )

    def logged(self) -> str:
        """Wait for the next message that the tool logs."""
        while True:
            event = self.events.get(timeout=60)
            if isinstance(event, Log):
                return event.message


@pytest.fixture
def reader(world: World) -> World:
    world.add("reader")
    world.workspace.mkdir(exist_ok=True)
    (world.workspace / "a.txt").write_text("1")
    world.call("add")
    return world


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@contextmanager
def held(world: World) -> Iterator[Writer]:
    """Hold the chat, as a writing call does."""
    project = world.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        yield writer


def test_read_only_calls_run_on_the_last_commit_while_the_chat_is_held(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    left = reader.workspace.parent / "beside-left"  # by a process that died
    (left / "workspace").mkdir(parents=True)
    with held(reader) as writer:
        (reader.workspace / "half done").write_text("")
        calls = [Call(pool, reader, "read") for _ in range(2)]
        assert [call.logged() for call in calls] == ["read a.txtruns.txt"] * 2
        assert not any(call.outcome.done() for call in calls)
        assert not left.exists()
        head = writer.commit_changes()
    outcomes = [call.outcome.result() for call in calls]
    before, *made = reader.log()[-3:]

    assert {one.call.id for one in outcomes} == {one.record.id for one in made}
    assert reader.codes() == ["success"] * 3
    assert before.id == made[0].parent_id == head
    assert made[0].tree_id == made[1].tree_id == before.tree_id
    for one in outcomes:
        assert one.call.result == {"found": "a.txtruns.txt", "at": str(reader.workspace)}
        assert one.changes == ()
    assert [one.record.call and one.record.call.base for one in made] == [before.parent_id] * 2
    assert reader.files() == {"a.txt": "1", "runs.txt": "run\n", "half done": ""}
    assert not [*reader.workspace.parent.glob("beside-*")]
    with reader.project().chats.open("c1") as chat:
        assert replay(reader.project().engine(), chat, outcomes[0].call.id).same
    reader.git("fsck", "--strict")


@pytest.mark.parametrize(
    ("how", "what", "concurrently"),
    [
        ("write", "lie.txt", True),
        rest("write", "lie.txt", False),
        ("change", "a.txt", False),
        ("empty", "empty folders", True),
        ("delete", "a.txt, runs.txt", True),
        rest("delete", "a.txt, runs.txt", False),
        ("raise", "lie.txt", False),
        ("unnamed", UNNAMED, True),
        rest("unnamed", UNNAMED, False),
        ("wrong hash", UNNAMED, False),
    ],
)
def test_a_read_only_tool_that_writes_fails_and_its_files_are_restored(
    reader: World, pool: ThreadPoolExecutor, how: str, what: str, *, concurrently: bool
) -> None:
    before = reader.files()
    if concurrently:
        with held(reader):
            call = Call(pool, reader, "lie", how=how)
            assert isinstance(call.events.get(timeout=60), Started)
            other = Call(pool, reader, "read")
            other.logged()
        other.outcome.result()  # git fsck takes what is being written for missing
    else:
        call = Call(pool, reader, "lie", how=how)
    outcome = call.outcome.result()

    assert code(outcome) == "not_read_only"
    assert outcome.error is not None
    assert outcome.error.message.endswith(f"it wrote {what}")
    assert ("ValueError" in outcome.error.traceback) == (how == "raise")
    assert (outcome.call.result, outcome.changes) == (None, ())
    assert reader.files() == before
    assert sorted(path.name for path in reader.workspace.iterdir()) == sorted(before)
    assert all(one.source == "tool_run" for one in reader.log()[1:])
    reader.git("fsck", "--strict")


@pytest.mark.parametrize("concurrently", [True, rest(False)])
def test_a_read_only_tool_may_return_images(
    reader: World, pool: ThreadPoolExecutor, *, concurrently: bool
) -> None:
    before = reader.files()
    if concurrently:
        with held(reader) as writer:
            call = Call(pool, reader, "draw", count=2)
            assert isinstance(call.events.get(timeout=60), Started)
            (reader.workspace / "half done").write_text("")
            writer.commit_changes()
            before |= {"half done": ""}
    else:
        call = Call(pool, reader, "draw", count=2)
    outcome = call.outcome.result()

    assert outcome.error is None
    assert outcome.call.result is not None
    paths = [image["file"] for image in outcome.call.result]
    assert sorted(change.path for change in outcome.changes) == sorted(paths)
    assert reader.files() == before | {path: f"image {at}" for at, path in enumerate(paths)}
    again = reader.call("reader:draw", count=2)
    assert (again.error, again.changes) == (None, ())
    with reader.project().chats.open("c1") as chat:
        assert replay(reader.project().engine(), chat, outcome.call.id).same
    reader.git("fsck", "--strict")


def test_a_returned_image_does_not_replace_a_file_of_another_call(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    with held(reader) as writer:
        call = Call(pool, reader, "draw")
        assert isinstance(call.events.get(timeout=60), Started)
        (reader.workspace / "files").write_text("a file")
        writer.commit_changes()

    assert code(call.outcome.result()) == "bad_path"
    assert reader.files()["files"] == "a file"


def test_concurrent_calls_are_checked_require_approval_and_can_be_cancelled(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    with held(reader):
        wrong = Call(pool, reader, "judge", number=3)
        with pytest.raises(InvalidArgumentsError):
            wrong.outcome.result(timeout=60)
        asks = Call(pool, reader, "asked")
        assert isinstance(asks.events.get(timeout=60), Started)
        stopped = Call(pool, reader, "until")
        assert stopped.logged() == "begun"
        stopped.cancel.set()
    approval = asks.outcome.result().approval

    assert code(stopped.outcome.result()) == "cancelled"
    assert approval is not None
    assert approval.reasons == ("its decorator requires it",)
    assert [one.execution_id for one in reader.waiting()] == [approval.execution_id]
    assert reader.codes() == ["success", "cancelled"]
