import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.broker.connection import (
    INSTALL,
    Broker,
    BrokerError,
    BrokerUrlError,
    ScaleNotInstalledError,
    check_url,
)
from covalt_git.json_values import JsonObject
from tests.redis_server import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    started = RedisServer(tmp_path / "redis")
    yield started
    started.kill()


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1:6379/0",
        "redis://localhost/1",
        "redis://[::1]:6379",
        "rediss://:secret@queue.example.com:6379/0",
        "redis://user:secret@10.0.0.5",
    ],
)
def test_a_queue_on_this_machine_or_with_a_password_is_accepted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://queue.example.com:6379/0", "needs a password"),
        ("redis://10.0.0.5", "needs a password"),
        ("redis://user@10.0.0.5", "needs a password"),
        ("amqp://127.0.0.1", "must be in Redis"),
        ("sqs://127.0.0.1", "must begin with redis://"),
        ("redis://", "must begin with redis://"),
        ("127.0.0.1:6379", "must begin with redis://"),
        ("redis://127.0.0.1:port", "is invalid"),
    ],
)
def test_a_queue_to_which_others_could_write_calls_is_refused(url: str, why: str) -> None:
    with pytest.raises(BrokerUrlError, match=why) as refused:
        check_url(url)
    assert refused.value.hint


def test_without_the_extra_the_error_has_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ScaleNotInstalledError) as refused:
        Broker("redis://127.0.0.1", "project")
    assert refused.value.hint == INSTALL == "pip install 'covalt-git[scale]'"


def test_a_broker_that_does_not_answer_is_named_without_its_password() -> None:
    broker = Broker("redis://user:secret@127.0.0.1:1/0", "project")
    with pytest.raises(BrokerError) as refused:
        broker.check()
    assert "redis://127.0.0.1:1/0" in refused.value.message
    assert "secret" not in str(refused.value)


def test_messages_arrive_also_after_a_restart_and_other_projects_do_not_get_them(
    server: RedisServer,
) -> None:
    broker, other = Broker(server.url, "a"), Broker(server.url, "b")
    received: list[JsonObject] = []
    arrived, connected = threading.Semaphore(0), threading.Semaphore(0)

    def receive(message: JsonObject) -> None:
        received.append(message)
        arrived.release()
        if message == {"number": 1}:
            raise RuntimeError("a bug in a handler ends nothing")

    def connect() -> None:
        connected.release()
        if len(received) == 1 and not refusals:
            refusals.append("Redis loads its data")
            raise BrokerError(refusals[0])

    refusals: list[str] = []
    with broker.subscribed({"news": receive}, on_connect=connect):
        assert connected.acquire(timeout=30)
        other.publish("news", {"number": 0})
        broker.publish("news", {"number": 1})
        assert arrived.acquire(timeout=30)
        server.kill()
        server.start()
        for _ in range(2):  # the first time, what was missed cannot be read
            assert connected.acquire(timeout=30)
        broker.publish("news", {"number": 2})
        assert arrived.acquire(timeout=30)
    assert received == [{"number": 1}, {"number": 2}]
    broker.close()
    other.close()
