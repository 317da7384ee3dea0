"""What operators see of calls: spans where somebody set OpenTelemetry up, and one record at each end."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.calls.conftest import World

SECRET = "what-nobody-may-see"


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


def test_a_call_is_a_span_with_its_steps_and_nothing_that_is_private(
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


def test_a_call_that_fails_is_a_span_that_says_so_without_its_words(
    world: World, spans: Any
) -> None:
    world.call("fail")
    with pytest.raises(CovaltError):
        world.call("add", text={"a": SECRET})
    failed, refused = (
        span for span in spans.get_finished_spans() if span.name == "covalt_git.call"
    )

    assert failed.attributes["covalt.error"] == "tool_raised"
    assert refused.attributes["covalt.error"] == "invalid_arguments"
    assert not failed.status.is_ok
    assert not refused.status.is_ok
    told = failed.to_json() + refused.to_json()
    assert "half way" not in told
    assert SECRET not in told


def test_a_call_that_was_approved_is_a_span(world: World, spans: Any) -> None:
    waiting = world.ask()
    world.approve(waiting)
    asked, ran = (span for span in spans.get_finished_spans() if span.name == "covalt_git.call")

    assert asked.attributes["covalt.status"] == "pending"
    assert ran.attributes["covalt.status"] == "success"
    assert asked.attributes["covalt.call_id"] == ran.attributes["covalt.call_id"]


def test_nobody_is_told_where_opentelemetry_is_not_set_up(world: World) -> None:
    program = (
        "import sys; from covalt_git.cli import cli; "
        f"cli.main(['-C', {str(world.root)!r}, 'call', 'c1', 'demo:add'], standalone_mode=False); "
        "assert not [one for one in sys.modules if one.startswith('opentelemetry')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_of_a_call_is_recorded_for_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "covalt_git")
    outcome = world.call("add", text=SECRET)
    with pytest.raises(CovaltError):
        world.call("nothing")
    ended, refused = caplog.records

    assert (ended.getMessage(), refused.getMessage()) == (
        "demo:add success",
        "demo:nothing refused",
    )
    facts: dict[str, Any] = vars(ended)["facts"]
    assert facts.pop("seconds") > 0
    assert facts == {
        "chat_id": "c1",
        "tool_id": "demo:add",
        "call_id": outcome.call.id,
        "status": "success",
        "sandbox": outcome.sandbox,
    }
    assert vars(refused)["facts"]["error"] == "unknown_tool"


def test_the_wait_for_the_chat_is_told_beside_what_the_call_took(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "covalt_git")
    project = world.project()
    called = threading.Thread(target=world.call, args=("add",))
    began = time.monotonic()
    with project.chats.open("c1") as chat, project.engine().writing(chat):
        called.start()
        assert world.until((world.store.parent / "queue").exists)
        time.sleep(0.3)
    called.join()
    whole = time.monotonic() - began
    world.call("add")
    first, second = (vars(one)["facts"] for one in caplog.records)

    assert first["waited_s"] >= 0.25  # it is told its place a little after it has drawn a number
    assert 0 < first["seconds"] <= whole - first["waited_s"]
    assert "waited_s" not in second
