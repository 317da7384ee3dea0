"""Calls that are followed over the API: what is told, and what becomes of a broken connection."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from covalt_git.calls.background import (
    KEPT_CALLS,
    KEPT_EVENT_BYTES,
    KEPT_EVENTS,
    RUNNING,
    BackgroundCalls,
)
from covalt_git.names import new_id
from covalt_git.runtime import awaited_call
from covalt_server.api import call_streams
from covalt_server.api.call_streams import CallStream, Followed
from tests.api_client import BEARER, HOME, Api, configure, refused
from tests.server.api.test_toolsets import FORECAST, write

SLOW = """\
id: slow
name: Slow
version: "1"
tools:
  - {id: wait, entrypoint: tools.slow:wait}
  - {id: judge, entrypoint: tools.slow:judge}
  - {id: tell, entrypoint: tools.slow:tell}
"""
SLOW_PYTHON = '''\
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from covalt_toolset import get_context
from pydantic import AfterValidator


def even(value: int) -> int:
    if value % 2:
        raise ValueError("has to be even")
    return value


def wait(workspace: Path) -> str:
    """Say that it runs, and run until somebody writes the file ``go``."""
    (workspace / "runs").write_text("1")
    while not (workspace / "go").exists():
        time.sleep(0.01)
    return "done"


def judge(number: Annotated[int, AfterValidator(even)]) -> int:
    return number


def tell() -> None:
    get_context().progress(1, 2, "half")
    get_context().log("careful", "warning")
'''


@pytest.fixture
def slow(api: Api) -> Api:
    write(api.root, "slow/toolset.yaml", SLOW)
    write(api.root, "slow/tools/slow.py", SLOW_PYTHON)
    return api


def follow(api: Api, tool_id: str, /, *, body: Any = None, **args: object) -> TestResponse:
    return api.client().post(
        "/api/stream",
        base_url=HOME,
        json={"chat_id": "c1", "tool_id": tool_id, "args": args} | (body or {}),
        headers=BEARER,
    )


def resume(api: Api, call_id: str, last: str | None = None, **query: str) -> TestResponse:
    headers = {} if last is None else {"Last-Event-ID": last}
    return api.ask(f"stream/{call_id}", headers=headers, **query)


def events(response: TestResponse) -> list[tuple[str, str, Any]]:
    """Return the id, the name and the facts of every event to the end."""
    return [*coming(response)]


def coming(response: TestResponse) -> Iterator[tuple[str, str, Any]]:
    assert response.status_code == 200, response.get_data(as_text=True)
    assert response.mimetype == "text/event-stream"
    for part in response.response:
        assert isinstance(part, bytes)
        for event in part.decode().split("\n\n")[:-1]:
            name, number, facts = event.split("\n")
            assert (name[:7], number[:4], facts[:6]) == ("event: ", "id: ", "data: ")
            yield number[4:], name[7:], json.loads(facts[6:])


def names(told: list[tuple[str, str, Any]]) -> list[str]:
    return [name for _, name, _ in told]


def until(told: Iterator[tuple[str, str, Any]], wanted: str) -> Any:
    """Return the facts of the next event of a name."""
    return next(facts for _, name, facts in told if name == wanted)


def appear(path: Path) -> None:
    """Wait for a file that a tool makes."""
    while not path.exists():
        threading.Event().wait(0.005)


def all_ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "covalt-git call":
            thread.join()


def streams(api: Api) -> BackgroundCalls[CallStream]:
    found: BackgroundCalls[CallStream] = api.app.config["COVALT_STREAMS"]
    return found


def test_following_a_call_tells_its_beginning_and_its_end(api: Api) -> None:
    told = events(follow(api, "app-builder:write_file", path="a.txt", content="1"))
    (_, _, queued), (_, _, started), (_, _, changed), (_, _, shown), (_, _, ended) = told
    call = api.get("get_call", chat_id="c1", call_id=ended["call"]["id"])

    assert [one[:2] for one in told] == [
        ("1", "ToolCallQueued"),
        ("2", "ToolCallStarted"),
        ("3", "FilesChanged"),
        ("4", "RenderPlan"),
        ("end", "ToolCallCompleted"),
    ]
    assert queued["call_id"] == started["call_id"] == call["id"]
    assert (queued["tool_id"], queued["chat_id"]) == ("app-builder:write_file", "c1")
    assert (queued["holder"], queued["position"]) == (None, None)
    assert (changed["changes"], shown["render_plan"]) == (call["changes"], call["render_plan"])
    assert (ended["call"], ended["refusal"]) == (call, None)
    assert [row["id"] for row in api.get("list_calls", chat_id="c1")["calls"]] == [call["id"]]


def test_following_a_call_that_fails_ends_in_its_error(api: Api) -> None:
    _, name, ended = events(follow(api, "app-builder:read_file", path="gone"))[-1]

    assert name == "ToolCallError"
    assert ended["call"]["error"].startswith("tool_raised: ")
    assert ended["refusal"] is None


def test_following_a_call_that_waits_ends_in_its_approval(api: Api) -> None:
    _, (number, name, ended) = events(follow(api, "app-builder:run_command", command="ls"))

    assert (number, name) == ("end", "ApprovalRequired")
    assert ended["call"]["status"] == "pending"
    assert ended["call"]["reasons"] == ["the toolset asks"]
    api.get("get_approval", execution_id=ended["call"]["execution_id"])


def test_a_call_that_cannot_start_is_refused_as_any_request(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)

    refused(follow(api, "app-builder:nothing"), 404, "unknown_tool")
    refused(follow(api, "app-builder:write_file"), 400, "invalid_arguments")
    refused(follow(api, "forecast:city"), 403, "grant_needed")
    refused(follow(api, "app-builder:list_files", body={"call_id": "x"}), 400, "bad_name")
    gone = api.tell("stream", chat_id="c9", tool_id="app-builder:list_files")
    refused(gone, 404, "unknown_chat")


def test_arguments_that_only_the_tool_can_judge_are_refused_on_the_way(slow: Api) -> None:
    _, name, ended = events(follow(slow, "slow:judge", number=3))[-1]

    assert (name, ended["call"]) == ("ToolCallError", None)
    assert ended["refusal"]["error"] == "invalid_arguments"
    assert "even" in ended["refusal"]["problems"][0]["message"]


def test_whoever_waits_for_the_chat_is_told_who_holds_it_and_when_it_is_their_turn(
    slow: Api,
) -> None:
    first = follow(slow, "slow:wait")
    appear(slow.workspace / "runs")
    told = coming(follow(slow, "slow:tell"))
    assert next(told)[1] == "ToolCallQueued"
    waiting = until(told, "ToolCallQueued")
    (slow.workspace / "go").write_text("1")

    assert waiting["holder"].startswith("process ")
    assert waiting["position"] == 1
    assert names([*told])[-1] == "ToolCallCompleted"
    events(first)


# Broken connections


def test_a_client_that_stays_away_cancels_its_call_and_keeps_what_it_wrote(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 0)
    response = follow(slow, "slow:wait")
    appear(slow.workspace / "runs")
    response.close()
    all_ended()

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert (call["tool_id"], call["error"]) == (
        "slow:wait",
        "cancelled: nobody listened to it any more",
    )
    detail = slow.get("get_call", chat_id="c1", call_id=call["id"])
    assert [change["path"] for change in detail["changes"]] == ["runs"]


def test_a_closed_stream_leaves_its_call_less_than_a_second() -> None:
    noticed, alone, told_to_end = call_streams.LOOK_S, call_streams.GRACE_S, awaited_call.GRACE_S

    assert noticed + alone + told_to_end < 1


def test_a_client_that_stays_away_while_its_call_waits_makes_none(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 0)
    first = follow(slow, "slow:wait")
    appear(slow.workspace / "runs")
    second = follow(slow, "slow:tell")
    told = coming(second)
    waiting = until(told, "ToolCallQueued")
    second.close()
    made = streams(slow).get(waiting["call_id"])
    assert made is not None
    made.cancel.wait()
    _, name, ended = [*coming(resume(slow, waiting["call_id"]))][-1]  # though the chat is not free
    (slow.workspace / "go").write_text("1")
    events(first)

    assert (name, ended["refusal"]["error"]) == ("ToolCallError", "cancelled")
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert call["tool_id"] == "slow:wait"


def test_a_client_that_comes_back_goes_on_where_it_was(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 60)
    response = follow(slow, "slow:wait")
    told = coming(response)
    call_id = until(told, "ToolCallStarted")["call_id"]
    appear(slow.workspace / "runs")
    response.close()
    again = coming(resume(slow, call_id, "1"))
    assert next(again)[:2] == ("2", "ToolCallStarted")
    (slow.workspace / "go").write_text("1")

    ended = [*again]
    assert ended[-1][2]["call"]["status"] == "success"
    assert events(resume(slow, call_id, after="2")) == ended
    assert names(events(resume(slow, call_id)))[0] == "ToolCallQueued"
    assert events(resume(slow, call_id, "999"))[-1] == ended[-1]
    assert resume(slow, call_id, "end").status_code == 204


def test_a_client_that_comes_back_in_time_keeps_its_call(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 60)
    response = follow(slow, "slow:wait")
    call_id = until(coming(response), "ToolCallStarted")["call_id"]
    response.close()
    *_, alone = (one for one in threading.enumerate() if isinstance(one, threading.Timer))
    again = resume(slow, call_id)
    alone.cancel()
    alone.function()  # as at the end of its time
    (slow.workspace / "go").write_text("1")

    assert names(events(again))[-1] == "ToolCallCompleted"


def test_a_call_that_is_to_go_on_does_so_without_anybody(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 0)
    response = follow(slow, "slow:wait", body={"on_disconnect": "continue"})
    appear(slow.workspace / "runs")
    response.close()
    (slow.workspace / "go").write_text("1")
    all_ended()

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert call["status"] == "success"


def test_the_same_call_streamed_again_is_the_one_that_runs(slow: Api) -> None:
    given = {"call_id": new_id()}
    first = follow(slow, "slow:wait", body=given)
    appear(slow.workspace / "runs")
    second = follow(slow, "slow:wait", body=given)
    refused(follow(slow, "slow:wait", body=given, other=1), 409, "call_id_taken")
    refused(follow(slow, "slow:tell", body=given), 409, "call_id_taken")
    (slow.workspace / "go").write_text("1")

    assert events(first) == events(second)
    assert len(slow.get("list_calls", chat_id="c1")["calls"]) == 1


def test_a_call_is_told_as_recorded_where_its_events_are_gone(slow: Api) -> None:
    call_id = events(follow(slow, "slow:tell"))[-1][2]["call"]["id"]
    later = Api.of(slow.root)  # as after a new start of the server
    (told,) = events(resume(later, call_id, "3"))
    streamed = events(follow(later, "slow:tell", body={"call_id": call_id}))

    assert told[:2] == ("end", "ToolCallCompleted")
    assert told[2]["call"] == slow.get("get_call", chat_id="c1", call_id=call_id)
    assert streamed[-1][2]["call"] == told[2]["call"] | {"repeated": True}
    assert names(streamed) == ["ToolCallQueued", "ToolCallCompleted"]
    assert resume(later, call_id, "end").status_code == 204
    refused(resume(later, call_id, "x"), 400, "invalid_request")
    refused(resume(later, new_id()), 404, "unknown_call")


def test_a_call_that_another_process_runs_is_told_at_its_end(slow: Api) -> None:
    running = threading.Thread(target=lambda: slow.call("slow:wait"))
    running.start()
    appear(slow.workspace / "runs")
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    other = Api.of(slow.root)
    told = iter(resume(other, call["id"]).response)
    assert next(told) == b""
    (slow.workspace / "go").write_text("1")
    running.join()

    assert b"event: ToolCallCompleted\nid: end\n" in b"".join(
        part for part in told if isinstance(part, bytes)
    )


def test_a_hidden_call_has_no_stream(slow: Api) -> None:
    call_id = events(follow(slow, "slow:tell"))[-1][2]["call"]["id"]
    configure(slow.root, 'default_role: r\nroles: {r: {allow: ["app-builder.*"]}}')

    refused(resume(slow, call_id), 404, "unknown_call")
    refused(resume(Api.of(slow.root), call_id), 404, "unknown_call")


# Cancelling


def test_a_running_call_is_cancelled_by_its_id(slow: Api) -> None:
    told = coming(follow(slow, "slow:wait"))
    call_id = until(told, "ToolCallStarted")["call_id"]
    appear(slow.workspace / "runs")

    assert slow.post("cancel_call", chat_id="c1", call_id=call_id) == {"call_id": call_id}

    ended = until(told, "ToolCallError")
    assert ended["call"]["error"] == "cancelled: a person stopped it"
    refused(slow.tell("cancel_call", chat_id="c1", call_id=call_id), 409, "not_running")
    refused(slow.tell("cancel_call", chat_id="c1", call_id="x"), 404, "unknown_call")


def test_a_call_that_waits_for_its_chat_is_cancelled_by_its_id(slow: Api) -> None:
    first = follow(slow, "slow:wait")
    appear(slow.workspace / "runs")
    told = coming(follow(slow, "slow:tell"))
    call_id = next(told)[2]["call_id"]
    until(told, "ToolCallQueued")
    slow.post("cancel_call", chat_id="c1", call_id=call_id)

    assert until(told, "ToolCallError")["refusal"]["error"] == "cancelled"
    (slow.workspace / "go").write_text("1")
    events(first)


def test_a_call_that_nobody_follows_is_cancelled_while_it_waits_for_its_chat(slow: Api) -> None:
    first = follow(slow, "slow:wait")
    appear(slow.workspace / "runs")
    call_id = new_id()
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(
            slow.tell, "call_tool", chat_id="c1", tool_id="slow:tell", args={}, call_id=call_id
        )
        while RUNNING.tool_of(call_id, chat_id="c1") is None:
            time.sleep(0.01)
        slow.post("cancel_call", chat_id="c1", call_id=call_id)
        refused(made.result(), 409, "cancelled")
    (slow.workspace / "go").write_text("1")
    events(first)

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert call["tool_id"] == "slow:wait"


def test_a_hidden_call_cannot_be_cancelled(slow: Api) -> None:
    following = threading.Thread(target=lambda: follow(slow, "slow:wait").data)
    following.start()
    appear(slow.workspace / "runs")
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    configure(slow.root, 'default_role: r\nroles: {r: {allow: ["app-builder.*"]}}')

    refused(slow.tell("cancel_call", chat_id="c1", call_id=call["id"]), 404, "unknown_call")
    (slow.workspace / "go").write_text("1")
    following.join()


def test_what_a_tool_tells_is_told_on_the_way(slow: Api) -> None:
    told = events(follow(slow, "slow:tell"))

    assert told[2:-1] == [
        ("3", "ToolCallProgress", {"done": 1, "total": 2, "message": "half"}),
        ("4", "ToolCallLog", {"level": "warning", "message": "careful"}),
    ]
    assert told[-1][2]["call"]["output"] == "warning: careful\n"


def test_a_call_that_runs_is_told_as_running(slow: Api) -> None:
    following = threading.Thread(target=lambda: follow(slow, "slow:wait"))
    following.start()
    appear(slow.workspace / "runs")
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    detail = slow.get("get_call", chat_id="c1", call_id=call["id"])
    waiting = slow.get("get_chat", chat_id="c1")["status"]["waiting"]
    (slow.workspace / "go").write_text("1")
    following.join()

    assert call["status"] == detail["status"] == waiting[0]["status"] == "running"
    assert detail["post_manifest_id"] is None
    assert waiting[0]["call_id"] == call["id"]


CALL = Followed("1", "c1", "demo:add", b"{}")


def test_a_silence_is_filled_with_comments() -> None:
    made = CallStream(CALL)
    told = (part for part in made.events(heartbeat_s=0.01) if part)
    beat = next(told)
    made.add_last_event("ToolCallCompleted")

    assert beat == b": nothing new\n\n"
    assert [*told][-1] == b"event: ToolCallCompleted\nid: end\ndata: {}\n\n"


def test_of_a_flood_of_events_the_last_are_kept() -> None:
    made = CallStream(CALL)
    for number in range(KEPT_EVENTS + 10):
        made.add_event("ToolCallProgress", done=number)
    made.add_last_event("ToolCallCompleted")
    whole = b"".join(made.events(after=3))

    assert whole.count(b"event: ") == KEPT_EVENTS + 1
    assert whole.startswith(b"event: ToolCallProgress\nid: 11\n")


def test_of_large_events_few_are_kept() -> None:
    made = CallStream(CALL)
    for _ in range(10):
        made.add_event("ToolCallLog", message="x" * (1 << 20))
    every = BackgroundCalls[CallStream]()
    for number in range(10):
        every.find_or_add(f"call-{number}", CallStream(CALL)).add_last_event(
            "End", call="x" * (16 << 20)
        )

    assert made.size <= KEPT_EVENT_BYTES
    assert [number for number in range(10) if every.get(f"call-{number}")] == [7, 8, 9]


def test_of_many_calls_that_ended_the_last_are_kept() -> None:
    every = BackgroundCalls[CallStream]()
    running = every.find_or_add("running", CallStream(CALL))
    for number in range(KEPT_CALLS + 5):
        every.find_or_add(f"call-{number}", CallStream(CALL)).add_last_event("ToolCallCompleted")

    assert every.get("running") is running
    assert every.get("call-4") is None
    assert every.get("call-5") is not None
