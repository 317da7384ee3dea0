"""Tasks of MCP servers: their progress, questions and cancellation, and answers that arrive after a restart."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from covalt_git.calls.engine import CallRequest
from covalt_git.calls.running import STOPPED, Cancel, Follower
from covalt_git.calls.servers import left_tasks
from covalt_git.calls.servers.held_task import HeldTask
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.elicitation.requests import Inquiry, Respondent
from covalt_git.errors import CovaltError
from covalt_git.gateway.tasks import task
from covalt_git.grants.grants import add_grant, revoke
from covalt_git.models.calls import PendingCall
from covalt_git.models.commit_record import CallRecord
from covalt_git.models.outcomes import Progress
from covalt_git.names import new_id
from covalt_git.project import Project
from covalt_git.workspaces.lock import CancelledError
from tests.calls.conftest import World, make_world
from tests.mcp_client import add_toolset, talk
from tests.mcp_client import make_project as make_upstream
from tests.operations_client import Operations
from tests.settling import until
from tests.taking_servers import take
from tests.uvicorn_server import TOKEN, served
from tests.workspaces.stores import dying

JOBS = """\
id: jobs
name: Jobs
version: "1"
tools:
  - {id: long, entrypoint: "tools.jobs:long", task_support: required}
  - {id: ask, entrypoint: "tools.jobs:ask", task_support: required}
  - {id: pend, entrypoint: "tools.jobs:add", requires_confirmation: true}
"""
CODE = """\
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from covalt_toolset import get_context


@dataclass
class Person:
    name: str


def long(workspace: Path) -> str:
    get_context().progress(1, 2, "half of it")
    while not (workspace / "go.txt").exists():
        time.sleep(0.01)
    return "done"


def ask() -> str:
    return get_context().elicit("Who?", Person).content.name


def add(a: int) -> int:
    return a + 1
"""


@dataclass
class Upstream:
    """A project that is served, and one whose toolset has it as an MCP server."""

    root: Path
    world: World

    def approvals(self) -> list[Any]:
        """Return the pending approvals of the server."""
        return [
            approval
            for approval in Operations(self.root)("list_approvals")["approvals"]
            if approval["state"] == "pending"
        ]

    def records(self) -> list[CallRecord]:
        """Return the records of the client's calls, the newest first."""
        with self.world.project().chats.open("c1") as chat:
            calls = [commit.record.call for commit in chat.log(chat.head())]
        return [call for call in calls if call is not None]

    def collect(self) -> set[str]:
        """Collect answers, as a server does when it starts; return the chats that still wait."""
        project = self.world.project()
        return left_tasks.collect(project.engine(), project.chats, project.chats.ids())

    def leave(
        self, tool: str, task_id: str, *, approved: bool = False, server: str = "up", **args: Any
    ) -> str:
        """Leave a running call whose process is killed after the server made a task of it; return its id."""
        project = self.world.project()
        with project.chats.open("c1") as chat:
            found = project.catalog.find(f"{server}:{tool}")
            engine = project.engine()
            request = CallRequest(f"{server}:{tool}", args)
            call = engine.new_call(chat, found, request, base=chat.head())
            if approved:
                with engine.writing(chat) as writer:
                    approval = engine.ask(writer, call, found, ("a test",)).approval
                    assert approval is not None
                    assert writer.decide(approval, "approved", decided_by="me")
                    call = call.model_copy(update={"execution_id": approval.execution_id})
                    writer.drop_call(call.id)
            with dying(chat) as writer:
                writer.put_call(call.model_copy(update={"server_task": task_id}))
        return call.id


def grant(root: Path) -> None:
    """Grant the server."""
    add_grant(root, "up", "server", "up", by="me")


def with_odd_tasks(app: ASGIApp) -> ASGIApp:
    """Answer requests about the task ``odd``, which is completed without a result, and ``same``, of two servers.

    The result of ``same`` is the query of the server's URL.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        names = dict(scope.get("headers", ()))
        task_id = names.get(b"mcp-name", b"").decode()
        if task_id not in {"odd", "same"}:
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        text = {"type": "text", "text": scope["query_string"].decode()}
        result = None if task_id == "odd" else {"resultType": "complete", "content": [text]}
        state = {"resultType": "complete", "taskId": task_id, "status": "completed"}
        state |= {"result": result}
        answered = {"jsonrpc": "2.0", "id": (await request.json())["id"], "result": state}
        await JSONResponse(answered)(scope, receive, send)

    return answer


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    folder = tmp_path_factory.mktemp("server_tasks")
    root = make_upstream(folder / "upstream")
    add_toolset(root, "jobs", JOBS, CODE)
    with served(root, wrap=with_odd_tasks) as port, pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "POLL_S", 0.05)
        world = make_world(folder / "project")
        world.configure()
        for server in ("up", "other"):
            world.write(
                f"{server}/toolset.yaml",
                f"""\
id: {server}
name: Up
version: "1"
mcp_servers:
  - id: {server}
    url: http://127.0.0.1:{port}/mcp?names=underscore&chat=c1&as={server}
    headers: {{Authorization: "Bearer {TOKEN}"}}
    requires_confirmation: false
""",
            )
        with Project.open(root).chats.new("c1"):
            pass
        grant(world.root)
        take(world.root, "up", "up")
        add_grant(world.root, "other", "server", "other", by="me")
        take(world.root, "other", "other")
        yield Upstream(root, world)
        CONNECTIONS.close()


@pytest.mark.rest
def test_an_approval_at_the_server_is_waited_for_and_shown(upstream: Upstream) -> None:
    reported: list[Any] = []
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(
            upstream.world.call, "up:jobs_pend", follower=Follower(reported.append), a=1
        )
        until(upstream.approvals)
        (approval,) = upstream.approvals()
        until(lambda: any(isinstance(event, Progress) for event in reported))
        Operations(upstream.root)("approve_call", execution_id=approval["execution_id"])
        assert call.result(30).call.result == {"result": 2}
    messages = [event.message for event in reported if isinstance(event, Progress)]
    assert messages[0].startswith("jobs:pend needs approval: ")


def test_cancelling_a_call_cancels_the_task_of_its_server(upstream: Upstream) -> None:
    cancel = Cancel()

    def report(event: object) -> None:
        if isinstance(event, Progress):
            cancel.set_as("enough")

    outcome = upstream.world.call("up:jobs_long", follower=Follower(report, cancel))
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("cancelled", "enough")

    def newest() -> CallRecord | None:
        with Project.open(upstream.root).chats.open("c1") as chat:
            head = chat.head()
            return chat.manifest(head).record.call if head else None

    until(lambda: (record := newest()) is not None and record.tool_id == "jobs:long")
    record = newest()
    assert record is not None
    assert record.error is not None
    assert record.error.message == "its client cancelled the task"


def test_the_id_of_a_task_is_not_stored_after_the_end_of_its_call(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding: list[HeldTask] = []
    hold = HeldTask.hold

    def watched(self: HeldTask, task_id: str) -> None:
        holding.append(self)
        hold(self, task_id)

    monkeypatch.setattr(HeldTask, "hold", watched)
    cancel = Cancel()

    def report(event: object) -> None:
        if isinstance(event, Progress):
            cancel.set_as("enough")

    upstream.world.call("up:jobs_long", follower=Follower(report, cancel))
    (held,) = holding
    with upstream.world.project().chats.open("c1") as chat:
        held.hold("late")  # as on a slow disk, after the limit of the call

        assert chat.calls() == []


@pytest.mark.rest
def test_questions_of_a_task_go_to_the_user_of_the_call(upstream: Upstream) -> None:
    def show(inquiry: Inquiry) -> None:
        for key in inquiry.open():
            inquiry.answer(key, {"action": "accept", "content": {"name": "Ann"}})

    respondent = Respondent(frozenset({"form"}), show)
    outcome = upstream.world.call("up:jobs_ask", follower=Follower(respondent=respondent))
    assert outcome.call.result == {"result": "Ann"}
    (asked,) = upstream.records()[0].asked
    assert (asked.message, asked.answer) == ("Who?", "accept")

    alone = upstream.world.call("up:jobs_ask")
    assert alone.error is not None
    assert "no user" in alone.error.message


def test_an_answer_that_arrives_after_the_process_was_killed_is_recorded(
    upstream: Upstream,
) -> None:
    call_id = new_id()
    process = upstream.world.start("call", "c1", "up:jobs_pend", "--arg", "a=41", "--id", call_id)

    def noted() -> PendingCall | None:
        with upstream.world.project().chats.as_left("c1") as chat:
            return chat.call(call_id)

    until(lambda: (call := noted()) is not None and call.server_task is not None)
    os.kill(process.pid, signal.SIGKILL)
    process.end()

    assert upstream.collect() == {"c1"}  # its user has not decided yet
    waiting = noted()
    assert waiting is not None
    assert waiting.status == "pending"
    with pytest.raises(CovaltError) as repeated:
        upstream.world.call("up:jobs_pend", call_id=call_id, a=41)
    assert repeated.value.code == "still_running"
    assert upstream.world.call("add").error is None  # the chat is free meanwhile

    (approval,) = upstream.approvals()
    Operations(upstream.root)("approve_call", execution_id=approval["execution_id"])

    assert upstream.collect() == set()
    record = upstream.records()[0]
    assert (record.tool_id, record.result, record.error) == ("up:jobs_pend", {"result": 42}, None)
    assert noted() is None
    # Once recorded, the id means that call.
    again = upstream.world.call("up:jobs_pend", call_id=call_id, a=41)
    assert again.repeated
    assert again.call.result == {"result": 42}
    assert upstream.world.git("fsck", "--strict", "--no-dangling") == ""


def test_the_answer_to_an_approved_call_whose_process_was_killed_is_recorded(
    upstream: Upstream,
) -> None:
    cancel = Cancel()

    def report(event: object) -> None:
        if isinstance(event, Progress):
            cancel.set_as(STOPPED)

    with pytest.raises(CancelledError):
        upstream.world.call("up:jobs_pend", follower=Follower(report, cancel), a=50)
    with upstream.world.project().chats.open("c1") as chat:
        (stopped,) = chat.calls()
        with upstream.world.project().writing(chat) as writer:
            writer.drop_call(stopped.id)
    assert stopped.server_task is not None
    call_id = upstream.leave("jobs_pend", stopped.server_task, approved=True, a=50)

    assert upstream.collect() == {"c1"}
    with upstream.world.project().chats.open("c1") as chat:
        call = chat.call(call_id)
        with dying(chat):
            pass
    assert call is not None
    assert (call.status, call.server_task) == ("pending", stopped.server_task)
    # The next writer reads all pending calls again, because a writer was killed.
    assert upstream.world.call("add").error is None
    assert upstream.collect() == {"c1"}

    (approval,) = upstream.approvals()
    Operations(upstream.root)("approve_call", execution_id=approval["execution_id"])
    assert upstream.collect() == set()
    record = upstream.records()[0]
    assert (record.result, record.error) == ({"result": 51}, None)
    assert record.execution_id == call.execution_id


@pytest.mark.rest
def test_a_task_goes_on_when_the_process_of_its_call_stops(upstream: Upstream) -> None:
    cancel = Cancel()

    def report(event: object) -> None:
        if isinstance(event, Progress):
            cancel.set_as(STOPPED)

    with pytest.raises(CancelledError):
        upstream.world.call("up:jobs_pend", follower=Follower(report, cancel), a=5)
    assert upstream.collect() == {"c1"}

    (approval,) = upstream.approvals()
    Operations(upstream.root)("approve_call", execution_id=approval["execution_id"])
    assert upstream.collect() == set()
    assert upstream.records()[0].result == {"result": 6}


@pytest.mark.parametrize("lost", ["task", "grant"])
def test_a_task_that_cannot_be_fetched_is_recorded_as_interrupted_with_the_reason(
    upstream: Upstream, lost: str
) -> None:
    upstream.leave("jobs_pend", f"c1.{new_id()}", a=1)
    if lost == "grant":
        revoke(upstream.world.root, "up", "server-up")

    assert upstream.collect() == set()

    record = upstream.records()[0]
    assert record.error is not None
    assert record.error.code == "interrupted"
    why = {"task": "has no answer: no task of yours", "grant": "cannot be fetched: "}[lost]
    assert why in record.error.message
    assert "the tool may have had its effect" in record.error.message


@pytest.mark.rest
def test_cancelling_a_script_cancels_the_task_of_the_server_of_its_call(upstream: Upstream) -> None:
    world = upstream.world
    grant(world.root)
    cancel = Cancel()

    def report(event: object) -> None:
        if isinstance(event, Progress):
            cancel.set_as(STOPPED)

    with pytest.raises(CancelledError):
        world.call("up:jobs_pend", follower=Follower(report, cancel), a=1)
    assert len(upstream.approvals()) == 1
    project = world.project()
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        (stopped,) = (call for call in chat.calls() if call.server_task is not None)
        writer.drop_call(stopped.id)
    operate = Operations(world.root)
    world.configure("approvals: [{pattern: 'up.**', require: true}]")
    try:
        sent = {"script": "return tools.up.jobs_pend({a: 1})", "language": "javascript"}
        operate("call_tool", chat_id="c1", tool_id="workspace:run_script", args=sent)
    finally:
        world.configure()
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        (waiting,) = (call for call in chat.calls() if call.parent is not None)
        # As if it had been approved, and its process had been killed.
        writer.put_call(waiting.model_copy(update={"server_task": stopped.server_task}))

    operate("cancel_script", script_id=waiting.parent)

    assert upstream.approvals() == []
    records = [record for record in upstream.records() if record.parent == waiting.parent]
    assert [record.error and record.error.code for record in records] == ["cancelled"]


@pytest.mark.parametrize("returns", [True, False])
def test_a_stored_answer_is_recorded_although_its_toolset_was_gone_for_a_moment(
    upstream: Upstream, *, returns: bool
) -> None:
    world = upstream.world
    grant(world.root)
    call_id = upstream.leave("jobs_pend", f"c1.{new_id()}", a=1)
    answer = {"content": [{"type": "text", "text": "2"}], "structuredContent": {"result": 2}}
    project = world.project()
    with project.chats.open("c1") as chat, project.writing(chat) as writer:
        call = chat.call(call_id)
        assert call is not None
        stored = call.model_copy(update={"server_answer": {"answer": answer}})
        if not returns:
            stored = stored.model_copy(update={"started_at": "2020-01-01T00:00:00.000Z"})
        writer.put_call(stored)
    folder, aside = world.root / "toolsets/up", world.root / "up"
    folder.rename(aside)
    try:
        assert upstream.collect() == ({"c1"} if returns else set())
    finally:
        aside.rename(folder)
    if returns:
        revoke(world.root, "up", "server-up")
        assert upstream.collect() == {"c1"}
        grant(world.root)
        assert upstream.collect() == set()
    record = upstream.records()[0]
    assert record.result == ({"result": 2} if returns else answer)
    assert (record.error is None) == returns


def test_a_completed_task_without_a_result_is_an_error_of_its_server(upstream: Upstream) -> None:
    grant(upstream.world.root)
    upstream.leave("jobs_pend", "odd", a=1)

    assert upstream.collect() == set()

    record = upstream.records()[0]
    assert record.error is not None
    assert record.error.code == "server_error"
    assert (
        "it is not the result of a tool; the tool may have had its effect" in record.error.message
    )


def test_equal_ids_of_tasks_of_two_servers_belong_to_two_calls(upstream: Upstream) -> None:
    grant(upstream.world.root)
    for server in ("up", "other"):
        upstream.leave("jobs_pend", "same", server=server, a=1)

    assert upstream.collect() == set()

    records = upstream.records()[:2]
    assert {record.tool_id: str(record.result).rpartition("as=")[2] for record in records} == {
        "up:jobs_pend": "up",
        "other:jobs_pend": "other",
    }


def test_a_server_that_cannot_be_reached_is_asked_again_until_the_time_is_over(
    upstream: Upstream,
) -> None:
    root = upstream.world.root
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    upstream.world.configure("limits: {approval_expires_s: 60}")
    call_id = upstream.leave("jobs_pend", f"c1.{new_id()}", a=1)
    upstream.world.edit("up/toolset.yaml", "http://127.0.0.1", "http://127.0.0.1")
    manifest = root / "toolsets" / "up" / "toolset.yaml"
    original = manifest.read_text()
    manifest.write_text(re.sub(r"http://127[^/]+", url, original))
    grant(root)
    try:
        assert upstream.collect() == {"c1"}
        with upstream.world.project().chats.open("c1") as chat:
            waiting = chat.call(call_id)
            assert waiting is not None
            old = waiting.model_copy(update={"started_at": "2020-01-01T00:00:00.000Z"})
            with upstream.world.project().writing(chat) as writer:
                writer.put_call(old)
        assert upstream.collect() == set()
    finally:
        manifest.write_text(original)
        grant(root)
        upstream.world.configure()
    record = upstream.records()[0]
    assert record.error is not None
    assert record.error.code == "interrupted"
    assert "cannot be reached" in record.error.message


def test_a_server_that_starts_collects_the_answers(upstream: Upstream) -> None:
    grant(upstream.world.root)
    upstream.leave("jobs_pend", f"c1.{new_id()}", a=7)
    before = len(upstream.records())

    async def say(client: Client) -> None:
        with anyio.fail_after(30):
            while len(upstream.records()) == before:
                await client.list_tools()

    talk(upstream.world.root, say)
    assert upstream.records()[0].args == {"a": 7}
