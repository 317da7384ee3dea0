"""Tools that only read: beside a call that runs, on their own copy, and held to what they say."""

from __future__ import annotations

import queue
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.calls.background import CallEvent, Cancel, Follower, Started
from covalt_git.calls.engine import Request
from covalt_git.calls.outcomes import CallOutcome
from covalt_git.calls.replay import replay
from covalt_git.names import new_id
from covalt_git.runtime.jobs import Log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.calls.conftest import World

MANIFEST = """\
id: reader
name: Reader
version: "1"
tools:
  - {id: read, entrypoint: "tools.it:read", annotations: &reads {read_only: true}}
  - {id: asked, entrypoint: "tools.it:asked", annotations: *reads}
  - {id: lie, entrypoint: "tools.it:lie", annotations: *reads}
  - {id: judge, entrypoint: "tools.it:judge", annotations: *reads}
  - {id: until, entrypoint: "tools.it:until", annotations: *reads}
"""
PYTHON = """\
import shutil
import time
from pathlib import Path
from typing import Annotated

from covalt_toolset import get_context, tool
from pydantic import AfterValidator


def read(workspace: Path) -> dict:
    text = "".join(sorted(path.name for path in workspace.iterdir()))
    get_context().log("read " + text)
    return {"found": text, "at": str(workspace)}


def asked() -> None:
    pass


globals()["asked"] = tool(requires_confirmation=True)(asked)


def lie(workspace: Path, how: str) -> str:
    if how == "write":
        (workspace / "lie.txt").write_text("1")
    if how == "change":
        (workspace / "a.txt").write_text("changed")
    if how == "empty":
        (workspace / "empty").mkdir()
    if how == "delete":
        shutil.rmtree(workspace)
    if how == "raise":
        (workspace / "lie.txt").write_text("1")
        raise ValueError("no")
    return "done"


def even(value: int) -> int:
    if value % 2:
        raise ValueError("has to be even")
    return value


def judge(number: Annotated[int, AfterValidator(even)]) -> int:
    return number


def until() -> None:
    get_context().log("begun")
    time.sleep(600)
"""


@pytest.fixture
def reader(world: World) -> World:
    world.write("reader/toolset.yaml", MANIFEST)
    world.write("reader/tools/it.py", PYTHON)
    world.workspace.mkdir(exist_ok=True)
    (world.workspace / "a.txt").write_text("1")
    world.call("add")
    return world


class Call:
    """A call in a thread of its own, and what it tells."""

    def __init__(self, pool: ThreadPoolExecutor, world: World, tool: str, **args: Any) -> None:
        self.told: queue.SimpleQueue[CallEvent] = queue.SimpleQueue()
        self.cancel = Cancel()
        self.outcome: Future[CallOutcome] = pool.submit(self._run, world, tool, args)

    def _run(self, world: World, tool: str, args: dict[str, Any]) -> CallOutcome:
        project = world.project()
        with project.chats.open("c1") as chat:
            engine = project.engine(None, Follower(self.told.put, self.cancel))
            given = {"call_id": args.pop("call_id", None)}
            return engine.call(chat, Request(f"reader:{tool}", args, **given))

    def logged(self) -> str:
        """Wait for the next thing that the tool logs."""
        while True:
            event = self.told.get(timeout=60)
            if isinstance(event, Log):
                return event.message


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_tools_that_only_read_run_while_the_chat_is_held(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    project = reader.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        (reader.workspace / "half done").write_text("")
        calls = [Call(pool, reader, "read") for _ in range(2)]
        assert [call.logged() for call in calls] == ["read a.txtruns.txt"] * 2
        assert not any(call.outcome.done() for call in calls)
        head = writer.save_edits()
    outcomes = [call.outcome.result() for call in calls]
    made = reader.log()[-2:]

    assert {one.call.id for one in outcomes} == {one.record.id for one in made}
    assert reader.codes() == ["success"] * 3
    assert made[0].parent_id == head
    assert made[0].tree_id == made[1].tree_id
    for one in outcomes:
        assert one.call.result == {"found": "a.txtruns.txt", "at": str(reader.workspace)}
        assert one.changes == ()
    assert [one.record.call and one.record.call.base for one in made] == [reader.log()[-4].id] * 2
    assert reader.files() == {"a.txt": "1", "runs.txt": "run\n", "half done": ""}
    assert not [*reader.workspace.parent.glob("beside-*")]
    reader.git("fsck", "--strict")


def test_what_it_read_is_what_it_is_replayed_on(reader: World, pool: ThreadPoolExecutor) -> None:
    project = reader.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat) as writer:
        call = Call(pool, reader, "read")
        call.logged()
        (reader.workspace / "later").write_text("")
        writer.save_edits()
    made = call.outcome.result().call

    with project.chats.open("c1") as chat:
        assert replay(project.engine(), chat, made.id).same


def test_where_nothing_came_between_the_record_is_as_any(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    project = reader.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        call = Call(pool, reader, "read")
        call.logged()
    call.outcome.result()

    assert reader.log()[-1].record.call.base is None  # type: ignore[union-attr]


def test_a_tool_that_lied_does_so_again_when_it_is_replayed(reader: World) -> None:
    project = reader.project()
    with project.chats.open("c1") as chat:
        made = project.engine().call(chat, Request("reader:lie", {"how": "write"})).call
        assert replay(project.engine(), chat, made.id).same
        assert chat.active_branch() == "main"

    assert sorted(path.name for path in reader.workspace.iterdir()) == ["a.txt", "runs.txt"]


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("write", "lie.txt"),
        ("change", "a.txt"),
        ("empty", "empty folders"),
        ("delete", "a.txt, runs.txt"),
        ("raise", "lie.txt"),
    ],
)
def test_a_tool_that_wrote_though_it_only_reads_fails_and_nothing_of_it_is_kept(
    reader: World, pool: ThreadPoolExecutor, how: str, what: str, *, beside: bool
) -> None:
    before = reader.files()
    if beside:
        project = reader.project()
        with project.chats.open("c1") as chat, project.engine().writing(chat):
            call = Call(pool, reader, "lie", how=how)
            assert isinstance(call.told.get(timeout=60), Started)
            other = Call(pool, reader, "read")
            other.logged()
    else:
        call = Call(pool, reader, "lie", how=how)
    outcome = call.outcome.result()
    if beside:
        other.outcome.result()  # what is written at this moment seems to be missing to git fsck

    assert outcome.error is not None
    assert outcome.error.code == "not_read_only"
    assert outcome.error.message == f"it is said to be read-only, but it wrote {what}"
    assert ("ValueError" in outcome.error.traceback) == (how == "raise")
    assert outcome.call.result is None
    assert outcome.changes == ()
    assert reader.files() == before
    assert sorted(path.name for path in reader.workspace.iterdir()) == sorted(before)
    assert all(one.source == "tool_run" for one in reader.log()[1:])
    reader.git("fsck", "--strict")


def test_a_tool_that_asks_and_arguments_that_are_wrong_are_so_beside_too(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    project = reader.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        wrong = Call(pool, reader, "judge", number=3)
        with pytest.raises(Exception, match="does not take these arguments"):
            wrong.outcome.result(timeout=60)
        asks = Call(pool, reader, "asked")
        assert isinstance(asks.told.get(timeout=60), Started)
    outcome = asks.outcome.result()

    assert outcome.approval is not None
    assert outcome.approval.reasons == ("its decorator asks",)
    assert len(reader.waiting()) == 1


def test_a_call_that_was_cancelled_beside_is_recorded(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    project = reader.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        call = Call(pool, reader, "until")
        assert call.logged() == "begun"
        call.cancel.set()
    outcome = call.outcome.result()

    assert outcome.error is not None
    assert (outcome.error.code, reader.codes()[-1]) == ("cancelled", "cancelled")


def test_a_call_under_a_given_id_waits_for_its_turn(
    reader: World, pool: ThreadPoolExecutor
) -> None:
    project, given = reader.project(), new_id()
    queue_of = reader.workspace.parent / "queue"
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        calls = [Call(pool, reader, "read", call_id=given) for _ in range(2)]
        assert reader.until(lambda: len([*queue_of.glob("*")]) == 2)
        assert all(call.told.empty() for call in calls)
    outcomes = [call.outcome.result() for call in calls]

    assert sorted(one.repeated for one in outcomes) == [False, True]
    assert {one.call.id for one in outcomes} == {given}


def test_what_a_dead_process_left_is_cleared_away(reader: World, pool: ThreadPoolExecutor) -> None:
    left = reader.workspace.parent / "beside-left"
    (left / "workspace").mkdir(parents=True)
    project = reader.project()
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        call = Call(pool, reader, "read")
        call.logged()
        assert not left.exists()
    call.outcome.result()
