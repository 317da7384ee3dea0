"""What operators see of calls: spans where OpenTelemetry is set up, and one log record for each call."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.calls.engine import Request
from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from tests.calls.conftest import World

SECRET = "what-no-log-may-hold"


@pytest.fixture
def spans() -> Iterator[Any]:
    """An exporter that keeps the spans of this test."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    in_memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    trace = pytest.importorskip("opentelemetry.trace")
    provider = trace.get_tracer_provider()
    if not isinstance(provider, sdk.TracerProvider):
        provider = sdk.TracerProvider()
        trace.set_tracer_provider(provider)
    exporter = in_memory.InMemorySpanExporter()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def calls(spans: Any) -> list[Any]:
    return [span for span in spans.get_finished_spans() if span.name == "covalt_git.call"]


def test_a_call_is_a_span_with_its_steps_and_without_its_arguments(
    world: World, spans: Any
) -> None:
    outcome = world.call("add", text=SECRET)
    found = {span.name: span for span in spans.get_finished_spans()}
    call = found.pop("covalt_git.call")

    assert found.keys() == {"covalt_git.run", "covalt_git.snapshot", "covalt_git.commit"}
    assert {span.parent.span_id for span in found.values()} == {call.context.span_id}
    assert dict(call.attributes) == {
        "covalt.chat_id": "c1",
        "covalt.tool_id": "demo:add",
        "covalt.call_id": outcome.call.id,
        "covalt.status": "success",
        "covalt.sandbox": outcome.sandbox,
    }
    assert call.status.is_unset
    assert SECRET not in "".join(span.to_json() for span in spans.get_finished_spans())


def test_the_span_of_a_failed_or_refused_call_has_its_code_and_not_its_message(
    world: World, spans: Any
) -> None:
    world.call("fail")
    with pytest.raises(CovaltError):
        world.call("add", text={"a": SECRET})
    ended = calls(spans)

    assert [span.attributes["covalt.error"] for span in ended] == [
        "tool_raised",
        "invalid_arguments",
    ]
    assert not any(span.status.is_ok or span.status.is_unset for span in ended)
    shown = "".join(span.to_json() for span in ended)
    assert "half way" not in shown
    assert SECRET not in shown


def test_asking_and_approving_are_two_spans_of_one_call(world: World, spans: Any) -> None:
    world.approve(world.ask())
    asked, ran = (dict(span.attributes) for span in calls(spans))

    assert (asked["covalt.status"], ran["covalt.status"]) == ("pending", "success")
    assert asked["covalt.call_id"] == ran["covalt.call_id"]


def test_a_call_does_not_load_opentelemetry(world: World) -> None:
    program = (
        "import sys; from covalt_git.cli import cli; "
        f"cli.main(['-C', {str(world.root)!r}, 'call', 'c1', 'demo:add'], standalone_mode=False); "
        "assert not [one for one in sys.modules if one.startswith('opentelemetry')]"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_each_call_is_one_log_record(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "covalt_git")
    outcome = world.call("add", text=SECRET)
    with pytest.raises(CovaltError):
        world.call("nothing")
    ended, refused = (vars(record)["facts"] for record in caplog.records)

    assert ended.pop("seconds") > 0
    assert ended == {
        "chat_id": "c1",
        "tool_id": "demo:add",
        "call_id": outcome.call.id,
        "status": "success",
        "sandbox": outcome.sandbox,
    }
    assert (refused["status"], refused["error"]) == ("refused", "unknown_tool")


def test_the_wait_for_the_chat_is_logged_apart_from_the_time_of_the_call(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "covalt_git")
    later = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later[0])
    monkeypatch.setattr("covalt_git.calls.telemetry.time", clock)
    waits = threading.Event()
    project = world.project()

    def call() -> None:
        with project.chats.open("c1") as chat:
            project.engine(lambda _: waits.set()).call(chat, Request("demo:add", {}))

    called = threading.Thread(target=call)
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        called.start()
        assert waits.wait(30)
        later[0] += 3600
    called.join()
    world.call("add")
    first, second = (vars(one)["facts"] for one in caplog.records)

    assert first["waited_s"] >= 3600 > first["seconds"] > 0
    assert "waited_s" not in second
