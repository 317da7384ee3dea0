"""What a call reads does not grow with what lies in the history of its chat."""

import os
from collections.abc import Callable

import pytest

from covalt_git.git_store.packs import PackFile
from covalt_git.names import new_id
from covalt_git.workspaces.writing import writing
from tests.calls.conftest import World
from tests.workspaces.stores import approval_of, call_record, dying, pending_call


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """Return a function that counts the bytes of the objects that a call reads from packs."""
    sizes: list[int] = []
    read = PackFile.read

    def counted(self: PackFile, *args: object) -> tuple[bytes, bytes]:
        kind, content = read(self, *args)  # type: ignore[arg-type]
        sizes.append(len(content))
        return kind, content

    monkeypatch.setattr(PackFile, "read", counted)

    def count(act: Callable[[], object]) -> int:
        sizes.clear()
        act()
        return sum(sizes)

    return count


def fill(world: World, *, pending: int, large: int) -> None:
    """Leave calls that wait for approval, and then calls with results of a megabyte, in the chat."""
    with world.project().chats.open("c1") as chat:
        for _ in range(pending):
            call = pending_call(chat, status="pending", execution_id=new_id())
            with writing(chat) as writer:
                writer.put_call(call)
                assert writer.put_approval(approval_of(call))
        for _ in range(large):
            call = pending_call(chat)
            with writing(chat) as writer:
                writer.put_call(call)
                record = call_record(result=new_id() * 30_000)
                writer.finish_call(call, record, snapshot=writer.scan())


@pytest.mark.rest
def test_forgotten_approvals_and_large_records_cost_later_calls_nothing(
    world: World, bytes_read: Callable[[Callable[[], object]], int]
) -> None:
    def call() -> None:
        assert world.call("workspace:write_file", path="a", content="1").call.status == "success"

    call()
    alone = bytes_read(call)
    for pending, large in ((5, 3), (45, 0)):
        fill(world, pending=pending, large=large)
        call()
        assert bytes_read(call) < alone + 500  # trees and notes become a little longer
    assert len(world.waiting()) == 50


def test_a_writer_after_a_killed_one_reads_no_large_record(
    world: World, bytes_read: Callable[[Callable[[], object]], int]
) -> None:
    fill(world, pending=5, large=3)
    with world.project().chats.open("c1") as chat, dying(chat):
        pass

    assert bytes_read(lambda: world.call("workspace:write_file", path="a", content="1")) < 100_000
    assert len(world.waiting()) == 5


def test_a_call_that_is_forgotten_expires_in_time_although_others_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.project().chats.open("c1") as chat:
        for year in ("2800", "2700", "2900"):
            call = pending_call(chat, status="pending", execution_id=new_id())
            with writing(chat) as writer:
                writer.put_call(call)
                expires_at = f"{year}-01-01T00:00:00.000Z"
                assert writer.put_approval(approval_of(call, expires_at=expires_at))
        left = []
        for year in ("2699", "2701", "2799", "2801", "2901"):
            time = f"{year}-06-01T00:00:00.000Z"
            monkeypatch.setattr("covalt_git.workspaces.commits.now", lambda time=time: time)
            with writing(chat):
                pass
            left.append(len(chat.calls()))
    assert left == [3, 2, 2, 1, 0]


def test_a_decision_is_looked_at_by_the_next_writer(world: World) -> None:
    with world.project().chats.open("c1") as chat:
        call = pending_call(chat, status="pending", execution_id=new_id())
        approval = approval_of(call)
        with writing(chat) as writer:
            writer.put_call(call)
            assert writer.put_approval(approval)
        with writing(chat) as writer:
            assert writer.decide(approval, "denied")
        with writing(chat):
            pass
        assert chat.calls() == []


def test_other_chats_cost_a_call_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noting(ask: Callable[..., object]) -> Callable[..., object]:
        def noted(path: object, **options: object) -> object:
            asked.append(str(path))
            return ask(path, **options)

        return noted

    def count(act: Callable[[], object]) -> int:
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", noting(os.stat))
            patch.setattr(os.path, "isfile", noting(os.path.isfile))
            act()
        return sum("data/chats/" in path for path in asked)

    def call() -> None:
        assert world.call("workspace:write_file", path="a", content="1").call.status == "success"

    call()
    alone = count(call)
    for number in range(20):
        with world.project().chats.new(f"other-{number}"):
            pass
    assert count(call) < alone + 5  # not one for each chat
