"""Calls that are followed over the API: their events, broken connections, and cancellation."""

import threading

import pytest

from covalt_git.calls.background import MAX_STORED_EVENTS
from covalt_git.names import new_id
from covalt_git.runtime import awaited_call
from covalt_server.api import call_streams
from covalt_server.api.call_streams import CallStream, Followed
from tests import settling
from tests.api_client import Api, configure, refused
from tests.mcp_client import add_toolset
from tests.server.event_streams import coming, events, follow, names, resume, until

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
    """Run until the file ``go`` exists."""
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
ONLY_BUILDER = 'default_role: r\nroles: {r: {allow: ["app-builder.*"]}}'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a cancelled call at once."""
    monkeypatch.setattr(awaited_call, "GRACE_S", 0.02)


@pytest.fixture
def slow(api: Api) -> Api:
    add_toolset(api.root, "slow", SLOW, SLOW_PYTHON)
    return api


def has_begun(api: Api) -> None:
    """Wait until the tool ``wait`` runs."""
    settling.until((api.workspace / "runs").exists)


def let_go(api: Api) -> None:
    """Let the tool ``wait`` return."""
    (api.workspace / "go").write_text("1")


def calls_have_ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "covalt-git call":
            thread.join()


# Events


def test_the_events_of_a_call_end_in_its_result(api: Api) -> None:
    found = events(follow(api, "app-builder:write_file", path="a.txt", content="1"))
    (_, _, queued), (_, _, started), (_, _, changed), (_, _, shown), (_, _, ended) = found
    call = api.get("get_call", chat_id="c1", call_id=ended["call"]["id"])

    assert [one[:2] for one in found] == [
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


def test_the_last_event_says_how_the_call_ended(api: Api) -> None:
    _, failed, error = events(follow(api, "app-builder:read_file", path="gone"))[-1]
    _, waits, pending = events(follow(api, "app-builder:run_command", command="ls"))[-1]

    assert (failed, error["call"]["error_detail"]["code"]) == ("ToolCallError", "tool_raised")
    assert (waits, pending["call"]["status"]) == ("ApprovalRequired", "pending")
    assert error["refusal"] is pending["refusal"] is None
    api.get("get_approval", execution_id=pending["call"]["execution_id"])


def test_progress_and_logs_of_a_tool_are_events(slow: Api) -> None:
    found = events(follow(slow, "slow:tell"))

    assert found[2:-1] == [
        ("3", "ToolCallProgress", {"done": 1, "total": 2, "message": "half"}),
        ("4", "ToolCallLog", {"level": "warning", "message": "careful"}),
    ]


def test_a_call_that_cannot_start_is_refused_as_any_request(api: Api) -> None:
    refused(follow(api, "app-builder:nothing"), 404, "unknown_tool")
    refused(follow(api, "app-builder:write_file"), 400, "invalid_arguments")
    refused(follow(api, "app-builder:list_files", body={"call_id": "x"}), 400, "bad_name")
    refused(follow(api, "app-builder:list_files", body={"chat_id": "c9"}), 404, "unknown_chat")
    api.post("enable_tool", tool_id="app-builder:list_files", enabled=False)
    refused(follow(api, "app-builder:list_files"), 403, "tool_disabled")


def test_arguments_that_only_the_tool_can_check_are_refused_by_an_event(slow: Api) -> None:
    _, name, ended = events(follow(slow, "slow:judge", number=3))[-1]

    assert (name, ended["call"]) == ("ToolCallError", None)
    assert ended["refusal"]["error"] == "invalid_arguments"
    assert "even" in ended["refusal"]["problems"][0]["message"]


def test_a_call_that_waits_for_its_chat_reports_the_holder(slow: Api) -> None:
    first = follow(slow, "slow:wait")
    has_begun(slow)
    found = coming(follow(slow, "slow:tell"))
    assert next(found)[1] == "ToolCallQueued"
    waiting = until(found, "ToolCallQueued")
    let_go(slow)

    assert waiting["holder"].startswith("process ")
    assert waiting["position"] is None
    assert names([*found])[-1] == "ToolCallCompleted"
    events(first)


@pytest.mark.requirement("covalt-1.7.status")
def test_a_running_call_is_listed_as_running(slow: Api) -> None:
    response = follow(slow, "slow:wait")
    has_begun(slow)
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    detail = slow.get("get_call", chat_id="c1", call_id=call["id"])
    (waiting,) = slow.get("get_chat", chat_id="c1")["status"]["waiting"]
    let_go(slow)
    events(response)

    assert call["status"] == detail["status"] == waiting["status"] == "running"
    assert detail["post_manifest_id"] is None
    assert waiting["call_id"] == call["id"]


# Broken connections


def test_a_call_without_clients_is_cancelled_and_recorded(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 0)
    response = follow(slow, "slow:wait")
    has_begun(slow)
    response.close()
    calls_have_ended()

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    detail = slow.get("get_call", chat_id="c1", call_id=call["id"])
    assert (call["tool_id"], detail["error_detail"]["code"]) == ("slow:wait", "cancelled")
    assert [change["path"] for change in detail["changes"]] == ["runs"]


def test_a_client_that_reconnects_resumes_where_it_was(
    slow: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 60)
    response = follow(slow, "slow:wait")
    call_id = until(coming(response), "ToolCallStarted")["call_id"]
    has_begun(slow)
    response.close()
    (alone,) = (one for one in threading.enumerate() if isinstance(one, threading.Timer))
    again = coming(resume(slow, call_id, "1"))
    assert next(again)[:2] == ("2", "ToolCallStarted")
    alone.cancel()
    alone.function()  # as after the time in which a client may come back
    let_go(slow)

    ended = [*again]
    assert ended[-1][2]["call"]["status"] == "success"
    assert events(resume(slow, call_id, after="2")) == ended
    assert names(events(resume(slow, call_id)))[0] == "ToolCallQueued"
    assert events(resume(slow, call_id, "999"))[-1] == ended[-1]
    assert resume(slow, call_id, "end").status_code == 204


def test_a_call_may_continue_without_clients(slow: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_streams, "GRACE_S", 0)
    response = follow(slow, "slow:wait", body={"on_disconnect": "continue"})
    has_begun(slow)
    response.close()
    let_go(slow)
    calls_have_ended()

    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    assert call["status"] == "success"


def test_a_restarted_server_sends_the_recorded_end_of_a_call(slow: Api) -> None:
    call_id = events(follow(slow, "slow:tell"))[-1][2]["call"]["id"]
    later = Api.of(slow.root)
    ((number, name, ended),) = events(resume(later, call_id, "3"))
    streamed = events(follow(later, "slow:tell", body={"call_id": call_id}))

    assert (number, name) == ("end", "ToolCallCompleted")
    assert ended["call"] == slow.get("get_call", chat_id="c1", call_id=call_id)
    assert streamed[-1][2]["call"] == ended["call"] | {"repeated": True}
    assert names(streamed) == ["ToolCallQueued", "ToolCallCompleted"]
    assert resume(later, call_id, "end").status_code == 204
    again = resume(Api.of(slow.root), call_id, chat_id="c1")
    assert events(again)[-1][2]["call"] == ended["call"]
    refused(resume(later, call_id, chat_id="c9"), 404, "unknown_chat")
    refused(resume(later, call_id, "x"), 400, "invalid_request")
    refused(resume(later, new_id()), 404, "unknown_call")


def test_the_end_of_another_processs_call_is_sent_when_it_is_recorded(slow: Api) -> None:
    running = threading.Thread(target=lambda: slow.call("slow:wait"))
    running.start()
    has_begun(slow)
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    parts = iter(resume(Api.of(slow.root), call["id"]).response)
    assert next(parts) == b""
    let_go(slow)
    running.join()

    rest = b"".join(part for part in parts if isinstance(part, bytes))
    assert b"event: ToolCallCompleted\nid: end\n" in rest


def test_a_late_client_receives_the_last_events_and_sees_the_gap() -> None:
    made = CallStream(Followed("1", "c1", "demo:add", b"{}"))
    for number in range(MAX_STORED_EVENTS + 10):
        made.add_event("ToolCallProgress", done=number)
    made.add_last_event("ToolCallCompleted")
    whole = b"".join(made.events(after=3))

    assert whole.count(b"event: ") == MAX_STORED_EVENTS + 1
    assert whole.startswith(b"event: ToolCallProgress\nid: 11\n")


# Cancellation and hidden calls


def test_a_running_call_is_cancelled_by_its_id(slow: Api) -> None:
    found = coming(follow(slow, "slow:wait"))
    call_id = until(found, "ToolCallStarted")["call_id"]
    has_begun(slow)
    request = {"chat_id": "c1", "call_id": call_id}

    assert slow.post("cancel_call", **request) == {"call_id": call_id}
    ended = until(found, "ToolCallError")
    assert ended["call"]["error_detail"]["code"] == "cancelled"
    refused(slow.tell("cancel_call", **request), 409, "not_running")


def test_a_hidden_call_has_no_stream_and_is_not_cancelled(slow: Api) -> None:
    response = follow(slow, "slow:wait")
    has_begun(slow)
    (call,) = slow.get("list_calls", chat_id="c1")["calls"]
    configure(slow.root, ONLY_BUILDER)

    refused(slow.tell("cancel_call", chat_id="c1", call_id=call["id"]), 404, "unknown_call")
    refused(resume(slow, call["id"]), 404, "unknown_call")
    let_go(slow)
    events(response)
    refused(resume(Api.of(slow.root), call["id"]), 404, "unknown_call")
