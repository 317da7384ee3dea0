"""What operators see of calls: spans where OpenTelemetry is set up, and one log record for each call."""

from collections.abc import Iterator
from typing import Any

import pytest

from covalt_git.errors import CovaltError
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
