from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.broker import open_calls as module
from covalt_git.broker.call_queue import CallQueue
from covalt_git.broker.connection import Broker
from covalt_git.broker.open_calls import WAITS, OpenCalls
from covalt_git.errors import CovaltError
from covalt_git.models.queued_call import Caller, QueuedCall, QueuedDecision, QueuedEnd
from covalt_git.names import new_id
from covalt_git.operations.calls.queued_calls import refused
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    started = RedisServer(tmp_path_factory.mktemp("redis"))
    yield started
    started.kill()


@pytest.fixture
def calls(server: RedisServer, tmp_path: Path) -> Iterator[OpenCalls]:
    """The calls of a project of this test's own."""
    broker = Broker(server.url, str(tmp_path))
    yield OpenCalls(broker)
    broker.close()


def queued(**fields: object) -> QueuedCall:
    return QueuedCall.model_validate(
        {
            "call_id": new_id(),
            "chat_id": "c1",
            "tool_id": "demo:add",
            "args": {"text": "ü"},
            "caller": Caller(id="local"),
        }
        | fields
    )


def test_one_of_the_workers_that_receive_a_call_makes_it(calls: OpenCalls) -> None:
    call = queued()
    assert calls.add(call)
    assert not calls.add(call)
    calls.report_worker("a", {})
    calls.report_worker("b", {})

    assert [calls.take(call, worker) for worker in "abab"] == [1, 0, 0, 0]
    calls.end(call, QueuedEnd(manifest_id="1" * 40))
    assert calls.take(call, "b") == 0
    described = calls.find(call.call_id)
    assert described is not None
    assert (described.call, described.state, described.takes) == (call, "ended", 1)
    assert described.end == QueuedEnd(manifest_id="1" * 40)
    assert calls.number_open() == 0


def refusal(code: str) -> QueuedEnd:
    error = CovaltError("no", code=code, http_status=503)
    return refused(error)


def test_a_call_that_was_refused_is_made_when_it_is_requested_again(calls: OpenCalls) -> None:
    call, poisonous = queued(), queued()
    calls.report_worker("a", {})
    for its, code in ((call, "storage_unavailable"), (poisonous, "workers_died")):
        assert calls.add(its)
        assert calls.take(its, "a") == 1
        calls.end(its, refusal(code))
        assert calls.take(its, "a") == 0  # a message that comes twice
    # Without a record in the chat, a stored refusal would be the answer for ten minutes.
    assert calls.add(call)
    assert not calls.add(call)
    described = calls.find(call.call_id)
    assert described is not None
    assert (described.state, described.end) == ("queued", None)
    assert calls.events(call.key, "0", 0.01) == []
    assert calls.number_open() == 1
    assert calls.take(call, "a") == 1
    calls.end(call, QueuedEnd(manifest_id="1" * 40))
    assert not calls.add(call)
    # It would end five more workers.
    assert not calls.add(poisonous)


def test_a_call_waits_for_another_call_of_its_chat_and_occupies_no_worker(
    calls: OpenCalls,
) -> None:
    first, second, third = (queued() for _ in range(3))
    other, read = queued(chat_id="c2"), queued(is_serial=False)
    for call in (first, second, third, other, read):
        calls.add(call)
    calls.report_worker("a", {})
    assert calls.take(first, "a") == 1
    assert [calls.take(call, "a") for call in (second, third)] == [WAITS, WAITS]
    assert [calls.take(call, "a") for call in (other, read)] == [1, 1]
    assert [*calls.lost()] == []

    assert calls.end(first, QueuedEnd()) == second
    assert calls.take(second, "a") == 1
    # A worker that is cancelled does not wait.
    described = calls.request_cancel(third.call_id, "why")
    assert described is not None
    assert described.state == "waiting"
    assert calls.take(third, "a") == 1
    assert calls.end(second, QueuedEnd()) is None


def test_a_call_that_waits_for_a_call_of_a_dead_worker_is_sent_again(calls: OpenCalls) -> None:
    first, second = queued(), queued()
    for call in (first, second):
        calls.add(call)
    calls.report_worker("a", {})
    calls.report_worker("b", {})
    assert [calls.take(first, "a"), calls.take(second, "b")] == [1, WAITS]
    calls.forget_worker("a")
    lost = {described.call.call_id for described in calls.lost()}
    assert lost == {first.call_id, second.call_id}
    assert [calls.take(second, "b"), calls.take(first, "b")] == [1, WAITS]


def test_a_call_of_a_dead_worker_is_sent_again_once(calls: OpenCalls) -> None:
    call, other = queued(), queued(chat_id="c2")
    for worker, its in (("a", call), ("b", other)):
        calls.add(its)
        calls.report_worker(worker, {})
        assert calls.take(its, worker) == 1
    assert [*calls.lost()] == []

    calls.forget_worker("a")
    assert [lost.call for lost in calls.lost()] == [call]
    assert [*calls.lost()] == []  # another process checks
    assert calls.take(call, "b") == 2


def test_a_call_that_a_living_worker_has_given_up_is_sent_again(
    calls: OpenCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = queued()
    calls.add(call)
    calls.report_worker("a", {"running": [call.key]})
    calls.take(call, "a")
    monkeypatch.setattr(module, "ALIVE_S", -1)
    assert [*calls.lost()] == []
    monkeypatch.setattr(module, "ALIVE_S", 15)
    calls.report_worker("a", {"running": []})
    assert [*calls.lost()] == []  # it has taken it since its last report
    monkeypatch.setattr(module, "ALIVE_S", -1)
    assert [lost.call for lost in calls.lost()] == [call]
    assert calls.take(call, "a") == 2


def test_a_call_is_sent_again_if_no_queue_and_no_worker_has_it(
    calls: OpenCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = queued()
    calls.add(call)
    assert [*calls.lost()] == []  # its message may be on its way
    monkeypatch.setattr(module, "_LOST_S", -1.0)
    queue = CallQueue(calls)
    queue.send(call)
    assert [*calls.lost()] == []  # it waits in a queue

    calls.broker.client.delete(calls.queue(""))
    assert [lost.call for lost in calls.lost()] == [call]
    queue.close()


def test_a_call_is_sent_after_a_lost_connection_that_left_a_broken_channel(
    calls: OpenCalls,
) -> None:
    queue = CallQueue(calls)
    queue.send(queued())
    # As kombu left it when Redis was cut off in a stress test.
    with queue._app.producer_or_acquire() as producer:
        producer.channel.connection = producer.channel._pool = None
    for _ in range(2):
        queue.send(queued())
    assert calls.broker.client.llen(calls.queue("")) == 3
    queue.close()


def test_a_worker_takes_a_call_that_redis_has_lost(calls: OpenCalls) -> None:
    call = queued()
    calls.report_worker("a", {})
    assert calls.take(call, "a") == 1
    found = calls.find(call.call_id)
    assert found is not None
    assert found.state == "taken"


def test_an_approval_is_found_by_the_id_of_its_call_and_cancelled_by_it(calls: OpenCalls) -> None:
    execution_id = new_id()
    call = queued(decision=QueuedDecision(execution_id=execution_id))
    assert not calls.request_cancel(call.call_id, "early")
    calls.add(call)
    described = calls.find(call.call_id)
    assert described is not None
    assert described.call.key == execution_id
    assert calls.request_cancel(call.call_id, "first")
    assert calls.request_cancel(call.call_id, "second")
    assert calls.why_cancelled(call.key) == "first"
    calls.end(call, QueuedEnd())
    assert not calls.request_cancel(call.call_id, "late")


def test_a_call_whose_approval_was_refused_is_made_when_it_is_requested_again(
    calls: OpenCalls,
) -> None:
    call = queued()
    decided = call.model_copy(update={"decision": QueuedDecision(execution_id=new_id())})
    calls.report_worker("a", {})
    for its, end in (
        (call, QueuedEnd(call={"id": call.call_id})),
        (decided, refusal("asked_again")),
    ):
        assert calls.add(its)
        assert calls.take(its, "a") == 1
        calls.end(its, end)
    # The end of the approval is no end of the call, and the approval for which the call waited was replaced.
    described = calls.find_key(call.key)
    assert described is not None
    assert described.end == QueuedEnd(call={"id": call.call_id})
    assert calls.add(call)
    described = calls.find_key(call.key)
    assert described is not None
    assert (described.state, described.end) == ("queued", None)


def test_a_call_that_redis_loses_as_it_is_cancelled_is_entered_again(
    calls: OpenCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = queued()
    calls.add(call)
    find = calls.find

    def find_and_lose(call_id: str) -> module.Described | None:
        described = find(call_id)
        calls.broker.client.flushdb()
        return described

    monkeypatch.setattr(calls, "find", find_and_lose)
    assert calls.request_cancel(call.call_id, "why")
    assert calls.find_key(call.key) is None
    assert calls.add(call)
    assert calls.why_cancelled(call.key) == "why"


def test_a_follower_reads_all_events_in_their_order_whenever_it_comes(calls: OpenCalls) -> None:
    call = queued()
    calls.add(call)
    calls.report(call, "started", call.call_id)
    calls.report(call, "progress", 1.5, None, "half")
    (first, _), (last, _) = early = calls.events(call.key, "0", 0.01)
    assert [event for _, event in early] == [
        ["started", call.call_id],
        ["progress", 1.5, None, "half"],
    ]
    assert calls.events(call.key, last, 0.01) == []
    calls.end(call, QueuedEnd())
    assert [event[0] for _, event in calls.events(call.key, first, 0.01)] == ["progress", "end"]


def test_an_answer_waits_for_its_worker(calls: OpenCalls) -> None:
    question = new_id()
    calls.answer(question, "name", {"action": "accept"})
    assert calls.wait_for_answer(question, 5) == ("name", {"action": "accept"})
    assert calls.wait_for_answer(question, 0.01) is None


def test_projects_do_not_see_the_calls_of_each_other(calls: OpenCalls, server: RedisServer) -> None:
    call = queued()
    calls.add(call)
    calls.report_worker("a", {"tags": []})
    other = OpenCalls(Broker(server.url, "another project"))
    assert other.find(call.call_id) is None
    assert other.workers() == {}
    assert other.queue("") != calls.queue("")
    assert calls.workers() == {"a": {"tags": []}}
    other.broker.close()
