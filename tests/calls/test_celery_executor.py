"""Servers that follow calls in a queue; tests/serving/test_worker.py has workers."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from covalt_git.broker.call_queue import CallQueue
from covalt_git.broker.connection import Broker
from covalt_git.broker.open_calls import OpenCalls
from covalt_git.calls.celery_executor import CeleryExecutor
from covalt_git.calls.executors import Work
from covalt_git.calls.running import Follower
from covalt_git.models.queued_call import Caller, QueuedCall, QueuedEnd
from covalt_git.workspaces import commits
from covalt_git.workspaces import writing as writing_of_chats
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.lock import held
from covalt_git.workspaces.writing import writing
from tests.redis_server import RedisServer
from tests.workspaces.nodes import two_nodes
from tests.workspaces.stores import pending_call


@pytest.fixture
def open_calls(tmp_path: Path) -> Iterator[OpenCalls]:
    redis = RedisServer(tmp_path / "redis")
    broker = Broker(redis.url, "project")
    yield OpenCalls(broker)
    broker.close()
    redis.kill()


def test_an_outcome_is_read_when_the_copy_of_the_node_has_it(
    open_calls: OpenCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing_of_chats, "_ASSUMING_S", 0.1)
    queue = CallQueue(open_calls)
    executor = CeleryExecutor(open_calls, queue)
    with two_nodes() as (a, b), ExitStack() as stack:
        a.new("c1").close()
        with a.open("c1") as chat:
            folder = chat.folder
        # Another process of this node waits for the lease, with the lock of the chat.
        stack.enter_context(held(folder, "c1", timeout_s=0, waiting=None))
        with b.open("c1") as other, writing(other) as writer:
            call = pending_call(other)
            writer.put_call(call)
            manifest_id = writer.finish_call(call, commits.unfinished(call, "denied", "no"))
        opened: list[str] = []

        def open_chat(chat_id: str, _reported: object) -> ChatStore:
            if len(opened) == 1:
                stack.close()
            opened.append(chat_id)
            return a.open(chat_id)

        queued = QueuedCall(
            call_id=call.id,
            chat_id="c1",
            tool_id=call.tool_id,
            args=call.args,
            caller=Caller(id="local"),
        )
        work = Work(lambda: pytest.fail("it runs at a worker"), lambda: queued, open_chat)
        submission = executor.submit(work)
        open_calls.end(queued, QueuedEnd(manifest_id=manifest_id))
        outcome = submission.follow(Follower(), None)

    assert outcome.call.post_manifest_id == manifest_id
    assert outcome.error is not None
    assert outcome.error.code == "denied"
    assert len(opened) == 2
    queue.close()
