"""Calls over the API: made, followed while they run, and looked at afterwards."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from covalt_git.models.calls import ToolCall
from covalt_git.names import new_id
from covalt_server.api_calls import lines
from tests.server.api import BEARER, HOME, Api, configure, refused
from tests.server.test_api_toolsets import FORECAST, write
from tests.workspaces.stores import git

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


def follow(api: Api, tool_id: str, **args: object) -> TestResponse:
    return api.client().post(
        "/api/stream",
        base_url=HOME,
        json={"chat_id": "c1", "tool_id": tool_id, "args": args},
        headers=BEARER,
    )


def events(response: TestResponse) -> list[Any]:
    assert response.status_code == 200, response.get_data(as_text=True)
    assert response.mimetype == "application/x-ndjson"
    return [json.loads(line) for line in response.get_data(as_text=True).splitlines()]


def appear(path: Path) -> None:
    """Wait for a file that a tool makes."""
    while not path.exists():
        threading.Event().wait(0.005)


def test_a_call_answers_with_its_row_and_what_it_changed(api: Api) -> None:
    told = api.write("a.txt", "1")

    assert told.keys() >= ToolCall.model_fields.keys()
    assert (told["status"], told["error"]) == ("success", None)
    assert told["result"] == {"written": "a.txt", "size": 1}
    assert told["render_plan"]["config"]["file"] == "workspace:a.txt"
    assert [(one["path"], one["kind"]) for one in told["changes"]] == [("a.txt", "added")]
    assert told["post_manifest_id"] == git(api.store, "rev-parse", "main").strip()
    assert told["by"] == "local"
    assert told["toolset"]["id"] == "app-builder"
    assert told["sandbox"] is not None
    assert api.get("get_call", chat_id="c1", call_id=told["id"]) == told


def test_a_chart_is_made_of_an_uploaded_table(api: Api) -> None:
    table = (api.root / "toolsets/data-lab/assets/weather.csv").read_bytes()
    api.upload(("weather.csv", table))
    told = api.call("data-lab:summarize", path="weather.csv")

    assert told["status"] == "success"
    assert told["render_plan"]["renderer"] == "html"
    assert told["render_plan"]["artifact"]["size"] > 0
    assert told["result"]["rows"] == told["render_plan"]["config"]["data"]["rows"]


def test_a_tool_that_fails_is_an_answer_with_its_reason(api: Api) -> None:
    told = api.call("app-builder:read_file", path="gone.txt")

    assert told["status"] == "error"
    assert told["error"].startswith("tool_raised: ")
    assert told["error_detail"]["code"] == "tool_raised"
    assert "read_file" in told["error_detail"]["traceback"]
    assert told["result"] is None


def test_arguments_that_do_not_fit_make_no_call(api: Api) -> None:
    told = refused(
        api.tell("call_tool", chat_id="c1", tool_id="app-builder:write_file", args={"path": 1}),
        400,
        "invalid_arguments",
    )

    assert {problem["path"] for problem in told["problems"]} == {"$", "$.path"}
    assert api.get("list_calls", chat_id="c1") == {"calls": [], "more": False}


def test_numbers_that_json_cannot_hold_are_refused(api: Api) -> None:
    response = api.client().post(
        "/api/call_tool",
        base_url=HOME,
        data=b'{"chat_id": "c1", "tool_id": "x:y", "args": {"n": 9007199254740993}}',
        content_type="application/json",
        headers=BEARER,
    )

    refused(response, 400, "invalid_request")


def test_calls_are_listed_newest_first_and_in_pages(api: Api) -> None:
    made = [api.call("app-builder:list_files")["id"] for _ in range(3)]
    first = api.get("list_calls", chat_id="c1", limit=2)
    second = api.get("list_calls", chat_id="c1", limit=2, before=made[1])

    assert [call["id"] for call in first["calls"]] == [made[2], made[1]]
    assert [call["id"] for call in second["calls"]] == [made[0]]
    assert (first["more"], second["more"]) == (True, False)
    assert "result" not in first["calls"][0]
    refused(api.ask("list_calls", chat_id="c1", before="x"), 404, "unknown_call")


def test_a_finished_call_has_its_manifest_for_its_etag(api: Api) -> None:
    call = api.write("a.txt", "1")
    asked = {"chat_id": "c1", "call_id": call["id"]}
    etag = api.ask("get_call", **asked).headers["ETag"]

    assert etag == f'"{call["post_manifest_id"]}"'
    assert api.ask("get_call", headers={"If-None-Match": etag}, **asked).status_code == 304
    refused(api.ask("get_call", chat_id="c1", call_id="x"), 404, "unknown_call")


def test_a_hidden_tools_calls_do_not_exist(api: Api) -> None:
    hidden = api.write("a.txt", "1")
    seen = api.call("app-builder:list_files")
    api.write("b.txt", "1")
    configure(api.root, 'default_role: r\nroles: {r: {allow: ["app-builder.list_files"]}}')

    assert [call["id"] for call in api.get("list_calls", chat_id="c1", limit=1)["calls"]] == [
        seen["id"]
    ]
    assert api.get("list_calls", chat_id="c1", limit=1)["more"] is False
    refused(api.ask("get_call", chat_id="c1", call_id=hidden["id"]), 404, "unknown_call")
    refused(api.ask("list_calls", chat_id="c1", before=hidden["id"]), 404, "unknown_call")


def test_a_call_made_again_under_its_id_is_answered_as_it_stands(api: Api) -> None:
    given = new_id()
    body = {"chat_id": "c1", "tool_id": "app-builder:write_file", "call_id": given}
    args = {"path": "a.txt", "content": "1"}
    first = api.post("call_tool", **body, args=args)
    again = api.post("call_tool", **body, args=args)

    assert (first["id"], first["repeated"]) == (given, False)
    assert again == first | {"repeated": True}
    refused(api.tell("call_tool", **body, args=args | {"content": "2"}), 409, "call_id_taken")
    refused(api.tell("call_tool", **body | {"call_id": "x"}, args=args), 400, "bad_name")
    assert len(api.get("list_calls", chat_id="c1")["calls"]) == 1


# Following


def test_following_a_call_tells_its_beginning_and_its_end(api: Api) -> None:
    answer = follow(api, "app-builder:write_file", path="a.txt", content="1")
    started, running, ended = events(answer)

    assert running == {"event": "ToolCallRunning", "call_id": ended["call"]["id"]}
    assert (started["event"], started["tool_id"]) == ("ToolCallStarted", "app-builder:write_file")
    assert ended["event"] == "ToolCallCompleted"
    assert ended["call"] == api.get("get_call", chat_id="c1", call_id=ended["call"]["id"])
    assert [row["id"] for row in api.get("list_calls", chat_id="c1")["calls"]] == [
        ended["call"]["id"]
    ]


def test_following_a_call_that_fails_ends_in_its_error(api: Api) -> None:
    _, _, ended = events(follow(api, "app-builder:read_file", path="gone"))

    assert ended["event"] == "ToolCallError"
    assert ended["call"]["error"].startswith("tool_raised: ")
    assert ended["refusal"] is None


def test_following_a_call_that_waits_ends_in_its_approval(api: Api) -> None:
    _, ended = events(follow(api, "app-builder:run_command", command="ls"))

    assert ended["event"] == "ApprovalRequired"
    assert ended["call"]["status"] == "pending"
    assert ended["call"]["reasons"] == ["the toolset asks"]
    api.get("get_approval", execution_id=ended["call"]["execution_id"])


def test_a_call_that_cannot_start_is_refused_as_any_request(api: Api) -> None:
    write(api.root, "forecast/toolset.yaml", FORECAST)

    refused(follow(api, "app-builder:nothing"), 404, "unknown_tool")
    refused(follow(api, "app-builder:write_file"), 400, "invalid_arguments")
    refused(follow(api, "forecast:city"), 403, "grant_needed")
    gone = api.tell("stream", chat_id="c9", tool_id="app-builder:list_files")
    refused(gone, 404, "unknown_chat")


def test_arguments_that_only_the_tool_can_judge_are_refused_on_the_way(slow: Api) -> None:
    _, _, ended = events(follow(slow, "slow:judge", number=3))

    assert (ended["event"], ended["call"]) == ("ToolCallError", None)
    assert ended["refusal"]["error"] == "invalid_arguments"
    assert "even" in ended["refusal"]["problems"][0]["message"]


def test_whoever_waits_for_the_chat_is_told_who_holds_it(slow: Api) -> None:
    first = threading.Thread(target=lambda: follow(slow, "slow:wait"))
    first.start()
    appear(slow.workspace / "runs")
    second = follow(slow, "app-builder:list_files")
    told = (json.loads(line) for line in second.response if line)

    assert next(told)["event"] == "ToolCallStarted"
    waiting = next(told)
    (slow.workspace / "go").write_text("1")
    assert (waiting["event"], waiting["holder"][:8]) == ("Waiting", "process ")
    assert [event["event"] for event in told] == ["ToolCallRunning", "ToolCallCompleted"]
    first.join()


def test_a_client_that_goes_away_cancels_its_call_and_keeps_what_it_wrote(slow: Api) -> None:
    response = follow(slow, "slow:wait")
    next(iter(response.response))
    appear(slow.workspace / "runs")
    response.close()
    for thread in threading.enumerate():
        if thread.name == "covalt-git call":
            thread.join()

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert (call["tool_id"], call["error"]) == ("slow:wait", "cancelled: a person stopped it")
    detail = slow.get("get_call", chat_id="c1", call_id=call["id"])
    assert [change["path"] for change in detail["changes"]] == ["runs"]


def test_a_client_that_goes_away_while_its_call_waits_makes_none(slow: Api) -> None:
    first = follow(slow, "slow:wait")
    appear(slow.workspace / "runs")
    second = follow(slow, "app-builder:list_files")
    second.close()
    (slow.workspace / "go").write_text("1")
    events(first)
    for thread in threading.enumerate():
        if thread.name == "covalt-git call":
            thread.join()

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert call["tool_id"] == "slow:wait"


def test_a_running_call_is_cancelled_by_its_id(slow: Api) -> None:
    told = (json.loads(line) for line in follow(slow, "slow:wait").response if line)
    call_id = next(event["call_id"] for event in told if event["event"] == "ToolCallRunning")
    appear(slow.workspace / "runs")

    assert slow.post("cancel_call", chat_id="c1", call_id=call_id) == {"call_id": call_id}

    ended = next(event for event in told if event["event"] == "ToolCallError")
    assert ended["call"]["error"] == "cancelled: a person stopped it"
    refused(slow.tell("cancel_call", chat_id="c1", call_id=call_id), 409, "not_running")
    refused(slow.tell("cancel_call", chat_id="c1", call_id="x"), 404, "unknown_call")


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
        {"event": "ToolCallProgress", "done": 1, "total": 2, "message": "half"},
        {"event": "ToolCallLog", "level": "warning", "message": "careful"},
    ]
    assert told[-1]["call"]["output"] == "warning: careful\n"


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


def test_a_silence_is_filled_with_heartbeats() -> None:
    told: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    stream = lines(told, heartbeat_s=0.01)
    beat = json.loads(next(stream))
    told.put(b"{}\n")
    told.put(None)

    assert beat["event"] == "Heartbeat"
    assert [*stream] == [b"{}\n"]
