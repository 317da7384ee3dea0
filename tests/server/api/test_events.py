"""Events of chats and toolsets over the API: their order, their role, other processes, and clients that leave."""

import errno
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from werkzeug.wrappers import Response

from covalt_git.index import change_feed
from covalt_git.project import Project
from covalt_git.system.file_cache import TICK_NS
from covalt_git.workspaces import running_call
from covalt_git.workspaces.chat import write_about
from covalt_git.workspaces.writing import writing
from covalt_server.api import events
from tests.api_client import BEARER, HOME, Api, configure

Event = tuple[str, dict[str, str]]
"""The name and the data of an event."""

ROLES = "default_role: all\nroles: {all: {allow: ['**']}, guest: {allow: ['%s.**']}}\n"


@pytest.fixture(autouse=True)
def _polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll at every request, so that no test waits for an interval."""
    monkeypatch.setattr(change_feed, "POLL_S", 0)


def parts(answer: Response) -> Iterator[tuple[str, Event | None]]:
    """Yield the ids of a stream as they arrive, each with its event, if there is one."""
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    for part in answer.response:
        assert isinstance(part, bytes)
        for text in part.decode().split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in text.split("\n"))
            found = (fields["event"], json.loads(fields["data"])) if "event" in fields else None
            yield fields["id"], found


def position(api: Api) -> str:
    """Return the current position in the feed."""
    with api.ask("events") as answer:
        return next(parts(answer))[0]


def after(api: Api, at: str) -> list[Event]:
    """Return the events after a position, which have to be there."""
    with api.ask("events", after=at, poll="true") as answer:
        return [event for _, event in parts(answer) if event]


def test_a_call_is_reported_with_its_commit_and_in_order(api: Api) -> None:
    at = position(api)
    first, second = api.write("a.txt", "a"), api.write("b.txt", "b")

    found = after(api, at)

    expected: list[Event] = []
    for call in (first, second):
        commit = {"manifest_id": call["post_manifest_id"], "source": "tool_run"}
        ended = {"call_id": call["id"], "status": "success"}
        expected.append(("CommitAdded", {"chat_id": "c1", **commit}))
        expected.append(
            ("CallChanged", {"chat_id": "c1", "tool_id": "app-builder:write_file", **ended})
        )
    assert found == expected


def test_a_call_is_reported_again_when_its_process_stops_listing_it_as_running(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(running_call, "forget", lambda *_: None)
        call = api.write("a.txt", "a")
    at = position(api)
    assert api.get("read_conversation", chat_id="c1")["unfinished"] == []

    running_call.forget(api.store, call["id"])

    facts = {"chat_id": "c1", "tool_id": "app-builder:write_file", "call_id": call["id"]}
    assert after(api, at) == [("CallChanged", {**facts, "status": "success"})]


def test_an_approval_is_reported_until_it_is_decided(api: Api) -> None:
    at = position(api)
    asks = api.call("app-builder:run_command", command="ls")
    ids = {name: asks[name] for name in ("execution_id",)} | {"call_id": asks["id"]}
    about = {"chat_id": "c1", "tool_id": "app-builder:run_command"}

    assert after(api, at) == [
        ("CallChanged", {**about, "call_id": asks["id"], "status": "pending"}),
        ("ApprovalChanged", {**about, **ids, "state": "pending"}),
    ]
    at = position(api)
    api.post("deny_call", execution_id=asks["execution_id"])
    names = [(name, facts.get("state", facts.get("status"))) for name, facts in after(api, at)]
    assert sorted(map(str, names)) == sorted(
        map(str, [("CommitAdded", None), ("CallChanged", "error"), ("ApprovalChanged", "denied")])
    )


def test_changes_of_a_chat_and_of_the_list_of_chats_are_reported(api: Api) -> None:
    at = position(api)
    api.post("rename_chat", chat_id="c1", title="Another title")
    assert after(api, at) == [("ChatChanged", {"chat_id": "c1"})]

    at = position(api)
    api.post("create_chat", chat_id="c2")
    assert ("ChatsChanged", {}) in after(api, at)
    at = position(api)
    api.post("delete_chat", chat_id="c2")
    assert after(api, at) == [("ChatsChanged", {})]


@contextmanager
def full_disk() -> Iterator[None]:
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        yield


def test_what_a_writer_changed_before_it_failed_is_reported(
    api: Api, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = position(api)
    with Project.open(root).chats.open("c1") as chat, full_disk(), writing(chat):
        time.sleep(2 * TICK_NS / 1e9)  # otherwise the poll counts the chat as changed once more
        with monkeypatch.context() as soon:
            soon.setattr(events, "HEARTBEAT_S", 0.1)  # a poll without events ends then
            assert after(api, at) == []
        write_about(chat.store, chat.card().model_copy(update={"title": "Another title"}))
        raise OSError(errno.ENOSPC, "")

    assert after(api, at) == [("ChatChanged", {"chat_id": "c1"})]


def test_a_damaged_chat_is_reported_as_a_problem(api: Api) -> None:
    at = position(api)
    (api.store / "HEAD").write_text("nothing")
    (api.store.parent / "lock").write_text("")

    assert ("ProblemsChanged", {"chat_id": "c1", "code": "broken_store"}) in after(api, at)


def test_events_of_hidden_tools_do_not_exist_for_the_role(api: Api, root: Path) -> None:
    configure(root, ROLES % "app-builder")
    guest = Api.of(root, role="guest")
    at = position(guest)
    api.upload(("days.csv", b"day,celsius\n1,3.5\n"))
    hidden = api.call("data-lab:summarize", path="days.csv")
    api.write("a.txt", "a")

    found = after(guest, at)

    assert [facts["tool_id"] for _, facts in found if "tool_id" in facts] == [
        "app-builder:write_file"
    ]
    assert hidden["id"] not in json.dumps(found)
    assert "data-lab" not in json.dumps(found)


def test_a_role_that_is_taken_away_ends_its_events(api: Api, root: Path) -> None:
    configure(root, ROLES % "app-builder")
    guest = Api.of(root, role="guest")
    answer = guest.ask("events")
    stream = parts(answer)
    next(stream)
    api.write("a.txt", "a")
    assert next(event for _, event in stream if event and event[0] == "CallChanged")

    configure(root, ROLES % "text-kit")
    api.write("b.txt", "b")
    api.call("text-kit:search", pattern="b", path="b.txt")

    called = next(event for _, event in stream if event and event[0] == "CallChanged")
    assert called[1]["tool_id"] == "text-kit:search"
    answer.close()


def test_a_client_that_connects_again_gets_what_it_missed(api: Api) -> None:
    at = position(api)
    api.write("a.txt", "a")
    with api.ask("events", after=at, poll="true") as answer:
        ids = [number for number, event in parts(answer) if event]
    api.write("b.txt", "b")

    headers = {"Last-Event-ID": ids[-1]}
    with api.ask("events", headers=headers, after=at, poll="true") as answer:
        missed = [event for _, event in parts(answer) if event]

    assert [name for name, _ in missed] == ["CommitAdded", "CallChanged"]
    assert after(api, ids[0])[0][0] == "CallChanged"


@pytest.mark.parametrize("at", ["", "1", "another-3", "\n", "-1", "another-process-9999999"])
def test_a_position_of_another_process_reports_that_events_are_lost(api: Api, at: str) -> None:
    assert after(api, at) == [("EventsLost", {})]


def test_a_position_with_too_many_digits_is_none(api: Api) -> None:
    headers = {"Last-Event-ID": f"{position(api).rpartition('-')[0]}-{'9' * 5000}"}

    with api.ask("events", headers=headers, poll="true") as answer:
        assert [event for _, event in parts(answer) if event] == [("EventsLost", {})]


def test_a_position_that_is_too_old_reports_that_events_are_lost(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = position(api)
    monkeypatch.setattr(api.app.config["COVALT_FEED"], "_stored", deque(maxlen=1))
    api.write("a.txt", "a")

    assert after(api, at) == [("EventsLost", {})]


def test_a_client_that_leaves_makes_way_for_others(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_WAITING", threading.BoundedSemaphore(1))
    waits = api.ask("events")
    next(parts(waits))
    with api.ask("events") as answer:
        assert len([*parts(answer)]) == 1  # it ends at once

    waits.close()

    with api.ask("events") as answer:
        found = parts(answer)
        next(found)
        api.write("a.txt", "a")
        assert next(event for _, event in found if event)


def test_a_stream_ends_when_the_server_stops(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    monkeypatch.setitem(api.app.config, "COVALT_STOPPING", stopping)
    with api.ask("events") as answer:
        found = parts(answer)
        next(found)

        stopping.set()

        assert [*found] == []


def test_a_poll_without_events_ends_with_its_position(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.1)
    at = position(api)

    with api.ask("events", after=at, poll="true") as answer:
        assert [*parts(answer)] == [(at, None), (at, None)]


def test_a_page_names_the_position_from_before_it_was_read(api: Api) -> None:
    page = api.client().get("/chats/c1", base_url=HOME, headers=BEARER)
    at = page.text.partition('name="covalt-position" content="')[2].partition('"')[0]
    api.write("a.txt", "a")

    assert [name for name, _ in after(api, at)] == ["CommitAdded", "CallChanged"]
