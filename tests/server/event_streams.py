"""Calls that are followed over the API by server-sent events."""

import json
from collections.abc import Iterator
from typing import Any

from werkzeug.test import TestResponse

from tests.api_client import Api

Event = tuple[str, str, Any]
"""The id, the name and the data of an event."""


def follow(api: Api, tool_id: str, /, *, body: Any = None, **args: object) -> TestResponse:
    """Call a tool in the chat c1 and follow it, whatever comes of it."""
    return api.tell("stream", **{"chat_id": "c1", "tool_id": tool_id, "args": args} | (body or {}))


def resume(api: Api, call_id: str, last: str | None = None, **query: str) -> TestResponse:
    """Follow a call again from the event after ``last``."""
    headers = {} if last is None else {"Last-Event-ID": last}
    return api.ask(f"stream/{call_id}", headers=headers, **query)


def coming(response: TestResponse) -> Iterator[Event]:
    """Yield events as they arrive."""
    assert response.status_code == 200, response.get_data(as_text=True)
    assert response.mimetype == "text/event-stream"
    for part in response.response:
        assert isinstance(part, bytes)
        for event in part.decode().split("\n\n")[:-1]:
            name, number, data = event.split("\n")
            assert (name[:7], number[:4], data[:6]) == ("event: ", "id: ", "data: ")
            yield number[4:], name[7:], json.loads(data[6:])


def events(response: TestResponse) -> list[Event]:
    """Return every event to the end."""
    return [*coming(response)]


def names(found: list[Event]) -> list[str]:
    return [name for _, name, _ in found]


def until(found: Iterator[Event], wanted: str) -> Any:
    """Return the data of the next event of a name."""
    return next(data for _, name, data in found if name == wanted)
